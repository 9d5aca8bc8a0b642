//! What every header's tests ask of it.

use core::fmt::Debug;

use std::format;

use proptest::prelude::*;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What all headers are.
pub(crate) trait Header:
    FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + PartialEq + Debug + core::fmt::Display
{
}

impl<T> Header for T where
    T: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + PartialEq + Debug + core::fmt::Display
{
}

/// `header` is exactly `bytes` on the wire, is read back from them wherever they lie, is not read from fewer, and
/// prints on one line.
pub(crate) fn assert_header<T: Header>(header: T, bytes: &[u8]) {
    assert_eq!(header.as_bytes(), bytes);
    assert_eq!(T::read_from_bytes(bytes).expect("as long as the header"), header);
    for shift in 0..8 {
        let mut moved = std::vec![0xa5; shift];
        moved.extend_from_slice(bytes);
        moved.push(0x5a);
        let (found, rest) = T::ref_from_prefix(&moved[shift..]).expect("long enough");
        assert_eq!(*found, header);
        assert_eq!(rest, [0x5a]);
    }
    for short in 0..bytes.len() {
        assert!(T::ref_from_prefix(&bytes[..short]).is_err(), "read from {short} of {} bytes", bytes.len());
    }
    let line = format!("{header}");
    assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
}

/// Any bytes are some header, and survive `rebuild`, which makes a new header out of what the accessors say. Bits
/// outside `mask` are reserved: the accessors do not see them and the new header has them clear.
pub(crate) fn assert_round_trip<T: Header>(mask: &[u8], rebuild: impl Fn(&T) -> T) {
    let any = proptest::collection::vec(any::<u8>(), mask.len());
    proptest!(|(bytes in any)| {
        let header = T::read_from_bytes(&bytes).expect("as long as the header");
        let masked: std::vec::Vec<u8> = bytes.iter().zip(mask).map(|(byte, mask)| byte & mask).collect();
        let rebuilt = rebuild(&header);
        prop_assert_eq!(rebuilt.as_bytes(), masked.as_slice());
        let line = format!("{header}");
        prop_assert!(!line.contains('\n'));
    });
}
