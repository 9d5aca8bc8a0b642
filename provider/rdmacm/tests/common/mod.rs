//! What the tests of the shared library have in common: building it.

use ferroce_ibverbs_link::{link_ibverbs, link_rdmacm};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of a `librdmacm.so.1` and a `libibverbs.so.1` made from the crates as they are now.
pub fn library_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let packages = ["ferroce-ibverbs", "ferroce-keeper", "ferroce-rdmacm"];
        let arguments = packages.iter().flat_map(|package| ["--package", package]);
        let built = Command::new(env!("CARGO")).args(["build", "--quiet"]).args(arguments).status();
        assert!(built.expect("cargo runs").success(), "the static libraries do not build");
        let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = temporary.parent().expect("it lies in the target folder").join("debug");
        let ibverbs = link_ibverbs(&folder.join("libferroce_ibverbs.a"), &folder).expect("it links");
        link_rdmacm(&folder.join("libferroce_rdmacm.a"), &ibverbs, &folder).expect("it links");
        folder
    })
}

pub fn library() -> PathBuf {
    library_folder().join("librdmacm.so.1")
}
