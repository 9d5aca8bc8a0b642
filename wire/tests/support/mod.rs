//! Shared by the tests: the captures and how to read them.

pub mod pcap;

use std::fs;
use std::path::{Path, PathBuf};

/// Every capture: its name and its bytes, in order of names.
pub fn captures() -> Vec<(String, Vec<u8>)> {
    let folder = capture_folder();
    let mut found: Vec<_> = fs::read_dir(&folder)
        .expect("the captures are part of the repository")
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pcap"))
        .map(|path| (name_of(&path), fs::read(&path).expect("a readable capture")))
        .collect();
    found.sort();
    found
}

/// Where the captures are.
pub fn capture_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("a file").to_string_lossy().into_owned()
}
