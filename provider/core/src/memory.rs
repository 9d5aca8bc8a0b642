//! The application's memory, as the transport sees it.

#[cfg(doc)]
use crate::AccessFlags;
use thiserror::Error;

/// The caller's name for a protection domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PdId(pub u32);

/// Where bytes are that a key covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Host address.
    pub addr: u64,
    /// What is there.
    pub backing: Backing,
}

/// What is behind a region's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Memory that stays mapped as long as the region exists.
    Mapped,
    /// Memory that is mapped, or not, when it is accessed (on-demand paging, [`AccessFlags::ON_DEMAND`]).
    OnDemand,
    /// Nothing: what is read is zero, what is written is lost (`ibv_alloc_null_mr(3)`).
    Nothing,
}

/// Access to the application's memory. Every key, range and right has been checked before a call, and behind a place
/// there is something.
///
/// Passed in because data must land before the acknowledgement and the completion exist.
pub trait Memory {
    /// Copies `dst.len()` bytes from `place`.
    fn read(&self, place: Place, dst: &mut [u8]) -> Result<(), BadAddress>;
    /// Copies `src` to `place`.
    fn write(&self, place: Place, src: &[u8]) -> Result<(), BadAddress>;
    /// Atomically replaces the u64 (host byte order) at the 8-aligned `place` by `swap` if it equals `compare`;
    /// the value before.
    fn compare_swap(&self, place: Place, compare: u64, swap: u64) -> Result<u64, BadAddress>;
    /// Atomically adds `add`, wrapping, to the u64 (host byte order) at the 8-aligned `place`; the value before.
    fn fetch_add(&self, place: Place, add: u64) -> Result<u64, BadAddress>;
    /// Atomically writes the u64 (host byte order) at the 8-aligned `place`.
    fn store(&self, place: Place, value: u64) -> Result<(), BadAddress>;
    /// Returns when everyone sees what was written to `length` bytes at `place`, and, if `persistent`, when it survives a
    /// loss of power as far as what is behind the memory can do that.
    fn flush(&self, place: Place, length: u64, persistent: bool) -> Result<(), BadAddress>;
}

impl Place {
    /// Memory that stays mapped.
    pub const fn mapped(addr: u64) -> Place {
        Place { addr, backing: Backing::Mapped }
    }

    /// Reads what is there, or zeros.
    pub(crate) fn read(self, dst: &mut [u8], memory: &impl Memory) -> Result<(), BadAddress> {
        if self.backing == Backing::Nothing {
            dst.fill(0);
            return Ok(());
        }
        memory.read(self, dst)
    }

    /// Writes, if there is something to write to.
    pub(crate) fn write(self, src: &[u8], memory: &impl Memory) -> Result<(), BadAddress> {
        if self.backing == Backing::Nothing { Ok(()) } else { memory.write(self, src) }
    }
}

/// The address is not mapped (any more) although a region covers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("address {addr:#x} inside a registered region is not mapped, or not writable")]
pub struct BadAddress {
    /// The first address of the access.
    pub addr: u64,
}
