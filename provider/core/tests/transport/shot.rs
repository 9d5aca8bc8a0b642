//! Packets of a script: what an imagined peer sends, and what the device under test must send.

use crate::arena::Arena;
use ferroce_wire::icrc;
use ferroce_wire::{ICRC_LEN, NakCode, Opcode, Packet, PacketHeader, Psn, Qpn, Service, Syndrome};
use std::net::IpAddr;

/// One packet, without the fields that the script does not care for.
#[derive(Clone, Debug)]
pub struct Shot {
    pub header: PacketHeader,
    pub payload: Vec<u8>,
}

/// The MTU of scripts.
pub const MTU: usize = 256;

/// The R_Key in scripts of requesters; the device under test does not look at it.
pub const RKEY: u32 = 0x1234;

fn shot(opcode: Opcode, psn: u32, len: usize) -> Shot {
    let header = PacketHeader::new(opcode, Qpn::new(0), Psn::new(psn));
    Shot { header, payload: (0..len).map(|i| i as u8).collect() }
}

pub fn send_first(psn: u32) -> Shot {
    shot(Opcode::RC_SEND_FIRST, psn, MTU)
}

pub fn send_middle(psn: u32) -> Shot {
    shot(Opcode::RC_SEND_MIDDLE, psn, MTU)
}

pub fn send_last(psn: u32, len: usize) -> Shot {
    shot(Opcode::RC_SEND_LAST, psn, len).ask()
}

pub fn send_only(psn: u32, len: usize) -> Shot {
    shot(Opcode::RC_SEND_ONLY, psn, len).ask()
}

pub fn write_first(psn: u32, offset: u64, rkey: u32, total: u32) -> Shot {
    shot(Opcode::RC_WRITE_FIRST, psn, MTU).reth(offset, rkey, total)
}

pub fn write_middle(psn: u32) -> Shot {
    shot(Opcode::RC_WRITE_MIDDLE, psn, MTU)
}

pub fn write_last(psn: u32, len: usize) -> Shot {
    shot(Opcode::RC_WRITE_LAST, psn, len).ask()
}

pub fn write_only(psn: u32, offset: u64, rkey: u32, len: usize) -> Shot {
    shot(Opcode::RC_WRITE_ONLY, psn, len).reth(offset, rkey, len as u32).ask()
}

pub fn read_request(psn: u32, offset: u64, rkey: u32, len: u32) -> Shot {
    shot(Opcode::RC_READ_REQUEST, psn, 0).reth(offset, rkey, len).ask()
}

pub fn read_first(psn: u32, msn: u32) -> Shot {
    shot(Opcode::RC_READ_RESP_FIRST, psn, MTU).aeth(Syndrome::ACK, msn)
}

pub fn read_middle(psn: u32) -> Shot {
    shot(Opcode::RC_READ_RESP_MIDDLE, psn, MTU)
}

pub fn read_last(psn: u32, len: usize, msn: u32) -> Shot {
    shot(Opcode::RC_READ_RESP_LAST, psn, len).aeth(Syndrome::ACK, msn)
}

pub fn read_only(psn: u32, len: usize, msn: u32) -> Shot {
    shot(Opcode::RC_READ_RESP_ONLY, psn, len).aeth(Syndrome::ACK, msn)
}

pub fn fetch_add(psn: u32, offset: u64, rkey: u32, add: u64) -> Shot {
    let mut shot = shot(Opcode::RC_FETCH_ADD, psn, 0).ask();
    shot.header = shot.header.atomic_eth(Arena::BASE + offset, rkey, add, 0);
    shot
}

pub fn compare_swap(psn: u32, offset: u64, rkey: u32, compare: u64, swap: u64) -> Shot {
    let mut shot = shot(Opcode::RC_COMPARE_SWAP, psn, 0).ask();
    shot.header = shot.header.atomic_eth(Arena::BASE + offset, rkey, swap, compare);
    shot
}

pub fn atomic_ack(psn: u32, msn: u32, original: u64) -> Shot {
    let mut shot = shot(Opcode::RC_ATOMIC_ACK, psn, 0).aeth(Syndrome::ACK, msn);
    shot.header = shot.header.atomic_ack_eth(original);
    shot
}

