//! Every header by itself: a `repr(C)` struct of network-endian fields over the bytes as they are sent.
//!
//! None of them needs alignment, so any of them can be read where it lies in a packet.

mod aeth;
mod atomic_ack_eth;
mod atomic_eth;
mod bth;
mod deth;
mod feth;
mod ieth;
mod imm_dt;
mod rdeth;
mod reth;
mod xrceth;

pub use aeth::Aeth;
pub use atomic_ack_eth::AtomicAckEth;
pub use atomic_eth::AtomicEth;
pub use bth::{Bth, DEFAULT_PKEY};
pub use deth::{Deth, GSI_QKEY};
pub use feth::{Feth, FlushSelectivity};
pub use ieth::Ieth;
pub use imm_dt::ImmDt;
pub use rdeth::Rdeth;
pub use reth::Reth;
pub use xrceth::Xrceth;

#[cfg(test)]
mod testing;
