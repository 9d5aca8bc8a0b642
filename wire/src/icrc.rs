//! The invariant CRC: CRC-32 over everything that does not change on the way (Annex A17, CA17-22).
//!
//! It covers the IP and UDP headers too, with what routers change replaced by ones. A sender or receiver that sees
//! only UDP payloads describes them by an [`IpContext`]; the one thing it can't know, the IPv4 identification of a
//! received packet, is solved for by [`verify_hidden_id`].

use core::fmt;

use zerocopy::IntoBytes;

use crate::frame::Network;
use crate::{Bth, ICRC_LEN, Ipv4Header, Ipv6Header, UdpHeader};

mod hidden_id;
mod register;

pub use hidden_id::verify_hidden_id;

/// What the ICRC needs to know of the headers before the packet. The rest follows: lengths from the packet, the
/// destination port, and the flags (don't fragment, CA17-7). UDP checksum, traffic class, time to live and flow label
/// are masked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpContext {
    /// IPv4 without options.
    V4 {
        /// Source address.
        src: [u8; 4],
        /// Destination address.
        dst: [u8; 4],
        /// Identification.
        id: u16,
        /// UDP source port.
        source_port: u16,
    },
    /// IPv6 without extension headers.
    V6 {
        /// Source address.
        src: [u8; 16],
        /// Destination address.
        dst: [u8; 16],
        /// UDP source port.
        source_port: u16,
    },
}

/// The ICRC, in wire order, of a packet given without its ICRC: BTH to the last pad byte.
///
/// The packet must fit into one UDP datagram.
pub fn compute(ip: &IpContext, packet: &[u8]) -> [u8; ICRC_LEN] {
    crc(ip, packet).to_le_bytes()
}

/// Computes the ICRC of `packet` and writes it to its last four bytes.
///
/// # Panics
/// If the packet is shorter than the ICRC.
pub fn seal(ip: &IpContext, packet: &mut [u8]) {
    let (covered, icrc) = packet.split_last_chunk_mut().expect("a packet ends in its ICRC");
    *icrc = compute(ip, covered);
}

/// Checks a packet given with its ICRC.
///
/// # Errors
/// [`IcrcError`]; such a packet is to be dropped silently and counted, never answered.
pub fn verify(ip: &IpContext, packet: &[u8]) -> Result<(), IcrcError> {
    let (covered, received) = split(packet)?;
    check(compute(ip, covered), received)
}

/// The ICRC, in wire order, of a packet given without its ICRC, behind headers as they were sent: with their own
/// lengths, flags and ports.
pub fn compute_behind(network: &Network<'_>, packet: &[u8]) -> [u8; ICRC_LEN] {
    let crc = match network {
        Network::Ipv4(ip, udp) => crc_ipv4(ip, udp, packet),
        Network::Ipv6(ip, udp) => crc_ipv6(ip, udp, packet),
        Network::RoceV1(grh) => crc_behind(grh.masked().as_bytes(), packet),
    };
    crc.to_le_bytes()
}

/// Checks a packet given with its ICRC, behind headers as they were sent.
///
/// # Errors
/// [`IcrcError`]; such a packet is to be dropped silently and counted, never answered.
pub fn verify_behind(network: &Network<'_>, packet: &[u8]) -> Result<(), IcrcError> {
    let (covered, received) = split(packet)?;
    check(compute_behind(network, covered), received)
}

/// Why a packet's ICRC is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcrcError {
    /// There is no room for an ICRC.
    TooShort {
        /// Length of the packet in bytes.
        len: usize,
    },
    /// The packet is corrupt, or the headers before it are not those it was sent with.
    Mismatch {
        /// What it should be, in wire order.
        computed: [u8; ICRC_LEN],
        /// What came.
        received: [u8; ICRC_LEN],
    },
}

impl fmt::Display for IcrcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IcrcError::TooShort { len } => write!(f, "{len} bytes are too few to hold an ICRC"),
            IcrcError::Mismatch { computed, received } => write!(
                f,
                "ICRC {:08x}, computed {:08x}: the packet is corrupt or its IP addresses and ports were changed",
                u32::from_be_bytes(*received),
                u32::from_be_bytes(*computed)
            ),
        }
    }
}

impl core::error::Error for IcrcError {}

fn split(packet: &[u8]) -> Result<(&[u8], [u8; ICRC_LEN]), IcrcError> {
    let (covered, icrc) = packet.split_last_chunk().ok_or(IcrcError::TooShort { len: packet.len() })?;
    Ok((covered, *icrc))
}

fn check(computed: [u8; ICRC_LEN], received: [u8; ICRC_LEN]) -> Result<(), IcrcError> {
    if computed == received { Ok(()) } else { Err(IcrcError::Mismatch { computed, received }) }
}

fn crc(ip: &IpContext, packet: &[u8]) -> u32 {
    let udp_payload_len = (packet.len() + ICRC_LEN) as u16;
    let udp_len = udp_payload_len.wrapping_add(UdpHeader::LEN as u16);
    match *ip {
        IpContext::V4 { src, dst, id, source_port } => {
            let ip = Ipv4Header::new(src, dst, udp_len).with_id(id);
            crc_ipv4(&ip, &UdpHeader::new(source_port, udp_payload_len), packet)
        }
        IpContext::V6 { src, dst, source_port } => {
            let ip = Ipv6Header::new(src, dst, udp_len);
            crc_ipv6(&ip, &UdpHeader::new(source_port, udp_payload_len), packet)
        }
    }
}

fn crc_ipv4(ip: &Ipv4Header, udp: &UdpHeader, packet: &[u8]) -> u32 {
    let mut head = [0; Ipv4Header::LEN + UdpHeader::LEN];
    let (network, datagram) = head.split_at_mut(Ipv4Header::LEN);
    network.copy_from_slice(ip.masked().as_bytes());
    datagram.copy_from_slice(udp.masked().as_bytes());
    crc_behind(&head, packet)
}

fn crc_ipv6(ip: &Ipv6Header, udp: &UdpHeader, packet: &[u8]) -> u32 {
    let mut head = [0; Ipv6Header::LEN + UdpHeader::LEN];
    let (network, datagram) = head.split_at_mut(Ipv6Header::LEN);
    network.copy_from_slice(ip.masked().as_bytes());
    datagram.copy_from_slice(udp.masked().as_bytes());
    crc_behind(&head, packet)
}

/// The CRC over the masked headers `head` and `packet`, of which the fifth byte (FECN, BECN and reserved bits) is
/// masked too.
fn crc_behind(head: &[u8], packet: &[u8]) -> u32 {
    let mut start = [0; MAX_HEAD_LEN + Bth::LEN];
    let (bth, rest) = packet.split_at(packet.len().min(Bth::LEN));
    start[..head.len()].copy_from_slice(head);
    start[head.len()..][..bth.len()].copy_from_slice(bth);
    start[head.len() + MASKED_BTH_BYTE] = 0xff;
    let mut hasher = crc32fast::Hasher::new_with_initial(CRC_OF_MASKED_LRH);
    hasher.update(&start[..head.len() + bth.len()]);
    hasher.update(rest);
    hasher.finalize()
}

/// CRC-32 of the eight bytes of ones that stand for the local route header, which Ethernet does not have.
const CRC_OF_MASKED_LRH: u32 = 0x2144_df1c;
const MASKED_BTH_BYTE: usize = 4;

const MAX_HEAD_LEN: usize = Ipv6Header::LEN + UdpHeader::LEN;

#[cfg(test)]
mod tests;
