//! Every header by itself: a `repr(C)` struct of network-endian fields over the bytes as they are sent.
//!
//! None of them needs alignment, so any of them can be read where it lies in a packet.

mod aeth;
mod atomic_ack_eth;
mod atomic_eth;
mod bth;
mod deth;
mod ethernet;
mod feth;
mod grh;
mod ieth;
mod imm_dt;
mod ipv4;
mod ipv6;
mod rdeth;
mod reth;
mod udp;
mod xrceth;

pub use aeth::Aeth;
pub use atomic_ack_eth::AtomicAckEth;
pub use atomic_eth::AtomicEth;
pub use bth::{Bth, DEFAULT_PKEY};
pub use deth::{Deth, GSI_QKEY};
pub use ethernet::{EthernetHeader, VlanTag};
pub use feth::{Feth, FlushSelectivity};
pub use grh::Grh;
pub use ieth::Ieth;
pub use imm_dt::ImmDt;
pub use ipv4::Ipv4Header;
pub use ipv6::Ipv6Header;
pub use rdeth::Rdeth;
pub use reth::Reth;
pub use udp::UdpHeader;
pub use xrceth::Xrceth;

/// IP protocol number of UDP.
pub(crate) const PROTOCOL_UDP: u8 = 17;

#[cfg(test)]
pub(crate) mod testing;
