//! Checking a packet received through a UDP socket over IPv4, where the identification is covered by the ICRC but not
//! shown.

use super::register::retreat;
use super::{IcrcError, IpContext, crc, split};
use crate::{Ipv4Header, UdpHeader};

/// Checks a packet whose IPv4 identification is not known, and returns it. `guess` is tried first; a good guess (0 from
/// our own senders and some hardware, one more than the last one from rxe) makes this as quick as [`super::verify`].
///
/// The CRC is linear: the difference between the computed and the received ICRC depends only on the difference of the
/// bytes, so it tells which identification the packet was sent with. A sender that leaves don't-fragment clear (against
/// CA17-7, but rxe accepts it) is recognised too. So 2^17 of the 2^32 differences count as right: a corrupt packet
/// passes with a probability of 1 in 32,768 where the whole ICRC would leave 1 in 2^32. Of all single-bit faults in
/// packets of up to 26 kB, two pass: bit 3 of byte 173 and bit 6 of byte 1834.
///
/// # Errors
/// [`IcrcError`]: no identification makes the ICRC right.
pub fn verify_hidden_id(
    src: [u8; 4],
    dst: [u8; 4],
    source_port: u16,
    guess: u16,
    packet: &[u8],
) -> Result<u16, IcrcError> {
    let (covered, received) = split(packet)?;
    let computed = crc(&IpContext::V4 { src, dst, id: guess, source_port }, covered);
    let difference = computed ^ u32::from_le_bytes(received);
    if difference == 0 {
        return Ok(guess);
    }
    // The register's low 16 bits meet the identification, the next eight the byte with the flags.
    let before_id = retreat(difference, FROM_ID_TO_PACKET + covered.len());
    match before_id >> 16 {
        0 | DONT_FRAGMENT_CLEARED => Ok(guess ^ (before_id as u16).swap_bytes()),
        _ => Err(IcrcError::Mismatch { computed: computed.to_le_bytes(), received }),
    }
}

const ID_OFFSET: usize = 4;
const FROM_ID_TO_PACKET: usize = Ipv4Header::LEN - ID_OFFSET + UdpHeader::LEN;
const DONT_FRAGMENT_CLEARED: u32 = 0x40;
