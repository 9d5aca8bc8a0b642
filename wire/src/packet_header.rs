//! The headers of a packet to be sent, and how they are laid down in front of its payload.

use zerocopy::{Immutable, IntoBytes};

use crate::opcode::{Header, Headers, Opcode};
use crate::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, ICRC_LEN, Ieth, ImmDt, Packet, Psn, Qpn, Rdeth, Reth,
    Syndrome, Xrceth,
};

/// BTH and extended headers of one opcode, kept as the bytes they will be.
///
/// The setters of extended headers do nothing where the opcode does not carry that header: the opcode table decides
/// what a packet looks like, and the same chain of calls serves FIRST, MIDDLE and LAST.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PacketHeader {
    opcode: Opcode,
    bth: Bth,
    extended: [u8; MAX_EXTENDED_LEN],
}

impl PacketHeader {
    /// A packet of `opcode` with the default partition key, MigReq set and every other field 0.
    ///
    /// MigReq is set because 1 is the normal state of a queue pair without an alternate path, and what hardware
    /// sends. A congestion notification has it clear (CA17-44).
    pub fn new(opcode: Opcode, dest_qpn: Qpn, psn: Psn) -> Self {
        let mut bth = Bth::new(opcode.as_u8(), dest_qpn, psn);
        bth.set_mig_req(opcode != Opcode::CNP);
        PacketHeader { opcode, bth, extended: [0; MAX_EXTENDED_LEN] }
    }

    /// Sets the solicited event flag.
    #[must_use]
    pub fn solicited(mut self, on: bool) -> Self {
        self.bth.set_solicited(on);
        self
    }

    /// Sets MigReq.
    #[must_use]
    pub fn mig_req(mut self, on: bool) -> Self {
        self.bth.set_mig_req(on);
        self
    }

    /// Sets the partition key.
    #[must_use]
    pub fn pkey(mut self, pkey: u16) -> Self {
        self.bth.set_pkey(pkey);
        self
    }

    /// Sets FECN.
    #[must_use]
    pub fn fecn(mut self, on: bool) -> Self {
        self.bth.set_fecn(on);
        self
    }

    /// Sets BECN.
    #[must_use]
    pub fn becn(mut self, on: bool) -> Self {
        self.bth.set_becn(on);
        self
    }

    /// Sets AckReq.
    #[must_use]
    pub fn ack_req(mut self, on: bool) -> Self {
        self.bth.set_ack_req(on);
        self
    }

    /// Sets the RDETH.
    #[must_use]
    pub fn rdeth(self, ee_context: u32) -> Self {
        self.with(Header::Rdeth, Rdeth::new(ee_context))
    }

    /// Sets the DETH.
    #[must_use]
    pub fn deth(self, qkey: u32, source_qpn: Qpn) -> Self {
        self.with(Header::Deth, Deth::new(qkey, source_qpn))
    }

    /// Sets the XRCETH.
    #[must_use]
    pub fn xrceth(self, srqn: u32) -> Self {
        self.with(Header::Xrceth, Xrceth::new(srqn))
    }

    /// Sets the FETH.
    #[must_use]
    pub fn feth(self, feth: Feth) -> Self {
        self.with(Header::Feth, feth)
    }

    /// Sets the RETH.
    #[must_use]
    pub fn reth(self, va: u64, rkey: u32, dma_length: u32) -> Self {
        self.with(Header::Reth, Reth::new(va, rkey, dma_length))
    }

    /// Sets the AtomicETH.
    #[must_use]
    pub fn atomic_eth(self, va: u64, rkey: u32, swap_or_add: u64, compare: u64) -> Self {
        self.with(Header::AtomicEth, AtomicEth::new(va, rkey, swap_or_add, compare))
    }

    /// Sets the AETH.
    #[must_use]
    pub fn aeth(self, syndrome: Syndrome, msn: u32) -> Self {
        self.with(Header::Aeth, Aeth::new(syndrome, msn))
    }

    /// Sets the AtomicAckETH.
    #[must_use]
    pub fn atomic_ack_eth(self, original: u64) -> Self {
        self.with(Header::AtomicAckEth, AtomicAckEth::new(original))
    }

    /// Sets the immediate data, in wire order.
    #[must_use]
    pub fn imm(self, bytes: [u8; 4]) -> Self {
        self.with(Header::ImmDt, ImmDt::new(bytes))
    }

    /// Sets the IETH.
    #[must_use]
    pub fn ieth(self, rkey: u32) -> Self {
        self.with(Header::Ieth, Ieth::new(rkey))
    }

    fn with<T: IntoBytes + Immutable>(mut self, header: Header, value: T) -> Self {
        if let Some(offset) = self.opcode.headers().offset_of(header) {
            self.extended[offset..][..size_of::<T>()].copy_from_slice(value.as_bytes());
        }
        self
    }

    /// The opcode.
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// The base transport header; PadCnt is set only when the packet is written.
    pub fn bth(&self) -> &Bth {
        &self.bth
    }

    /// Length of BTH and extended headers in bytes: where the payload begins.
    pub fn header_len(&self) -> usize {
        self.opcode.header_len()
    }

    /// Length of the UDP payload: headers, `payload_len` bytes, pad and ICRC.
    pub fn packet_len(&self, payload_len: usize) -> usize {
        self.header_len() + payload_len + pad_len(payload_len) + ICRC_LEN
    }

    /// Writes headers (with PadCnt) and zero pad bytes of a packet with `payload_len` bytes of payload to the start of
    /// `buffer`, and returns where the payload belongs. The ICRC's bytes are left alone; see [`crate::icrc::seal`].
    ///
    /// # Panics
    /// If `buffer` is shorter than [`PacketHeader::packet_len`].
    pub fn write<'a>(&self, buffer: &'a mut [u8], payload_len: usize) -> &'a mut [u8] {
        let pad = pad_len(payload_len);
        let mut bth = self.bth;
        bth.set_pad_count(pad as u8);
        let (headers, rest) = buffer[..self.packet_len(payload_len)].split_at_mut(self.header_len());
        let (base, extended) = headers.split_at_mut(Bth::LEN);
        base.copy_from_slice(bth.as_bytes());
        extended.copy_from_slice(&self.extended[..extended.len()]);
        let (payload, rest) = rest.split_at_mut(payload_len);
        rest[..pad].fill(0);
        payload
    }
}

/// The headers of a packet as they came, reserved bits included.
impl From<&Packet<'_>> for PacketHeader {
    fn from(packet: &Packet<'_>) -> Self {
        let mut extended = [0; MAX_EXTENDED_LEN];
        extended[..packet.extended_headers().len()].copy_from_slice(packet.extended_headers());
        PacketHeader { opcode: packet.opcode(), bth: *packet.bth(), extended }
    }
}

impl core::fmt::Debug for PacketHeader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let extended = &self.extended[..self.header_len() - Bth::LEN];
        write!(f, "PacketHeader({} {}, extended {extended:02x?})", self.opcode, self.bth)
    }
}

/// Pad bytes behind a payload: what is missing to a multiple of four.
const fn pad_len(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

/// The longest row of extended headers: RD atomics.
const MAX_EXTENDED_LEN: usize = Headers::of(&[Header::Rdeth, Header::Deth, Header::AtomicEth]).byte_len();

#[cfg(test)]
mod tests;
