//! The memory of a virtual host: buffers at addresses, and nothing in between.

use ferroce_core::{BadAddress, Memory, Place};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A host's memory. What was not allocated is not mapped, and no two buffers touch, so that an access beyond the
/// end of one fails instead of hitting the next.
#[derive(Debug)]
pub struct HostMemory {
    /// Bytes by the address of the first.
    buffers: RefCell<BTreeMap<u64, Vec<u8>>>,
    next: u64,
    /// What the device did to it, if somebody wants to know.
    accesses: Option<RefCell<Vec<Access>>>,
}

/// An access of a device to the memory of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// What it did.
    pub kind: AccessKind,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: usize,
}

/// What a device does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It changes a word atomically.
    Atomic,
}

impl HostMemory {
    /// Where the first buffer lies.
    pub const BASE: u64 = 0x7f00_0000_0000;

    /// Memory without buffers.
    pub fn new() -> HostMemory {
        HostMemory { buffers: RefCell::default(), next: Self::BASE, accesses: None }
    }

    /// Allocates `len` zero bytes; their address, a multiple of 4096.
    pub fn alloc(&mut self, len: usize) -> u64 {
        let addr = self.next;
        self.next += (len as u64).next_multiple_of(PAGE) + PAGE;
        self.buffers.get_mut().insert(addr, vec![0; len]);
        addr
    }

    /// Frees the buffer that begins at `addr`: from now on it is not mapped, and its address is not used again.
    /// Whether there was one.
    pub fn free(&mut self, addr: u64) -> bool {
        self.buffers.get_mut().remove(&addr).is_some()
    }

    /// The bytes `addr .. addr + len`.
    ///
    /// # Errors
    /// [`BadAddress`] if not all of them are in one buffer.
    pub fn get(&self, addr: u64, len: usize) -> Result<Vec<u8>, BadAddress> {
        self.with(addr, len, |bytes| bytes.to_vec())
    }

    /// Puts `bytes` to `addr`.
    ///
    /// # Errors
    /// [`BadAddress`] if not all of them are in one buffer.
    pub fn put(&self, addr: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        self.with(addr, bytes.len(), |place| place.copy_from_slice(bytes))
    }

    /// Keeps a record of every access of the device from now on.
    pub fn record_accesses(&mut self) {
        self.accesses.get_or_insert_default();
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.accesses.is_some()
    }

    /// The accesses since the last call, in their order; the failed ones too.
    pub fn take_accesses(&self) -> Vec<Access> {
        self.accesses.as_ref().map(RefCell::take).unwrap_or_default()
    }

    fn record(&self, kind: AccessKind, addr: u64, len: usize) {
        if let Some(accesses) = &self.accesses {
            accesses.borrow_mut().push(Access { kind, addr, len });
        }
    }

    fn with<T>(&self, addr: u64, len: usize, access: impl FnOnce(&mut [u8]) -> T) -> Result<T, BadAddress> {
        let mut buffers = self.buffers.borrow_mut();
        let (start, bytes) = buffers.range_mut(..=addr).next_back().ok_or(BadAddress { addr })?;
        let offset = usize::try_from(addr - start).map_err(|_| BadAddress { addr })?;
        let end = offset.checked_add(len).ok_or(BadAddress { addr })?;
        bytes.get_mut(offset..end).map(access).ok_or(BadAddress { addr })
    }

    fn word(&self, addr: u64, change: impl FnOnce(u64) -> u64) -> Result<u64, BadAddress> {
        self.record(AccessKind::Atomic, addr, size_of::<u64>());
        self.with(addr, size_of::<u64>(), |bytes| {
            let mut word = [0; size_of::<u64>()];
            word.copy_from_slice(bytes);
            let before = u64::from_ne_bytes(word);
            bytes.copy_from_slice(&change(before).to_ne_bytes());
            before
        })
    }
}

impl Default for HostMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory for HostMemory {
    fn read(&self, Place { addr, .. }: Place, dst: &mut [u8]) -> Result<(), BadAddress> {
        self.record(AccessKind::Read, addr, dst.len());
        self.with(addr, dst.len(), |bytes| dst.copy_from_slice(bytes))
    }

