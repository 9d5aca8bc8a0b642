//! Builds the relocatable tree: compiles, links the shared libraries, and puts every file in its place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use ferroce_ibverbs_link::{link_ibverbs, link_rdmacm};

use crate::command;
use crate::report;
use crate::workspace::{Tree, Workspace};

/// Builds `target/ferroce`.
///
/// # Errors
/// When something does not compile or link, or the tree cannot be written.
pub fn tree(workspace: &Workspace) -> Result<()> {
    report::heading("building target/ferroce");
    let mut cargo = command::cargo(&workspace.root);
    cargo.args(["build", "--release", "--locked"]);
    for package in PACKAGES {
        cargo.args(["--package", package]);
    }
    command::run(&mut cargo)?;

    let release = workspace.release();
    let library = link_ibverbs(&release.join("libferroce_ibverbs.a"), &release)?;
    let rdmacm = link_rdmacm(&release.join("libferroce_rdmacm.a"), &library, &release)?;
    let tree = workspace.tree();
    put(&release.join("ferroce"), &tree.command(), EXECUTABLE)?;
    put(&release.join("ferroce-keeper"), &tree.keeper(), EXECUTABLE)?;
    put(&library, &tree.library(), READABLE)?;
    put(&rdmacm, &tree.rdmacm(), READABLE)?;
    report::line(format_args!("    {}", tree.root.display()));
    Ok(())
}

/// Copies a built tree to another place.
///
/// # Errors
/// When a file of the tree is missing or cannot be written there.
pub fn copy(from: &Tree, to: &Tree) -> Result<()> {
    for ((source, destination), mode) in
        from.files().into_iter().zip(to.files()).zip([EXECUTABLE, READABLE, READABLE, EXECUTABLE])
    {
        put(&source, &destination, mode)?;
    }
    Ok(())
}

/// Copies a file so that nobody ever sees half of it, and that a program which has the old one mapped keeps it.
fn put(source: &Path, destination: &Path, mode: u32) -> Result<()> {
    let folder = destination.parent().context("a file of the tree has no folder")?;
    make_readable_folder(folder)?;
    let copied = tempfile::NamedTempFile::new_in(folder).and_then(|fresh| {
        fs::copy(source, fresh.path())?;
        fs::set_permissions(fresh.path(), fs::Permissions::from_mode(mode))?;
        fresh.persist(destination).map_err(|failure| failure.error)
    });
    copied.with_context(|| format!("cannot copy {} to {}", source.display(), destination.display()))?;
    Ok(())
}

/// Makes a folder, and those above it that do not exist, open to every user whatever the umask says.
fn make_readable_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_readable_folder(parent)?;
    }
    fs::create_dir(folder)
        .and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(EXECUTABLE)))
        .with_context(|| format!("cannot make the folder {}", folder.display()))
}

const PACKAGES: [&str; 4] = ["ferroce-cli", "ferroce-keeper", "ferroce-ibverbs", "ferroce-rdmacm"];
const EXECUTABLE: u32 = 0o755;
const READABLE: u32 = 0o644;

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_copy_replaces_the_file_and_leaves_the_old_one_to_those_who_have_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        let destination = folder.path().join("a/b/destination");
        fs::write(&source, "old").unwrap();
        put(&source, &destination, READABLE).unwrap();
        let opened = fs::File::open(&destination).unwrap();

        fs::write(&source, "new").unwrap();
        put(&source, &destination, EXECUTABLE).unwrap();

        assert_eq!(std::io::read_to_string(opened).unwrap(), "old");
        assert_eq!(fs::read_to_string(&destination).unwrap(), "new");
        assert_eq!(mode(&destination), 0o755);
        assert_eq!(mode(&folder.path().join("a/b")), 0o755);
        assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_missing_source_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = put(&folder.path().join("absent"), &folder.path().join("x"), READABLE).unwrap_err();
        assert!(format!("{error:#}").contains("absent"), "{error:#}");
    }
}
