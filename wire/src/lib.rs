//! RoCEv2 on the wire: every header, opcode and checksum, and nothing that acts on them.
//!
//! Everything here is a pure function of bytes. Sequence numbers wrap, lengths are checked before they are
//! used, and a packet that parses can be taken apart without a further check.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod number;

pub use number::{Psn, Qpn};
