//! One stage of a test run and how it ended.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use console::style;

/// A finished stage.
pub struct Stage {
    /// What it is called in the summary.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
}

/// How a stage ended.
pub struct Outcome {
    /// Its tests.
    pub count: Count,
    /// Why it failed as a whole, or was not run.
    pub remark: Option<String>,
}

/// Numbers of tests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Count {
    /// As expected.
    pub passed: u64,
    /// Not as expected.
    pub failed: u64,
    /// Not run.
    pub skipped: u64,
}

impl Stage {
    /// A stage that could not be run.
    pub fn skipped(name: &'static str, reason: &str) -> Self {
        let count = Count { skipped: 1, ..Count::default() };
        Self { name, outcome: Outcome { count, remark: Some(reason.to_owned()) }, duration: Duration::ZERO }
    }
}

impl Outcome {
    /// A stage that is one check, and right.
    pub fn passed() -> Self {
        Self { count: Count { passed: 1, ..Count::default() }, remark: None }
    }

    /// A stage that is one check, and wrong.
    pub fn failed(reason: String) -> Self {
        Self { count: Count { failed: 1, ..Count::default() }, remark: Some(reason) }
    }

    /// Whether nothing failed.
    pub fn is_success(&self) -> bool {
        self.count.failed == 0
    }
}

/// The sum over all stages.
pub fn total(stages: &[Stage]) -> Count {
    let mut sum = Count::default();
    for stage in stages {
        sum += stage.outcome.count;
    }
    sum
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { count, remark } = &self.outcome;
        let sign = match count {
            Count { failed: 1.., .. } => style("FAILED ").red(),
            Count { passed: 0, .. } => style("skipped").yellow(),
            _ => style("ok     ").green(),
        };
        let seconds = self.duration.as_secs_f64();
        write!(f, "    {sign} {:<18} {seconds:>7.1} s   {count}", self.name)?;
        match remark {
            Some(remark) => write!(f, "   ({remark})"),
            None => Ok(()),
        }
    }
}
