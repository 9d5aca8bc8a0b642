//! The tables in the documentation are those of the suite. `UPDATE_DOCS=1` writes them.

use ferroce_conformance::audit::{self, Running};
use ferroce_conformance::{Expectations, backend, cases, rules};
use std::fmt::Write;
use std::path::Path;

const END: &str = "<!-- end -->";

/// One table for each list of what has to be tested.
fn audit_tables() -> String {
    let cases = cases::all();
    let running = Running::of(&cases).expect("the backends' files are right");
    let names: Vec<&str> = running.by_backend.iter().map(|(name, _)| *name).collect();
    let mut text = String::new();
    for list in audit::all() {
        let rules = "---:|".repeat(names.len());
        write!(
            text,
            "**{}**\n\n| | about | {} | elsewhere |\n|---|---|{rules}---|\n",
            list.title,
            names.join(" | ")
        )
        .expect("a String takes everything");
        for item in &list.item {
            let counts: Vec<String> = running.count(item).iter().map(usize::to_string).collect();
            let elsewhere = item.elsewhere.as_deref().unwrap_or_default();
            writeln!(text, "| {} | {} | {} | {elsewhere} |", item.id, item.about, counts.join(" | "))
                .expect("a String takes everything");
        }
        text.push('\n');
    }
    text
}

fn rules_table() -> String {
    let cases = cases::all();
    let rules = rules::all();
    let mut text = format!(
        "{} cases about {} rules.\n\n| rule | about | cases |\n|---|---|---:|\n",
        cases.len(),
        rules.len()
    );
    for rule in rules {
        let count = rules::cases_about(&rule.id, &cases);
        writeln!(text, "| {} | {} | {count} |", rule.id, rule.about).expect("a String takes everything");
    }
    text
}

#[test]
fn the_tables_are_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/conformance.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let mut current = page.clone();
    for (start, table) in [("<!-- audit -->\n", audit_tables()), ("<!-- rules -->\n", rules_table())] {
        let from = current.find(start).expect("the page has a place for the table") + start.len();
        let to = from + current[from..].find(END).expect("the place has an end");
        current.replace_range(from..to, &table);
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, current).expect("the page can be written");
    } else {
        assert!(
            page == current,
            "docs/src/conformance.md is out of date: UPDATE_DOCS=1 cargo test -p ferroce-conformance --test documentation"
        );
    }
}

#[test]
fn what_is_expected_of_backends_is_about_cases_that_exist() {
    let cases = cases::all();
    for backend in backend::all() {
        let expectations = Expectations::of(backend.name()).expect("the backend's file is right");
        let unused = expectations.unused(&cases);
        assert!(unused.is_empty(), "{}: no case is concerned by {unused:?}", backend.name());
    }
}
