//! Packets of a peer that means no good: what a QP may expect next, something close to it, and anything else.

use super::ledger::Place;
use crate::chance::Chance;
use bytes::Bytes;
use ferroce_core::QpSnapshot;
use ferroce_wire::{
    Bth, ICRC_LEN, Opcode, Operation, PacketHeader, PayloadRule, Position, Psn, Qpn, Service, Syndrome,
};
use std::collections::VecDeque;
use zerocopy::IntoBytes;

/// What an attacker knows of the QP that it attacks: everything.
#[derive(Debug)]
pub(super) struct Aim {
    pub(super) qpn: Qpn,
    pub(super) service: Service,
    pub(super) mtu: usize,
    /// Memory that it may use, and the keys.
    pub(super) region: Place,
    pub(super) qkey: u32,
    pub(super) srqn: u32,
    /// The message that its last request belongs to, and the bytes that it still announces.
    pub(super) message: Option<(Operation, usize)>,
    /// The PSN expected next.
    request: Psn,
    /// The oldest PSN that waits for a response, and how many do.
    response: Psn,
    waiting: u32,
}

impl Aim {
    /// Nothing is known of where the QP is.
    pub(super) fn new(region: Place) -> Aim {
        Aim {
            qpn: Qpn::default(),
            service: Service::Rc,
            mtu: 0,
            region,
            qkey: 0,
            srqn: 0,
            message: None,
            request: Psn::default(),
            response: Psn::default(),
            waiting: 0,
        }
    }

    /// Looks where the QP is. One that does not tell expects `first_psn`, or what comes next.
    pub(super) fn look(&mut self, snapshot: Option<&QpSnapshot>, first_psn: u32) {
        match snapshot.and_then(|snapshot| snapshot.responder) {
            Some(responder) => self.request = responder.expected,
            None if self.request == Psn::default() => self.request = Psn::new(first_psn),
            None => {}
        }
        if let Some(requester) = snapshot.and_then(|snapshot| snapshot.requester) {
            self.response = requester.unacked;
            self.waiting = requester.high.distance_from(requester.unacked).max(0) as u32;
        }
    }

    /// The next packet: BTH to ICRC.
    pub(super) fn packet(&mut self, chance: &mut Chance, overheard: &VecDeque<Bytes>) -> Vec<u8> {
        let is_answered = matches!(self.service, Service::Rc | Service::Xrc);
        let mut bytes = match chance.below(20) {
            0..10 => self.request(chance),
            10..15 if is_answered => self.response(chance),
            15..17 if !overheard.is_empty() => {
                let mut bytes = overheard[chance.below(overheard.len() as u64) as usize].to_vec();
                self.redirect(&mut bytes);
                change_bits(&mut bytes, chance);
                bytes
            }
            17..19 => self.any(chance),
            19 => {
                let mut bytes = garbage(chance, 200);
                self.redirect(&mut bytes);
                bytes
            }
            _ => self.request(chance),
        };
        if chance.one_in(8) {
            change_bits(&mut bytes, chance);
        }
        if chance.one_in(20) {
            bytes.truncate(chance.below(bytes.len() as u64) as usize);
        } else if chance.one_in(20) {
            bytes.extend(garbage(chance, 64));
        }
        bytes
    }

    /// Something that the QP might take as a request.
    fn request(&mut self, chance: &mut Chance) -> Vec<u8> {
        let opcode = self.request_opcode(chance);
        let fits = self.payload_len(opcode, chance);
        let (len, announced) = match self.message {
            Some((operation, left)) if operation == opcode.operation() && !opcode.starts_message() => {
                let is_last = opcode.ends_message();
                let len = if operation == Operation::Write && is_last { left.min(self.mtu) } else { fits };
                (len, left)
            }
            _ => match (opcode.operation(), opcode.position()) {
                (Operation::ReadRequest, _) => (0, chance.below(self.mtu as u64 * 4) as usize),
                (_, Position::First) => (fits, fits + chance.between(1, self.mtu as u64 * 3) as usize),
                _ => (fits, fits),
            },
        };
        let psn = self.request.plus_or_minus(chance);
        if psn == self.request {
            self.go_on(opcode, len, announced);
        }
        let header = self.header(opcode, psn, chance);
        let (va, rkey, length) = self.range(announced, chance);
        let header = header
            .reth(va, rkey, length)
            .atomic_eth(
                va & !u64::from(!chance.one_in(8)).wrapping_mul(7),
                rkey,
                chance.bits(),
                chance.bits(),
            )
            .imm([1, 2, 3, 4])
            .ieth(rkey);
        write(&header, len, chance)
    }

