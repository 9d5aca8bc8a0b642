//! RoCEv2 on the wire: every header, opcode and checksum, and nothing that acts on them.
//!
//! Everything here is a pure function of bytes. Sequence numbers wrap, lengths are checked before they are
//! used, and a packet that parses can be taken apart without a further check.
//!
//! Receiving: [`Packet::parse`], then [`icrc::verify`]. Sending: [`PacketHeader`], then [`icrc::seal`]. A frame of a
//! capture: [`frame::Frame`].
//!
//! ```
//! use ferroce_wire::icrc::{self, IpContext};
//! use ferroce_wire::{Opcode, Packet, PacketHeader, Psn, Qpn};
//!
//! // Identification 0 is what an unconnected Linux socket sends.
//! let ip = IpContext::V4 { src: [127, 0, 0, 1], dst: [127, 0, 0, 1], id: 0, source_port: 0xc000 };
//! let header = PacketHeader::new(Opcode::RC_SEND_ONLY, Qpn::new(0x11), Psn::new(5)).ack_req(true);
//!
//! let mut datagram = vec![0; header.packet_len(5)];
//! header.write(&mut datagram, 5).copy_from_slice(b"hello");
//! icrc::seal(&ip, &mut datagram);
//!
//! let packet = Packet::parse(&datagram)?;
//! assert_eq!(icrc::verify(&ip, &datagram), Ok(()));
//! assert_eq!(packet.payload(), b"hello");
//! assert_eq!(packet.to_string(), "RC_SEND_ONLY qpn 0x000011 psn 5 ackreq mig, length 5 pad 3");
//! # Ok::<(), ferroce_wire::ParseError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod cm;
pub mod frame;
mod header;
pub mod icrc;
pub mod mad;
mod number;
mod opcode;
mod packet;
mod packet_header;
mod syndrome;
mod timer;
mod u24;

pub use header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, DEFAULT_PKEY, Deth, EthernetHeader, Feth, FlushSelectivity, GSI_QKEY,
    Grh, Ieth, ImmDt, Ipv4Header, Ipv6Header, Rdeth, Reth, UdpHeader, VlanTag, Xrceth,
};
pub use number::{Psn, Qpn};
pub use opcode::{Header, Headers, Opcode, Operation, PayloadRule, Position, Service};
pub use packet::{Packet, ParseError};
pub use packet_header::PacketHeader;
pub use syndrome::{NakCode, Syndrome};
pub use timer::{ack_timeout_ns, rnr_timer_ns};

/// The UDP destination port of RoCEv2.
pub const ROCE_UDP_PORT: u16 = 4791;

/// Length of the invariant CRC at the end of every packet, in bytes.
pub const ICRC_LEN: usize = 4;
