//! Runs `cargo test`, passes its output on, and adds up what its test programs say about themselves.

use std::io::{BufRead, BufReader, IsTerminal};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::stage::{Count, Outcome};
use crate::report;
use ferroce_pair::display;

/// Runs a `cargo test` command.
///
/// # Errors
/// When it cannot be started or its output cannot be read.
pub fn run(cargo_test: &mut Command) -> Result<Outcome> {
    let text = display(cargo_test);
    report::shell(&text);
    if std::io::stdout().is_terminal() {
        // Cargo itself writes to stderr; this reaches the test programs, whose stdout is our pipe.
        cargo_test.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = cargo_test
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{text}`"))?;
    let output = child.stdout.take().context("the child has no stdout")?;
    let mut count = Count::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read the output of the tests")?;
        let line = String::from_utf8_lossy(&line);
        report::line(&line);
        if let Some(program) = parse(&console::strip_ansi_codes(&line)) {
            count += program;
        }
    }
    let status = child.wait().context("cannot wait for the tests")?;
    Ok(conclude(count, status.success(), || format!("`{text}` ended with {status}")))
}

/// A run that fails without a failed test (it did not compile, a test program died) is a failure of its own.
fn conclude(mut count: Count, success: bool, reason: impl FnOnce() -> String) -> Outcome {
    if success || count.failed > 0 {
        return Outcome { count, remark: None };
    }
    count.failed = 1;
    Outcome { count, remark: Some(reason()) }
}

/// Reads the closing line of one test program:
/// `test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
fn parse(line: &str) -> Option<Count> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut count = Count::default();
    for part in numbers.split(';') {
        match part.trim().split_once(' ') {
            Some((number, "passed")) => count.passed = number.parse().ok()?,
            Some((number, "failed")) => count.failed = number.parse().ok()?,
            Some((number, "ignored")) => count.skipped = number.parse().ok()?,
            _ => {}
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_of_a_test_program_is_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 2 ignored; 0 measured; 7 filtered out; finished in 1.25s";
        assert_eq!(parse(line), Some(Count { passed: 12, failed: 3, skipped: 2 }));
        assert_eq!(parse("test psn_wraps ... ok"), None);
        assert_eq!(parse("test result: "), None);
    }

    #[test]
    fn a_run_that_fails_without_a_failed_test_counts_as_a_failure() {
        let fine = Count { passed: 3, ..Count::default() };
        assert!(conclude(fine, true, String::new).is_success());
        let outcome = conclude(fine, false, || "killed".to_owned());
        assert_eq!(outcome.count, Count { passed: 3, failed: 1, skipped: 0 });
        assert_eq!(outcome.remark.as_deref(), Some("killed"));
    }

    #[test]
    fn failed_tests_are_not_counted_twice() {
        let bad = Count { passed: 3, failed: 2, skipped: 0 };
        assert_eq!(conclude(bad, false, String::new).count, bad);
    }
}
