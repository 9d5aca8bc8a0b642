//! `make install`: the tree goes to PREFIX/lib/ferroce, out of the dynamic linker's way, and the command is linked
//! into PREFIX/bin. The library must not lie in a folder that every program searches: only `ferroce run` uses it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::build;
use crate::report;
use crate::workspace::{Tree, Workspace};

/// Copies the built tree under `prefix`.
///
/// # Errors
/// When nothing has been built yet, or `prefix` cannot be written.
pub fn install(workspace: &Workspace, prefix: &Path) -> Result<()> {
    let built = workspace.tree();
    if let Some(missing) = built.files().iter().find(|file| !file.exists()) {
        bail!("{} is missing: run `make build` first", missing.display());
    }
    let tree = Tree { root: prefix.join("lib/ferroce") };
    build::copy(&built, &tree).and_then(|()| link_command(prefix)).with_context(|| refusal(prefix))?;
    report::heading(format_args!("installed {}", prefix.join("bin/ferroce").display()));
    Ok(())
}

/// Points PREFIX/bin/ferroce at the tree, by a relative path, so that PREFIX can be moved or packaged.
fn link_command(prefix: &Path) -> Result<()> {
    let folder = prefix.join("bin");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let link = folder.join("ferroce");
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot replace {}", link.display()));
        }
        _ => {}
    }
    symlink("../lib/ferroce/bin/ferroce", &link).with_context(|| format!("cannot make {}", link.display()))
}

fn refusal(prefix: &Path) -> String {
    let xtask = std::env::current_exe().map_or("xtask".into(), |path| path.display().to_string());
    let prefix = prefix.display();
    format!("not installed. If {prefix} belongs to root: sudo {xtask} install --prefix {prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_workspace(folder: &Path) -> Workspace {
        let workspace = Workspace { root: folder.join("source"), target: folder.join("target") };
        for file in workspace.tree().files() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, file.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        workspace
    }

    #[test]
    fn the_installed_command_leads_into_the_installed_tree() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = built_workspace(folder.path());
        let prefix = folder.path().join("usr");
        install(&workspace, &prefix).unwrap();
        install(&workspace, &prefix).expect("installing again replaces");

        let moved = folder.path().join("moved");
        fs::rename(&prefix, &moved).unwrap();
        let command = fs::canonicalize(moved.join("bin/ferroce")).unwrap();
        assert_eq!(command, fs::canonicalize(moved.join("lib/ferroce/bin/ferroce")).unwrap());
        assert!(moved.join("lib/ferroce/lib/libibverbs.so.1").exists());
        assert!(!moved.join("lib/libibverbs.so.1").exists(), "not where every program would load it");
    }

    #[test]
    fn installing_before_building_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace { root: folder.path().into(), target: folder.path().join("target") };
        let error = install(&workspace, folder.path()).unwrap_err();
        assert!(error.to_string().contains("make build"), "{error}");
    }
}
