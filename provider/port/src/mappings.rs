//! What this process has mapped where, and with which rights.

use std::fs::File;
use std::io;

use crate::sys::mapping::{self, READABLE, SHARED, WRITABLE};

/// A mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it is a file's, and what is written there is written to the file.
    pub is_shared_file: bool,
}

/// The mapping that holds `addr`, or else the next one after it; `None` when there is none. `maps` is an open
/// `/proc/PID/maps`. It takes the same time however many there are.
///
/// # Errors
/// `ENOTTY` on Linux before 6.11.
pub fn mapping_from(maps: &File, addr: u64) -> io::Result<Option<Mapping>> {
    match mapping::query(maps, addr) {
        Ok(found) => Ok(Some(Mapping {
            start: found.vma_start,
            end: found.vma_end,
            readable: found.vma_flags & READABLE != 0,
            writable: found.vma_flags & WRITABLE != 0,
            is_shared_file: found.vma_flags & SHARED != 0 && found.inode != 0,
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mappings_are_those_that_the_file_lists() {
        let maps = File::open("/proc/self/maps").unwrap();
        if let Err(error) = mapping_from(&maps, 0) {
            assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
            println!("skipped: {error}");
            return;
        }
        static READ_ONLY: u8 = 1;
        let stack = 0u8;
        for (address, writable) in [(&raw const READ_ONLY, false), (&raw const stack, true)] {
            let address = address as u64;
            let found = mapping_from(&maps, address).unwrap().unwrap();
            assert!((found.start..found.end).contains(&address));
            assert_eq!((found.readable, found.writable, found.is_shared_file), (true, writable, false));
            let range = format!("{:x}-{:x} ", found.start, found.end);
            let text = std::fs::read_to_string("/proc/self/maps").unwrap();
            assert!(text.lines().any(|line| line.starts_with(&range)), "{range} is not in\n{text}");
        }
        assert!(mapping_from(&maps, 0).unwrap().unwrap().start > 0);
        assert_eq!(mapping_from(&maps, 1 << 63).unwrap(), None);
    }
}
