//! Memory shared between processes as an array of 64-bit atomics.
//!
//! Nothing else is offered on purpose: with atomics only, another process may write whatever it likes and all that
//! happens here is that we read it.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use libc::c_void;

use crate::off_stdio;

/// A memfd of fixed size, mapped for reading and writing.
#[derive(Debug)]
pub struct SharedWords {
    fd: OwnedFd,
    start: NonNull<AtomicU64>,
    count: usize,
}

/// Why shared memory could not be made or mapped.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// A system call failed.
    #[error("{call}: {source}")]
    System {
        /// Its name.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// The descriptor's file has another size than the one agreed.
    #[error(
        "shared memory of {got} bytes where {expected} were agreed; do all processes run the same version?"
    )]
    Size {
        /// The size asked for, in bytes.
        expected: u64,
        /// The size found, in bytes.
        got: u64,
    },
    /// The descriptor is no memfd sealed against shrinking: its owner could make us crash by cutting it short.
    #[error("the shared memory is not sealed against shrinking")]
    NotSealed,
}

impl SharedWords {
    /// Makes a memfd of `count` zero words. `name` is what `/proc/PID/maps` shows.
    pub fn create(name: &str, count: usize) -> Result<SharedWords, SharedError> {
        let name = CString::new(name).map_err(|error| system("memfd_create", error.into()))?;
        // SAFETY: `name` is a C string that outlives the call.
        let number =
            unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        check("memfd_create", number)?;
        // SAFETY: the call has just made this descriptor for us.
        let file = unsafe { OwnedFd::from_raw_fd(number) };
        let file = File::from(off_stdio(file).map_err(|source| system("fcntl", source))?);
        file.set_len(byte_len(count)).map_err(|source| system("ftruncate", source))?;
        // SAFETY: no pointers are passed.
        let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) };
        check("fcntl(F_ADD_SEALS)", sealed)?;
        SharedWords::map(file.into(), count)
    }

    /// Maps a memfd that another process made with [`SharedWords::create`] and the same `count`.
    pub fn from_fd(fd: OwnedFd, count: usize) -> Result<SharedWords, SharedError> {
        // SAFETY: no pointers are passed.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        // Files that are no memfd answer EINVAL.
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(SharedError::NotSealed);
        }
        let file = File::from(fd);
        let got = file.metadata().map_err(|source| system("fstat", source))?.len();
        if got != byte_len(count) {
            return Err(SharedError::Size { expected: byte_len(count), got });
        }
        SharedWords::map(file.into(), count)
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `count` words, is page-aligned, and lives as long as `self`; the seals keep the
        // file from shrinking under it. All access by all processes is to be atomic; a process that breaks that rule
        // can only make us read nonsense, as any value is a valid AtomicU64.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    fn map(fd: OwnedFd, count: usize) -> Result<SharedWords, SharedError> {
        let len = count * size_of::<AtomicU64>();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(system("mmap", io::Error::last_os_error()));
        }
        let start =
            NonNull::new(start.cast::<AtomicU64>()).expect("mmap without MAP_FIXED never maps page 0");
        Ok(SharedWords { fd, start, count })
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        let len = self.count * size_of::<AtomicU64>();
        // SAFETY: the mapping is ours, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), len) };
    }
}

// SAFETY: the words are atomics, and the mapping belongs to the process, not to a thread.
unsafe impl Send for SharedWords {}
// SAFETY: shared access goes through atomics only.
unsafe impl Sync for SharedWords {}

/// The size stays as it is, for everybody, for good.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

fn byte_len(count: usize) -> u64 {
    (count * size_of::<AtomicU64>()) as u64
}

fn check(call: &'static str, result: i32) -> Result<(), SharedError> {
    if result < 0 { Err(system(call, io::Error::last_os_error())) } else { Ok(()) }
}

fn system(call: &'static str, source: io::Error) -> SharedError {
    SharedError::System { call, source }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn two_mappings_show_the_same_words() {
        let a = SharedWords::create("test", 1000).unwrap();
        let b = SharedWords::from_fd(a.as_fd().try_clone_to_owned().unwrap(), 1000).unwrap();
        a.words()[999].store(7, Ordering::Relaxed);
        assert_eq!(b.words()[999].load(Ordering::Relaxed), 7);
        assert!(b.words()[..999].iter().all(|w| w.load(Ordering::Relaxed) == 0));
        drop(a);
        assert_eq!(b.words()[999].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn another_size_is_refused() {
        let a = SharedWords::create("test", 10).unwrap();
        let fd = a.as_fd().try_clone_to_owned().unwrap();
        let error = SharedWords::from_fd(fd, 11).unwrap_err();
        assert!(matches!(error, SharedError::Size { expected: 88, got: 80 }), "{error}");
    }

    #[test]
    fn the_file_cannot_be_cut_short() {
        let a = SharedWords::create("test", 10).unwrap();
        let file = File::from(a.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(file.set_len(0).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_file_that_could_shrink_is_refused() {
        let file = File::open("/proc/self/exe").unwrap();
        assert!(matches!(SharedWords::from_fd(file.into(), 1), Err(SharedError::NotSealed)));
    }
}
