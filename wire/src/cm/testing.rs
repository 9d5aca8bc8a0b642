//! What every message's tests ask of it.

use std::vec::Vec;

use super::{Body, Message, encode};
use crate::header::testing::{Header, assert_header};
use crate::mad::Mad;

/// `message` has these bytes at these offsets and zeros everywhere else, and is itself again when it comes out of a
/// datagram.
pub(crate) fn assert_message<T: Body + Header + Copy>(message: T, parts: &[(usize, &[u8])]) {
    let mut bytes = [0; Mad::BODY_LEN];
    for (offset, part) in parts {
        bytes[*offset..][..part.len()].copy_from_slice(part);
    }
    assert_header(message, &bytes);
    let mad = encode(0x1234, &message);
    assert_eq!(mad.header().attribute_id(), T::ATTRIBUTE);
    let text = std::format!("{}", Message::parse(&mad).expect("just made"));
    assert_eq!(text, std::format!("{message}"));
}

/// The mask for [`crate::header::testing::assert_round_trip`]: all bits but those `reserved`, given as offset and bits.
pub(crate) fn mask_without(reserved: &[(usize, u8)]) -> Vec<u8> {
    let mut mask = std::vec![0xff; Mad::BODY_LEN];
    for (offset, bits) in reserved {
        mask[*offset] &= !bits;
    }
    mask
}
