//! `ferroce conformance run`, as a person and as CI use it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
    command.args(["conformance", "run"]).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

const FEW: &str = "transfer/rc/send/ipv4/mtu-256/*";

#[test]
fn the_last_line_of_a_report_has_the_sums() {
    let output = run(&["--backend", "sim", "--filter", FEW]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stdout(&output).lines().last(), Some("9 passed, 0 failed, 0 skipped"));
}

#[test]
fn cases_are_listed_with_their_rules_and_not_run() {
    let output = run(&["--backend", "sim", "--filter", FEW, "--list"]);
    let lines: Vec<_> = stdout(&output).lines().collect();
    assert_eq!(lines.len(), 9);
    assert!(lines[0].starts_with("transfer/rc/send/ipv4/mtu-256/empty\tIBTA 9.4.1"), "{}", lines[0]);
}

#[test]
fn programs_get_json_or_xml_and_nothing_else() {
    let output = run(&["--backend", "sim", "--filter", FEW, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["passed"], 9);
    let output = run(&["--backend", "sim", "--filter", FEW, "--format", "junit"]);
    assert!(
        stdout(&output).starts_with("<?xml") && stdout(&output).ends_with("</testsuite>\n"),
        "{output:?}"
    );
}

#[test]
fn a_backend_or_case_that_does_not_exist_is_an_error() {
    for (arguments, words) in [
        (["--backend", "rnic", "--filter", FEW], "no backend called rnic"),
        (["--backend", "sim", "--filter", "no such"], "no case has no such"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{output:?}");
    }
}
