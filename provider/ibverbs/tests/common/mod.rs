//! What the tests of the shared library have in common: building it, and running C programs on it.

#![allow(dead_code, reason = "each test uses a part of it")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "this is test code")]

use ferroce_ibverbs_link::link_ibverbs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of a `libibverbs.so.1` made from the crate as it is now.
pub fn library_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "ferroce-ibverbs", "--package", "ferroce-keeper"])
            .status()
            .unwrap();
        assert!(built.success(), "the static library does not build");
        let folder = profile_folder();
        link_ibverbs(&folder.join("libferroce_ibverbs.a"), &folder).unwrap();
        folder
    })
}

pub fn library() -> PathBuf {
    library_folder().join("libibverbs.so.1")
}

/// Where cargo leaves what it builds.
fn profile_folder() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().unwrap().join("debug")
}

/// Compiles a C program of `tests/c`; `None` where there is no compiler or no header.
pub fn compile(name: &str, folder: &Path) -> Option<PathBuf> {
    let has_header = Command::new("cc")
        .args(["-fsyntax-only", "-include", "infiniband/verbs.h", "-xc", "/dev/null"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_header {
        println!("skipped: no C compiler, or no infiniband/verbs.h (libibverbs-dev)");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name).with_extension("c");
    let program = folder.join(name);
    let compiled = Command::new("cc")
        .args(["-Wall", "-Werror", "-g", "-o"])
        .arg(&program)
        .arg(source)
        .arg(library())
        .args(["-ldl", "-lpthread"])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(program)
}

/// A program with our library in front of the system's.
pub fn with_library(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env("LD_LIBRARY_PATH", library_folder());
    command
}

/// Runs a C program of `tests/c`, which says on stderr what is wrong.
pub fn run(name: &str) {
    run_with(name, &[]);
}

pub fn run_with(name: &str, arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(name, folder.path()) else { return };
    let output = with_library(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{name} {arguments:?}: {}", shown(&output));
}

pub fn shown(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
