//! The application's memory: raw addresses, shared at all times with code that is not ours.
//!
//! No Rust reference to application memory ever exists; bytes are copied in and out through raw pointers.
//! The transport has checked key, range and rights before it calls, and [`crate::Pd::reg_mr`] obliges its
//! caller to keep a registered region mapped, so the accesses here touch mapped memory. An application that
//! breaks that promise gets SIGSEGV, unless `FERROCE_CHECK_MEMORY=1` makes every access a system call that
//! fails in its place. So is every access to a region with on-demand paging, about which nothing was promised.

use ferroce_core::{Backing, BadAddress, Memory, Place};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// How application memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AppMemory {
    /// By loads and stores.
    Direct,
    /// By `process_vm_readv(2)` and `process_vm_writev(2)` on the process itself.
    Checked,
}

impl Memory for AppMemory {
    fn read(&self, place: Place, dst: &mut [u8]) -> Result<(), BadAddress> {
        let addr = place.addr;
        match self.way_to(place) {
            AppMemory::Direct => {
                // SAFETY: the region's registrar keeps addr..addr+len mapped and readable until it is
                // deregistered, which waits for the engine; `dst` is ours, so the two do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(addr as *const u8, dst.as_mut_ptr(), dst.len()) };
                Ok(())
            }
            AppMemory::Checked => checked_copy(addr, dst.as_mut_ptr(), dst.len(), Direction::In),
        }
    }

    fn write(&self, place: Place, src: &[u8]) -> Result<(), BadAddress> {
        let addr = place.addr;
        match self.way_to(place) {
            AppMemory::Direct => {
                // SAFETY: as in `read`; the region was registered with LOCAL_WRITE, so it is writable.
                unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), addr as *mut u8, src.len()) };
                Ok(())
            }
            AppMemory::Checked => checked_copy(addr, src.as_ptr().cast_mut(), src.len(), Direction::Out),
        }
    }

    fn compare_swap(&self, place: Place, compare: u64, swap: u64) -> Result<u64, BadAddress> {
        let cell = self.atomic_cell(place)?;
        Ok(match cell.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(old) | Err(old) => old,
        })
    }

    fn fetch_add(&self, place: Place, add: u64) -> Result<u64, BadAddress> {
        Ok(self.atomic_cell(place)?.fetch_add(add, Ordering::SeqCst))
    }

    fn store(&self, place: Place, value: u64) -> Result<(), BadAddress> {
        self.atomic_cell(place)?.store(value, Ordering::SeqCst);
        Ok(())
    }

    fn flush(&self, place: Place, length: u64, persistent: bool) -> Result<(), BadAddress> {
        fence(Ordering::SeqCst);
        if persistent && length > 0 { write_back(place.addr, length) } else { Ok(()) }
    }
}

impl AppMemory {
    /// How a place is accessed.
    fn way_to(self, place: Place) -> AppMemory {
        if place.backing == Backing::Mapped { self } else { AppMemory::Checked }
    }

    /// The 64-bit cell at `place`, which the caller has checked to be inside a region.
    fn atomic_cell(&self, place: Place) -> Result<&AtomicU64, BadAddress> {
        let addr = place.addr;
        if !addr.is_multiple_of(8) {
            return Err(BadAddress { addr });
        }
        // No system call is atomic on another's memory, so the page is made writable first. Whoever unmaps it in
        // this moment gets SIGSEGV.
        if self.way_to(place) == AppMemory::Checked && !populate(addr, CELL_LEN, Population::Write) {
            let mut probe = [0u8; CELL_LEN as usize];
            checked_copy(addr, probe.as_mut_ptr(), probe.len(), Direction::In)?;
            return Err(BadAddress { addr });
        }
        // SAFETY: aligned above, and mapped and writable by the registrar's promise or as was found out above. Every
        // access of ours is atomic; the application's own are outside the language's model, as with a card's DMA.
        Ok(unsafe { AtomicU64::from_ptr(addr as *mut u64) })
    }
}

/// Bytes of an atomic's operand.
const CELL_LEN: u64 = 8;

/// What pages are made present for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Population {
    Read,
    Write,
}

/// Writes the pages of `length` bytes at `addr` back to the file behind them, as msync(2) does.
fn write_back(addr: u64, length: u64) -> Result<(), BadAddress> {
    let (start, size) = pages(addr, length).ok_or(BadAddress { addr })?;
    // SAFETY: writing back changes no byte and no mapping; addresses that are not mapped are an error.
    let result = unsafe { libc::msync(start as *mut libc::c_void, size, libc::MS_SYNC) };
    if result == 0 { Ok(()) } else { Err(BadAddress { addr }) }
}

