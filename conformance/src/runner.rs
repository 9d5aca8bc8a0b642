//! Running cases, and what came of them.

use crate::case::Case;
use crate::expectations::{Expectations, Expected};
use crate::fabric::{Backend, OpenError};
use crate::lab::Lab;
use std::fmt;
use std::time::{Duration, Instant};

/// What came of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The backend's name.
    pub backend: String,
    /// One for each case, in their order.
    pub results: Vec<CaseResult>,
    /// How long all of it took.
    pub duration: Duration,
}

/// What came of a case.
#[derive(Clone, PartialEq, Debug)]
pub struct CaseResult {
    /// The case's name.
    pub name: String,
    /// The rules it is about.
    pub rules: Vec<String>,
    /// What came of it.
    pub verdict: Verdict,
    /// How long it took.
    pub duration: Duration,
}

/// What came of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not; why.
    Failed(String),
    /// It was not run, or fails as it is known to; why.
    Skipped(String),
}

/// Numbers of cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// That hold.
    pub passed: usize,
    /// That do not.
    pub failed: usize,
    /// That were not run.
    pub skipped: usize,
}

/// Runs `cases` on `backend`, and tells `progress` about each.
///
/// # Errors
/// The backend cannot be had here.
pub fn run(
    backend: &dyn Backend,
    cases: &[Case],
    expectations: &Expectations,
    progress: &mut dyn FnMut(&CaseResult),
) -> Result<Report, OpenError> {
    let start = Instant::now();
    let mut results = Vec::with_capacity(cases.len());
    for case in cases {
        let result = run_case(backend, case, expectations)?;
        progress(&result);
        results.push(result);
    }
    Ok(Report { backend: backend.name().to_owned(), results, duration: start.elapsed() })
}

/// Runs one case.
///
/// # Errors
/// The backend cannot be had here.
pub fn run_case(
    backend: &dyn Backend,
    case: &Case,
    expectations: &Expectations,
) -> Result<CaseResult, OpenError> {
    let start = Instant::now();
    let expected = expectations.expected(case);
    let here = backend.lacks_here().into_iter().find(|(need, _)| case.needs.contains(need));
    let verdict = match (expected, here) {
        (Expected::Skip(reason), _) => Verdict::Skipped(reason.to_owned()),
        (_, Some((_, reason))) => Verdict::Skipped(reason),
        (Expected::Pass | Expected::Deviation(_), None) => {
            let mut lab = Lab::new(backend.open(&case.fabric)?);
            let outcome = case.run(&mut lab);
            judge(outcome.map_err(|failure| failure.text().to_owned()), expected)
        }
    };
    Ok(CaseResult { name: case.name.clone(), rules: case.rules.clone(), verdict, duration: start.elapsed() })
}

fn judge(outcome: Result<(), String>, expected: Expected<'_>) -> Verdict {
    match (outcome, expected) {
        (Ok(()), Expected::Deviation(reason)) => {
            Verdict::Failed(format!("it passes, although it is listed as a deviation: {reason}"))
        }
        (Ok(()), _) => Verdict::Passed,
        (Err(_), Expected::Deviation(reason)) => Verdict::Skipped(format!("known deviation: {reason}")),
        (Err(failure), _) => Verdict::Failed(failure),
    }
}

impl Report {
    /// How many cases passed, failed and were skipped.
    pub fn count(&self) -> Count {
        let mut count = Count::default();
        for result in &self.results {
            count.add(&result.verdict);
        }
        count
    }

    /// Whether no case failed.
    pub fn is_success(&self) -> bool {
        self.count().failed == 0
    }
}

impl Count {
    /// Counts one more.
    pub fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed(_) => self.failed += 1,
            Verdict::Skipped(_) => self.skipped += 1,
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_that_passes_is_an_error_and_one_that_fails_is_not() {
        let deviates = Expected::Deviation("it is old");
        assert!(matches!(judge(Ok(()), deviates), Verdict::Failed(text) if text.contains("it is old")));
        assert!(
            matches!(judge(Err("x".into()), deviates), Verdict::Skipped(text) if text.contains("it is old"))
        );
        assert_eq!(judge(Ok(()), Expected::Pass), Verdict::Passed);
        assert_eq!(judge(Err("x".into()), Expected::Pass), Verdict::Failed("x".into()));
    }
}