pub fn ack(psn: u32, msn: u32) -> Shot {
    acknowledge(psn, msn, Syndrome::ACK)
}

pub fn nak_seq(psn: u32, msn: u32) -> Shot {
    nak(psn, msn, NakCode::PsnSequenceError)
}

pub fn nak(psn: u32, msn: u32, code: NakCode) -> Shot {
    acknowledge(psn, msn, Syndrome::Nak(code))
}

pub fn rnr_nak(psn: u32, msn: u32, timer: u8) -> Shot {
    acknowledge(psn, msn, Syndrome::RnrNak { timer })
}

pub fn acknowledge(psn: u32, msn: u32, syndrome: Syndrome) -> Shot {
    shot(Opcode::RC_ACKNOWLEDGE, psn, 0).aeth(syndrome, msn)
}

impl Shot {
    /// With another opcode, extended headers zero.
    pub fn opcode(mut self, opcode: Opcode) -> Shot {
        let (psn, ask) = (self.header.bth().psn(), self.header.bth().ack_req());
        self.header = PacketHeader::new(opcode, Qpn::new(0), psn).ack_req(ask);
        self
    }

    /// With AckReq.
    pub fn ask(mut self) -> Shot {
        self.header = self.header.ack_req(true);
        self
    }

    pub fn header(mut self, change: impl FnOnce(PacketHeader) -> PacketHeader) -> Shot {
        self.header = change(self.header);
        self
    }

    /// The same operation in another service, with AckReq only where there are acknowledgements.
    pub fn in_service(mut self, service: Service) -> Shot {
        let mut bytes = vec![0; self.header.packet_len(0)];
        self.header.write(&mut bytes, 0);
        let packet = Packet::parse(&bytes).expect("a packet");
        let bth = packet.bth();
        let opcode = packet.opcode().in_service(service).expect("the service has it");
        let mut header = PacketHeader::new(opcode, Qpn::new(0), bth.psn())
            .solicited(bth.solicited())
            .ack_req(bth.ack_req() && service != Service::Uc);
        if let Some(reth) = packet.reth() {
            header = header.reth(reth.va(), reth.rkey(), reth.dma_length());
        }
        if let Some(atomic) = packet.atomic_eth() {
            header = header.atomic_eth(atomic.va(), atomic.rkey(), atomic.swap_or_add(), atomic.compare());
        }
        if let Some(aeth) = packet.aeth() {
            header = header.aeth(aeth.syndrome(), aeth.msn());
        }
        if let Some(ack) = packet.atomic_ack_eth() {
            header = header.atomic_ack_eth(ack.original());
        }
        if let Some(imm) = packet.imm() {
            header = header.imm(imm);
        }
        if let Some(ieth) = packet.ieth() {
            header = header.ieth(ieth.rkey());
        }
        self.header = header;
        self
    }

    /// With so many bytes.
    pub fn len(mut self, len: usize) -> Shot {
        self.payload = (0..len).map(|i| i as u8).collect();
        self
    }

    pub fn reth(self, offset: u64, rkey: u32, len: u32) -> Shot {
        self.header(|header| header.reth(Arena::BASE.wrapping_add(offset), rkey, len))
    }

    fn aeth(self, syndrome: Syndrome, msn: u32) -> Shot {
        self.header(|header| header.aeth(syndrome, msn))
    }

    /// The packet's bytes.
    pub fn bytes(&self, from: IpAddr, to: IpAddr, dest_qpn: Qpn) -> Vec<u8> {
        let mut bytes = vec![0; self.header.packet_len(self.payload.len())];
        self.header.write(&mut bytes, self.payload.len()).copy_from_slice(&self.payload);
        let end = bytes.len() - ICRC_LEN;
        bytes[5..8].copy_from_slice(&dest_qpn.value().to_be_bytes()[1..]);
        debug_assert!(end >= 12);
        icrc::seal(&crate::end::ip_context(from, to), &mut bytes);
        bytes
    }
}

/// What a packet says, on one line.
pub fn describe(bytes: &[u8]) -> String {
    Packet::parse(bytes).expect("what a device sends is a packet").to_string()
}
