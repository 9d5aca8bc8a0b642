//! A report in JUnit's XML, which CI services read.

use crate::cases::group_of;
use crate::runner::{CaseResult, Report, Verdict};
use std::io::{self, Write};

/// Writes a report as a JUnit test suite.
///
/// # Errors
/// `out`'s.
pub fn junit(report: &Report, mut out: impl Write) -> io::Result<()> {
    let count = report.count();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuite name=\"conformance {}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
        escaped(&report.backend),
        report.results.len(),
        count.failed,
        count.skipped,
        report.duration.as_secs_f64()
    )?;
    for result in &report.results {
        test_case(result, &mut out)?;
    }
    writeln!(out, "</testsuite>")
}

fn test_case(result: &CaseResult, out: &mut impl Write) -> io::Result<()> {
    let group = group_of(&result.name);
    let name = result.name[group.len()..].trim_start_matches('/');
    write!(
        out,
        "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
        escaped(&group.replace('/', ".")),
        escaped(if name.is_empty() { group } else { name }),
        result.duration.as_secs_f64()
    )?;
    match &result.verdict {
        Verdict::Passed => writeln!(out, "/>"),
        Verdict::Failed(text) => {
            writeln!(out, "><failure message=\"{}\"/></testcase>", escaped(text))
        }
        Verdict::Skipped(reason) => {
            writeln!(out, "><skipped message=\"{}\"/></testcase>", escaped(reason))
        }
    }
}

/// Text as it may stand in an attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            c if c.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_failed_is_escaped() {
        let result = |name: &str, verdict| CaseResult {
            name: name.into(),
            rules: Vec::new(),
            verdict,
            duration: Duration::from_millis(1500),
        };
        let report = Report {
            backend: "sim".into(),
            results: vec![
                result("a/b/c", Verdict::Passed),
                result("a/b", Verdict::Failed("1 < 2 & \"x\"\ny".into())),
            ],
            duration: Duration::from_secs(2),
        };
        let mut out = Vec::new();
        junit(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("<testcase classname=\"a.b\" name=\"c\" time=\"1.500\"/>"), "{text}");
        assert!(text.contains("message=\"1 &lt; 2 &amp; &quot;x&quot;&#10;y\""), "{text}");
        assert!(text.contains("tests=\"2\" failures=\"1\" skipped=\"0\" time=\"2.000\""), "{text}");
    }
}
