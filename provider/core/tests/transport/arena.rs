//! Memory for tests: one range of addresses, everything else unmapped.

use ferroce_core::{BadAddress, Memory, Place};
use std::cell::RefCell;

/// Bytes at the addresses from [`Arena::BASE`] on.
pub struct Arena {
    bytes: RefCell<Vec<u8>>,
    /// What was flushed: offset, length, and whether to persistence.
    flushed: RefCell<Vec<(u64, u64, bool)>>,
}

impl Arena {
    pub const BASE: u64 = 0x7f00_0000_0000;

    pub fn new(len: usize) -> Arena {
        Arena { bytes: RefCell::new(vec![0; len]), flushed: RefCell::default() }
    }

    /// Takes what was flushed.
    pub fn flushed(&self) -> Vec<(u64, u64, bool)> {
        self.flushed.take()
    }

    pub fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    pub fn put(&self, offset: u64, bytes: &[u8]) {
        self.bytes.borrow_mut()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    pub fn get(&self, offset: u64, len: usize) -> Vec<u8> {
        self.bytes.borrow()[offset as usize..][..len].to_vec()
    }

    fn range(&self, addr: u64, len: usize) -> Result<std::ops::Range<usize>, BadAddress> {
        let start = addr.checked_sub(Self::BASE).ok_or(BadAddress { addr })? as usize;
        let end = start.checked_add(len).filter(|end| *end <= self.len()).ok_or(BadAddress { addr })?;
        Ok(start..end)
    }

    fn word(&self, addr: u64, change: impl FnOnce(u64) -> u64) -> Result<u64, BadAddress> {
        assert_eq!(addr % 8, 0, "an atomic reached memory at an odd address");
        let range = self.range(addr, 8)?;
        let mut bytes = self.bytes.borrow_mut();
        let word = &mut bytes[range];
        let before = u64::from_ne_bytes(word.try_into().expect("8 bytes"));
        word.copy_from_slice(&change(before).to_ne_bytes());
        Ok(before)
    }
}

impl Memory for Arena {
    fn read(&self, Place { addr, .. }: Place, dst: &mut [u8]) -> Result<(), BadAddress> {
        assert!(!dst.is_empty(), "nothing was read");
        let range = self.range(addr, dst.len())?;
        dst.copy_from_slice(&self.bytes.borrow()[range]);
        Ok(())
    }

    fn write(&self, Place { addr, .. }: Place, src: &[u8]) -> Result<(), BadAddress> {
        assert!(!src.is_empty(), "nothing was written");
        let range = self.range(addr, src.len())?;
        self.bytes.borrow_mut()[range].copy_from_slice(src);
        Ok(())
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

    fn flush(&self, Place { addr, .. }: Place, length: u64, persistent: bool) -> Result<(), BadAddress> {
        self.range(addr, length as usize)?;
        self.flushed.borrow_mut().push((addr - Self::BASE, length, persistent));
        Ok(())
    }
}
