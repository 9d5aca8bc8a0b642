//! What the model sees of the wire, and the faults of a run.
//!
//! One rule does both: it looks at each frame where it leaves its host, and then draws the frame's fate. It counts how
//! many packets of a connection met a fault, since that is what a retry must have come from.

use super::Fault;
use super::plan::{self, Connect};
use crate::chance::Chance;
use crate::rules::{Action, Kind, RandomFaults, Rule, Seen, ends, kind};
use bytes::Bytes;
use ferroce_core::Nanos;
use ferroce_wire::{NakCode, Packet, Psn, Qpn, Service, Syndrome};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// The faults of now.
    pub(super) faults: RandomFaults,
    /// A digest of every frame and its time: the same for the same plan, in every build.
    pub(super) digest: u64,
    /// Frames.
    pub(super) frames: u64,
    /// Frames that met a fault.
    pub(super) hit: u64,
    /// The first thing that was wrong.
    pub(super) fault: Option<Fault>,
    /// The host whose packets mean nothing.
    noise: String,
    /// The last packets, each with its source and destination.
    recent: VecDeque<(IpAddr, IpAddr, Bytes)>,
    /// QPs that there are.
    qps: BTreeMap<(IpAddr, Qpn), Watched>,
}

/// A QP as the destination of packets.
#[derive(Debug)]
struct Watched {
    connection: u32,
    mtu: u32,
    /// For sequence NAKs and for RNR NAKs.
    retries: [u8; 2],
    /// It repeats selectively: a NAK comes with each packet behind a gap.
    selective: bool,
    /// The PSN of the last NAK of each kind to it, and how many in a row had it.
    naks: [(Psn, u64); 2],
    /// A digest of each request by its PSN.
    requests: BTreeMap<u32, u64>,
    /// Packets to it that met a fault.
    hit: u64,
}

impl Wire {
    /// Nothing seen yet. Packets from the host `noise` are looked at by nobody.
    pub(super) fn new(noise: String) -> Wire {
        Wire { noise, ..Wire::default() }
    }

    /// A QP is connected, or connected anew.
    pub(super) fn watch(&mut self, addresses: [IpAddr; 2], qpn: Qpn, plan: &Connect) {
        for address in addresses {
            let watched = Watched {
                connection: plan.number,
                mtu: if plan.service == plan::Service::Ud { MAX_MTU } else { plan.mtu },
                retries: [plan.retry_cnt, plan.rnr_retry],
                selective: plan.selective,
                requests: BTreeMap::new(),
                naks: [(Psn::default(), 0); 2],
                hit: 0,
            };
            self.qps.insert((address, qpn), watched);
        }
    }

    /// A QP is gone, or not connected any more.
    pub(super) fn forget(&mut self, addresses: [IpAddr; 2], qpn: Qpn) {
        for address in addresses {
            self.qps.remove(&(address, qpn));
        }
    }

    /// Any number of packets to a QP may be lost where nobody sees it.
    pub(super) fn trouble(&mut self, addresses: [IpAddr; 2], qpn: Qpn) {
        for address in addresses {
            if let Some(qp) = self.qps.get_mut(&(address, qpn)) {
                qp.hit = qp.hit.max(ANY_NUMBER);
            }
        }
    }

    /// Packets of a connection that met a fault since it was made.
    pub(super) fn hit(&self, connection: u32) -> u64 {
        self.qps.values().filter(|qp| qp.connection == connection).map(|qp| qp.hit).sum()
    }

    fn see(&mut self, seen: &Seen<'_>) -> Result<(), Fault> {
        self.frames += 1;
        self.digest = mix(mix(self.digest, &seen.now.to_le_bytes()), seen.frame.bytes());
        let Ok(parsed) = seen.frame.parse() else { return Ok(()) };
        let (src, dst) = ends(&parsed.network());
        let Some(packet) = seen.packet else { return Ok(()) };
        if seen.crossing.from == self.noise {
            return Ok(());
        }
        self.remember(src, dst, parsed.transport());
        self.count_nak(dst, &packet)?;
        let Some(qp) = self.qps.get_mut(&(dst, packet.bth().dest_qpn())) else { return Ok(()) };
        if packet.payload().len() > qp.mtu as usize {
            let text = format!("{packet} from {src} exceeds the path MTU of {}", qp.mtu);
            return Err(Fault::new("wire", text));
        }
        if parsed.verify_icrc().is_err() {
            return Err(Fault::new("wire", format!("{packet} from {src} has a wrong ICRC")));
        }
        if kind(&packet) == Kind::Request && matches!(packet.opcode().service(), Service::Rc | Service::Xrc) {
            let digest = request_digest(&packet);
            let first = *qp.requests.entry(packet.bth().psn().value()).or_insert(digest);
            // what is sent again is the same packet.
            if first != digest {
                let text = format!("{packet} from {src} is not what it was when it was sent first");
                return Err(Fault::new("repetition", text));
            }
        }
        Ok(())
    }

