//! Walking a scatter/gather list: which pieces of which elements hold a range of a message.
//!
//! Each piece's key is looked up again at every use, because a region may be deregistered at any time.

use crate::fault::SgeFault;
use crate::regions::{LocalUse, Regions};
use crate::{Memory, PdId, Sge};

/// Bytes of a whole list. Cannot overflow: a list has far fewer than 2^32 elements.
pub(crate) fn total_length(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

/// Fills `dst` with the message's bytes from `offset` on.
pub(crate) fn gather(
    source: Local<'_>,
    offset: u64,
    dst: &mut [u8],
    memory: &impl Memory,
) -> Result<(), SgeFault> {
    let mut rest = dst;
    for piece in pieces(source.sges, offset, rest.len() as u64) {
        let place = source.regions.check_local(source.pd, &piece, LocalUse::Read)?;
        let (now, later) = rest.split_at_mut(piece.length as usize);
        place.read(now, memory)?;
        rest = later;
    }
    Ok(())
}

/// Puts `src` into the message's place from `offset` on.
pub(crate) fn scatter(
    target: Local<'_>,
    offset: u64,
    src: &[u8],
    memory: &impl Memory,
) -> Result<(), SgeFault> {
    let mut rest = src;
    for piece in pieces(target.sges, offset, rest.len() as u64) {
        let place = target.regions.check_local(target.pd, &piece, LocalUse::Write)?;
        let (now, later) = rest.split_at(piece.length as usize);
        place.write(now, memory)?;
        rest = later;
    }
    Ok(())
}

/// Whether every element may be read from.
pub(crate) fn check_readable(source: Local<'_>) -> Result<(), SgeFault> {
    for piece in pieces(source.sges, 0, u64::MAX) {
        source.regions.check_local(source.pd, &piece, LocalUse::Read)?;
    }
    Ok(())
}

/// A list, and where its keys mean something.
#[derive(Clone, Copy)]
pub(crate) struct Local<'a> {
    pub(crate) regions: &'a Regions,
    pub(crate) pd: PdId,
    pub(crate) sges: &'a [Sge],
}

/// The non-empty pieces of `sges` that hold the bytes `offset .. offset + length` of the message, or as many of
/// them as there are. Empty elements are skipped unchecked, as the verbs have it.
fn pieces(sges: &[Sge], offset: u64, length: u64) -> impl Iterator<Item = Sge> + '_ {
    let mut skip = offset;
    let mut left = length;
    sges.iter().filter_map(move |sge| {
        let here = u64::from(sge.length);
        if skip >= here {
            skip -= here;
            return None;
        }
        let take = (here - skip).min(left);
        let piece = Sge { addr: sge.addr.wrapping_add(skip), length: take as u32, lkey: sge.lkey };
        skip = 0;
        left -= take;
        (take > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sge(addr: u64, length: u32) -> Sge {
        Sge { addr, length, lkey: 7 }
    }

    fn walk(sges: &[Sge], offset: u64, length: u64) -> Vec<(u64, u32)> {
        pieces(sges, offset, length).map(|p| (p.addr, p.length)).collect()
    }

    #[test]
    fn a_range_may_begin_and_end_inside_elements() {
        let list = [sge(100, 10), sge(200, 0), sge(300, 5), sge(400, 20)];
        assert_eq!(walk(&list, 0, 10), [(100, 10)]);
        assert_eq!(walk(&list, 3, 10), [(103, 7), (300, 3)]);
        assert_eq!(walk(&list, 10, 6), [(300, 5), (400, 1)]);
        assert_eq!(walk(&list, 16, 100), [(401, 19)]);
        assert_eq!(walk(&list, 35, 1), []);
        assert_eq!(walk(&list, 4, 0), []);
    }

    #[test]
    fn total_length_does_not_wrap_at_32_bits() {
        assert_eq!(total_length(&[sge(0, u32::MAX), sge(0, u32::MAX)]), 2 * u64::from(u32::MAX));
    }
}
