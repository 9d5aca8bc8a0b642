//! Links: rate, delay, and what is lost on them.

use crate::chance::Chance;
use crate::frame::Frame;
use crate::network::Port;
use ferroce_core::Nanos;
use serde::{Deserialize, Serialize};

/// A full-duplex link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkConfig {
    /// Bits per second, each way.
    pub rate_bps: u64,
    /// Propagation delay one way, nanoseconds.
    pub delay_ns: Nanos,
    /// A random addition to the delay, up to so many nanoseconds. A link keeps the order of frames all the same.
    pub jitter_ns: Nanos,
    /// Longest IP datagram in bytes; longer ones are lost.
    pub mtu: u32,
    /// Chance that a frame is lost, in parts of a million.
    pub loss_ppm: u32,
}

impl Default for LinkConfig {
    /// 100 Gb/s and 1 µs, with room for a path MTU of 4096.
    fn default() -> Self {
        LinkConfig { rate_bps: 100_000_000_000, delay_ns: 1_000, jitter_ns: 0, mtu: 4200, loss_ppm: 0 }
    }
}

/// What one direction of a link has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkStats {
    /// Frames that began to cross it, pause frames included.
    pub frames: u64,
    /// Frames lost by chance.
    pub lost: u64,
    /// Frames dropped by a rule.
    pub dropped: u64,
    /// Frames longer than the MTU.
    pub too_long: u64,
    /// Frames lost because the link was down.
    pub while_down: u64,
}

/// A link, and what is on it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// The names of the nodes at its ends.
    pub(crate) end_names: [String; 2],
    pub(crate) config: LinkConfig,
    /// The way 0 goes from the first to the second, the way 1 back.
    pub(crate) ends: [Port; 2],
    pub(crate) ways: [Way; 2],
    pub(crate) is_up: bool,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) chance: Chance,
    last_arrival: Nanos,
    /// Frames that wait to be overtaken.
    held: Vec<Held>,
    held_count: u64,
    pub(crate) stats: LinkStats,
}

#[derive(Debug)]
struct Held {
    number: u64,
    /// Frames that have still to overtake it.
    left: u32,
    frame: Frame,
}

impl Link {
    /// The number of a direction among all directions.
    pub(crate) fn way_number(link: usize, way: usize) -> usize {
        2 * link + way
    }
}

impl Way {
    pub(crate) fn new(seed: u64, number: usize) -> Way {
        Way {
            chance: Chance::of_part(seed, number as u64),
            last_arrival: 0,
            held: Vec::new(),
            held_count: 0,
            stats: LinkStats::default(),
        }
    }

    /// When a frame arrives whose last bit left at `sent`.
    pub(crate) fn arrival(&mut self, sent: Nanos, config: &LinkConfig) -> Nanos {
        let jitter = if config.jitter_ns > 0 { self.chance.between(0, config.jitter_ns) } else { 0 };
        self.last_arrival = self.last_arrival.max(sent + config.delay_ns + jitter);
        self.last_arrival
    }

    /// Keeps a frame until `packets` others have passed; a number for it.
    pub(crate) fn hold(&mut self, frame: Frame, packets: u32) -> u64 {
        self.held_count += 1;
        self.held.push(Held { number: self.held_count, left: packets, frame });
        self.held_count
    }

    /// A frame passes; those that have been overtaken often enough.
    pub(crate) fn overtake(&mut self) -> Vec<Frame> {
        for held in &mut self.held {
            held.left = held.left.saturating_sub(1);
        }
        self.held.extract_if(.., |held| held.left == 0).map(|held| held.frame).collect()
    }

    /// Takes a frame back that nothing overtook in time.
    pub(crate) fn release(&mut self, number: u64) -> Option<Frame> {
        let place = self.held.iter().position(|held| held.number == number)?;
        Some(self.held.remove(place).frame)
    }
}
