//! Reads what `ferroce stat --json` prints.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::PATIENCE;
use crate::sandbox::Sandbox;

/// One process that uses the device.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its process id.
    pub pid: u64,
    /// Its name.
    pub name: String,
    /// Its counters, by name.
    pub counters: BTreeMap<String, u64>,
}

/// The processes of the sandbox that have a slot of the keeper now.
///
/// # Panics
/// When the command fails or prints something else.
pub fn processes(sandbox: &Sandbox) -> Vec<Process> {
    let ended = sandbox.ferroce(&["stat", "--json"]).finish(PATIENCE);
    ended.assert_success();
    let report: Value =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}\n{ended}"));
    let list = report.as_array().unwrap_or_else(|| panic!("no list of processes\n{ended}"));
    list.iter()
        .map(|entry| process(entry).unwrap_or_else(|| panic!("an entry lacks something\n{ended}")))
        .collect()
}

/// Looks until `wanted` holds for the processes; returns the last look, with whether it did.
pub fn wait_for(
    sandbox: &Sandbox,
    wanted: impl Fn(&[Process]) -> bool,
    patience: Duration,
) -> (Vec<Process>, bool) {
    let deadline = Instant::now() + patience;
    loop {
        let seen = processes(sandbox);
        let holds = wanted(&seen);
        if holds || Instant::now() >= deadline {
            return (seen, holds);
        }
        // Counters tell nobody that they changed.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A counter of the process `pid`; 0 while it has no slot.
pub fn counter(processes: &[Process], pid: u32, name: &str) -> u64 {
    let process = processes.iter().find(|process| process.pid == u64::from(pid));
    process.and_then(|process| process.counters.get(name).copied()).unwrap_or(0)
}

fn process(entry: &Value) -> Option<Process> {
    let counters = entry["counters"].as_object()?.iter();
    Some(Process {
        pid: entry["pid"].as_u64()?,
        name: entry["name"].as_str()?.to_owned(),
        counters: counters
            .map(|(name, value)| Some((name.clone(), value.as_u64()?)))
            .collect::<Option<_>>()?,
    })
}
