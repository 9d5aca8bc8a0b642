//! A report as one JSON object.

use crate::runner::{CaseResult, Report, Verdict};
use serde::Serialize;
use std::io::{self, Write};

#[derive(Serialize)]
struct Json<'a> {
    backend: &'a str,
    passed: usize,
    failed: usize,
    skipped: usize,
    seconds: f64,
    cases: Vec<JsonCase<'a>>,
}

#[derive(Serialize)]
struct JsonCase<'a> {
    name: &'a str,
    rules: &'a [String],
    verdict: &'static str,
    /// Why it failed, or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    seconds: f64,
}

/// Writes a report as one line of JSON.
///
/// # Errors
/// `out`'s.
pub fn json(report: &Report, mut out: impl Write) -> io::Result<()> {
    let count = report.count();
    let json = Json {
        backend: &report.backend,
        passed: count.passed,
        failed: count.failed,
        skipped: count.skipped,
        seconds: report.duration.as_secs_f64(),
        cases: report.results.iter().map(JsonCase::of).collect(),
    };
    serde_json::to_writer(&mut out, &json)?;
    writeln!(out)
}

impl<'a> JsonCase<'a> {
    fn of(result: &'a CaseResult) -> JsonCase<'a> {
        let (verdict, reason) = match &result.verdict {
            Verdict::Passed => ("passed", None),
            Verdict::Failed(text) => ("failed", Some(text.as_str())),
            Verdict::Skipped(reason) => ("skipped", Some(reason.as_str())),
        };
        let CaseResult { name, rules, .. } = result;
        JsonCase { name, rules, verdict, reason, seconds: result.duration.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_program_finds_verdicts_and_reasons() {
        let verdict = Verdict::Failed("a \"word\"".into());
        let result = CaseResult {
            name: "a/b".into(),
            rules: vec!["IBTA C9-105".into()],
            verdict,
            duration: Duration::ZERO,
        };
        let report = Report { backend: "sim".into(), results: vec![result], duration: Duration::ZERO };
        let mut out = Vec::new();
        json(&report, &mut out).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["failed"], 1);
        assert_eq!(value["cases"][0]["reason"], "a \"word\"");
        assert_eq!(value["cases"][0]["rules"][0], "IBTA C9-105");
    }
}
