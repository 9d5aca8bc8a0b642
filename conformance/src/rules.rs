//! The rules that cases name: clauses of the InfiniBand specification, man pages, and public reports of faults.

use crate::case::Case;
use serde::Deserialize;

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What cases call it: a clause, a man page, or where a fault was reported.
    pub id: String,
    /// What it is about, in our words.
    pub about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rule: Vec<Rule>,
}

/// All rules, in the order of the file.
///
/// # Panics
/// If the file that was compiled in is wrong, which a test shows.
pub fn all() -> Vec<Rule> {
    let rules: Rules = toml::from_str(include_str!("../rules.toml")).expect("rules.toml is right");
    rules.rule
}

/// How many of `cases` are about the rule.
pub fn cases_about(id: &str, cases: &[Case]) -> usize {
    cases.iter().filter(|case| case.rules.iter().any(|rule| rule == id)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_names_rules_that_are_listed() {
        let known: BTreeSet<String> = all().into_iter().map(|rule| rule.id).collect();
        for case in cases::all() {
            assert!(!case.rules.is_empty(), "{} names no rule", case.name);
            for rule in case.rules {
                assert!(known.contains(&rule), "{}: rules.toml does not have {rule}", case.name);
            }
        }
    }

    #[test]
    fn every_rule_is_listed_once_and_has_a_case() {
        let (rules, cases) = (all(), cases::all());
        let ids: BTreeSet<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
        assert_eq!(ids.len(), rules.len());
        for id in ids {
            assert!(cases_about(id, &cases) > 0, "no case is about {id}");
        }
    }
}
