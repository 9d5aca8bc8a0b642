//! What the command prints on stdout: aligned and coloured where a person looks, one record a line with tabs between
//! its fields in a pipe.

use std::fmt::Write as _;
use std::io::{self, Write};

use console::{Term, style};
use serde::Serialize;

/// Who reads stdout.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reader {
    /// A terminal.
    Person,
    /// Anything else.
    Program,
}

impl Reader {
    /// Finds out.
    pub fn of_stdout() -> Self {
        if Term::stdout().is_term() { Self::Person } else { Self::Program }
    }
}

/// Writes `text` to stdout.
///
/// # Errors
/// The system's; a reader that closed its end is none, as in `ferroce devices | head -1`.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Writes `value` to stdout as one line of JSON.
///
/// # Errors
/// As [`print`].
pub fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(value).map_err(io::Error::other)?;
    text.push('\n');
    print(&text)
}

/// Lines of fields.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Columns that hold numbers, which are aligned to the right.
    numbers: &'static [usize],
}

impl Table {
    /// A table whose first line names the columns.
    pub fn new(head: &[&str], numbers: &'static [usize]) -> Self {
        Self { rows: vec![head.iter().map(|&name| name.to_owned()).collect()], numbers }
    }

    /// Adds a line.
    pub fn row(&mut self, fields: impl IntoIterator<Item = String>) {
        self.rows.push(fields.into_iter().collect());
    }

    /// The text for that reader. The names of the columns are for persons only: a program knows what it asked for.
    pub fn text(&self, reader: Reader) -> String {
        match reader {
            Reader::Program => self.rows.iter().skip(1).map(|row| row.join("\t") + "\n").collect(),
            Reader::Person => self.aligned(),
        }
    }

    fn aligned(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (field, &width)) in row.iter().zip(&widths).enumerate() {
                let written = if self.numbers.contains(&column) {
                    write!(line, "{field:>width$}  ")
                } else {
                    write!(line, "{field:<width$}  ")
                };
                written.expect("a String takes everything");
            }
            let line = line.trim_end();
            let line = if index == 0 { style(line).bold().to_string() } else { line.to_owned() };
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for row in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, field) in widths.iter_mut().zip(row) {
                *width = (*width).max(console::measure_text_width(field));
            }
        }
        widths
    }
}

/// A number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "COUNT"], &[1]);
        table.row(["a".to_owned(), "1".to_owned()]);
        table.row(["longer".to_owned(), "1,000".to_owned()]);
        table
    }

    #[test]
    fn a_person_gets_columns() {
        console::set_colors_enabled(false);
        assert_eq!(table().text(Reader::Person), "NAME    COUNT\na           1\nlonger  1,000\n");
    }

    #[test]
    fn a_program_gets_fields_and_no_head() {
        assert_eq!(table().text(Reader::Program), "a\t1\nlonger\t1,000\n");
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }
}
