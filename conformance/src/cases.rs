//! The cases: one file for each subject, each with a table or two of what varies.

mod access;
mod attributes;
mod completions;
mod datagrams;
mod drain;
mod faults;
mod flush;
mod inline;
mod objects;
mod operations;
mod packets;
mod placement;
mod queries;
mod regions;
mod retries;
mod srq;
mod states;
mod status;
mod transfer;
mod underway;
mod windows;
mod wire;
mod xrc;

use crate::case::Case;
use crate::pattern::is_meant;

/// All cases, group by group.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    transfer::add(&mut cases);
    operations::add(&mut cases);
    status::add(&mut cases);
    access::add(&mut cases);
    regions::add(&mut cases);
    flush::add(&mut cases);
    states::add(&mut cases);
    attributes::add(&mut cases);
    completions::add(&mut cases);
    inline::add(&mut cases);
    objects::add(&mut cases);
    datagrams::add(&mut cases);
    underway::add(&mut cases);
    windows::add(&mut cases);
    placement::add(&mut cases);
    srq::add(&mut cases);
    xrc::add(&mut cases);
    faults::add(&mut cases);
    retries::add(&mut cases);
    packets::add(&mut cases);
    drain::add(&mut cases);
    queries::add(&mut cases);
    wire::add(&mut cases);
    // Files and their tables are made for readers; a report has each group once.
    cases.sort_by(|a, b| group_of(&a.name).cmp(group_of(&b.name)));
    cases
}

/// The part of a case's name under which reports sum it up: its first two words.
pub(crate) fn group_of(name: &str) -> &str {
    let end = name.match_indices('/').nth(1).map_or(name.len(), |(at, _)| at);
    &name[..end]
}

/// Those whose name has `filter` in it, or matches it if it has a `*`.
pub fn filtered(filter: &str) -> Vec<Case> {
    let mut cases = all();
    cases.retain(|case| is_meant(filter, &case.name));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let cases = all();
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        let twice =
            cases.iter().find(|case| cases.iter().filter(|other| other.name == case.name).count() > 1);
        assert_eq!(names.len(), cases.len(), "{:?}", twice.map(|case| &case.name));
    }

    #[test]
    fn a_group_is_two_words_and_stands_once() {
        assert_eq!(["a/b/c/d", "a/b", "a"].map(group_of), ["a/b", "a/b", "a"]);
        let mut groups: Vec<String> = all().iter().map(|case| group_of(&case.name).to_owned()).collect();
        groups.dedup();
        assert_eq!(groups.len(), groups.iter().collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn a_filter_narrows() {
        let few = filtered("mtu-256/");
        assert!(!few.is_empty() && few.len() < all().len());
        assert!(few.iter().all(|case| case.name.contains("/mtu-256/")));
        assert!(filtered("no such case").is_empty());
    }
}
