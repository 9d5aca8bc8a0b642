//! The children's side: seeds one after the other, or one plan, with a record for each on stdout.
//!
//! A seed runs in a child because it may end in a panic, which takes its process along.

use std::io::{self, Read};

use ferroce_core::Nanos;
use ferroce_emulator::vopr::{Fault, Plan, Tally, generate, run};
use serde::{Deserialize, Serialize};

use super::VoprError;

/// What a child says.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Record {
    /// A seed begins.
    Begin(u64),
    /// It ended well.
    Passed {
        /// What it came to.
        tally: Tally,
        /// Digest of its frames.
        digest: u64,
    },
    /// It broke a rule.
    Failed(Fault),
}

/// Runs every `stride`-th seed from `first` on, until its parent has enough and ends it.
///
/// # Errors
/// Nobody reads the records.
pub fn work(first: u64, stride: u64, time_ns: Nanos) -> Result<(), VoprError> {
    let mut seed = first;
    loop {
        say(&Record::Begin(seed))?;
        let report = run(&generate(seed, time_ns), false);
        say(&match report.fault {
            None => Record::Passed { tally: report.tally, digest: report.digest },
            Some(fault) => Record::Failed(fault),
        })?;
        seed = seed.wrapping_add(stride);
    }
}

/// Runs the plan on stdin.
///
/// # Errors
/// stdin has no plan, or nobody reads the record.
pub fn judge() -> Result<(), VoprError> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    let report = run(&Plan::from_toml(&text)?, false);
    say(&match report.fault {
        None => Record::Passed { tally: report.tally, digest: report.digest },
        Some(fault) => Record::Failed(fault),
    })
}

/// Unlike what people read, a record that nobody takes is an error: the parent is gone.
fn say(record: &Record) -> Result<(), VoprError> {
    use std::io::Write;
    let mut text = serde_json::to_string(record).map_err(io::Error::other)?;
    text.push('\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Reads a record.
///
/// # Errors
/// It is none.
pub fn read(line: &str) -> Result<Record, VoprError> {
    serde_json::from_str(line).map_err(|_| VoprError::Record(line.into()))
}
