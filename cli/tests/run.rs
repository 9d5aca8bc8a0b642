//! `ferroce run` as a user meets it: a real process, a tree of its own, and shell scripts as the application.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A tree as `make build` leaves it; its library is an empty file, which the shell never loads.
struct Tree {
    folder: TempDir,
}

impl Tree {
    fn new() -> Self {
        // On the file system of the built command, so that it can be linked. A copy made by this process could be
        // open for writing in a child that another test is just starting, and would not run (ETXTBSY).
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for part in ["bin", "lib", "libexec"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let tree = Self { folder };
        fs::hard_link(env!("CARGO_BIN_EXE_ferroce"), tree.path("bin/ferroce")).unwrap();
        fs::write(tree.path("lib/libibverbs.so.1"), "").unwrap();
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// `ferroce` with no FERROCE variable of the caller's.
    fn ferroce(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/ferroce"));
        command.args(arguments);
        for name in ["FERROCE", "FERROCE_DEVICES", "FERROCE_LOG", "FERROCE_LOG_FILE", "FERROCE_KEEPER_BIN"] {
            command.env_remove(name);
        }
        command.env_remove("LD_LIBRARY_PATH");
        command
    }

    fn shell(&self, options: &[&str], script: &str) -> Command {
        self.ferroce(&[&["run"], options, &["--", "sh", "-c", script]].concat())
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_library_of_the_tree_comes_first() {
    let tree = Tree::new();
    let output = tree.shell(&[], "echo $LD_LIBRARY_PATH").env("LD_LIBRARY_PATH", "/x:/y").output().unwrap();
    assert_eq!(stdout(&output), format!("{}:/x:/y\n", tree.path("lib").display()));
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_symbolic_link_to_the_command_finds_the_tree() {
    let tree = Tree::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("ferroce");
    symlink(tree.path("bin/ferroce"), &link).unwrap();
    let output = Command::new(link)
        .args(["run", "sh", "-c", "echo $LD_LIBRARY_PATH"])
        .current_dir("/")
        .output()
        .unwrap();
    assert!(stdout(&output).starts_with(tree.path("lib").to_str().unwrap()), "{output:?}");
}

#[test]
fn options_become_variables() {
    let tree = Tree::new();
    let options = ["--device", "ferroce_lo", "--log", "debug", "--log-file", "l.txt"];
    let script = r#"echo "$FERROCE_DEVICES|$FERROCE_LOG|$FERROCE_LOG_FILE|$FERROCE_KEEPER_BIN""#;
    let output = tree.shell(&options, script).current_dir("/tmp").output().unwrap();
    let keeper = tree.path("libexec/ferroce-keeper");
    assert_eq!(stdout(&output), format!("lo|debug|/tmp/l.txt|{}\n", keeper.display()));
}

#[test]
fn variables_that_are_set_already_stay() {
    let tree = Tree::new();
    let output = tree
        .shell(&[], r#"echo "$FERROCE_DEVICES|$FERROCE_KEEPER_BIN""#)
        .env("FERROCE_DEVICES", "lo")
        .env("FERROCE_KEEPER_BIN", "/k")
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "lo|/k\n");
}

#[test]
fn everything_after_the_program_is_its_own() {
    let tree = Tree::new();
    let output = tree.ferroce(&["run", "echo", "--device", "x", "--", "-h"]).output().unwrap();
    assert_eq!(stdout(&output), "--device x -- -h\n");
}

#[test]
fn exit_status_and_signals_are_the_programs_own() {
    let tree = Tree::new();
    assert_eq!(tree.shell(&[], "exit 42").status().unwrap().code(), Some(42));
    assert_eq!(tree.shell(&[], "kill -TERM $$").status().unwrap().signal(), Some(15));
}

#[test]
fn the_program_keeps_the_process_id() {
    let tree = Tree::new();
    let child = tree.shell(&[], "echo $$").stdout(std::process::Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), format!("{pid}\n"));
}

#[test]
fn a_program_that_does_not_exist_gives_127() {
    let output = Tree::new().ferroce(&["run", "--", "no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("cannot run no-such-program"), "{output:?}");
}

#[test]
fn a_file_that_is_no_program_gives_126() {
    let tree = Tree::new();
    let file = tree.path("lib/libibverbs.so.1");
    let output = tree.ferroce(&["run", "--", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(126), "{output:?}");
}

#[test]
fn a_missing_library_is_an_error_of_our_own_that_names_it() {
    let tree = Tree::new();
    fs::remove_file(tree.path("lib/libibverbs.so.1")).unwrap();
    let output = tree.shell(&[], "echo started").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains(tree.path("lib/libibverbs.so.1").to_str().unwrap()), "{output:?}");
}

#[test]
fn off_passes_through_to_the_systems_library() {
    let tree = Tree::new();
    let script = r#"echo "${LD_LIBRARY_PATH-unset}|${FERROCE_KEEPER_BIN-unset}""#;
    let inside = format!("{}:/x", tree.path("lib").display());
    for (before, after) in [(None, "unset"), (Some("/x"), "/x"), (Some(inside.as_str()), "/x")] {
        let mut command = tree.shell(&["--device", "lo"], script);
        command.env("FERROCE", "off").envs(before.map(|path| ("LD_LIBRARY_PATH", path)));
        assert_eq!(stdout(&command.output().unwrap()), format!("{after}|unset\n"));
    }
}

#[test]
fn off_works_without_a_library() {
    let tree = Tree::new();
    fs::remove_file(tree.path("lib/libibverbs.so.1")).unwrap();
    let output = tree.shell(&[], "echo ok").env("FERROCE", "off").output().unwrap();
    assert_eq!(stdout(&output), "ok\n");
}

#[test]
fn a_program_that_gains_privileges_is_warned_about_and_runs() {
    let tree = Tree::new();
    let program = tree.path("privileged");
    assert!(Command::new("cp").arg("/bin/true").arg(&program).status().unwrap().success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
    // The owner gains nothing by the bits, so there is nothing to warn about …
    let output = tree.ferroce(&["run", "--", program.to_str().unwrap()]).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    // … but whoever starts another user's program does.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
        // chown(2) clears the bits.
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        let output = tree.ferroce(&["run", "--", program.to_str().unwrap()]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(stderr(&output).contains("ignores our library"), "{output:?}");
    }
}

#[test]
fn an_interface_that_does_not_exist_is_named_and_nothing_runs() {
    let output = Tree::new().shell(&["--device", "absent0"], "echo started").output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(125), ""));
    assert!(stderr(&output).contains("no network interface absent0"), "{output:?}");
}

#[test]
fn a_command_line_without_a_program_is_refused() {
    let output = Tree::new().ferroce(&["run", "--device", "lo"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("<CMD>"), "{output:?}");
}