    fn write(&self, Place { addr, .. }: Place, src: &[u8]) -> Result<(), BadAddress> {
        self.record(AccessKind::Write, addr, src.len());
        self.put(addr, src)
    }

    fn compare_swap(&self, Place { addr, .. }: Place, compare: u64, swap: u64) -> Result<u64, BadAddress> {
        self.word(addr, |before| if before == compare { swap } else { before })
    }

    fn fetch_add(&self, Place { addr, .. }: Place, add: u64) -> Result<u64, BadAddress> {
        self.word(addr, |before| before.wrapping_add(add))
    }

    fn store(&self, Place { addr, .. }: Place, value: u64) -> Result<(), BadAddress> {
        self.word(addr, |_| value).map(|_| ())
    }

    /// Everyone sees what was written, and there is no power to lose.
    fn flush(&self, Place { addr, .. }: Place, length: u64, _persistent: bool) -> Result<(), BadAddress> {
        self.with(addr, usize::try_from(length).map_err(|_| BadAddress { addr })?, |_| ())
    }
}

/// Buffers begin at multiples of this, and at least as much lies between them.
const PAGE: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_mapped_but_the_buffers() {
        let mut memory = HostMemory::new();
        let (a, b) = (memory.alloc(10), memory.alloc(5000));
        assert!(b > a + 4096 && a.is_multiple_of(4096) && b.is_multiple_of(4096));
        assert_eq!(memory.put(a + 2, &[1, 2, 3]), Ok(()));
        assert_eq!(memory.get(a, 10), Ok(vec![0, 0, 1, 2, 3, 0, 0, 0, 0, 0]));
        for (addr, len) in [(a - 1, 1), (a, 11), (a + 10, 1), (b + 4999, 2), (u64::MAX, 2), (0, 1)] {
            assert_eq!(memory.get(addr, len), Err(BadAddress { addr }), "{addr:#x} + {len}");
        }
        assert!(memory.free(a) && !memory.free(a));
        assert_eq!(memory.get(a, 1), Err(BadAddress { addr: a }));
        assert!(memory.alloc(1) > b, "an address is not used again");
    }

    #[test]
    fn accesses_of_the_device_are_recorded_and_those_of_the_host_are_not() {
        let mut memory = HostMemory::new();
        let a = memory.alloc(16);
        assert_eq!(memory.write(Place::mapped(a), &[1]), Ok(()));
        memory.record_accesses();
        assert_eq!(memory.put(a, &[1]), Ok(()));
        assert_eq!(memory.write(Place::mapped(a + 1), &[1, 2]), Ok(()));
        assert_eq!(memory.read(Place::mapped(a), &mut [0; 3]), Ok(()));
        assert_eq!(memory.fetch_add(Place::mapped(a + 8), 1), Ok(0));
        assert!(memory.write(Place::mapped(0), &[1]).is_err());
        let seen: Vec<_> =
            memory.take_accesses().iter().map(|access| (access.kind, access.addr, access.len)).collect();
        let expected = [
            (AccessKind::Write, a + 1, 2),
            (AccessKind::Read, a, 3),
            (AccessKind::Atomic, a + 8, 8),
            (AccessKind::Write, 0, 1),
        ];
        assert_eq!(seen, expected);
        assert_eq!(memory.take_accesses(), []);
    }

    #[test]
    fn atomics_give_the_value_before() {
        let mut memory = HostMemory::new();
        let a = memory.alloc(16);
        assert_eq!(memory.fetch_add(Place::mapped(a + 8), 5), Ok(0));
        assert_eq!(memory.compare_swap(Place::mapped(a + 8), 4, 9), Ok(5));
        assert_eq!(memory.compare_swap(Place::mapped(a + 8), 5, 9), Ok(5));
        assert_eq!(memory.get(a + 8, 8), Ok(9u64.to_ne_bytes().to_vec()));
        assert_eq!(memory.fetch_add(Place::mapped(a + 9), 1), Err(BadAddress { addr: a + 9 }));
    }
}
