//! `ferroce vopr` as scripts use it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::{Command, Output};

use ferroce_emulator::vopr::generate;

fn vopr(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ferroce")).arg("vopr").args(arguments).output().unwrap()
}

/// The value of a line of the summary.
fn value<'a>(output: &'a Output, what: &str) -> &'a str {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with(what));
    line.unwrap_or_else(|| panic!("no {what:?} in {output:?}")).split(['\t', ' ']).next_back().unwrap()
}

#[test]
fn seeds_are_shared_out_and_summed_up() {
    let output = vopr(&["--seed", "100", "--count", "7", "--jobs", "3", "--time", "1ms"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(value(&output, "first seed"), "100");
    assert_eq!(value(&output, "seeds without a fault"), "7");
    let alone = vopr(&["--seed", "100", "--count", "7", "--jobs", "1", "--time", "1ms"]);
    for what in ["connections", "events", "packets", "completions with Success"] {
        assert_eq!(value(&output, what), value(&alone, what), "{what}");
    }
}

#[test]
fn one_seed_has_a_digest_and_so_has_its_plan() {
    let digest = |output: &Output| value(output, "digest").to_owned();
    let [first, second, other] = ["7", "7", "8"].map(|seed| vopr(&["--seed", seed, "--time", "1ms"]));
    assert_eq!(digest(&first), digest(&second));
    assert_ne!(digest(&first), digest(&other));

    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).into_os_string().into_string().unwrap();
    let (plan, capture) = (path("plan.toml"), path("run.pcapng"));
    fs::write(&plan, generate(7, 1_000_000).to_string()).unwrap();
    let replayed = vopr(&["--replay", &plan, "--capture", &capture]);
    assert!(replayed.status.success(), "{replayed:?}");
    assert_eq!(digest(&first), digest(&replayed));
    assert!(fs::read(&capture).unwrap().starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));
}

#[test]
fn a_limit_of_time_ends_it() {
    let output = vopr(&["--for", "1s", "--time", "1ms"]);
    assert!(output.status.success(), "{output:?}");
    assert_ne!(value(&output, "seeds without a fault"), "0");
}

#[test]
fn what_is_no_plan_is_an_error_that_names_the_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan.toml");
    fs::write(&path, "seed = 1\nsteps = 3\n").unwrap();
    let output = vopr(&["--replay", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("steps"), "{output:?}");
    let absent = vopr(&["--replay", "/nonexistent/plan.toml"]);
    assert!(String::from_utf8_lossy(&absent.stderr).contains("/nonexistent/plan.toml"), "{absent:?}");
    assert_eq!(vopr(&["--time", "soon"]).status.code(), Some(2));
}
