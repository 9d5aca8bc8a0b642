//! A received packet, checked once: what lies behind the UDP header (or the GRH), from the BTH to the ICRC.

use core::fmt;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::opcode::{Header, Opcode, Operation};
use crate::{Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, ICRC_LEN, Ieth, ImmDt, Rdeth, Reth, Xrceth};

/// A packet whose opcode is known and whose headers, pad and ICRC fit into its length.
///
/// Nothing else is checked: not the ICRC ([`crate::icrc`]), not the payload's length against the path MTU
/// ([`crate::PayloadRule`]), not the fields.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    opcode: Opcode,
    bth: &'a Bth,
    extended: &'a [u8],
    payload: &'a [u8],
    icrc: [u8; ICRC_LEN],
}

impl<'a> Packet<'a> {
    /// The least a packet has: BTH and ICRC.
    pub const MIN_LEN: usize = Bth::LEN + ICRC_LEN;

    /// Looks at a UDP payload as a packet.
    ///
    /// # Errors
    /// What is wrong with it. All of these packets are to be dropped silently and counted.
    pub fn parse(udp_payload: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let too_short = |need| ParseError::TooShort { len: udp_payload.len(), need };
        let (bth, rest) = Bth::ref_from_prefix(udp_payload).map_err(|_| too_short(Self::MIN_LEN))?;
        if bth.transport_version() != 0 {
            return Err(ParseError::TransportVersion(bth.transport_version()));
        }
        let opcode = Opcode::from_u8(bth.opcode()).ok_or(ParseError::UnknownOpcode(bth.opcode()))?;
        let need = opcode.header_len() + ICRC_LEN;
        let (extended, rest) =
            rest.split_at_checked(opcode.header_len() - Bth::LEN).ok_or(too_short(need))?;
        let (padded, icrc) = rest.split_last_chunk::<ICRC_LEN>().ok_or(too_short(need))?;
        let pad = bth.pad_count();
        let payload_len = padded
            .len()
            .checked_sub(usize::from(pad))
            .ok_or(ParseError::PadExceedsPayload { pad, room: padded.len() })?;
        Ok(Packet { opcode, bth, extended, payload: &padded[..payload_len], icrc: *icrc })
    }

    /// The base transport header.
    pub fn bth(&self) -> &'a Bth {
        self.bth
    }

    /// The opcode.
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// The extended headers as they came.
    pub fn extended_headers(&self) -> &'a [u8] {
        self.extended
    }

    /// The payload without the pad.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Pad bytes behind the payload, 0 to 3.
    pub fn pad_count(&self) -> u8 {
        self.bth.pad_count()
    }

    /// The ICRC as it came.
    pub fn icrc(&self) -> [u8; ICRC_LEN] {
        self.icrc
    }

    /// Whether it is a congestion notification, which never touches a queue pair's transport state.
    pub fn is_cnp(&self) -> bool {
        self.opcode.operation() == Operation::Cnp
    }

    /// The RDETH, if the opcode carries one.
    pub fn rdeth(&self) -> Option<&'a Rdeth> {
        self.header(Header::Rdeth)
    }

    /// The DETH, if the opcode carries one.
    pub fn deth(&self) -> Option<&'a Deth> {
        self.header(Header::Deth)
    }

    /// The XRCETH, if the opcode carries one.
    pub fn xrceth(&self) -> Option<&'a Xrceth> {
        self.header(Header::Xrceth)
    }

    /// The FETH, if the opcode carries one.
    pub fn feth(&self) -> Option<&'a Feth> {
        self.header(Header::Feth)
    }

    /// The RETH, if the opcode carries one.
    pub fn reth(&self) -> Option<&'a Reth> {
        self.header(Header::Reth)
    }

    /// The AtomicETH, if the opcode carries one.
    pub fn atomic_eth(&self) -> Option<&'a AtomicEth> {
        self.header(Header::AtomicEth)
    }

    /// The AETH, if the opcode carries one.
    pub fn aeth(&self) -> Option<&'a Aeth> {
        self.header(Header::Aeth)
    }

    /// The AtomicAckETH, if the opcode carries one.
    pub fn atomic_ack_eth(&self) -> Option<&'a AtomicAckEth> {
        self.header(Header::AtomicAckEth)
    }

    /// The immediate data in wire order, if the opcode carries any.
    pub fn imm(&self) -> Option<[u8; 4]> {
        self.header::<ImmDt>(Header::ImmDt).map(ImmDt::bytes)
    }

    /// The IETH, if the opcode carries one.
    pub fn ieth(&self) -> Option<&'a Ieth> {
        self.header(Header::Ieth)
    }

    fn header<T: FromBytes + KnownLayout + Immutable + Unaligned>(&self, header: Header) -> Option<&'a T> {
        let offset = self.opcode.headers().offset_of(header)?;
        T::ref_from_prefix(self.extended.get(offset..)?).ok().map(|(found, _)| found)
    }
}

/// Why some bytes are no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer bytes than the headers and the ICRC take.
    TooShort {
        /// Bytes there are.
        len: usize,
        /// Bytes there must be at least.
        need: usize,
    },
    /// A transport header version other than 0.
    TransportVersion(u8),
    /// An opcode that means nothing.
    UnknownOpcode(u8),
    /// More pad bytes than there are bytes between headers and ICRC.
    PadExceedsPayload {
        /// PadCnt.
        pad: u8,
        /// Bytes between headers and ICRC.
        room: usize,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ParseError::TooShort { len, need } => {
                write!(f, "{len} bytes, where headers and ICRC take {need}")
            }
            ParseError::TransportVersion(version) => {
                write!(f, "transport header version {version}, where only 0 exists")
            }
            ParseError::UnknownOpcode(opcode) => write!(f, "unknown opcode {opcode:#04x}"),
            ParseError::PadExceedsPayload { pad, room } => {
                write!(f, "pad count {pad}, where only {room} bytes lie between headers and ICRC")
            }
        }
    }
}

impl core::error::Error for ParseError {}

/// One line in tcpdump's manner: `RC_SEND_ONLY qpn 0x000011 psn 49438 ackreq, length 100`.
impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.opcode, self.bth)?;
        for header in self.opcode.headers().iter() {
            match header {
                Header::Rdeth => write_header(f, self.rdeth())?,
                Header::Deth => write_header(f, self.deth())?,
                Header::Xrceth => write_header(f, self.xrceth())?,
                Header::Feth => write_header(f, self.feth())?,
                Header::Reth => write_header(f, self.reth())?,
                Header::AtomicEth => write_header(f, self.atomic_eth())?,
                Header::Aeth => write_header(f, self.aeth())?,
                Header::AtomicAckEth => write_header(f, self.atomic_ack_eth())?,
                Header::ImmDt => write_header(f, self.imm().map(ImmDt::new).as_ref())?,
                Header::Ieth => write_header(f, self.ieth())?,
                Header::CnpReserved => {}
            }
        }
        write!(f, ", length {}", self.payload.len())?;
        if self.pad_count() != 0 {
            write!(f, " pad {}", self.pad_count())?;
        }
        Ok(())
    }
}

fn write_header<T: fmt::Display>(f: &mut fmt::Formatter<'_>, header: Option<&T>) -> fmt::Result {
    match header {
        Some(header) => write!(f, ", {header}"),
        None => Ok(()),
    }
}

impl fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({self})")
    }
}

#[cfg(test)]
mod tests;
