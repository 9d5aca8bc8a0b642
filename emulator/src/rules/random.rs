//! Faults by chance.

use super::{Action, Rule, Seen};
use crate::chance::Chance;
use ferroce_core::Nanos;
use serde::{Deserialize, Serialize};

/// Faults that happen by chance, each with its own, to packets where they leave their host. Chances are in parts of
/// a million of all packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RandomFaults {
    /// Lost.
    pub drop_ppm: u32,
    /// Delivered twice, the second time up to `most_delay_ns` later.
    pub duplicate_ppm: u32,
    /// Delayed by up to `most_delay_ns`.
    pub delay_ppm: u32,
    /// Damaged in a random bit.
    pub corrupt_ppm: u32,
    /// Marked CE.
    pub mark_ce_ppm: u32,
    /// Overtaken by 1 to 8 packets.
    pub reorder_ppm: u32,
    /// Cut to a random length.
    pub truncate_ppm: u32,
    /// Longest delay.
    pub most_delay_ns: Nanos,
    /// No faults from this moment on; 0 for no end.
    pub until_ns: Nanos,
}

impl Rule for RandomFaults {
    fn judge(&mut self, seen: &Seen<'_>, chance: &mut Chance) -> Option<Action> {
        let over = self.until_ns != 0 && seen.now >= self.until_ns;
        if over || !seen.crossing.is_first {
            return None;
        }
        // In this order, each of what the ones before it left.
        if chance.ppm(self.drop_ppm) {
            return Some(Action::Drop);
        }
        if chance.ppm(self.duplicate_ppm) {
            return Some(Action::Duplicate { copies: 1, after_ns: chance.between(0, self.most_delay_ns) });
        }
        if chance.ppm(self.delay_ppm) {
            return Some(Action::Delay { ns: chance.between(0, self.most_delay_ns) });
        }
        if chance.ppm(self.corrupt_ppm) {
            return Some(Action::Corrupt { bit: Some(chance.below(seen.frame.payload_bits())) });
        }
        if chance.ppm(self.mark_ce_ppm) {
            return Some(Action::MarkCe);
        }
        if chance.ppm(self.reorder_ppm) {
            let packets = chance.between(1, 8) as u32;
            return Some(Action::Reorder { packets, at_most_ns: self.most_delay_ns });
        }
        if chance.ppm(self.truncate_ppm) {
            return Some(Action::Truncate { len: chance.below(seen.frame.payload_bits() / 8) as usize });
        }
        None
    }

    fn label(&self) -> String {
        "chance".into()
    }
}