/// The pages that hold `length` bytes at `addr`: where they begin and how long they are.
fn pages(addr: u64, length: u64) -> Option<(u64, usize)> {
    let page = rustix::param::page_size() as u64;
    let start = addr - addr % page;
    let end = addr.checked_add(length)?.checked_next_multiple_of(page)?;
    Some((start, usize::try_from(end - start).ok()?))
}

/// Makes the pages of `length` bytes at `addr` present; `false` if some are not mapped, or not for that.
pub(crate) fn populate(addr: u64, length: u64, population: Population) -> bool {
    let Some((start, size)) = pages(addr, length) else { return false };
    let advice = match population {
        Population::Read => libc::MADV_POPULATE_READ,
        Population::Write => libc::MADV_POPULATE_WRITE,
    };
    // SAFETY: populating changes no byte and no mapping; addresses that are not mapped are an error.
    unsafe { libc::madvise(start as *mut libc::c_void, size, advice) == 0 }
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
            for backing in [Backing::Mapped, Backing::OnDemand] {
                let place = |addr| Place { addr, backing };
                memory.write(place(addr + 3), &[1, 2, 3]).expect("mapped");
                let mut back = [0u8; 5];
                memory.read(place(addr + 2), &mut back).expect("mapped");
                assert_eq!(back, [0, 1, 2, 3, 0]);
                theirs.fill(0);
            }
        }
    }

    #[test]
    fn atomics_answer_the_value_before() {
        for memory in [AppMemory::Direct, AppMemory::Checked] {
            let mut cell = 5u64;
            let addr = (&raw mut cell) as u64;
            let at = Place::mapped(addr);
            assert_eq!(memory.fetch_add(at, 3), Ok(5));
            assert_eq!(memory.compare_swap(at, 8, 100), Ok(8));
            assert_eq!(memory.compare_swap(at, 8, 7), Ok(100));
            assert_eq!(memory.fetch_add(Place { backing: Backing::OnDemand, ..at }, u64::MAX), Ok(100));
            assert_eq!(memory.fetch_add(at, 0), Ok(99));
            assert_eq!(memory.fetch_add(Place::mapped(addr + 1), 0), Err(BadAddress { addr: addr + 1 }));
            assert_eq!(memory.store(at, 12), Ok(()));
            assert_eq!(memory.fetch_add(at, 0), Ok(12));
            assert_eq!(memory.store(Place::mapped(addr + 4), 0), Err(BadAddress { addr: addr + 4 }));
        }
    }

    #[test]
    fn a_flush_of_what_is_not_mapped_is_an_error_if_it_is_to_last() {
        let cell = 5u64;
        let addr = (&raw const cell) as u64;
        let memory = AppMemory::Direct;
        assert_eq!(memory.flush(Place::mapped(addr), 8, true), Ok(()));
        assert_eq!(memory.flush(Place::mapped(8), 8, false), Ok(()));
        assert_eq!(memory.flush(Place::mapped(8), 8, true), Err(BadAddress { addr: 8 }));
        assert_eq!(memory.flush(Place::mapped(0), u64::MAX, true), Err(BadAddress { addr: 0 }));
    }

    #[test]
    fn access_to_a_page_that_may_be_absent_is_an_error_and_no_signal() {
        static READ_ONLY: [u64; 2] = [1; 2];
        let on_demand = |addr| Place { addr, backing: Backing::OnDemand };
        let fixed = READ_ONLY.as_ptr() as u64;
        for (memory, place) in [(AppMemory::Checked, Place::mapped(8)), (AppMemory::Direct, on_demand(8))] {
            let mut dst = [0u8; 4];
            assert_eq!(memory.read(place, &mut dst), Err(BadAddress { addr: 8 }));
            assert_eq!(memory.write(place, &dst), Err(BadAddress { addr: 8 }));
            assert_eq!(memory.fetch_add(place, 1), Err(BadAddress { addr: 8 }));
        }
        assert_eq!(AppMemory::Direct.fetch_add(on_demand(fixed), 1), Err(BadAddress { addr: fixed }));
        assert_eq!(AppMemory::Direct.write(on_demand(fixed), &[2]), Err(BadAddress { addr: fixed }));
    }
}
