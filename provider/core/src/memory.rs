//! The application's memory, as the transport sees it.

use thiserror::Error;

/// The caller's name for a protection domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PdId(pub u32);

/// Access to raw addresses. Every key, range and right has been checked before a call.
///
/// Passed in because data must land before the acknowledgement and the completion exist.
pub trait Memory {
    /// Copies `dst.len()` bytes from `addr`.
    fn read(&self, addr: u64, dst: &mut [u8]) -> Result<(), BadAddress>;
    /// Copies `src` to `addr`.
    fn write(&self, addr: u64, src: &[u8]) -> Result<(), BadAddress>;
    /// Atomically replaces the u64 (host byte order) at the 8-aligned `addr` by `swap` if it equals `compare`;
    /// the value before.
    fn compare_swap(&self, addr: u64, compare: u64, swap: u64) -> Result<u64, BadAddress>;
    /// Atomically adds `add`, wrapping, to the u64 (host byte order) at the 8-aligned `addr`; the value before.
    fn fetch_add(&self, addr: u64, add: u64) -> Result<u64, BadAddress>;
}

/// The address is not mapped (any more) although a region covers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("address {addr:#x} inside a registered region is not mapped")]
pub struct BadAddress {
    /// The first address of the access.
    pub addr: u64,
}
