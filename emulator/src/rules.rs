//! What happens to packets on their way: rules that see each one and may say something about it.
//!
//! A rule addresses packets as Lumina does, by relative QPN, relative PSN and the n-th time that this PSN passes, and
//! by time, link and opcode besides. Rules come from a [`Script`], from [`RandomFaults`], or are closures. The first
//! one that says something about a packet decides.

mod action;
mod address;
mod random;
mod script;

pub use action::{Action, HexBytes};
pub(crate) use address::kind;
pub use address::{Address, Kind};
pub use random::RandomFaults;
pub use script::{OpcodeName, PsnSpan, Script, ScriptError, ScriptRule};

use crate::chance::Chance;
use crate::frame::Frame;
use address::Tracker;
use ferroce_core::Nanos;
use ferroce_wire::frame::Network;
use ferroce_wire::{Packet, Psn, Qpn};
use std::net::IpAddr;

/// A place where packets pass by rules: one direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing<'a> {
    /// A number for link and direction; counts of passes are kept by it.
    pub way: usize,
    /// The link's name.
    pub link: &'a str,
    /// Who sends.
    pub from: &'a str,
    /// Who receives.
    pub to: &'a str,
    /// Whether the packet leaves its host here. A rule that names no link sees a packet here only.
    pub is_first: bool,
}

/// A packet as a rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When its first bit leaves.
    pub now: Nanos,
    /// Where it is.
    pub crossing: Crossing<'a>,
    /// The whole frame.
    pub frame: &'a Frame,
    /// The packet in it; `None` for a damaged one.
    pub packet: Option<Packet<'a>>,
    /// Its place in its connection.
    pub address: Option<Address>,
}

/// Something that decides about packets.
pub trait Rule {
    /// What to do with the packet, or `None` to leave that to the next rule.
    fn judge(&mut self, seen: &Seen<'_>, chance: &mut Chance) -> Option<Action>;

    /// What captures call it.
    fn label(&self) -> String {
        "rule".into()
    }
}

/// A closure sees a packet where it leaves its host.
impl<F> Rule for F
where
    F: FnMut(&Seen<'_>) -> Option<Action>,
{
    fn judge(&mut self, seen: &Seen<'_>, _: &mut Chance) -> Option<Action> {
        if seen.crossing.is_first { self(seen) } else { None }
    }
}

/// What the rules say about a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// The decision and the label of the rule that made it.
    pub decision: Option<(Action, String)>,
    /// The packet's place in its connection.
    pub address: Option<Address>,
}

/// All rules, and what they know about the packets that passed.
pub struct Rules {
    rules: Vec<Box<dyn Rule>>,
    tracker: Tracker,
    chance: Chance,
}

impl Rules {
    /// No rules. Decisions by chance follow from `seed`.
    pub fn new(seed: u64) -> Rules {
        Rules { rules: Vec::new(), tracker: Tracker::default(), chance: Chance::of_part(seed, RULES_PART) }
    }

    /// Adds a rule behind the others.
    pub fn add(&mut self, rule: impl Rule + 'static) {
        self.rules.push(Box::new(rule));
    }

    /// Adds the rules of a script behind the others.
    pub fn add_script(&mut self, script: &Script) {
        for (index, rule) in script.rule.iter().enumerate() {
            self.add(script::Running::new(rule.clone(), index + 1));
        }
    }

    /// Takes all rules away.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Tells about a QP that was created on the host with these addresses: it gets the host's next relative QPN.
    /// QPs nobody told about get one when a packet to them is seen first.
    pub fn qp_created(&mut self, addresses: &[IpAddr], qpn: Qpn) {
        self.tracker.name(addresses, qpn);
    }

    /// Tells that a QP is gone.
    pub fn qp_destroyed(&mut self, addresses: &[IpAddr], qpn: Qpn) {
        self.tracker.forget(addresses, qpn);
    }

    /// Tells the PSN from which relative PSNs of requests (or responses) to a QP count. Without it they count from
    /// the first that is seen.
    pub fn psn_started(&mut self, addresses: &[IpAddr], qpn: Qpn, kind: Kind, psn: Psn) {
        self.tracker.start(addresses, qpn, kind, psn);
    }

    /// Counts a frame that passes, and asks the rules about it.
    pub fn judge(&mut self, now: Nanos, crossing: Crossing<'_>, frame: &Frame) -> Judgement {
        let parsed = frame.parse().ok();
        let packet = parsed.and_then(|parsed| parsed.packet().ok());
        let address = match (parsed.map(|parsed| parsed.network()), packet) {
            (Some(network), Some(packet)) => {
                let (src, dst) = ends(&network);
                self.tracker.pass(crossing.way, src, dst, &packet)
            }
            _ => None,
        };
        let seen = Seen { now, crossing, frame, packet, address };
        // The rules' own number bounds it.
        for rule in &mut self.rules {
            if let Some(action) = rule.judge(&seen, &mut self.chance) {
                return Judgement { decision: Some((action, rule.label())), address };
            }
        }
        Judgement { decision: None, address }
    }

    /// A random bit position for [`Action::Corrupt`].
    pub(crate) fn any_bit(&mut self, bits: u64) -> u64 {
        self.chance.below(bits)
    }
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.rules.iter().map(|rule| rule.label())).finish()
    }
}

/// Source and destination address.
pub(crate) fn ends(network: &Network<'_>) -> (IpAddr, IpAddr) {
    match network {
        Network::Ipv4(ip, _) => (ip.source().into(), ip.destination().into()),
        Network::Ipv6(ip, _) => (ip.source().into(), ip.destination().into()),
        Network::RoceV1(grh) => (grh.sgid().into(), grh.dgid().into()),
    }
}

/// The part of the simulation that draws the rules' chances.
const RULES_PART: u64 = 1 << 32;
