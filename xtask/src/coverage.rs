//! `cargo xtask coverage`: the lines of the protocol crates that no test reaches, each with the reason why.
//!
//! The unit tests of both crates and the conformance suite on `sim` run instrumented. What they leave out has to be
//! explained in [`REASONS`]; the list goes to [`PAGE`].

mod lines;
mod page;
mod reasons;
mod tools;

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;
use crate::report;
use crate::workspace::Workspace;

use lines::Coverage;
use reasons::Reasons;
use tools::Tools;

/// The folders whose lines are counted, and what their crates are called.
const CRATES: [(&str, &str); 2] = [("wire/src", "ferroce-wire"), ("provider/core/src", "ferroce-core")];
/// Hand-written: why lines are not reached.
const REASONS: &str = "xtask/coverage-reasons.toml";
/// Generated: the lines and the reasons.
const PAGE: &str = "docs/src/coverage.md";
/// What property tests draw their values from.
const PROPERTY_SEED: &str = "1";
/// Of each crate's lines, in per cent.
const LEAST: f64 = 95.0;

/// Measures, writes the page, and compares.
///
/// # Errors
/// A tool is missing and cannot be installed; a test fails; a crate is below [`LEAST`]; a line has no reason, or a
/// reason no line.
pub fn run(workspace: &Workspace) -> Result<()> {
    let tools = Tools::ensure(workspace)?;
    let cargo = |arguments: &[&str]| {
        let mut cargo = command::cargo(&workspace.root);
        cargo.arg("llvm-cov").args(arguments);
        // Property tests take the same way each time, or lines would come and go.
        cargo.env("PROPTEST_RNG_SEED", PROPERTY_SEED);
        tools.apply(&mut cargo);
        cargo
    };
    report::heading("running tests that write down which lines they reach");
    command::run(&mut cargo(&["clean", "--workspace"]))?;
    let [(_, wire), (_, core)] = CRATES;
    command::run(&mut cargo(&["test", "--locked", "--no-report", "--package", wire, "--package", core]))?;
    let suite = ["test", "--locked", "--no-report", "--package", "ferroce-conformance", "--test", "sim"];
    command::run(&mut cargo(&suite))?;
    let lcov = output(&mut cargo(&["report", "--lcov"]))?;

    let coverage = Coverage::read(&workspace.root, &CRATES.map(|(folder, _)| folder), &lcov)?;
    let reasons = Reasons::read(&workspace.root.join(REASONS))?;
    let explained = reasons.explain(&coverage);
    let page = workspace.root.join(PAGE);
    std::fs::write(&page, page::render(&coverage, &explained))
        .with_context(|| format!("cannot write {}", page.display()))?;

    report::heading("line coverage");
    for part in &coverage.parts {
        report::line(format_args!("    {:<20} {}", part.folder, part.share()));
    }
    for missing in &explained.without_reason {
        report::line(format_args!("    no reason: {missing}"));
    }
    for unused in &explained.unused {
        report::line(format_args!("    no line for the reason of {unused}"));
    }
    if coverage.parts.iter().any(|part| part.share().percent() < LEAST) {
        bail!("a crate is below {LEAST} %: {PAGE} lists the lines that a test should reach");
    }
    if !explained.without_reason.is_empty() || !explained.unused.is_empty() {
        bail!("{REASONS} does not fit the lines that no test reaches: write tests, or correct it");
    }
    Ok(())
}

/// What a program writes to stdout.
fn output(command: &mut Command) -> Result<String> {
    let text = ferroce_pair::display(command);
    report::shell(&text);
    let output = command.output().with_context(|| format!("cannot start `{text}`"))?;
    if !output.status.success() {
        bail!("`{text}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("the report is not UTF-8")
}
