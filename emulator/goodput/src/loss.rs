//! One sender, one receiver, and a link that loses or reorders packets.

use crate::card;
use ferroce_core::{Counter, Nanos, Profile, SendOp, WcStatus};
use ferroce_emulator::rules::{Action, Kind, Script, ScriptRule};
use ferroce_emulator::{Connection, Fabric, FabricConfig, LinkConfig, NicConfig};

/// How the sender repeats what was lost, and what it does with its window then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    /// Its name in tables and plots.
    pub name: &'static str,
    /// Whether it repeats selectively.
    pub selective: bool,
    /// Whether its window stays as it is, as a card's does; otherwise it halves, as ours does over sockets.
    pub fixed_window: bool,
}

impl Sender {
    /// All of them.
    pub const ALL: [Sender; 4] = [
        Sender { name: "go-back-N, fixed window", selective: false, fixed_window: true },
        Sender { name: "selective repeat, fixed window", selective: true, fixed_window: true },
        Sender { name: "go-back-N, window halves", selective: false, fixed_window: false },
        Sender { name: "selective repeat, window halves", selective: true, fixed_window: false },
    ];
}

/// What the link does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Either way packets are lost by chance, in parts of a million.
    Loss(u32),
    /// One request packet in so many (none if 0), by chance, is overtaken by so many others.
    Reorder {
        /// One in so many.
        one_in: u64,
        /// Packets that overtake it.
        by: u32,
    },
}

impl Trouble {
    /// Loss of 0, 0.01, 0.1, 1 and 5 %.
    pub const LOSSES: [Trouble; 5] = [
        Trouble::Loss(0),
        Trouble::Loss(100),
        Trouble::Loss(1_000),
        Trouble::Loss(10_000),
        Trouble::Loss(50_000),
    ];

    /// The same shares of packets overtaken by two, and by sixteen others.
    pub const REORDERINGS: [Trouble; 8] = [
        Trouble::Reorder { one_in: 10_000, by: 2 },
        Trouble::Reorder { one_in: 1_000, by: 2 },
        Trouble::Reorder { one_in: 100, by: 2 },
        Trouble::Reorder { one_in: 20, by: 2 },
        Trouble::Reorder { one_in: 10_000, by: 16 },
        Trouble::Reorder { one_in: 1_000, by: 16 },
        Trouble::Reorder { one_in: 100, by: 16 },
        Trouble::Reorder { one_in: 20, by: 16 },
    ];

    /// The share of packets it happens to, in percent.
    pub fn share(self) -> String {
        let ppm = match self {
            Trouble::Loss(ppm) => u64::from(ppm),
            Trouble::Reorder { one_in, .. } => 1_000_000 / one_in,
        };
        format!("{} %", ppm as f64 / 10_000.0)
    }
}

/// What a transfer came to.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Payload that arrived in the time, in bits per second.
    pub goodput_bps: f64,
    /// Request packets sent again, for each that there was to send.
    pub repeated: f64,
    /// Times that the local ACK timeout ran out.
    pub timeouts: u64,
}

/// Writes [`BYTES`] over 100 Gb/s with a round trip of 10 µs.
pub fn transfer(sender: Sender, trouble: Trouble, seed: u64) -> Outcome {
    let profile = if sender.fixed_window { card::profile() } else { Profile::default() };
    let profile = Profile { selective_repeat: sender.selective, ..profile };
    let loss_ppm = if let Trouble::Loss(ppm) = trouble { ppm } else { 0 };
    let link = LinkConfig { rate_bps: card::RATE_BPS, delay_ns: DELAY_NS, loss_ppm, ..LinkConfig::default() };
    let nic = NicConfig { profile, ..NicConfig::default() };
    let mut fabric = Fabric::new(&FabricConfig { seed, link, nic, ..FabricConfig::default() });
    if let Trouble::Reorder { one_in, by } = trouble {
        let action = Action::Reorder { packets: by, at_most_ns: LATEST_NS };
        let rule = ScriptRule { kind: Some(Kind::Request), one_in: Some(one_in), ..ScriptRule::new(action) };
        fabric.network.add_script(&Script { rule: vec![rule] });
    }
    let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
    let connection =
        Connection { timeout: card::TIMEOUT, selective_repeat: sender.selective, ..Connection::default() };
    let [qp, _] = fabric.connected_pair(hosts, &connection);
    let [source, target] = hosts.map(|host| fabric.buffer(host, MESSAGE as usize));
    let write = SendOp::Write { va: target.addr, rkey: target.keys.rkey };
    for wr_id in 0..BYTES / u64::from(MESSAGE) {
        fabric.post_send(qp, wr_id, write, &[source.sge(0, MESSAGE)]);
    }
    let mut left = BYTES / u64::from(MESSAGE);
    while left > 0 {
        assert!(fabric.network.step(Nanos::MAX), "at rest with {left} messages left");
        for wc in fabric.take_sent(qp) {
            assert_eq!(wc.status, WcStatus::Success);
            left -= 1;
        }
    }
    let count = |counter| fabric.counter(hosts[0], counter);
    Outcome {
        goodput_bps: BYTES as f64 * 8e9 / fabric.network.now() as f64,
        repeated: count(Counter::RetransmittedPackets) as f64 / (BYTES / PACKET_BYTES) as f64,
        timeouts: count(Counter::LocalAckTimeoutErr),
    }
}

/// Bytes written: 64 MiB, which take 5.5 ms at least.
pub const BYTES: u64 = 64 << 20;
/// Bytes of each WRITE.
const MESSAGE: u32 = 1 << 20;
const PACKET_BYTES: u64 = 4096;
/// One way; twice that is the round trip.
const DELAY_NS: Nanos = 5_000;
/// What is not overtaken in this time goes on all the same.
const LATEST_NS: Nanos = 50_000;
