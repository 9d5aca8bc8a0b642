//! Why lines are not reached: written by hand, by file and function.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::lines::{Coverage, Missed};

/// All reasons.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasons {
    #[serde(default)]
    region: Vec<Region>,
}

/// Lines of one function, or of several with one reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Region {
    /// The file, from the workspace's root on.
    file: String,
    /// Its functions.
    functions: Vec<String>,
    /// Why no test reaches all of their lines.
    reason: String,
}

/// The missed lines and their reasons.
pub struct Explained<'a> {
    /// Lines of one function and why.
    pub regions: Vec<(&'a Missed, Vec<usize>, &'a str)>,
    /// Lines that nobody explains.
    pub without_reason: Vec<&'a Missed>,
    /// Reasons that explain no line.
    pub unused: Vec<String>,
}

impl Reasons {
    /// Reads the file.
    ///
    /// # Errors
    /// It is not there, or wrong.
    pub fn read(path: &Path) -> Result<Reasons> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is wrong", path.display()))
    }

    /// Puts lines and reasons together.
    pub fn explain<'a>(&'a self, coverage: &'a Coverage) -> Explained<'a> {
        let mut explained = Explained {
            regions: Vec::<(&Missed, Vec<usize>, &str)>::new(),
            without_reason: Vec::new(),
            unused: Vec::new(),
        };
        for missed in &coverage.missed {
            let Some(region) = self.region.iter().find(|region| region.explains(missed)) else {
                explained.without_reason.push(missed);
                continue;
            };
            match explained.regions.last_mut() {
                Some((first, lines, _))
                    if (&first.file, &first.function) == (&missed.file, &missed.function) =>
                {
                    lines.push(missed.line);
                }
                _ => explained.regions.push((missed, vec![missed.line], &region.reason)),
            }
        }
        for region in &self.region {
            for function in &region.functions {
                let is_used = coverage
                    .missed
                    .iter()
                    .any(|missed| missed.file == region.file && missed.function == *function);
                if !is_used {
                    explained.unused.push(format!("{function} in {}", region.file));
                }
            }
        }
        explained
    }
}

impl Region {
    fn explains(&self, missed: &Missed) -> bool {
        self.file == missed.file && self.functions.contains(&missed.function)
    }
}
