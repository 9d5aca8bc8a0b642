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
    assert_eq!((&report["failed"], &report["skipped"]), (&0.into(), &0.into()));
    let output = run(&["--backend", "sim", "--filter", FEW, "--format", "junit"]);
    assert_eq!(suite(stdout(&output)).cases.len(), 9);
}

/// What a JUnit report says: the numbers in its head, and how many of its cases are what.
#[derive(Debug, PartialEq)]
struct Suite {
    tests: usize,
    failures: usize,
    skipped: usize,
    cases: Vec<Option<String>>,
}

/// Reads a report as any XML parser does. Of each case, what it holds besides its name.
fn suite(xml: &str) -> Suite {
    let document = roxmltree::Document::parse(xml).unwrap();
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "testsuite");
    let number = |name| root.attribute(name).unwrap().parse().unwrap();
    let cases = root.children().filter(roxmltree::Node::is_element).map(|case| {
        assert_eq!(case.tag_name().name(), "testcase");
        assert!(case.attribute("classname").is_some() && case.attribute("name").is_some());
        assert!(case.attribute("time").unwrap().parse::<f64>().is_ok());
        let inner = case.children().find(roxmltree::Node::is_element);
        inner.map(|inner| inner.tag_name().name().to_owned())
    });
    let cases = cases.collect();
    Suite { tests: number("tests"), failures: number("failures"), skipped: number("skipped"), cases }
}

/// Names, rules and reasons of the whole suite, quotes and angle brackets included.
#[test]
fn reports_of_everything_can_be_read() {
    let xml = run(&["--backend", "sim", "--format", "junit"]);
    let suite = suite(stdout(&xml));
    let json = run(&["--backend", "sim", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(xml.status.success() && json.status.success());
    let count = |what: &str| suite.cases.iter().filter(|case| case.as_deref() == Some(what)).count();
    assert_eq!((suite.failures, suite.skipped), (count("failure"), count("skipped")));
    assert_eq!((suite.tests, suite.failures), (suite.cases.len(), 0));
    assert_eq!(report["skipped"], suite.skipped);
    assert_eq!(report["passed"], suite.tests - suite.skipped);
    assert!(suite.tests > 2000);
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
