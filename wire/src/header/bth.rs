//! The base transport header: the first 12 bytes of every packet, directly behind UDP (or behind the GRH in
//! RoCEv1).

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::u24::U24;
use crate::{Psn, Qpn};

/// The partition key every RoCE port has at index 0: full member of the default partition.
pub const DEFAULT_PKEY: u16 = 0xffff;

/// Base transport header, 12 bytes.
///
/// Reserved bits are sent as zero and accepted with any value: hardware has been seen to set some of them.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Bth {
    opcode: u8,
    flags: u8,
    pkey: U16,
    congestion: u8,
    dest_qpn: U24,
    acknowledge: u8,
    psn: U24,
}

impl Bth {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    const SOLICITED: u8 = 0x80;
    const MIG_REQ: u8 = 0x40;
    const PAD_SHIFT: u32 = 4;
    const PAD_MASK: u8 = 0x30;
    const TVER_MASK: u8 = 0x0f;
    const FECN: u8 = 0x80;
    const BECN: u8 = 0x40;
    const ACK_REQ: u8 = 0x80;

    /// A header with the default partition key, every flag clear, no pad and transport version 0.
    pub const fn new(opcode: u8, dest_qpn: Qpn, psn: Psn) -> Self {
        Bth {
            opcode,
            flags: 0,
            pkey: U16::new(DEFAULT_PKEY),
            congestion: 0,
            dest_qpn: U24::new(dest_qpn.value()),
            acknowledge: 0,
            psn: U24::new(psn.value()),
        }
    }

    /// Sets the solicited event flag: the receiver's completion wakes those who wait for solicited ones only.
    pub fn set_solicited(&mut self, on: bool) {
        set(&mut self.flags, Self::SOLICITED, on);
    }

    /// Sets MigReq: the sender is in the migrated state, the normal one without an alternate path.
    pub fn set_mig_req(&mut self, on: bool) {
        set(&mut self.flags, Self::MIG_REQ, on);
    }

    /// Sets the number of pad bytes; only the low two bits count.
    pub fn set_pad_count(&mut self, pad: u8) {
        self.flags = (self.flags & !Self::PAD_MASK) | ((pad << Self::PAD_SHIFT) & Self::PAD_MASK);
    }

    /// Sets the partition key.
    pub fn set_pkey(&mut self, pkey: u16) {
        self.pkey.set(pkey);
    }

    /// Sets FECN (forward congestion; reserved in RoCE). The ICRC does not cover it.
    pub fn set_fecn(&mut self, on: bool) {
        set(&mut self.congestion, Self::FECN, on);
    }

    /// Sets BECN (backward congestion; a congestion notification packet of a ConnectX has it). The ICRC does not cover it.
    pub fn set_becn(&mut self, on: bool) {
        set(&mut self.congestion, Self::BECN, on);
    }

    /// Sets the destination queue pair.
    pub fn set_dest_qpn(&mut self, qpn: Qpn) {
        self.dest_qpn = U24::new(qpn.value());
    }

    /// Sets AckReq: the responder shall schedule an acknowledgement.
    pub fn set_ack_req(&mut self, on: bool) {
        set(&mut self.acknowledge, Self::ACK_REQ, on);
    }

    /// Sets the packet sequence number.
    pub fn set_psn(&mut self, psn: Psn) {
        self.psn = U24::new(psn.value());
    }

    /// The opcode as sent; see [`crate::Opcode::from_u8`].
    pub const fn opcode(&self) -> u8 {
        self.opcode
    }

    /// Solicited event.
    pub const fn solicited(&self) -> bool {
        self.flags & Self::SOLICITED != 0
    }

    /// MigReq. A responder must not judge a packet by it: rxe sends 0 and hardware 1.
    pub const fn mig_req(&self) -> bool {
        self.flags & Self::MIG_REQ != 0
    }

    /// Pad bytes between payload and ICRC, 0 to 3.
    pub const fn pad_count(&self) -> u8 {
        (self.flags & Self::PAD_MASK) >> Self::PAD_SHIFT
    }

    /// Transport header version; only 0 exists.
    pub const fn transport_version(&self) -> u8 {
        self.flags & Self::TVER_MASK
    }

    /// Partition key.
    pub const fn pkey(&self) -> u16 {
        self.pkey.get()
    }

    /// Forward explicit congestion notification.
    pub const fn fecn(&self) -> bool {
        self.congestion & Self::FECN != 0
    }

