//! What the kernel has mapped where, and with which rights: whether memory can be registered.
//!
//! A card pins the pages of a region when it is registered, and so finds out that they are not there, or may not be
//! written. Nothing is pinned here, so that has to be looked up, or a peer's WRITE would end the process.

use ferroce_port::mappings::{Mapping, mapping_from};
use std::fs::File;
use std::io::Read;
use std::iter::successors;
use std::ops::Range;

/// Why memory cannot be registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// Nothing readable is mapped at the address.
    NotReadable(u64),
    /// What is mapped at the address is read-only.
    NotWritable(u64),
    /// What is mapped at the address is no file's that is shared, so nothing of it survives the process.
    Unshared(u64),
}

/// What memory is to be good for, besides being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Needs {
    /// Being written.
    pub(crate) write: bool,
    /// Being written to a file.
    pub(crate) last: bool,
}

/// Checks that `length` bytes at `addr` are mapped readable, and what else they need.
pub(crate) fn check(addr: u64, length: u64, needs: Needs) -> Result<(), Obstacle> {
    let end = addr.checked_add(length).ok_or(Obstacle::NotReadable(addr))?;
    // No /proc here: what `FERROCE_CHECK_MEMORY` is for.
    let Ok(mut maps) = File::open("/proc/self/maps") else { return Ok(()) };
    if let Ok(first) = mapping_from(&maps, addr) {
        let mappings = successors(first, |mapping| mapping_from(&maps, mapping.end).ok().flatten());
        return check_mappings(mappings, addr..end, needs);
    }
    // Before Linux 6.11 they have to be listed, which takes long in a process that has many.
    let mut text = String::new();
    match maps.read_to_string(&mut text) {
        Ok(_) => check_mappings(text.lines().filter_map(parse), addr..end, needs),
        Err(_) => Ok(()),
    }
}

/// `mappings` are ordered by address.
fn check_mappings(
    mappings: impl Iterator<Item = Mapping>,
    wanted: Range<u64>,
    needs: Needs,
) -> Result<(), Obstacle> {
    let mut next = wanted.start;
    for mapping in mappings {
        if next >= wanted.end {
            break;
        }
        if mapping.end <= next {
            continue;
        }
        if mapping.start > next || !mapping.readable {
            break;
        }
        if needs.write && !mapping.writable {
            return Err(Obstacle::NotWritable(next));
        }
        if needs.last && !mapping.is_shared_file {
            return Err(Obstacle::Unshared(next));
        }
        next = mapping.end;
    }
    if next >= wanted.end { Ok(()) } else { Err(Obstacle::NotReadable(next)) }
}

/// A line of `/proc/PID/maps` (proc_pid_maps(5)).
fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let inode = words.nth(2)?;
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: rights.first() == Some(&b'r'),
        writable: rights.get(1) == Some(&b'w'),
        is_shared_file: rights.get(3) == Some(&b's') && inode != "0",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00001000-00003000 rw-p 00000000 00:00 0
00003000-00004000 r--p 00000000 fd:00 12                                 /a file with blanks
00004000-00005000 rw-s 00000000 00:01 7                                  /memfd:x (deleted)
00005000-00006000 ---p 00000000 00:00 0
00008000-00009000 rw-p 00000000 00:00 0                                  [heap]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    fn look(wanted: Range<u64>, write: bool) -> Result<(), Obstacle> {
        check_mappings(MAPS.lines().filter_map(parse), wanted, Needs { write, last: false })
    }

    #[test]
    fn a_range_may_span_mappings_that_touch() {
        assert_eq!(look(0x1fff..0x5000, false), Ok(()));
        assert_eq!(look(0x1000..0x3000, true), Ok(()));
        assert_eq!(look(0x8800..0x9000, true), Ok(()));
    }

    #[test]
    fn a_hole_and_a_guard_page_are_found_where_they_begin() {
        assert_eq!(look(0x4800..0x5001, true), Err(Obstacle::NotReadable(0x5000)));
        assert_eq!(look(0x8fff..0x9001, true), Err(Obstacle::NotReadable(0x9000)));
        assert_eq!(look(0x6800..0x8001, false), Err(Obstacle::NotReadable(0x6800)));
        assert_eq!(look(0xfff..0x2000, false), Err(Obstacle::NotReadable(0xfff)));
        assert_eq!(
            look(0xffff_ffff_ff60_0000..0xffff_ffff_ff60_0001, false),
            Err(Obstacle::NotReadable(0xffff_ffff_ff60_0000))
        );
        assert_eq!(look(0xa000..0xb000, false), Err(Obstacle::NotReadable(0xa000)));
    }

    #[test]
    fn memory_that_may_not_be_written_is_found() {
        assert_eq!(look(0x2000..0x4000, true), Err(Obstacle::NotWritable(0x3000)));
        assert_eq!(look(0x3000..0x4000, false), Ok(()));
    }

    #[test]
    fn memory_that_does_not_last_is_found() {
        let last = Needs { write: true, last: true };
        let look = |wanted| check_mappings(MAPS.lines().filter_map(parse), wanted, last);
        assert_eq!(look(0x4000..0x5000), Ok(()));
        assert_eq!(look(0x1800..0x2000), Err(Obstacle::Unshared(0x1800)));
    }

    #[test]
    fn this_process_is_seen() {
        let check = |addr, length, write| check(addr, length, Needs { write, last: false });
        static READ_ONLY: [u8; 16] = [1; 16];
        let (stack, fixed) = (0u8, READ_ONLY.as_ptr() as u64);
        let stack = (&raw const stack) as u64;
        assert_eq!(check(stack, 1, true), Ok(()));
        assert_eq!(check(fixed, 16, false), Ok(()));
        assert_eq!(check(fixed, 16, true), Err(Obstacle::NotWritable(fixed)));
        assert_eq!(check(4096, 1, false), Err(Obstacle::NotReadable(4096)));
        assert_eq!(check(u64::MAX - 10, 100, false), Err(Obstacle::NotReadable(u64::MAX - 10)));
    }
}
