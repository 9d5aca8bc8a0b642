//! Finds the library and the keeper, relative to this command's own place, so that the tree can be moved.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The installed tree that this command belongs to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tree {
    root: PathBuf,
}

/// Why the tree is not usable.
#[derive(Debug, Error)]
pub enum TreeError {
    /// The system does not say where this command lies.
    #[error("cannot find the place of the ferroce command itself; is /proc mounted?")]
    OwnPlace(#[source] io::Error),
    /// The command was copied alone.
    #[error(
        "{library} is missing: the ferroce command works only inside its tree (bin, lib, libexec). \
         Link to the command instead of copying it, or build the tree with `make build`"
    )]
    NoLibrary {
        /// Where the library should be.
        library: PathBuf,
    },
    /// The library is there, but not for this user.
    #[error("{library} cannot be read by this user; `chmod -R a+rX` its tree and the folders above it")]
    Unreadable {
        /// The library.
        library: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The dynamic linker separates folders by colons and semicolons and knows no escape for them, see ld.so(8).
    #[error(
        "the folder {0} cannot be named in LD_LIBRARY_PATH, because of the `:` or `;` in it; move the tree"
    )]
    Separator(PathBuf),
}

impl Tree {
    /// The tree around the running command, whatever symbolic links led to it.
    ///
    /// # Errors
    /// When the command's place is unknown or there is no usable library beside it.
    pub fn locate() -> Result<Self, TreeError> {
        let command = env::current_exe().and_then(|path| path.canonicalize()).map_err(TreeError::OwnPlace)?;
        Self::around(&command)
    }

    fn around(command: &Path) -> Result<Self, TreeError> {
        let root = command.ancestors().nth(2).unwrap_or(Path::new("/")).to_path_buf();
        let tree = Self { root };
        let library = tree.library();
        match std::fs::File::open(&library) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(TreeError::NoLibrary { library });
            }
            Err(source) => return Err(TreeError::Unreadable { library, source }),
        }
        let folder = tree.library_folder();
        if folder.as_os_str().as_encoded_bytes().iter().any(|byte| b":;".contains(byte)) {
            return Err(TreeError::Separator(folder));
        }
        Ok(tree)
    }

    /// The folder to put in front of the dynamic linker's search path.
    pub fn library_folder(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// The program that shares UDP port 4791 between processes.
    pub fn keeper(&self) -> PathBuf {
        self.root.join("libexec/ferroce-keeper")
    }

    fn library(&self) -> PathBuf {
        self.library_folder().join("libibverbs.so.1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree_in(root: &Path) -> PathBuf {
        for folder in ["bin", "lib"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("lib/libibverbs.so.1"), "").unwrap();
        root.join("bin/ferroce")
    }

    #[test]
    fn the_library_is_found_beside_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::around(&tree_in(folder.path())).unwrap();
        assert_eq!(tree.library_folder(), folder.path().join("lib"));
    }

    #[test]
    fn a_command_outside_its_tree_says_where_it_looked() {
        let error = Tree::around(Path::new("/nonexistent/bin/ferroce")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/lib/libibverbs.so.1"), "{error}");
    }

    #[test]
    fn a_folder_that_ld_so_would_split_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let command = tree_in(&folder.path().join("a:b"));
        assert!(matches!(Tree::around(&command), Err(TreeError::Separator(_))));
    }
}
