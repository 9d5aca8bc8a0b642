//! Memory behind a file descriptor: a dmabuf of another device, mapped into this process.
//!
//! A card reaches such memory past the processor. Here the processor copies, so the exporter has to let it be mapped; any
//! other file that can be mapped will do as well, which is how tests go without the device.

use crate::error::Error;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

/// A shared mapping, until it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Start of the pages.
    start: usize,
    size: usize,
    /// From there to what was asked for.
    skip: u64,
    is_dmabuf: bool,
}

impl Mapping {
    /// Maps `length` bytes of the file from `offset` on.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, length: u64, write: bool) -> Result<Mapping, Error> {
        let refused = |doing, errno: rustix::io::Errno| Error::Os { doing, source: errno.into() };
        let file_system =
            rustix::fs::fstatfs(fd).map_err(|errno| refused("asking what the file is", errno))?;
        let invalid = refused("mapping the memory behind the file", rustix::io::Errno::INVAL);
        let skip = offset % rustix::param::page_size() as u64;
        let end = skip.checked_add(length).and_then(|size| usize::try_from(size).ok());
        let (Some(size), Ok(from)) = (end, libc::off_t::try_from(offset - skip)) else { return Err(invalid) };
        let rights = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at a place of the kernel's choice, which changes no other.
        let start = unsafe { libc::mmap(null_mut(), size, rights, libc::MAP_SHARED, fd.as_raw_fd(), from) };
        if start == libc::MAP_FAILED {
            let source = std::io::Error::last_os_error();
            return Err(Error::Os { doing: "mapping the memory behind the file", source });
        }
        Ok(Mapping { start: start as usize, size, skip, is_dmabuf: file_system.f_type == DMA_BUF_MAGIC })
    }

    /// Where what was asked for is.
    pub(crate) fn addr(&self) -> u64 {
        self.start as u64 + self.skip
    }

    /// Whether all of it stays accessible as long as it is mapped.
    pub(crate) fn is_lasting(&self) -> bool {
        self.is_dmabuf
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's own, and the region over it is gone.
        let result = unsafe { libc::munmap(self.start as *mut libc::c_void, self.size) };
        debug_assert_eq!(result, 0);
    }
}

/// `DMA_BUF_MAGIC` of linux/magic.h.
const DMA_BUF_MAGIC: rustix::fs::FsWord = 0x444d_4142;
