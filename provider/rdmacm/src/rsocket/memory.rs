//! Registered memory: the engine reads and writes it at any time, so no reference to it ever exists.

use crate::device::last_error;
use ferroce_abi::errno::Errno;
use ferroce_ibverbs_layout::{IbvMr, IbvPd};
use libc::{c_int, c_void};
use std::alloc::{Layout, alloc_zeroed, dealloc};

unsafe extern "C" {
    fn ibv_reg_mr(pd: *mut IbvPd, addr: *mut c_void, length: usize, access: c_int) -> *mut IbvMr;
    fn ibv_dereg_mr(mr: *mut IbvMr) -> c_int;
}

/// A registration.
pub(super) struct Registration {
    mr: *mut IbvMr,
    addr: *const c_void,
    length: usize,
}

// SAFETY: the verbs may be called by every thread.
unsafe impl Send for Registration {}

impl Registration {
    /// # Safety
    /// `pd` is a protection domain, and outlives this.
    pub(super) unsafe fn new(
        pd: *mut IbvPd,
        addr: *mut c_void,
        length: usize,
        access: c_int,
    ) -> Result<Registration, Errno> {
        // SAFETY: the caller's promise; the range is looked at by the call.
        let mr = unsafe { ibv_reg_mr(pd, addr, length, access) };
        if mr.is_null() { Err(last_error()) } else { Ok(Registration { mr, addr, length }) }
    }

    /// L_Key and R_Key.
    pub(super) fn keys(&self) -> (u32, u32) {
        // SAFETY: registered, and deregistered only when this is dropped.
        let mr = unsafe { &*self.mr };
        (mr.lkey, mr.rkey)
    }

    /// Whether it is that of this address.
    pub(super) fn is_at(&self, addr: *const c_void, length: usize) -> bool {
        self.addr == addr && self.length == length
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered by `new`, and deregistered once.
        let _gone = unsafe { ibv_dereg_mr(self.mr) };
    }
}

/// A buffer of ours, registered.
pub(super) struct Buffer {
    at: *mut u8,
    layout: Layout,
    registration: Option<Registration>,
}

// SAFETY: nobody else has the address but the engine, which any thread may talk to.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A buffer of zeroes.
    ///
    /// # Safety
    /// `pd` is a protection domain, and outlives this.
    pub(super) unsafe fn new(pd: *mut IbvPd, length: usize, access: c_int) -> Result<Buffer, Errno> {
        let layout = Layout::from_size_align(length.max(1), PAGE).map_err(|_| Errno::INVALID)?;
        // SAFETY: the layout is not of size 0.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        let mut buffer = Buffer { at, layout, registration: None };
        // SAFETY: the caller's promise.
        buffer.registration = Some(unsafe { Registration::new(pd, at.cast(), layout.size(), access) }?);
        Ok(buffer)
    }

    pub(super) fn len(&self) -> usize {
        self.layout.size()
    }

    /// The address of the byte at `offset`.
    pub(super) fn addr(&self, offset: usize) -> u64 {
        self.at.wrapping_add(offset).expose_provenance() as u64
    }

    /// L_Key and R_Key.
    pub(super) fn keys(&self) -> (u32, u32) {
        self.registration.as_ref().map(Registration::keys).unwrap_or_default()
    }

    /// Copies from an application's memory.
    ///
    /// # Safety
    /// `from` is `length` readable bytes.
    pub(super) unsafe fn fill(&self, offset: usize, from: *const u8, length: usize) {
        assert!(offset + length <= self.len(), "the ring's places lie within it");
        // SAFETY: within the buffer, as was asserted; the two do not overlap, since nobody else has its address.
        unsafe { self.at.wrapping_add(offset).copy_from_nonoverlapping(from, length) };
    }

    /// Copies to an application's memory.
    ///
    /// # Safety
    /// `to` is room for `length` bytes.
    pub(super) unsafe fn read(&self, offset: usize, to: *mut u8, length: usize) {
        assert!(offset + length <= self.len(), "the ring's places lie within it");
        // SAFETY: as in `fill`.
        unsafe { to.copy_from_nonoverlapping(self.at.wrapping_add(offset), length) };
    }

    /// A piece of it.
    pub(super) fn bytes<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        // SAFETY: room for as many.
        unsafe { self.read(offset, bytes.as_mut_ptr(), N) };
        bytes
    }

    /// Changes a piece of it.
    pub(super) fn put(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: as many readable bytes.
        unsafe { self.fill(offset, bytes.as_ptr(), bytes.len()) };
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // The engine first.
        self.registration = None;
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.at, self.layout) };
    }
}

const PAGE: usize = 4096;
/// `IBV_ACCESS_LOCAL_WRITE`.
pub(super) const LOCAL_WRITE: c_int = 1;
/// `IBV_ACCESS_REMOTE_WRITE`.
pub(super) const REMOTE_WRITE: c_int = 1 << 1;
