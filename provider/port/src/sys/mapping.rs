//! Asking for one mapping of a process (proc_pid_maps(5)).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `struct procmap_query` of linux/fs.h.
#[derive(Default)]
#[repr(C)]
pub(crate) struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    pub(crate) vma_start: u64,
    pub(crate) vma_end: u64,
    pub(crate) vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    pub(crate) inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `PROCMAP_QUERY_VMA_READABLE`, in both kinds of flags.
pub(crate) const READABLE: u64 = 1;
/// `PROCMAP_QUERY_VMA_WRITABLE`.
pub(crate) const WRITABLE: u64 = 1 << 1;
/// `PROCMAP_QUERY_VMA_SHARED`.
pub(crate) const SHARED: u64 = 1 << 3;
/// `PROCMAP_QUERY_COVERING_OR_NEXT_VMA`.
const COVERING_OR_NEXT_VMA: u64 = 1 << 4;
/// `PROCMAP_QUERY`: _IOWR('f', 17, struct procmap_query).
const PROCMAP_QUERY: u64 = 3 << 30 | (size_of::<ProcmapQuery>() as u64) << 16 | (b'f' as u64) << 8 | 17;

/// The mapping that holds `addr`, or else the next one; `ENOENT` when there is none, `ENOTTY` before Linux 6.11.
pub(crate) fn query(maps: &File, addr: u64) -> io::Result<ProcmapQuery> {
    let mut query = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_flags: COVERING_OR_NEXT_VMA,
        query_addr: addr,
        ..ProcmapQuery::default()
    };
    // SAFETY: PROCMAP_QUERY reads and writes `size` bytes of the structure; the rooms for names, which it would write
    // too, have size 0.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as libc::Ioctl, &raw mut query) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(query) }
}
