//! Tables in Markdown.

/// A table with a head and rows.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    // The first column names the row; numbers stand at the right.
    let rule: String = (0..head.len()).map(|column| if column == 0 { "|---" } else { "|---:" }).collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{rule}|\n{rows}", line(&head))
}

/// Bits per second in Gb/s.
pub fn gbps(bps: f64) -> String {
    format!("{:.1}", bps / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown() {
        let rows = [vec!["a".to_string(), gbps(97.25e9)]];
        assert_eq!(table(&["what", "Gb/s"], &rows), "| what | Gb/s |\n|---|---:|\n| a | 97.2 |\n");
    }
}
