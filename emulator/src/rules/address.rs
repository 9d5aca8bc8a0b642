//! Relative QPNs and PSNs, and how often each PSN passed.

use ferroce_wire::{Packet, Psn, Qpn};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What a packet is in its connection. Requests and responses to one QP have PSNs of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A request or a datagram; it has the PSNs of the QP that sent it.
    Request,
    /// An ACK, NAK, READ response or atomic's value; it has the PSNs of the QP it goes to.
    Response,
    /// A congestion notification, which has no PSN.
    Cnp,
}

/// A packet's place in its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// What it is.
    pub kind: Kind,
    /// The QP it goes to, counted from 1 in the order in which its host created them.
    pub qpn: u32,
    /// Its PSN, counted from 0 at the connection's first one.
    pub psn: i32,
    /// How often this PSN has passed here, this time included; a READ request counts by its first PSN.
    pub nth: u32,
}

/// What passed, and what it is relative to.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    qpns: BTreeMap<(IpAddr, Qpn), u32>,
    /// The last relative QPN given out, by address.
    given: BTreeMap<IpAddr, u32>,
    starts: BTreeMap<(IpAddr, Qpn, Kind), Psn>,
    flows: BTreeMap<Flow, Passes>,
}

/// Packets that share PSNs, seen at one place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Flow {
    dst: IpAddr,
    qpn: Qpn,
    kind: Kind,
    src: IpAddr,
    way: usize,
}

/// How often each PSN of a flow passed.
#[derive(Debug)]
struct Passes {
    start: Psn,
    newest: Psn,
    counts: BTreeMap<u32, u32>,
}

impl Tracker {
    pub(super) fn name(&mut self, addresses: &[IpAddr], qpn: Qpn) {
        let number = addresses.iter().filter_map(|at| self.given.get(at)).max().copied().unwrap_or(0) + 1;
        for address in addresses {
            self.given.insert(*address, number);
            self.qpns.insert((*address, qpn), number);
        }
    }

    pub(super) fn forget(&mut self, addresses: &[IpAddr], qpn: Qpn) {
        for address in addresses {
            self.qpns.remove(&(*address, qpn));
            for kind in [Kind::Request, Kind::Response, Kind::Cnp] {
                self.starts.remove(&(*address, qpn, kind));
            }
        }
        self.flows.retain(|flow, _| flow.qpn != qpn || !addresses.contains(&flow.dst));
    }

    pub(super) fn start(&mut self, addresses: &[IpAddr], qpn: Qpn, kind: Kind, psn: Psn) {
        for address in addresses {
            self.starts.insert((*address, qpn, kind), psn);
        }
        self.flows.retain(|flow, _| (flow.qpn, flow.kind) != (qpn, kind) || !addresses.contains(&flow.dst));
    }

    /// Counts a packet that passes; where it is in its connection.
    pub(super) fn pass(
        &mut self,
        way: usize,
        src: IpAddr,
        dst: IpAddr,
        packet: &Packet<'_>,
    ) -> Option<Address> {
        let kind = kind(packet);
        let (qpn, psn) = (packet.bth().dest_qpn(), packet.bth().psn());
        let relative = self.relative_qpn(dst, qpn);
        let start = self.starts.get(&(dst, qpn, kind)).copied().unwrap_or(psn);
        let flow = Flow { dst, qpn, kind, src, way };
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&flow) {
            // A peer that makes QPNs up must not cost memory without end.
            return None;
        }
        let passes = self.flows.entry(flow).or_insert_with(|| Passes::new(start));
        Some(Address { kind, qpn: relative, psn: psn.distance_from(passes.start), nth: passes.count(psn) })
    }

    fn relative_qpn(&mut self, dst: IpAddr, qpn: Qpn) -> u32 {
        if !self.qpns.contains_key(&(dst, qpn)) && self.qpns.len() < MAX_FLOWS {
            self.name(&[dst], qpn);
        }
        self.qpns.get(&(dst, qpn)).copied().unwrap_or(0)
    }
}

