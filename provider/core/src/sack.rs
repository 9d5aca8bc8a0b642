//! What two ends that repeat selectively tell each other (decision 0007): the payload of a NAK for a PSN sequence error,
//! which has none otherwise, is a bitmap of the packets behind the expected PSN that have arrived.
//!
//! Bit 0 of byte 0 stands for the PSN after the expected one, bit 1 for the next, and so on.

use smallvec::SmallVec;

/// PSNs behind the expected one that the responder keeps packets of.
pub(crate) const SPAN: u32 = 512;

/// A bitmap.
pub(crate) type Bitmap = SmallVec<[u8; SPAN as usize / 8]>;

/// The bitmap of packets at `places`, counted from the expected PSN, which has place 0.
pub(crate) fn bitmap(places: impl Iterator<Item = u32>) -> Bitmap {
    let mut bitmap = Bitmap::new();
    for place in places.filter(|place| (1..=SPAN).contains(place)) {
        let bit = place as usize - 1;
        if bitmap.len() <= bit / 8 {
            // A multiple of four, so that the packet needs no pad.
            bitmap.resize((bit / 8 + 1).next_multiple_of(4), 0);
        }
        bitmap[bit / 8] |= 1 << (bit % 8);
    }
    bitmap
}

/// The places in a bitmap, in order.
pub(crate) fn places(bitmap: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let bytes = bitmap.iter().take(SPAN as usize / 8).enumerate();
    bytes.flat_map(|(index, byte)| {
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| index * 8 + bit + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bitmap_says_what_went_into_it() {
        for set in [vec![1], vec![2, 3, 9], vec![1, 32, 33, 512], vec![]] {
            let bitmap = bitmap(set.iter().copied());
            assert_eq!(places(&bitmap).map(|place| place as u32).collect::<Vec<_>>(), set);
            assert!(bitmap.len().is_multiple_of(4));
        }
        assert_eq!(bitmap([2, 9].into_iter()).as_slice(), [0b10, 1, 0, 0]);
    }

    #[test]
    fn what_is_too_far_is_left_out() {
        assert!(bitmap([0, 513].into_iter()).is_empty());
        assert_eq!(places(&[0xff; 100]).max(), Some(512));
    }
}