    /// The next opcode of a message under way, or that of a new one.
    fn request_opcode(&self, chance: &mut Chance) -> Opcode {
        let is_due = |opcode: &Opcode| {
            opcode.service() == self.service
                && opcode.is_request()
                && match self.message {
                    None => opcode.starts_message(),
                    Some((Operation::Write, left)) if opcode.operation() == Operation::Write => {
                        let is_last = left <= self.mtu;
                        !opcode.starts_message() && opcode.ends_message() == is_last
                    }
                    Some((operation, _)) => opcode.operation() == operation && !opcode.starts_message(),
                }
        };
        let is_any = chance.one_in(6);
        let choices: Vec<_> = Opcode::all()
            .filter(|opcode| match is_any {
                true => opcode.service() == self.service && opcode.is_request(),
                false => is_due(opcode),
            })
            .collect();
        if choices.is_empty() { Opcode::RC_SEND_ONLY } else { *chance.pick(&choices) }
    }

    /// The QP is expected to take this one.
    fn go_on(&mut self, opcode: Opcode, len: usize, announced: usize) {
        let psns = match opcode.operation() {
            Operation::ReadRequest => announced.div_ceil(self.mtu).max(1),
            _ => 1,
        };
        self.request = self.request.plus(psns as u32);
        self.message = (!opcode.ends_message()).then(|| (opcode.operation(), announced.saturating_sub(len)));
    }

    /// Something that the QP might take as a response.
    fn response(&mut self, chance: &mut Chance) -> Vec<u8> {
        let is_response = |opcode: &Opcode| opcode.service() == self.service && opcode.is_response();
        let mut choices: Vec<_> = Opcode::all().filter(is_response).collect();
        // As often an acknowledgement as anything else.
        choices
            .extend([Opcode::RC_ACKNOWLEDGE.in_service(self.service).unwrap_or(Opcode::RC_ACKNOWLEDGE); 4]);
        let opcode = *chance.pick(&choices);
        let psn = self.response.plus(chance.below(u64::from(self.waiting.min(40)) + 1) as u32);
        let psn = psn.plus_or_minus(chance);
        if chance.one_in(2) && self.waiting > 0 {
            // The next one goes on behind it.
            self.response = psn.plus(1);
            self.waiting -= 1;
        }
        let syndrome = match chance.below(12) {
            0 => Syndrome::from_u8(chance.bits() as u8),
            // NAKs that mean something, and RNR NAKs.
            1 | 2 => Syndrome::from_u8(0x60 | chance.below(4) as u8),
            3 => Syndrome::from_u8(0x20 | chance.below(12) as u8),
            _ => Syndrome::ACK,
        };
        // What those that repeat selectively say in a NAK.
        let is_bitmap = opcode.operation() == Operation::Acknowledge && chance.one_in(4);
        let len = match is_bitmap {
            true => 4 * chance.below(20) as usize,
            false => self.payload_len(opcode, chance),
        };
        let header = self.header(opcode, psn, chance);
        let header = header.aeth(syndrome, chance.bits() as u32 & 0xff_ffff).atomic_ack_eth(chance.bits());
        write(&header, len, chance)
    }

    /// Any opcode of any service.
    fn any(&self, chance: &mut Chance) -> Vec<u8> {
        let choices: Vec<_> = Opcode::all().collect();
        let opcode = *chance.pick(&choices);
        let (va, rkey, length) = self.range(chance.below(5_000) as usize, chance);
        let header = self
            .header(opcode, self.request, chance)
            .reth(va, rkey, length)
            .atomic_eth(va, rkey, 1, 0)
            .aeth(Syndrome::from_u8(chance.bits() as u8), 0);
        let len = chance.below(300) as usize;
        write(&header, len, chance)
    }

