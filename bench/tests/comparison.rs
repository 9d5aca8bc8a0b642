//! A comparison that is too short to say anything has every row of a long one.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A small comparison in a network namespace of its own, where nobody else has port 4791; `None`, with the reason, where
/// that is impossible.
fn compare(arguments: &[&str]) -> Option<Output> {
    let Some(tree) = tree() else {
        skip("there is no built tree: run `make build`, or set FERROCE_TREE");
        return None;
    };
    if !is_installed("ib_write_bw") {
        skip("perftest is not installed");
        return None;
    }
    let Some(mut command) = in_own_namespace(&["sh", "-c", r#"ip link set lo up && exec "$0" "$@""#]) else {
        skip("no network namespace can be made here");
        return None;
    };
    command.arg(env!("CARGO_BIN_EXE_ferroce-bench")).arg("--tree").arg(tree).args(arguments);
    Some(command.output().expect("it starts"))
}

#[test]
fn every_figure_has_a_row_and_every_round_a_ratio() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let arguments =
        ["--rounds", "2", "--seconds", "1", "--exchanges", "10", "--json", json.to_str().unwrap()];
    let Some(output) = compare(&arguments) else { return };
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{page}{}", String::from_utf8_lossy(&output.stderr));
    for row in ["RDMA WRITE, 64 KiB", "RDMA WRITE, 1 MiB", "SEND, 8 bytes"] {
        assert!(page.lines().any(|line| line.starts_with(&format!("│ {row} "))), "{page}");
    }
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let figures = report["figures"].as_array().unwrap();
    let names: Vec<_> = figures.iter().map(|figure| figure["figure"].as_str().unwrap()).collect();
    assert_eq!(names, ["write-64k", "write-1m", "send-lat"]);
    for figure in figures {
        let rounds = figure["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 2, "{figure}");
        for round in rounds {
            let [ferroce, limit, ratio] =
                ["ferroce", "limit", "ratio"].map(|name| round[name].as_f64().unwrap());
            assert!(ferroce > 0.0 && limit > 0.0, "{figure}");
            // Numbers lose their last digits in JSON.
            assert!((ratio * limit / ferroce - 1.0).abs() < 1e-9, "{figure}");
        }
    }
}

#[test]
fn one_figure_alone_is_measured_over_ipv6() {
    let arguments = ["--only", "send-lat", "--rounds", "1", "--exchanges", "10", "--ipv6"];
    let Some(output) = compare(&arguments) else { return };
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{page}{}", String::from_utf8_lossy(&output.stderr));
    assert!(page.contains("IPv6 on lo") && page.contains("│ SEND, 8 bytes"), "{page}");
    assert!(!page.contains("RDMA WRITE"), "{page}");
}

#[test]
fn a_program_that_fails_fails_the_comparison_with_what_it_said() {
    let folder = tempfile::tempdir().unwrap();
    let command = folder.path().join("bin/ferroce");
    fs::create_dir(folder.path().join("bin")).unwrap();
    fs::write(&command, "#!/bin/sh\necho no card today >&2\nexit 3\n").unwrap();
    fs::set_permissions(&command, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    if !is_installed("ib_write_bw") {
        skip("perftest is not installed");
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_ferroce-bench"))
        .args(["--only", "write-64k", "--tree"])
        .arg(folder.path())
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("no card today") && complaint.contains("ib_write_bw -s 65536"), "{complaint}");
    assert!(output.stdout.is_empty());
}

/// The tree that `make test` names and then has to exist; without a name that of the release profile, if it was built.
fn tree() -> Option<PathBuf> {
    if let Some(tree) = env::var_os("FERROCE_TREE") {
        return Some(tree.into());
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let tree = target.join("ferroce");
    tree.join("bin/ferroce").exists().then_some(tree)
}

/// A command that runs `words` in a network namespace of its own, if the system lets us make one.
fn in_own_namespace(words: &[&str]) -> Option<Command> {
    let unshare = |as_root: &[&str], words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(as_root).args(["--net", "--"]).args(words);
        command
    };
    [&[][..], &["--user", "--map-root-user"]].into_iter().find_map(|as_root| {
        let mut probe = unshare(as_root, &["ip", "link", "set", "lo", "up"]);
        let works = probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        works.then(|| unshare(as_root, words))
    })
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Says on the real stderr, whatever the test harness holds back, that nothing was tested.
fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
