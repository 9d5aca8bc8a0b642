//! The table of rules in the documentation is that of the suite. `UPDATE_DOCS=1` writes it.

use ferroce_conformance::{Expectations, backend, cases, rules};
use std::fmt::Write;
use std::path::Path;

const START: &str = "<!-- rules -->\n";
const END: &str = "<!-- end -->";

fn table() -> String {
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
fn the_table_of_rules_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/conformance.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let start = page.find(START).expect("the page has a place for the table") + START.len();
    let end = start + page[start..].find(END).expect("the place has an end");
    let current = format!("{}{}{}", &page[..start], table(), &page[end..]);
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
