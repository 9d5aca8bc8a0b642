//! What the tests of the shared library have in common: building it, and running C programs on it.

#![allow(dead_code, reason = "each test uses a part of it")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "this is test code")]

use ferroce_ibverbs_link::link_ibverbs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

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

/// Compiles a C program of `tests/c`, once; `None` where there is no compiler or no header.
pub fn compiled(name: &str) -> Option<PathBuf> {
    static PROGRAMS: Mutex<BTreeMap<String, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    programs.entry(name.to_owned()).or_insert_with(|| compile(name)).clone()
}

fn compile(name: &str) -> Option<PathBuf> {
    let has_header = Command::new("cc")
        .args(["-fsyntax-only", "-include", "infiniband/verbs.h", "-xc", "/dev/null"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_header {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name).with_extension("c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(name);
    // Beside it, and renamed: another test process may be running the one that is there, or be compiling it as well.
    let fresh = folder.join(format!("{name}.{}.new", std::process::id()));
    let compiler = Command::new("cc")
        .args(["-Wall", "-Werror", "-g", "-o"])
        .arg(&fresh)
        .arg(source)
        .arg(library())
        .args(["-ldl", "-lpthread"])
        .output()
        .unwrap();
    assert!(compiler.status.success(), "{}", String::from_utf8_lossy(&compiler.stderr));
    std::fs::rename(&fresh, &program).unwrap();
    Some(program)
}

/// A C program of `tests/c` with our library in front of the system's and one device, loopback; `None`, with a message,
/// where it can't be compiled.
pub fn program(name: &str) -> Option<Command> {
    let Some(program) = compiled(name) else {
        println!("skipped: no C compiler, or no infiniband/verbs.h (libibverbs-dev)");
        return None;
    };
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", library_folder()).env("FERROCE_DEVICES", "lo");
    Some(command)
}

/// Runs a case of a C program, which says on stderr what is wrong.
pub fn run(name: &str, case: &str) {
    let Some(mut command) = program(name) else { return };
    let output = command.arg(case).output().unwrap();
    assert!(output.status.success(), "{name} {case}: {}", shown(&output));
}

pub fn shown(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
