//! Communication IDs.

use std::fmt;

/// A communication ID of ours: what a peer names to mean one of our connections or lookups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommId(pub u32);

/// Hands out IDs: a fixed prefix, and an index that goes round, so that an ID rests for long before it comes again.
#[derive(Debug)]
pub(crate) struct Ids {
    prefix: u32,
    mask: u32,
    next: u32,
}

impl Ids {
    /// IDs whose low `bits` bits vary; the first index is `seed`'s.
    pub(crate) fn new(prefix: u32, bits: u32, seed: u32) -> Ids {
        let mask = u32::MAX.checked_shr(u32::BITS - bits).unwrap_or(0);
        Ids { prefix: prefix & !mask, mask, next: seed & mask }
    }

    /// The next ID that is not in use, and not 0, which stands for an unknown one.
    pub(crate) fn next(&mut self, is_used: impl Fn(CommId) -> bool) -> Option<CommId> {
        for _ in 0..=self.mask {
            let id = CommId(self.prefix | self.next);
            self.next = self.next.wrapping_add(1) & self.mask;
            if id.0 != 0 && !is_used(id) {
                return Some(id);
            }
        }
        None
    }
}

impl fmt::Display for CommId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Debug for CommId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_go_round_under_their_prefix() {
        let mut ids = Ids::new(0x7ab0_0000, 20, u32::MAX);
        assert_eq!(ids.next(|_| false), Some(CommId(0x7abf_ffff)));
        assert_eq!(ids.next(|_| false), Some(CommId(0x7ab0_0000)));
        assert_eq!(ids.next(|id| id.0 < 0x7ab0_0005), Some(CommId(0x7ab0_0005)));
    }

    #[test]
    fn zero_is_no_id_and_a_full_space_has_none() {
        let mut ids = Ids::new(0, 2, 0);
        assert_eq!(ids.next(|_| false), Some(CommId(1)));
        assert_eq!(ids.next(|_| true), None);
    }
}
