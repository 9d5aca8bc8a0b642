//! Lines of code, and how often tests reached each.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};

/// What was measured.
pub struct Coverage {
    /// One for each folder.
    pub parts: Vec<Part>,
    /// Lines that nothing reached, in order.
    pub missed: Vec<Missed>,
}

/// A folder's lines.
pub struct Part {
    /// The folder.
    pub folder: &'static str,
    reached: usize,
    lines: usize,
}

/// A line that nothing reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missed {
    /// Its file, from the workspace's root on.
    pub file: String,
    /// The function that it is in.
    pub function: String,
    /// Its number, from 1.
    pub line: usize,
}

/// How much of something.
#[derive(Clone, Copy)]
pub struct Share {
    reached: usize,
    lines: usize,
}

impl Share {
    /// In per cent.
    pub fn percent(self) -> f64 {
        100.0 * self.reached as f64 / self.lines.max(1) as f64
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} % ({} of {} lines)", self.percent(), self.reached, self.lines)
    }
}

impl Part {
    /// How much of it tests reach.
    pub fn share(&self) -> Share {
        Share { reached: self.reached, lines: self.lines }
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} in {}", self.file, self.line, self.function)
    }
}

impl Coverage {
    /// Reads a report in lcov's format. Lines of tests themselves do not count.
    ///
    /// # Errors
    /// A source file cannot be read.
    pub fn read(root: &Path, folders: &[&'static str], lcov: &str) -> Result<Coverage> {
        let counts = counts(root, lcov);
        let mut coverage = Coverage { parts: Vec::new(), missed: Vec::new() };
        for folder in folders.iter().copied() {
            let mut part = Part { folder, reached: 0, lines: 0 };
            let own = counts.iter().filter(|(file, _)| file.starts_with(folder) && !is_test(file));
            for (file, lines) in own {
                let path = root.join(file);
                let source = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let source: Vec<&str> = source.lines().collect();
                let end = tests_begin(&source);
                for (line, count) in lines.iter().filter(|(line, _)| **line <= end) {
                    part.lines += 1;
                    part.reached += usize::from(*count > 0);
                    if *count == 0 {
                        let function = function_at(&source, *line);
                        coverage.missed.push(Missed { file: file.clone(), function, line: *line });
                    }
                }
            }
            coverage.parts.push(part);
        }
        Ok(coverage)
    }
}

/// By file, how often each line was reached. A file that is compiled several times is the union of all.
fn counts(root: &Path, lcov: &str) -> BTreeMap<String, BTreeMap<usize, u64>> {
    let mut files = BTreeMap::<String, BTreeMap<usize, u64>>::new();
    let mut file = String::new();
    for line in lcov.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let path = Path::new(path);
            file = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        } else if let Some(data) = line.strip_prefix("DA:") {
            let mut numbers = data.split(',');
            let parse = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
            if let (Some(line), Some(count)) = (parse(numbers.next()), parse(numbers.next())) {
                let known = files.entry(file.clone()).or_default().entry(line as usize).or_default();
                *known = (*known).max(count);
            }
        }
    }
    files
}

fn is_test(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.ends_with("/testing.rs") || file.contains("/tests/")
}

/// The line before which a file is not tests.
fn tests_begin(source: &[&str]) -> usize {
    let is_start = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ");
    source.windows(2).position(is_start).unwrap_or(source.len())
}

/// The name of the function that a line is in: the last one that begins above it.
fn function_at(source: &[&str], line: usize) -> String {
    let above = source[..line.min(source.len())].iter().rev();
    above.copied().find_map(function_name).unwrap_or("(no function)").to_owned()
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let words = ["pub", "const", "pub(crate)", "pub(super)", "unsafe", "extern"];
    let is_declaration = before.split_whitespace().all(|word| words.contains(&word));
    let name = after.split(['(', '<', ' ']).next()?;
    (is_declaration && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
//! A file.
/// What fn it is for is of no matter.
pub const fn first(x: u8) -> u8 {
    x
}
impl A {
    pub(crate) fn second<T>(&self) {
        self.calls(|x| x);
    }
}

#[cfg(test)]
mod tests {
    fn third() {}
}
";

    #[test]
    fn lines_know_their_function_and_tests_do_not_count() {
        let source: Vec<&str> = SOURCE.lines().collect();
        assert_eq!([4, 8].map(|line| function_at(&source, line)), ["first", "second"]);
        assert_eq!(function_at(&source, 1), "(no function)");
        assert_eq!(tests_begin(&source), 11);
    }

    #[test]
    fn a_line_is_reached_if_it_is_in_any_of_the_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("src")).expect("a folder");
        std::fs::write(folder.path().join("src/a.rs"), SOURCE).expect("a file");
        let path = folder.path().join("src/a.rs");
        let path = path.display();
        let lcov = format!(
            "SF:{path}\nDA:4,0\nDA:8,0\nDA:14,0\nend_of_record\nSF:{path}\nDA:4,7\nDA:8,0\nend_of_record\n"
        );
        let coverage = Coverage::read(folder.path(), &["src"], &lcov).expect("read");
        let missed = Missed { file: "src/a.rs".into(), function: "second".into(), line: 8 };
        assert_eq!(coverage.missed, [missed]);
        assert_eq!(coverage.parts[0].share().to_string(), "50.0 % (1 of 2 lines)");
    }
}
