//! The QP table: QPs by QPN, in pages that exist only where QPs do.

use crate::qp::Qp;
use ferroce_wire::Qpn;

/// QPs by index; the QPN is the index on top of the device's base.
#[derive(Debug)]
pub(crate) struct QpTable {
    base: u32,
    count: u32,
    /// Where the search for a free index begins, so that an index is not used again soon.
    next: u32,
    len: u32,
    pages: Vec<Option<Box<Page>>>,
}

#[derive(Debug)]
struct Page {
    used: u32,
    qps: [Option<Box<Qp>>; PAGE_LEN],
}

impl QpTable {
    /// An empty table for the QPNs from `base` to `base + count - 1`. The first QPN handed out follows from
    /// `seed`, so that a new process does not meet packets meant for the last one.
    pub(crate) fn new(base: u32, count: u32, seed: u64) -> Self {
        let base = base & Qpn::MULTICAST.value();
        let count = count.min(QPN_COUNT - base);
        let next = (scramble(seed) % u64::from(count.max(1))) as u32;
        QpTable { base, count, next, len: 0, pages: Vec::new() }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.count
    }

    /// A QPN that is not in use, and never 0, 1 or the multicast QPN.
    pub(crate) fn free_qpn(&mut self) -> Option<Qpn> {
        // Ends when it has come round, at the latest.
        for step in 0..self.count {
            let index = (self.next + step) % self.count;
            let qpn = Qpn::new(self.base + index);
            let reserved = qpn.value() <= Qpn::GSI.value() || qpn == Qpn::MULTICAST;
            if !reserved && self.get(index).is_none() {
                self.next = (index + 1) % self.count;
                return Some(qpn);
            }
        }
        None
    }

    /// The index of a QPN of this device.
    #[inline]
    pub(crate) fn index_of(&self, qpn: Qpn) -> Option<u32> {
        qpn.value().checked_sub(self.base).filter(|index| *index < self.count)
    }

    pub(crate) fn insert(&mut self, index: u32, qp: Box<Qp>) {
        let page = index as usize / PAGE_LEN;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page]
            .get_or_insert_with(|| Box::new(Page { used: 0, qps: [const { None }; PAGE_LEN] }));
        let place = &mut page.qps[index as usize % PAGE_LEN];
        debug_assert!(place.is_none());
        *place = Some(qp);
        page.used += 1;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Box<Qp>> {
        let slot = self.pages.get_mut(index as usize / PAGE_LEN)?;
        let page = slot.as_mut()?;
        let qp = page.qps[index as usize % PAGE_LEN].take()?;
        page.used -= 1;
        if page.used == 0 {
            *slot = None;
        }
        self.len -= 1;
        Some(qp)
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Qp> {
        self.pages.get(index as usize / PAGE_LEN)?.as_ref()?.qps[index as usize % PAGE_LEN].as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Qp> {
        self.pages.get_mut(index as usize / PAGE_LEN)?.as_mut()?.qps[index as usize % PAGE_LEN].as_deref_mut()
    }

    /// The indexes in use, in order.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = u32> + '_ {
        self.pages.iter().enumerate().flat_map(|(number, page)| {
            let qps = page.iter().flat_map(|page| page.qps.iter().enumerate());
            qps.filter(|(_, qp)| qp.is_some()).map(move |(place, _)| (number * PAGE_LEN + place) as u32)
        })
    }
}

/// Mixes a seed, which may be a small number (the finisher of splitmix64).
fn scramble(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// QPs of a page.
const PAGE_LEN: usize = 64;

/// QPNs that exist.
const QPN_COUNT: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_end_where_the_device_does() {
        let table = QpTable::new(0x20000, 0x10000, 1);
        assert_eq!(table.index_of(Qpn::new(0x1ffff)), None);
        assert_eq!(table.index_of(Qpn::new(0x20000)), Some(0));
        assert_eq!(table.index_of(Qpn::new(0x2ffff)), Some(0xffff));
        assert_eq!(table.index_of(Qpn::new(0x30000)), None);
    }

    #[test]
    fn a_range_beyond_the_last_qpn_is_cut() {
        assert_eq!(QpTable::new(0xff_fff0, 100, 1).capacity(), 16);
        assert_eq!(QpTable::new(0, 0, 1).free_qpn(), None);
    }
}
