//! What a backend lacks, what is not run on it, and where it deviates: its file in `backends/`.

use crate::case::Case;
use crate::needs::Need;
use crate::pattern::is_match;
use serde::Deserialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// What is expected of a backend.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// What it lacks, and why. Cases that need it are skipped.
    #[serde(default)]
    lacks: BTreeMap<Need, String>,
    /// Cases that are not run.
    #[serde(default)]
    skip: Vec<Exception>,
    /// Cases that fail because the backend is known to be different. One that passes is an error.
    #[serde(default)]
    deviation: Vec<Exception>,
}

/// Cases that are an exception.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// Which: a name, in which each `*` stands for any characters.
    cases: String,
    /// Why.
    reason: String,
}

/// Why there are no expectations.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ExpectationsError {
    /// There is no file of that name.
    #[error("nothing is known about a backend called {0}")]
    Unknown(String),
    /// The file is wrong.
    #[error("the expectations of backend {backend} are wrong: {error}")]
    Wrong {
        /// The backend.
        backend: String,
        /// What is wrong with them.
        error: String,
    },
}

/// What is expected of one case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected<'a> {
    /// It passes.
    Pass,
    /// It is not run, for this reason.
    Skip(&'a str),
    /// It fails, for this reason.
    Deviation(&'a str),
}

impl Expectations {
    /// Those of the backend called `backend`.
    ///
    /// # Errors
    /// The name is unknown, or the file is wrong.
    pub fn of(backend: &str) -> Result<Expectations, ExpectationsError> {
        let found = FILES.iter().find(|(name, _)| *name == backend);
        let (_, text) = found.ok_or_else(|| ExpectationsError::Unknown(backend.to_owned()))?;
        toml::from_str(text).map_err(|error| ExpectationsError::Wrong {
            backend: backend.to_owned(),
            error: error.to_string(),
        })
    }

    /// What is expected of a case.
    pub fn expected(&self, case: &Case) -> Expected<'_> {
        let lacking = case.needs.iter().find_map(|need| self.lacks.get(need));
        let find = |list: &'_ [Exception]| list.iter().position(|entry| is_match(&entry.cases, &case.name));
        match (lacking, find(&self.skip), find(&self.deviation)) {
            (Some(reason), _, _) => Expected::Skip(reason),
            (_, Some(entry), _) => Expected::Skip(&self.skip[entry].reason),
            (_, _, Some(entry)) => Expected::Deviation(&self.deviation[entry].reason),
            _ => Expected::Pass,
        }
    }

    /// Entries that apply to no case, and so are out of date.
    pub fn unused<'a>(&'a self, cases: &[Case]) -> Vec<&'a str> {
        let exceptions = self.skip.iter().chain(&self.deviation);
        let unused = |entry: &&Exception| !cases.iter().any(|case| is_match(&entry.cases, &case.name));
        let mut names: Vec<_> = exceptions.filter(unused).map(|entry| entry.cases.as_str()).collect();
        names.extend(
            self.lacks
                .keys()
                .filter(|need| !cases.iter().any(|case| case.needs.contains(need)))
                .map(|need| need.name()),
        );
        names
    }
}

const FILES: [(&str, &str); 2] =
    [("sim", include_str!("../backends/sim.toml")), ("udp", include_str!("../backends/udp.toml"))];