    fn header(&self, opcode: Opcode, psn: Psn, chance: &mut Chance) -> PacketHeader {
        let qkey = if chance.one_in(10) { self.qkey ^ 1 } else { self.qkey };
        let srqn = if chance.one_in(10) { self.srqn ^ 1 } else { self.srqn };
        let pkey = if chance.one_in(30) { chance.bits() as u16 } else { 0xffff };
        PacketHeader::new(opcode, self.qpn, psn)
            .ack_req(chance.one_in(2))
            .solicited(chance.one_in(4))
            .pkey(pkey)
            .deth(qkey, Qpn::new(0x4321))
            .xrceth(srqn)
    }

    /// Bytes that go with an opcode, mostly.
    fn payload_len(&self, opcode: Opcode, chance: &mut Chance) -> usize {
        let mtu = self.mtu as u64;
        if chance.one_in(12) {
            return chance.below(4_100) as usize;
        }
        let len = match opcode.payload_rule() {
            PayloadRule::Empty => 0,
            PayloadRule::Exactly(len) => u64::from(len),
            PayloadRule::FullMtu => mtu,
            PayloadRule::NonEmpty => chance.between(1, mtu),
            PayloadRule::UpToMtu => chance.between(0, mtu),
        };
        len as usize
    }

    /// Address, key and length of a remote range: inside the region mostly.
    fn range(&self, len: usize, chance: &mut Chance) -> (u64, u32, u32) {
        let Place { addr, keys, len: room, .. } = self.region;
        let slack = u64::from(room).saturating_sub(len as u64);
        let va = match chance.below(12) {
            0 => chance.bits(),
            1 => self.region.region_end - len as u64 / 2,
            2 => u64::MAX - chance.below(64),
            _ => addr + chance.between(0, slack),
        };
        let rkey = if chance.one_in(12) { keys.rkey ^ 1 << chance.below(32) } else { keys.rkey };
        let length = match chance.below(12) {
            0 => chance.bits() as u32,
            1 => u32::MAX,
            _ => len as u32,
        };
        (va, rkey, length)
    }

    /// Gives a packet the QP as its destination.
    fn redirect(&self, bytes: &mut [u8]) {
        let bth = Bth::new(0, self.qpn, Psn::default());
        if let Some(place) = bytes.get_mut(5..8) {
            place.copy_from_slice(&bth.as_bytes()[5..8]);
        }
    }
}

/// A PSN, seldom one close to it.
trait Near {
    fn plus_or_minus(self, chance: &mut Chance) -> Psn;
}

impl Near for Psn {
    fn plus_or_minus(self, chance: &mut Chance) -> Psn {
        let offset = if chance.one_in(4) { chance.below(12) as i32 - 6 } else { 0 };
        Psn::new(self.value().wrapping_add_signed(offset) % Psn::MODULUS)
    }
}

/// A packet with room for its ICRC.
fn write(header: &PacketHeader, len: usize, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = vec![0; header.packet_len(len)];
    header.write(&mut bytes, len).fill(chance.bits() as u8);
    bytes
}

/// Changes some bits of a packet.
pub(super) fn change_bits(bytes: &mut [u8], chance: &mut Chance) {
    // Most of what matters is in front.
    let reach = if chance.one_in(2) { 48 } else { bytes.len() }.min(bytes.len());
    for _ in 0..chance.between(1, 4) {
        if let Some(byte) = bytes.get_mut(chance.below(reach as u64) as usize) {
            *byte ^= 1 << chance.below(8);
        }
    }
}

/// Random bytes.
pub(super) fn garbage(chance: &mut Chance, most: u64) -> Vec<u8> {
    (0..chance.below(most) + ICRC_LEN as u64).map(|_| chance.bits() as u8).collect()
}
