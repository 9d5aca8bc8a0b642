//! The script's side of the wire: packets made from lines, and packets that came held against lines.

use super::number::{Key, Place};
use super::packet::{Faults, Packet};
use crate::case::{Failure, Outcome, ensure, equal};
use crate::fabric::{Envelope, IpVersion, RawPacket, RawReceived};
use crate::lab::Buffer;
use ferroce_wire::{
    Bth, DEFAULT_PKEY, Feth, FlushSelectivity, ICRC_LEN, Opcode, Packet as WirePacket, PacketHeader, Psn,
    Qpn, Service, Syndrome,
};

/// What relative numbers are relative to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) version: IpVersion,
    /// The QP under test.
    pub(super) qpn: Qpn,
    /// Its peer's QPN.
    pub(super) peer_qpn: Qpn,
    /// The first PSN of the QP under test.
    pub(super) psn: Psn,
    /// The first PSN of the peer.
    pub(super) peer_psn: Psn,
    /// The memory of the QP under test.
    pub(super) buffer: Buffer,
    /// The Q_Key of the QP under test.
    pub(super) qkey: u32,
}

impl Origin {
    /// The PSN from which a packet's count, by who sends it: responses carry those of the request.
    fn first_psn(&self, opcode: Opcode, from_peer: bool) -> Psn {
        if opcode.is_response() == from_peer { self.psn } else { self.peer_psn }
    }

    fn psn(&self, packet: &Packet, from_peer: bool) -> Psn {
        let first = self.first_psn(packet.opcode, from_peer);
        match packet.psn.unwrap_or(0) {
            forward @ 0.. => first.plus(forward.unsigned_abs()),
            back => first.minus(back.unsigned_abs()),
        }
    }

    pub(super) fn address(&self, place: Place) -> u64 {
        match place {
            Place::Buffer(offset) => self.buffer.addr.wrapping_add_signed(offset),
            Place::Address(address) => address,
        }
    }

    pub(super) fn key(&self, key: Key) -> u32 {
        match key {
            Key::Good => self.buffer.mr.rkey,
            Key::Bad => self.buffer.mr.rkey ^ 1,
            Key::Number(number) => number,
        }
    }

    /// The packet that a line describes.
    pub(super) fn build(&self, packet: &Packet, faults: &Faults) -> RawPacket {
        let data = packet.data.map(|run| run.bytes()).unwrap_or_default();
        let qpn = match faults.to_group {
            true => Qpn::MULTICAST,
            false => faults.qpn.map_or(self.qpn, Qpn::new),
        };
        let address = packet.va.map_or(self.buffer.addr, |place| self.address(place));
        let rkey = self.key(packet.rkey.unwrap_or(Key::Good));
        let length = packet.len.unwrap_or(data.len() as u32);
        let source_qpn = packet.source_qpn.map_or(self.peer_qpn, Qpn::new);
        let syndrome = packet.syndrome.unwrap_or(Syndrome::ACK);
        let header = PacketHeader::new(packet.opcode, qpn, self.psn(packet, true))
            .ack_req(packet.ack_req.unwrap_or(false))
            .solicited(packet.solicited.unwrap_or(false))
            .mig_req(packet.mig_req.unwrap_or(true))
            .pkey(faults.pkey.unwrap_or(DEFAULT_PKEY))
            .fecn(faults.fecn)
            .becn(faults.becn)
            .feth(feth(packet))
            .reth(address, rkey, length)
            .atomic_eth(address, rkey, packet.swap_or_add.unwrap_or(0), packet.compare.unwrap_or(0))
            .aeth(syndrome, packet.msn.unwrap_or(0))
            .atomic_ack_eth(packet.original.unwrap_or(0))
            .imm(packet.imm.unwrap_or(0).to_be_bytes())
            .ieth(self.key(packet.invalidate.unwrap_or(Key::Good)))
            .deth(packet.qkey.unwrap_or(self.qkey), source_qpn);
        let mut payload = vec![0; header.packet_len(data.len())];
        header.write(&mut payload, data.len()).copy_from_slice(&data);
        spoil(&mut payload, faults);
        RawPacket {
            from: faults.source(),
            version: self.version,
            source_port: faults.source_port,
            traffic_class: packet.traffic_class.unwrap_or(0),
            seal: !faults.bad_icrc && payload.len() >= ICRC_LEN,
            payload,
            envelope: faults.envelope.unwrap_or(Envelope::True),
            to_group: faults.to_group,
        }
    }

    /// Holds a packet that came against a line. Whatever it is, an implementation's packet is well formed.
    ///
    /// # Errors
    /// What differs.
    pub(super) fn check(&self, expected: &Packet, received: &RawReceived) -> Outcome {
        let packet = WirePacket::parse(&received.payload)
            .map_err(|error| Failure::new(format!("what came is no packet: {error}")))?;
        self.check_fields(expected, &packet, received).map_err(|failure| {
            Failure::new(format!("{}\n  in {}", failure.text(), self.describe(&packet)))
        })?;
        well_formed(&packet, received)
            .map_err(|failure| Failure::new(format!("{}\n  in {}", failure.text(), self.describe(&packet))))
    }

