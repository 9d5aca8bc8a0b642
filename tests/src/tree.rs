//! The built tree that is under test.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The folder with `bin`, `lib` and `libexec`.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The tree that `FERROCE_TREE` names, else `target/ferroce` of this workspace.
    ///
    /// # Panics
    /// When there is none: there is nothing to test.
    pub fn locate() -> Tree {
        let root = env::var_os("FERROCE_TREE").map_or_else(default_root, PathBuf::from);
        let tree = Tree { root };
        for file in [tree.command(), tree.library(), tree.keeper()] {
            assert!(file.is_file(), "{} is missing: run `make build`, or set FERROCE_TREE", file.display());
        }
        tree
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The command `ferroce`.
    pub fn command(&self) -> PathBuf {
        self.root.join("bin/ferroce")
    }

    /// The library that applications load.
    pub fn library(&self) -> PathBuf {
        self.root.join("lib/libibverbs.so.1")
    }

    /// The keeper's program.
    pub fn keeper(&self) -> PathBuf {
        self.root.join("libexec/ferroce-keeper")
    }

    /// Whether any user can reach and read it.
    pub fn is_public(&self) -> bool {
        let folders =
            self.root.ancestors().all(|folder| folder.as_os_str().is_empty() || allows(folder, 0o001));
        folders && allows(&self.library(), 0o004) && allows(&self.command(), 0o005)
    }
}

fn default_root() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    // A relative CARGO_TARGET_DIR is relative to where cargo was called, which is the workspace.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the workspace")
        .join(target)
        .join("ferroce")
}

fn allows(path: &Path, mode: u32) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.mode() & mode == mode)
}
