//! The page of the documentation.

use std::fmt::Write;

use super::lines::Coverage;
use super::reasons::Explained;

/// The whole page.
pub fn render(coverage: &Coverage, explained: &Explained<'_>) -> String {
    let mut page = String::from(HEAD);
    page.push_str("| folder | lines that tests reach |\n|---|---|\n");
    for part in &coverage.parts {
        line(&mut page, format_args!("| `{}` | {} |", part.folder, part.share()));
    }
    page.push_str(LIST_HEAD);
    for (first, lines, reason) in &explained.regions {
        let place = format!("`{}` | `{}` | {}", first.file, first.function, spans(lines));
        line(&mut page, format_args!("| {place} | {reason} |"));
    }
    for missed in &explained.without_reason {
        line(&mut page, format_args!("| `{}` | `{}` | {} | |", missed.file, missed.function, missed.line));
    }
    page
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("a String takes everything");
}

/// `3-5, 9`.
fn spans(lines: &[usize]) -> String {
    let mut spans = Vec::<(usize, usize)>::new();
    for line in lines {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == *line => *last = *line,
            _ => spans.push((*line, *line)),
        }
    }
    let texts: Vec<String> = spans
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    texts.join(", ")
}

const HEAD: &str = "\
# Coverage

`cargo xtask coverage` runs the unit tests of the packet formats and of the transport, and the
[conformance suite](conformance.md) on `sim`, and writes down which lines they reach. Both crates must be above 95 %, and every
line that is not reached has a reason in `xtask/coverage-reasons.toml`. Tests' own lines do not count. This page is what it wrote
last.

";

const LIST_HEAD: &str = "
Lines that no test reaches:

| file | function | lines | why |
|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_spans() {
        assert_eq!(spans(&[3, 4, 5, 9, 11, 12]), "3-5, 9, 11-12");
    }
}
