//! A report for people, which grows while the cases run.

use crate::cases::group_of;
use crate::runner::{CaseResult, Count, Verdict};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes a line for each group of cases as it ends, and at the end what failed and what was skipped.
pub struct TextReport<W> {
    out: W,
    /// The group that is running, and its numbers.
    group: Option<(String, Count)>,
    total: Count,
    failures: Vec<(String, String)>,
    /// Names by the reason for which they were skipped.
    skips: BTreeMap<String, Vec<String>>,
}

impl<W: Write> TextReport<W> {
    /// Begins a report of so many cases on a backend.
    ///
    /// # Errors
    /// `out`'s.
    pub fn begin(mut out: W, backend: &str, cases: usize) -> io::Result<Self> {
        writeln!(out, "backend {backend}: {cases} cases\n")?;
        Ok(TextReport {
            out,
            group: None,
            total: Count::default(),
            failures: Vec::new(),
            skips: BTreeMap::new(),
        })
    }

    /// Adds a result.
    ///
    /// # Errors
    /// `out`'s.
    pub fn add(&mut self, result: &CaseResult) -> io::Result<()> {
        let group = group_of(&result.name);
        if self.group.as_ref().is_none_or(|(name, _)| name != group) {
            self.end_group()?;
            self.group = Some((group.to_owned(), Count::default()));
        }
        if let Some((_, count)) = &mut self.group {
            count.add(&result.verdict);
        }
        self.total.add(&result.verdict);
        match &result.verdict {
            Verdict::Passed => {}
            Verdict::Failed(text) => self.failures.push((result.name.clone(), text.clone())),
            Verdict::Skipped(reason) => {
                self.skips.entry(reason.clone()).or_default().push(result.name.clone());
            }
        }
        Ok(())
    }

    fn end_group(&mut self) -> io::Result<()> {
        let Some((name, count)) = self.group.take() else { return Ok(()) };
        let mark = if count.failed > 0 { "FAILED" } else { "ok" };
        let mut line = format!("  {name:<28} {:>5} passed", count.passed);
        for (number, word) in [(count.failed, "failed"), (count.skipped, "skipped")] {
            if number > 0 {
                line += &format!(", {number} {word}");
            }
        }
        writeln!(self.out, "{mark:>6}{line}")
    }

    /// Ends the report. Its last line has the sums.
    ///
    /// # Errors
    /// `out`'s.
    pub fn finish(mut self) -> io::Result<()> {
        self.end_group()?;
        for (reason, names) in &self.skips {
            let first = names.first().map_or("", String::as_str);
            let more = if names.len() > 1 { " and others" } else { "" };
            writeln!(self.out, "\n{:>5} skipped ({first}{more})\n      {reason}", names.len())?;
        }
        for (name, text) in &self.failures {
            writeln!(self.out, "\nFAILED {name}\n    {}", text.replace('\n', "\n    "))?;
        }
        writeln!(self.out, "\n{}", self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_last_line_has_the_sums() {
        let mut out = Vec::new();
        let mut report = TextReport::begin(&mut out, "sim", 3).unwrap();
        for (name, verdict) in [
            ("a/b/1", Verdict::Passed),
            ("a/b/2", Verdict::Skipped("no link".into())),
            ("a/c/1", Verdict::Failed("got 1, expected 2".into())),
        ] {
            let duration = Duration::ZERO;
            report.add(&CaseResult { name: name.into(), rules: Vec::new(), verdict, duration }).unwrap();
        }
        report.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("\n1 passed, 1 failed, 1 skipped\n"), "{text}");
        for line in ["    ok  a/b ", "FAILED  a/c ", "FAILED a/c/1\n    got 1, expected 2\n", "no link"] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