    fn check_fields(&self, expected: &Packet, packet: &WirePacket<'_>, received: &RawReceived) -> Outcome {
        equal("opcode", packet.opcode().name(), expected.opcode.name())?;
        let bth = packet.bth();
        equal("destination QPN", bth.dest_qpn(), self.peer_qpn)?;
        if expected.psn.is_some() {
            let first = self.first_psn(expected.opcode, false);
            equal("relative PSN", Some(bth.psn().distance_from(first)), expected.psn)?;
        }
        same("AckReq", bth.ack_req(), expected.ack_req)?;
        same("SE", bth.solicited(), expected.solicited)?;
        same("MigReq", bth.mig_req(), expected.mig_req)?;
        if let Some(run) = expected.data {
            let bytes = run.bytes();
            equal("payload length", packet.payload().len(), bytes.len())?;
            ensure(packet.payload() == bytes, "the payload has other bytes")?;
        }
        let (reth, atomic) = (packet.reth(), packet.atomic_eth());
        let va = reth.map(|reth| reth.va()).or(atomic.map(|atomic| atomic.va()));
        same_some("VA", va, expected.va.map(|place| self.address(place)))?;
        let rkey = reth.map(|reth| reth.rkey()).or(atomic.map(|atomic| atomic.rkey()));
        same_some("R_Key", rkey, expected.rkey.map(|key| self.key(key)))?;
        same_some("RETH length", reth.map(|reth| reth.dma_length()), expected.len)?;
        same_some("placement type", packet.feth().map(|feth| feth.placement_type()), expected.placement)?;
        let selectivity = packet.feth().map(|feth| feth.selectivity().as_u8());
        same_some("selectivity", selectivity, expected.selectivity)?;
        same_some("swap or add", atomic.map(|atomic| atomic.swap_or_add()), expected.swap_or_add)?;
        same_some("compare", atomic.map(|atomic| atomic.compare()), expected.compare)?;
        same_some("syndrome", packet.aeth().map(|aeth| aeth.syndrome()), expected.syndrome)?;
        same_some("MSN", packet.aeth().map(|aeth| aeth.msn()), expected.msn)?;
        same_some("original value", packet.atomic_ack_eth().map(|eth| eth.original()), expected.original)?;
        same_some("immediate", packet.imm().map(u32::from_be_bytes), expected.imm)?;
        let invalidate = expected.invalidate.map(|key| self.key(key));
        same_some("key to invalidate", packet.ieth().map(|ieth| ieth.rkey()), invalidate)?;
        same_some("Q_Key", packet.deth().map(|deth| deth.qkey()), expected.qkey)?;
        if let Some(deth) = packet.deth() {
            equal("source QPN", deth.source_qpn(), self.qpn)?;
        }
        same_some("traffic class", received.traffic_class, expected.traffic_class)
    }

    /// A packet that came from the QP under test, with a relative PSN.
    pub(super) fn describe(&self, packet: &WirePacket<'_>) -> String {
        let first = self.first_psn(packet.opcode(), false);
        format!("{packet} (relative PSN {:+})", packet.bth().psn().distance_from(first))
    }
}

/// The FETH of a FLUSH: of a range, to global visibility, unless the line says otherwise.
fn feth(packet: &Packet) -> Feth {
    let placement = packet.placement.unwrap_or(1);
    let selectivity = FlushSelectivity::from_u8(packet.selectivity.unwrap_or(0));
    Feth::new(selectivity, placement & 1 != 0, placement & 2 != 0)
}

/// Makes of a good packet the one that the line wants.
fn spoil(payload: &mut Vec<u8>, faults: &Faults) {
    if let Some(opcode) = faults.opcode {
        payload[OPCODE] = opcode;
    }
    if let Some(version) = faults.transport_version {
        payload[FLAGS] = payload[FLAGS] & 0xf0 | version & 0x0f;
    }
    if let Some(pad) = faults.pad_count {
        payload[FLAGS] = payload[FLAGS] & 0xcf | (pad & 3) << 4;
    }
    payload[RESERVED6] |= faults.reserved6.unwrap_or(0) & 0x3f;
    payload[RESERVED7] |= faults.reserved7.unwrap_or(0) & 0x7f;
    if let Some(len) = faults.cut {
        payload.truncate(len);
    }
    if faults.bad_icrc
        && let Some(last) = payload.last_mut()
    {
        // Whatever is right, this is not: the ICRC is not computed for such a packet.
        *last = 0xa5;
    }
}

/// What holds for every packet of an implementation: ICRC, P_Key, reserved bits, pad.
fn well_formed(packet: &WirePacket<'_>, received: &RawReceived) -> Outcome {
    ensure(received.sealed, "the ICRC is wrong")?;
    equal("P_Key", packet.bth().pkey(), DEFAULT_PKEY)?;
    let bytes = &received.payload;
    equal("six reserved bits", bytes[RESERVED6] & 0x3f, 0)?;
    equal("seven reserved bits", bytes[RESERVED7] & 0x7f, 0)?;
    ensure(packet.is_cnp() || bytes[RESERVED6] == 0, "FECN or BECN is set")?;
    let len = packet.payload().len();
    let pad = len.wrapping_neg() & 3;
    equal("PadCnt", usize::from(packet.pad_count()), pad)?;
    let end = bytes.len() - ICRC_LEN;
    ensure(bytes[end - pad..end].iter().all(|byte| *byte == 0), "a pad byte is not zero")?;
    let is_acknowledged = matches!(packet.opcode().service(), Service::Rc | Service::Xrc);
    ensure(is_acknowledged || !packet.bth().ack_req(), "AckReq is set where nothing is acknowledged")
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, expected: Option<T>) -> Outcome {
    expected.map_or(Ok(()), |expected| equal(what, got, expected))
}

fn same_some<T: PartialEq + std::fmt::Debug>(what: &str, got: Option<T>, expected: Option<T>) -> Outcome {
    if expected.is_none() { Ok(()) } else { equal(what, got, expected) }
}

const OPCODE: usize = 0;
const FLAGS: usize = 1;
const RESERVED6: usize = 4;
const RESERVED7: usize = 8;
const _: () = assert!(Bth::LEN == 12);
