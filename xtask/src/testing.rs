//! `make test`, `make lint` and `make bench`: stages that run one after the other and are summed up at the end.

mod determinism;
mod stage;
mod tally;

use std::ffi::OsString;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::build;
use crate::command;
use crate::packages::Group;
use crate::report;
use crate::setup;
use crate::workspace::Workspace;

use stage::{Outcome, Stage};

/// Every check there is. Later stages run even when earlier ones failed, so that one run shows everything.
///
/// # Errors
/// When a stage failed, or the machine lacks something that cannot be installed.
pub fn test(workspace: &Workspace) -> Result<()> {
    setup::ensure(Group::Test)?;
    let mut stages = lints(workspace);
    stages.push(tests("unit tests", unit_tests(workspace)));
    stages.push(check("goodput", || goodput(workspace, true)));
    let build = check("build", || build::tree(workspace));
    let built = build.outcome.is_success();
    stages.push(build);
    if built {
        stages.push(check("fuzzing", || fuzz(workspace)));
        stages.push(check("determinism", || determinism(workspace)));
        stages.push(tests("application tests", application_tests(workspace)));
    } else {
        stages.push(Stage::skipped("fuzzing", "nothing was built"));
        stages.push(Stage::skipped("determinism", "nothing was built"));
        stages.push(Stage::skipped("application tests", "nothing was built"));
    }
    conclude(&stages)
}

/// Formatting and lints.
///
/// # Errors
/// When one of them has something to say.
pub fn lint(workspace: &Workspace) -> Result<()> {
    conclude(&lints(workspace))
}

/// The benchmark of the folder `bench`, with options of its own.
///
/// # Errors
/// When it does not compile, or fails.
pub fn bench(workspace: &Workspace, options: &[OsString]) -> Result<()> {
    report::heading("measuring");
    let mut cargo = command::cargo(&workspace.root);
    cargo.args(["run", "--release", "--locked", "--package", "ferroce-bench", "--"]).args(options);
    command::run(cargo.env(TREE_VARIABLE, workspace.tree().root))
}

/// Goodput in virtual time: writes the documentation's tables and plots, or checks that they are up to date.
///
/// # Errors
/// When it does not compile, or what there is is out of date.
pub fn goodput(workspace: &Workspace, check: bool) -> Result<()> {
    let mut cargo = command::cargo(&workspace.root);
    cargo.args(["run", "--release", "--locked", "--package", "ferroce-goodput", "--"]);
    if check {
        cargo.arg("--check");
    }
    command::run(&mut cargo)
}

/// The same seed gives the same capture, byte for byte: on two runs, and in both profiles.
///
/// # Errors
/// When it does not, or something does not compile.
pub fn determinism(workspace: &Workspace) -> Result<()> {
    determinism::check(workspace)
}

fn lints(workspace: &Workspace) -> Vec<Stage> {
    let cargo = |arguments: &[&str]| {
        let mut cargo = command::cargo(&workspace.root);
        cargo.args(arguments);
        cargo
    };
    vec![
        check("format", || command::run(&mut cargo(&["fmt", "--all", "--check"]))),
        check("clippy", || {
            let flags = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
            command::run(&mut cargo(&flags))
        }),
    ]
}

fn unit_tests(workspace: &Workspace) -> Command {
    let mut cargo = command::cargo(&workspace.root);
    cargo.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    for package in APPLICATION_TESTS {
        cargo.args(["--exclude", package]);
    }
    cargo
}

/// Some thousand seeds, other ones each time. A failure says which, and leaves a plan and a capture in the target folder.
fn fuzz(workspace: &Workspace) -> Result<()> {
    let mut ferroce = Command::new(workspace.tree().command());
    ferroce.args(["vopr", "--count", FUZZ_SEEDS, "--dir"]).arg(&workspace.target);
    command::run(&mut ferroce)
}

fn application_tests(workspace: &Workspace) -> Command {
    let mut cargo = command::cargo(&workspace.root);
    cargo.args(["test", "--locked", "--no-fail-fast"]);
    for package in APPLICATION_TESTS {
        cargo.args(["--package", package]);
    }
    cargo.env(TREE_VARIABLE, workspace.tree().root);
    cargo
}

/// A stage that is right or wrong as a whole.
fn check(name: &'static str, work: impl FnOnce() -> Result<()>) -> Stage {
    timed(name, || match work() {
        Ok(()) => Outcome::passed(),
        Err(error) => Outcome::failed(format!("{error:#}")),
    })
}

/// A stage whose output says how many tests passed.
fn tests(name: &'static str, mut command: Command) -> Stage {
    timed(name, || tally::run(&mut command).unwrap_or_else(|error| Outcome::failed(format!("{error:#}"))))
}

fn timed(name: &'static str, work: impl FnOnce() -> Outcome) -> Stage {
    report::heading(name);
    let start = Instant::now();
    let outcome = work();
    let stage = Stage { name, outcome, duration: start.elapsed() };
    report::line(&stage);
    stage
}

fn conclude(stages: &[Stage]) -> Result<()> {
    report::heading("summary");
    for stage in stages {
        report::line(stage);
    }
    report::line(stage::total(stages));
    let failed: Vec<_> =
        stages.iter().filter(|stage| !stage.outcome.is_success()).map(|stage| stage.name).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Seeds of `make test`.
const FUZZ_SEEDS: &str = "2000";
/// Packages whose tests need the built tree.
const APPLICATION_TESTS: [&str; 2] = ["ferroce-tests", "ferroce-bench"];
/// Tells tests and benchmarks where the built tree is.
const TREE_VARIABLE: &str = "FERROCE_TREE";