    /// Backward explicit congestion notification.
    pub const fn becn(&self) -> bool {
        self.congestion & Self::BECN != 0
    }

    /// Destination queue pair.
    pub const fn dest_qpn(&self) -> Qpn {
        Qpn::new(self.dest_qpn.get())
    }

    /// Whether the requester asks for an acknowledgement. To be ignored on UC and UD, where older rxe sets it.
    pub const fn ack_req(&self) -> bool {
        self.acknowledge & Self::ACK_REQ != 0
    }

    /// Packet sequence number.
    pub const fn psn(&self) -> Psn {
        Psn::new(self.psn.get())
    }
}

fn set(byte: &mut u8, flag: u8, on: bool) {
    if on {
        *byte |= flag;
    } else {
        *byte &= !flag;
    }
}

impl fmt::Display for Bth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "qpn {} psn {}", self.dest_qpn(), self.psn())?;
        if self.pkey() != DEFAULT_PKEY {
            write!(f, " pkey {:#06x}", self.pkey())?;
        }
        let flags = [
            (self.ack_req(), "ackreq"),
            (self.solicited(), "se"),
            (self.mig_req(), "mig"),
            (self.fecn(), "fecn"),
            (self.becn(), "becn"),
        ];
        for (_, name) in flags.iter().filter(|(on, _)| *on) {
            write!(f, " {name}")?;
        }
        if self.transport_version() != 0 {
            write!(f, " tver {}", self.transport_version())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use zerocopy::IntoBytes;

    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    fn example() -> Bth {
        let mut bth = Bth::new(0x04, Qpn::new(0x123456), Psn::new(0xabcdef));
        bth.set_solicited(true);
        bth.set_pad_count(3);
        bth.set_ack_req(true);
        bth
    }

    #[test]
    fn is_twelve_known_bytes() {
        assert_header(example(), &[0x04, 0xb0, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef]);
    }

    #[test]
    fn each_flag_is_its_own_bit() {
        type Setter = fn(&mut Bth, bool);
        let flags: [(Setter, usize, u8); 5] = [
            (Bth::set_solicited, 1, 0x80),
            (Bth::set_mig_req, 1, 0x40),
            (Bth::set_fecn, 4, 0x80),
            (Bth::set_becn, 4, 0x40),
            (Bth::set_ack_req, 8, 0x80),
        ];
        for (set, byte, bit) in flags {
            let clear = Bth::new(0, Qpn::new(0), Psn::new(0));
            let mut bth = clear;
            set(&mut bth, true);
            assert_eq!(bth.as_bytes()[byte] ^ clear.as_bytes()[byte], bit);
            set(&mut bth, false);
            assert_eq!(bth, clear);
        }
    }

    #[test]
    fn reserved_bits_are_accepted_and_not_seen() {
        let mut bytes = [0; Bth::LEN];
        bytes.copy_from_slice(example().as_bytes());
        bytes[4] |= 0x3f;
        bytes[8] |= 0x7f;
        let bth = Bth::read_from_bytes(&bytes).expect("12 bytes");
        assert_eq!(bth.to_string(), example().to_string());
        assert_eq!((bth.fecn(), bth.becn(), bth.ack_req()), (false, false, true));
    }

    #[test]
    fn round_trips_all_but_reserved_bits() {
        let mask = [0xff, 0xff, 0xff, 0xff, 0xc0, 0xff, 0xff, 0xff, 0x80, 0xff, 0xff, 0xff];
        assert_round_trip::<Bth>(&mask, |bth| {
            let mut copy = Bth::new(bth.opcode(), bth.dest_qpn(), bth.psn());
            copy.set_solicited(bth.solicited());
            copy.set_mig_req(bth.mig_req());
            copy.set_pad_count(bth.pad_count());
            copy.set_pkey(bth.pkey());
            copy.set_fecn(bth.fecn());
            copy.set_becn(bth.becn());
            copy.set_ack_req(bth.ack_req());
            copy.flags |= bth.transport_version();
            copy
        });
    }

    #[test]
    fn prints_what_is_out_of_the_ordinary() {
        let mut bth = example();
        assert_eq!(bth.to_string(), "qpn 0x123456 psn 11259375 ackreq se");
        bth.set_pkey(0x7fff);
        bth.set_becn(true);
        assert_eq!(bth.to_string(), "qpn 0x123456 psn 11259375 pkey 0x7fff ackreq se becn");
    }
}
