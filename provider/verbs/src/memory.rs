//! The application's memory: raw addresses, shared at all times with code that is not ours.
//!
//! No Rust reference to application memory ever exists; bytes are copied in and out through raw pointers.
//! The transport has checked key, range and rights before it calls, and [`crate::Pd::reg_mr`] obliges its
//! caller to keep a registered region mapped, so the accesses here touch mapped memory. An application that
//! breaks that promise gets SIGSEGV, unless `FERROCE_CHECK_MEMORY=1` makes every access a system call that
//! fails in its place.

use ferroce_core::{BadAddress, Memory};
use std::sync::atomic::{AtomicU64, Ordering};

/// How application memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AppMemory {
    /// By loads and stores.
    Direct,
    /// By `process_vm_readv(2)` and `process_vm_writev(2)` on the process itself.
    Checked,
}

impl Memory for AppMemory {
    fn read(&self, addr: u64, dst: &mut [u8]) -> Result<(), BadAddress> {
        match self {
            AppMemory::Direct => {
                // SAFETY: the region's registrar keeps addr..addr+len mapped and readable until it is
                // deregistered, which waits for the engine; `dst` is ours, so the two do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(addr as *const u8, dst.as_mut_ptr(), dst.len()) };
                Ok(())
            }
            AppMemory::Checked => checked_copy(addr, dst.as_mut_ptr(), dst.len(), Direction::In),
        }
    }

    fn write(&self, addr: u64, src: &[u8]) -> Result<(), BadAddress> {
        match self {
            AppMemory::Direct => {
                // SAFETY: as in `read`; the region was registered with LOCAL_WRITE, so it is writable.
                unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), addr as *mut u8, src.len()) };
                Ok(())
            }
            AppMemory::Checked => checked_copy(addr, src.as_ptr().cast_mut(), src.len(), Direction::Out),
        }
    }

    fn compare_swap(&self, addr: u64, compare: u64, swap: u64) -> Result<u64, BadAddress> {
        let cell = self.atomic_cell(addr)?;
        Ok(match cell.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(old) | Err(old) => old,
        })
    }

    fn fetch_add(&self, addr: u64, add: u64) -> Result<u64, BadAddress> {
        Ok(self.atomic_cell(addr)?.fetch_add(add, Ordering::SeqCst))
    }
}

impl AppMemory {
    /// The 64-bit cell at `addr`, which the caller has checked to be inside a region.
    fn atomic_cell(&self, addr: u64) -> Result<&AtomicU64, BadAddress> {
        if !addr.is_multiple_of(8) {
            return Err(BadAddress { addr });
        }
        if *self == AppMemory::Checked {
            let mut probe = [0u8; 8];
            checked_copy(addr, probe.as_mut_ptr(), probe.len(), Direction::In)?;
        }
        // SAFETY: aligned above, and mapped and writable by the registrar's promise. Every access of ours is
        // atomic; the application's own are outside the language's model, as with a card's DMA.
        Ok(unsafe { AtomicU64::from_ptr(addr as *mut u64) })
    }
}

/// Whether bytes come from the application's memory or go there.
#[derive(Clone, Copy)]
enum Direction {
    In,
    Out,
}

/// Copies through the kernel, which answers an unmapped address with an error instead of a signal.
fn checked_copy(addr: u64, ours: *mut u8, len: usize, direction: Direction) -> Result<(), BadAddress> {
    let local = libc::iovec { iov_base: ours.cast(), iov_len: len };
    let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: len };
    let pid = std::process::id() as libc::pid_t;
    let copied = match direction {
        // SAFETY: `local` is a buffer of ours of `len` bytes; the remote side is checked by the kernel.
        Direction::In => unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) },
        // SAFETY: as above; the local side is only read.
        Direction::Out => unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) },
    };
    if usize::try_from(copied) == Ok(len) { Ok(()) } else { Err(BadAddress { addr }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_access_move_the_same_bytes() {
        for memory in [AppMemory::Direct, AppMemory::Checked] {
            let mut theirs = [0u8; 64];
            let addr = theirs.as_mut_ptr() as u64;
            memory.write(addr + 3, &[1, 2, 3]).expect("mapped");
            let mut back = [0u8; 5];
            memory.read(addr + 2, &mut back).expect("mapped");
            assert_eq!(back, [0, 1, 2, 3, 0]);
        }
    }

    #[test]
    fn atomics_answer_the_value_before() {
        for memory in [AppMemory::Direct, AppMemory::Checked] {
            let mut cell = 5u64;
            let addr = (&raw mut cell) as u64;
            assert_eq!(memory.fetch_add(addr, 3), Ok(5));
            assert_eq!(memory.compare_swap(addr, 8, 100), Ok(8));
            assert_eq!(memory.compare_swap(addr, 8, 7), Ok(100));
            assert_eq!(memory.fetch_add(addr, u64::MAX), Ok(100));
            assert_eq!(memory.fetch_add(addr, 0), Ok(99));
            assert_eq!(memory.fetch_add(addr + 1, 0), Err(BadAddress { addr: addr + 1 }));
        }
    }

    #[test]
    fn checked_access_to_an_unmapped_page_is_an_error() {
        let memory = AppMemory::Checked;
        let mut dst = [0u8; 4];
        assert_eq!(memory.read(8, &mut dst), Err(BadAddress { addr: 8 }));
        assert_eq!(memory.write(8, &dst), Err(BadAddress { addr: 8 }));
        assert_eq!(memory.fetch_add(8, 1), Err(BadAddress { addr: 8 }));
    }
}
