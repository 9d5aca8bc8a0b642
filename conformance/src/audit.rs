//! What has to be tested, item by item, and the cases that do it: the lists of `audit.toml`.
//!
//! A test of this crate fails when an item is missing, has neither a case nor a reason, or names cases that run on no
//! backend.

use crate::backend;
use crate::case::Case;
use crate::expectations::{Expectations, ExpectationsError, Expected};
use crate::pattern::is_match;
use serde::Deserialize;

/// A list of things to test.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Its heading.
    pub title: String,
    /// What stands in front of the numbers of its items.
    pub prefix: String,
    /// How many items it has; their numbers are 1, 2, 3 …
    pub count: usize,
    /// The items, in order.
    pub item: Vec<Item>,
}

/// One thing to test.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The list's prefix and a number.
    pub id: String,
    /// What it is, in our words.
    pub about: String,
    /// Cases: names, in which each `*` stands for any characters.
    #[serde(default)]
    pub cases: Vec<String>,
    /// Where else it is tested, or why it is not.
    pub elsewhere: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    list: Vec<List>,
}

/// All lists, in the order of the file.
///
/// # Panics
/// If the file that was compiled in is wrong, which a test shows.
pub fn all() -> Vec<List> {
    let lists: Lists = toml::from_str(include_str!("../audit.toml")).expect("audit.toml is right");
    lists.list
}

impl Item {
    /// Whether `case` is one of its cases.
    pub fn is_tested_by(&self, case: &Case) -> bool {
        self.cases.iter().any(|pattern| is_match(pattern, &case.name))
    }
}

/// Which cases run on which backend.
pub struct Running<'a> {
    /// Each backend's name, and the cases that are expected to pass on it.
    pub by_backend: Vec<(&'static str, Vec<&'a Case>)>,
}

impl<'a> Running<'a> {
    /// Looks at what is expected of each backend.
    ///
    /// # Errors
    /// A backend's file is wrong.
    pub fn of(cases: &'a [Case]) -> Result<Running<'a>, ExpectationsError> {
        let mut by_backend = Vec::new();
        for backend in backend::all() {
            let expectations = Expectations::of(backend.name())?;
            let runs = |case: &&Case| expectations.expected(case) == Expected::Pass;
            by_backend.push((backend.name(), cases.iter().filter(runs).collect()));
        }
        Ok(Running { by_backend })
    }

    /// How many cases of an item run on each backend.
    pub fn count(&self, item: &Item) -> Vec<usize> {
        let count = |cases: &[&Case]| cases.iter().filter(|case| item.is_tested_by(case)).count();
        self.by_backend.iter().map(|(_, cases)| count(cases)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    /// The lists and their lengths, so that nothing can be left out of the file.
    const LISTS: [(&str, usize); 5] = [("D", 25), ("X", 38), ("I", 35), ("S", 20), ("C", 9)];

    #[test]
    fn every_item_is_there_in_order() {
        let lists = all();
        let lengths: Vec<_> = lists.iter().map(|list| (list.prefix.as_str(), list.count)).collect();
        assert_eq!(lengths, LISTS);
        for list in lists {
            let ids: Vec<_> = list.item.iter().map(|item| item.id.clone()).collect();
            let expected: Vec<_> =
                (1..=list.count).map(|number| format!("{}{number}", list.prefix)).collect();
            assert_eq!(ids, expected);
        }
    }

    #[test]
    fn every_item_has_a_case_that_runs_or_a_reason() {
        let cases = cases::all();
        let running = Running::of(&cases).expect("the backends' files are right");
        for item in all().into_iter().flat_map(|list| list.item) {
            let has_reason = item.elsewhere.as_ref().is_some_and(|reason| !reason.trim().is_empty());
            assert!(has_reason || !item.cases.is_empty(), "{}: neither a case nor a reason", item.id);
            for pattern in &item.cases {
                let runs =
                    |(_, cases): &(_, Vec<&Case>)| cases.iter().any(|case| is_match(pattern, &case.name));
                assert!(running.by_backend.iter().any(runs), "{}: {pattern} runs nowhere", item.id);
            }
        }
    }
}