impl Passes {
    fn new(start: Psn) -> Passes {
        Passes { start, newest: start, counts: BTreeMap::new() }
    }

    fn count(&mut self, psn: Psn) -> u32 {
        if psn.is_after(self.newest) {
            self.newest = psn;
        }
        if self.counts.len() >= 2 * KEPT_PSNS as usize {
            let newest = self.newest;
            self.counts.retain(|old, _| newest.distance_from(Psn::new(*old)) < KEPT_PSNS);
        }
        let count = self.counts.entry(psn.value()).or_default();
        *count += 1;
        *count
    }
}

pub(crate) fn kind(packet: &Packet<'_>) -> Kind {
    if packet.is_cnp() {
        Kind::Cnp
    } else if packet.opcode().is_response() {
        Kind::Response
    } else {
        Kind::Request
    }
}

/// PSNs whose passes are still known, behind the newest of a flow; far more than any window.
const KEPT_PSNS: i32 = 1 << 16;
/// Flows and QPNs that are tracked.
const MAX_FLOWS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_wire::{Opcode, PacketHeader, Syndrome};

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn pass(tracker: &mut Tracker, way: usize, opcode: Opcode, qpn: u32, psn: u32) -> Address {
        let header = PacketHeader::new(opcode, Qpn::new(qpn), Psn::new(psn)).aeth(Syndrome::ACK, 0);
        let mut bytes = vec![0; header.packet_len(0)];
        header.write(&mut bytes, 0);
        let packet = Packet::parse(&bytes).expect("just written");
        tracker.pass(way, A, B, &packet).expect("it is tracked")
    }

    #[test]
    fn psns_count_from_the_start_of_their_kind_and_wrap() {
        let mut tracker = Tracker::default();
        tracker.name(&[B], Qpn::new(0x50));
        tracker.name(&[B], Qpn::new(0x40));
        tracker.start(&[B], Qpn::new(0x40), Kind::Request, Psn::new(0xff_ffff));
        tracker.start(&[B], Qpn::new(0x40), Kind::Response, Psn::new(100));
        let request = pass(&mut tracker, 0, Opcode::RC_SEND_ONLY, 0x40, 1);
        assert_eq!(request, Address { kind: Kind::Request, qpn: 2, psn: 2, nth: 1 });
        let response = pass(&mut tracker, 0, Opcode::RC_ACKNOWLEDGE, 0x40, 103);
        assert_eq!(response, Address { kind: Kind::Response, qpn: 2, psn: 3, nth: 1 });
        // Nobody told about this one.
        let other = pass(&mut tracker, 0, Opcode::RC_SEND_ONLY, 0x99, 77);
        assert_eq!(other, Address { kind: Kind::Request, qpn: 3, psn: 0, nth: 1 });
    }

    #[test]
    fn passes_are_counted_by_place_and_forgotten_with_the_connection() {
        let mut tracker = Tracker::default();
        let send = Opcode::RC_SEND_ONLY;
        assert_eq!([5, 5, 6, 5].map(|psn| pass(&mut tracker, 0, send, 1, psn).nth), [1, 2, 1, 3]);
        assert_eq!(pass(&mut tracker, 1, send, 1, 5).nth, 1, "another link");
        tracker.start(&[B], Qpn::new(1), Kind::Request, Psn::new(5));
        assert_eq!(pass(&mut tracker, 0, send, 1, 5).nth, 1, "connected anew");
        tracker.forget(&[B], Qpn::new(1));
        assert_eq!(
            pass(&mut tracker, 0, send, 1, 5),
            Address { kind: Kind::Request, qpn: 2, psn: 0, nth: 1 }
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut passes = Passes::new(Psn::new(0));
        for psn in 0..4 * KEPT_PSNS as u32 {
            passes.count(Psn::new(psn));
        }
        assert!(passes.counts.len() <= 2 * KEPT_PSNS as usize);
        assert_eq!(passes.count(Psn::new(4 * KEPT_PSNS as u32 - 1)), 2);
    }
}