    fn remember(&mut self, src: IpAddr, dst: IpAddr, transport: &[u8]) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((src, dst, Bytes::copy_from_slice(transport)));
    }

    /// One of the last packets: where it came from, where it went, and its bytes from the BTH on.
    pub(super) fn copy_of_recent(&self, pick: usize) -> Option<(IpAddr, IpAddr, Vec<u8>)> {
        let (src, dst, bytes) = self.recent.get(pick % self.recent.len().max(1))?;
        Some((*src, *dst, bytes.to_vec()))
    }

    /// A requester that has used up its retries does not ask again; so the NAKs of one PSN are bounded by them, and
    /// by the packets that a fault made come again.
    fn count_nak(&mut self, dst: IpAddr, packet: &Packet<'_>) -> Result<(), Fault> {
        let kind = match packet.aeth().map(|aeth| aeth.syndrome()) {
            Some(Syndrome::Nak(NakCode::PsnSequenceError)) => 0,
            Some(Syndrome::RnrNak { .. }) => 1,
            _ => return Ok(()),
        };
        let target = (dst, packet.bth().dest_qpn());
        let hit = self.qps.get(&target).map_or(0, |qp| self.hit(qp.connection));
        let Some(qp) = self.qps.get_mut(&target) else { return Ok(()) };
        let (psn, count) = &mut qp.naks[kind];
        if *psn != packet.bth().psn() {
            (*psn, *count) = (packet.bth().psn(), 0);
        }
        *count += 1;
        let retries = qp.retries[kind];
        let is_endless = if kind == 0 { qp.selective } else { retries == RNR_RETRY_FOREVER };
        // One fault may bring two: a packet that comes late, and what was sent again for it.
        // A packet that was kept behind a gap is refused when its turn comes, and again when it comes again.
        let each = if qp.selective { 2 } else { 1 };
        if *count > each * (u64::from(retries) + 1) + 2 * hit && !is_endless {
            let text = format!("{packet} comes for the {count}th time, with {retries} retries");
            return Err(Fault::new("retries", text));
        }
        Ok(())
    }

    fn draw(&mut self, seen: &Seen<'_>, chance: &mut Chance) -> Option<Action> {
        let action = self.faults.judge(seen, chance)?;
        if action == Action::MarkCe {
            return Some(action);
        }
        self.hit += 1;
        if let (Ok(parsed), Some(packet)) = (seen.frame.parse(), seen.packet) {
            let (_, dst) = ends(&parsed.network());
            if let Some(qp) = self.qps.get_mut(&(dst, packet.bth().dest_qpn())) {
                qp.hit += 1;
            }
        }
        Some(action)
    }
}

/// The rule, which shares what it saw with the model.
pub(super) struct Watcher(pub(super) Rc<RefCell<Wire>>);

impl Rule for Watcher {
    fn judge(&mut self, seen: &Seen<'_>, chance: &mut Chance) -> Option<Action> {
        if !seen.crossing.is_first {
            return None;
        }
        let mut wire = self.0.borrow_mut();
        if let (Err(fault), None) = (wire.see(seen), &wire.fault) {
            wire.fault = Some(fault);
        }
        wire.draw(seen, chance)
    }

    fn label(&self) -> String {
        "chance".into()
    }
}

/// A digest of a request but for AckReq, which may differ when it is sent again, and the ICRC, which follows.
fn request_digest(packet: &Packet<'_>) -> u64 {
    let bth = packet.bth();
    let flags = [packet.opcode().as_u8(), u8::from(bth.solicited()), packet.pad_count()];
    mix(mix(mix(0, &flags), packet.extended_headers()), packet.payload())
}

/// Adds bytes to a digest.
fn mix(digest: u64, bytes: &[u8]) -> u64 {
    let mut digest = digest ^ (bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for chunk in bytes.chunks(size_of::<u64>()) {
        let mut word = [0; size_of::<u64>()];
        word[..chunk.len()].copy_from_slice(chunk);
        digest = (digest ^ u64::from_le_bytes(word)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        digest ^= digest >> 32;
    }
    digest
}

/// More packets than a plan has.
const ANY_NUMBER: u64 = 1 << 40;
/// Packets remembered.
const RECENT: usize = 16;
/// The MTU of datagrams, which is that of the link.
const MAX_MTU: u32 = 4096;
/// An `rnr_retry` that never runs out.
const RNR_RETRY_FOREVER: u8 = 7;

/// When faults are switched off.
pub(super) const NO_FAULTS: RandomFaults = RandomFaults {
    drop_ppm: 0,
    duplicate_ppm: 0,
    delay_ppm: 0,
    corrupt_ppm: 0,
    mark_ce_ppm: 0,
    reorder_ppm: 0,
    truncate_ppm: 0,
    most_delay_ns: 0 as Nanos,
    until_ns: 0 as Nanos,
};
