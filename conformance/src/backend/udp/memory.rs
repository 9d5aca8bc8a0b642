//! An endpoint's memory, which the engine's thread and a case touch at the same time: bytes that this side only ever
//! accesses atomically.

use super::refuse::unknown;
use crate::verbs::{Errno, MrChange, MrSpec, Refused};
use ferroce::{Mr, Pd};
use std::sync::atomic::{AtomicU8, Ordering};

/// Buffers, and the regions in them.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Declared before the buffers that they lie in, so that they are gone when those are freed.
    regions: Vec<Option<Mr>>,
    /// Never taken out again.
    buffers: Vec<Buffer>,
}

impl Memory {
    /// Allocates `len` zero bytes; their address.
    pub(super) fn alloc(&mut self, len: usize) -> u64 {
        self.buffers.push(Buffer::new(len));
        self.buffers.last().map_or(0, Buffer::addr)
    }

    /// # Panics
    /// If the bytes do not lie in a buffer.
    pub(super) fn write(&self, addr: u64, bytes: &[u8]) {
        let buffer = self.buffer(addr, bytes.len() as u64).expect("cases write where they allocated");
        for (offset, byte) in bytes.iter().enumerate() {
            buffer.cell(addr + offset as u64).store(*byte, Ordering::Relaxed);
        }
    }

    /// # Panics
    /// If the bytes do not lie in a buffer.
    pub(super) fn read(&self, addr: u64, len: usize) -> Vec<u8> {
        let buffer = self.buffer(addr, len as u64).expect("cases read where they allocated");
        (0..len as u64).map(|offset| buffer.cell(addr + offset).load(Ordering::Relaxed)).collect()
    }

    /// Registers memory; the number of the region.
    pub(super) fn register(&mut self, pd: &Pd, spec: &MrSpec) -> Result<usize, Refused> {
        let MrSpec { addr, length, iova, access } = *spec;
        self.check(addr, length)?;
        // SAFETY: the range lies in a buffer of ours, which lives longer than the region and is only accessed through
        // atomics; or no process can map it, so that the call fails.
        let mr = unsafe { pd.reg_mr(addr, length, iova, access) }?;
        Ok(self.keep(mr))
    }

    /// Keeps a region; its number.
    pub(super) fn keep(&mut self, mr: Mr) -> usize {
        self.regions.push(Some(mr));
        self.regions.len() - 1
    }

    /// Changes the region with that number.
    pub(super) fn reregister(
        &self,
        number: usize,
        pd: Option<&Pd>,
        change: &MrChange,
    ) -> Result<(), Refused> {
        let mr = self.region(number).ok_or_else(|| unknown("MR"))?;
        if let Some((addr, length)) = change.memory {
            self.check(addr, length)?;
        }
        let change = ferroce::MrChange { pd, memory: change.memory, access: change.access };
        // SAFETY: as in `register`.
        Ok(unsafe { mr.rereg(&change) }?)
    }

    /// What a case may register.
    fn check(&self, addr: u64, length: u64) -> Result<(), Refused> {
        if length == 0 || self.buffer(addr, length).is_some() || is_never_mapped(addr, length) {
            return Ok(());
        }
        let reason =
            "not memory of this endpoint: a case may register what it allocated, or what nobody can have";
        Err(Refused { errno: Errno::EFAULT, reason: reason.into() })
    }

    /// The region with that number.
    pub(super) fn region(&self, number: usize) -> Option<&Mr> {
        self.regions.get(number)?.as_ref()
    }

    /// Deregisters the region with that number.
    pub(super) fn deregister(&mut self, number: usize) -> Result<(), Refused> {
        self.region(number).ok_or_else(|| unknown("MR"))?.close()?;
        self.regions[number] = None;
        Ok(())
    }

    fn buffer(&self, addr: u64, len: u64) -> Option<&Buffer> {
        self.buffers.iter().find(|buffer| buffer.holds(addr, len))
    }
}

/// Pages of memory.
#[derive(Debug)]
struct Buffer {
    pages: Box<[Page]>,
}

#[derive(Debug)]
#[repr(C, align(4096))]
struct Page([AtomicU8; PAGE]);

impl Buffer {
    /// At least `len` bytes, and one page in any case.
    fn new(len: usize) -> Buffer {
        let pages = (0..len.div_ceil(PAGE).max(1)).map(|_| Page([const { AtomicU8::new(0) }; PAGE]));
        Buffer { pages: pages.collect() }
    }

    fn addr(&self) -> u64 {
        self.pages.as_ptr() as u64
    }

    fn holds(&self, addr: u64, len: u64) -> bool {
        let size = (self.pages.len() * PAGE) as u64;
        addr.checked_sub(self.addr()).is_some_and(|offset| offset <= size && len <= size - offset)
    }

    /// The byte at `addr`, which is in it.
    fn cell(&self, addr: u64) -> &AtomicU8 {
        let offset = (addr - self.addr()) as usize;
        &self.pages[offset / PAGE].0[offset % PAGE]
    }
}

/// Whether no process can have all of these bytes: the first page is not for mapping, nor is anything from 2^47 on.
fn is_never_mapped(addr: u64, length: u64) -> bool {
    addr < PAGE as u64 || addr.checked_add(length).is_none_or(|end| end > 1 << 47)
}

const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_buffers_end_where_they_end() {
        let mut memory = Memory::default();
        let addr = memory.alloc(5000);
        memory.write(addr + 4090, b"across a page");
        assert_eq!(memory.read(addr + 4088, 8), [0, 0, b'a', b'c', b'r', b'o', b's', b's']);
        let buffer = &memory.buffers[0];
        assert!(buffer.holds(addr, 8192) && buffer.holds(addr + 8192, 0));
        assert!(!buffer.holds(addr, 8193) && !buffer.holds(addr - 1, 1) && !buffer.holds(addr + 1, u64::MAX));
    }

    #[test]
    fn what_nobody_can_have_is_told_from_what_others_have() {
        assert!(is_never_mapped(0, 1) && is_never_mapped(1 << 47, 1) && is_never_mapped(u64::MAX, 2));
        assert!(!is_never_mapped(1 << 20, 4096));
    }
}
