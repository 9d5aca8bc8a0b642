//! The counters of all processes at one moment, and how they are shown.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use console::style;
use ferroce_core::Counter;
use ferroce_keeper::ClientInfo;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::output::{Reader, Table, grouped};

/// What every process had counted at one moment.
#[derive(Debug)]
pub struct Snapshot {
    taken: Instant,
    processes: Vec<ClientInfo>,
}

impl Snapshot {
    /// A snapshot taken now.
    pub fn of(processes: Vec<ClientInfo>) -> Self {
        Self { taken: Instant::now(), processes }
    }

    /// Whether no process was there.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// The counters that are not zero, or `all`; with rates since `before`.
    pub fn text(&self, reader: Reader, all: bool, before: Option<&Snapshot>) -> String {
        match reader {
            Reader::Program => self.processes.iter().map(|process| lines(process, all)).collect(),
            Reader::Person => {
                let blocks = self.processes.iter().map(|process| {
                    let rates = before.and_then(|before| Rates::between(before, self, process));
                    block(process, all, rates.as_ref())
                });
                blocks.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// What one process counted in the time between two snapshots.
struct Rates<'a> {
    earlier: &'a [u64],
    seconds: f64,
}

impl<'a> Rates<'a> {
    /// None when `process` is new, or has the slot of one that is gone.
    fn between(before: &'a Snapshot, now: &Snapshot, process: &ClientInfo) -> Option<Self> {
        let same =
            |old: &&ClientInfo| (old.pid, old.slot, old.since) == (process.pid, process.slot, process.since);
        let earlier = before.processes.iter().find(same)?;
        let seconds = now.taken.duration_since(before.taken).as_secs_f64();
        Some(Self { earlier: &earlier.counters, seconds })
    }

    fn text(&self, counter: Counter, value: u64) -> String {
        let earlier = self.earlier.get(counter as usize).copied().unwrap_or(0);
        let rate = value.wrapping_sub(earlier) as f64 / self.seconds;
        format!("{}/s", grouped(rate.round() as u64))
    }
}

/// The counters of one process that are worth showing.
fn counters(process: &ClientInfo, all: bool) -> impl Iterator<Item = (Counter, u64)> {
    let value = |counter: Counter| process.counters.get(counter as usize).copied().unwrap_or(0);
    Counter::ALL
        .into_iter()
        .map(move |counter| (counter, value(counter)))
        .filter(move |&(_, value)| all || value != 0)
}

fn lines(process: &ClientInfo, all: bool) -> String {
    let line = |(counter, value): (Counter, u64)| {
        format!("{}\t{}\t{}\t{value}\n", process.pid, process.name, counter.name())
    };
    counters(process, all).map(line).collect()
}

fn block(process: &ClientInfo, all: bool, rates: Option<&Rates<'_>>) -> String {
    let age = SystemTime::now().duration_since(process.since).unwrap_or_default().as_secs();
    let title = format!("{} (pid {}, slot {}, for {age} s)", process.name, process.pid, process.slot);
    let mut table = Table::new(&["", "COUNTER", "VALUE", "RATE", "MEANING"], &[2, 3]);
    for (counter, value) in counters(process, all) {
        let rate = rates.map(|rates| rates.text(counter, value)).unwrap_or_default();
        let fields = [counter.name().to_owned(), grouped(value), rate, counter.description().to_owned()];
        table.row([String::new()].into_iter().chain(fields));
    }
    format!("{}\n{}", style(title).cyan().bold(), table.text(Reader::Person))
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.processes.iter().map(ProcessJson))
    }
}

struct ProcessJson<'a>(&'a ClientInfo);

impl Serialize for ProcessJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ClientInfo { pid, slot, name, since, .. } = self.0;
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("pid", pid)?;
        map.serialize_entry("name", name)?;
        map.serialize_entry("slot", slot)?;
        map.serialize_entry("since", &since)?;
        map.serialize_entry("counters", &CountersJson(self.0))?;
        map.end()
    }
}

struct CountersJson<'a>(&'a ClientInfo);

impl Serialize for CountersJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(counters(self.0, true).map(|(counter, value)| (counter.name(), value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn process(packets: u64) -> ClientInfo {
        let mut counters = vec![0; 128];
        counters[Counter::PortXmitPackets as usize] = packets;
        ClientInfo { pid: 77, slot: 1, name: "ib_write_bw".to_owned(), since: UNIX_EPOCH, counters }
    }

    fn snapshot(packets: u64) -> Snapshot {
        Snapshot::of(vec![process(packets)])
    }

    #[test]
    fn a_program_gets_one_counter_a_line_and_no_zeros() {
        assert_eq!(
            snapshot(1234).text(Reader::Program, false, None),
            "77\tib_write_bw\tport_xmit_packets\t1234\n"
        );
        let all = snapshot(1234).text(Reader::Program, true, None);
        assert_eq!(all.lines().count(), Counter::COUNT);
    }

    #[test]
    fn a_person_gets_the_meaning_and_the_rate() {
        console::set_colors_enabled(false);
        let (before, mut now) = (snapshot(1000), snapshot(5000));
        now.taken = before.taken + Duration::from_secs(2);
        let text = now.text(Reader::Person, false, Some(&before));
        assert!(text.starts_with("ib_write_bw (pid 77, slot 1, for "), "{text}");
        assert!(text.contains("port_xmit_packets  5,000  2,000/s  Packets sent"), "{text}");
    }

    #[test]
    fn a_new_process_in_an_old_slot_has_no_rate() {
        let (before, mut now) = (snapshot(1000), snapshot(5));
        now.processes[0].since = UNIX_EPOCH + Duration::from_secs(1);
        assert!(!now.text(Reader::Person, false, Some(&before)).contains("/s "));
    }

    #[test]
    fn json_has_every_counter_by_name() {
        let value: serde_json::Value = serde_json::to_value(snapshot(7)).unwrap();
        assert_eq!(value[0]["pid"], 77);
        assert_eq!(value[0]["counters"]["port_xmit_packets"], 7);
        assert_eq!(value[0]["counters"].as_object().unwrap().len(), Counter::COUNT);
    }

    #[test]
    fn counters_of_an_older_release_are_zero_where_it_has_none() {
        let mut old = process(3);
        old.counters.truncate(1);
        assert_eq!(counters(&old, false).count(), 1);
        assert_eq!(counters(&old, true).count(), Counter::COUNT);
    }
}
