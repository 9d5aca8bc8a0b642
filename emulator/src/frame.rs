//! Ethernet frames as they travel: built once, with true headers, and edited only by faults and by marks.

use bytes::Bytes;
use ferroce_core::Path;
use ferroce_wire::frame::{Frame as Parsed, FrameError, Network};
use ferroce_wire::icrc::{self, IpContext};
use ferroce_wire::{EthernetHeader, ICRC_LEN, Ipv4Header, Ipv6Header, UdpHeader};
use std::net::IpAddr;
use zerocopy::IntoBytes;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// A frame, without preamble and FCS. Clones share their bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    bytes: Bytes,
    priority: u8,
}

/// What stands in front of a UDP payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub(crate) source: Mac,
    pub(crate) destination: Mac,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    pub(crate) flow_label: u32,
    pub(crate) source_port: u16,
    /// IPv4 identification.
    pub(crate) ip_id: u16,
}

impl Envelope {
    /// The envelope of a packet on `path`.
    pub(crate) fn new(source: Mac, destination: Mac, path: &Path, ip_id: u16) -> Envelope {
        Envelope {
            source,
            destination,
            src: path.src.to_canonical(),
            dst: path.dst.to_canonical(),
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            flow_label: path.flow_label,
            source_port: path.source_port,
            ip_id,
        }
    }

    /// Bytes of the headers in front of a UDP payload from `src` to `dst`.
    pub(crate) fn len(src: IpAddr, dst: IpAddr) -> usize {
        let is_v4 = src.to_canonical().is_ipv4() && dst.to_canonical().is_ipv4();
        let ip = if is_v4 { Ipv4Header::LEN } else { Ipv6Header::LEN };
        EthernetHeader::LEN + ip + UdpHeader::LEN
    }

    /// Writes the headers to the start of `bytes`, which has the UDP payload behind room for them.
    fn write(&self, bytes: &mut [u8]) {
        let (head, payload) = bytes.split_at_mut(Self::len(self.src, self.dst));
        let udp = UdpHeader::new(self.source_port, payload.len() as u16);
        let (ethernet, rest) = head.split_at_mut(EthernetHeader::LEN);
        let (ip, rest) = rest.split_at_mut(rest.len() - UdpHeader::LEN);
        rest.copy_from_slice(udp.as_bytes());
        let ethertype = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = Ipv4Header::new(src.octets(), dst.octets(), udp.datagram_len())
                    .with_tos(self.traffic_class)
                    .with_id(self.ip_id)
                    .with_ttl(self.hop_limit)
                    .with_checksum();
                ip.copy_from_slice(header.as_bytes());
                EthernetHeader::IPV4
            }
            (src, dst) => {
                let header = Ipv6Header::new(octets(src), octets(dst), udp.datagram_len())
                    .with_traffic_class(self.traffic_class)
                    .with_flow_label(self.flow_label)
                    .with_hop_limit(self.hop_limit);
                ip.copy_from_slice(header.as_bytes());
                EthernetHeader::IPV6
            }
        };
        ethernet.copy_from_slice(EthernetHeader::new(self.destination, self.source, ethertype).as_bytes());
    }

    fn icrc_context(&self) -> IpContext {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => IpContext::V4 {
                src: src.octets(),
                dst: dst.octets(),
                id: self.ip_id,
                source_port: self.source_port,
            },
            (src, dst) => IpContext::V6 { src: octets(src), dst: octets(dst), source_port: self.source_port },
        }
    }
}

fn octets(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl Frame {
    /// Finishes a frame whose UDP payload lies in `bytes` behind room for its headers; `seal` computes the ICRC.
    pub(crate) fn finish(envelope: &Envelope, mut bytes: Vec<u8>, seal: bool) -> Frame {
        let payload = Envelope::len(envelope.src, envelope.dst);
        envelope.write(&mut bytes);
        if seal && bytes.len() >= payload + ICRC_LEN {
            icrc::seal(&envelope.icrc_context(), &mut bytes[payload..]);
        }
        Frame { bytes: bytes.into(), priority: priority(envelope.traffic_class) }
    }

    /// A frame around an IP datagram, whatever is in it; it waits in the queue of priority 0.
    pub(crate) fn of_datagram(destination: Mac, source: Mac, is_ipv4: bool, datagram: &[u8]) -> Frame {
        let ethertype = if is_ipv4 { EthernetHeader::IPV4 } else { EthernetHeader::IPV6 };
        let mut bytes = EthernetHeader::new(destination, source, ethertype).as_bytes().to_vec();
        bytes.extend_from_slice(datagram);
        Frame { bytes: bytes.into(), priority: 0 }
    }

    /// A frame that carries no RoCE packet, sent before all others.
    pub(crate) fn control(bytes: Vec<u8>) -> Frame {
        Frame { bytes: bytes.into(), priority: PRIORITIES as u8 - 1 }
    }

    #[cfg(test)]
    pub(crate) fn with_priority(bytes: Vec<u8>, priority: u8) -> Frame {
        Frame { bytes: bytes.into(), priority }
    }

    /// The bytes from the Ethernet header on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The queue it waits in, 0 to 7: the upper three bits of its DSCP.
    pub fn priority(&self) -> usize {
        usize::from(self.priority)
    }

    /// Its headers.
    ///
    /// # Errors
    /// It carries no RoCE packet.
    pub fn parse(&self) -> Result<Parsed<'_>, FrameError> {
        Parsed::parse_ethernet(&self.bytes)
    }

    /// Where it goes.
    pub(crate) fn destination(&self) -> Mac {
        self.address(0)
    }

    pub(crate) fn source(&self) -> Mac {
        self.address(size_of::<Mac>())
    }

    fn address(&self, at: usize) -> Mac {
        let mut mac = Mac::default();
        mac.copy_from_slice(&self.bytes[at..at + size_of::<Mac>()]);
        mac
    }

    /// Bytes that it occupies a link for: padded to the least Ethernet frame, with FCS, preamble and gap.
    pub fn wire_len(&self) -> u64 {
        wire_len(self.bytes.len())
    }

    /// Bytes of its IP datagram, which a link's MTU bounds.
    pub(crate) fn datagram_len(&self) -> usize {
        self.bytes.len() - EthernetHeader::LEN
    }

    /// The same with the ECN mark CE, or `None` if it is not ECN-capable and `forced` does not say to mark it all
    /// the same.
    pub(crate) fn marked(&self, forced: bool) -> Option<Frame> {
        let (envelope, _) = self.envelope()?;
        match envelope.traffic_class & CE {
            0 if !forced => None,
            CE => Some(self.clone()),
            _ => {
                let envelope = Envelope { traffic_class: envelope.traffic_class | CE, ..envelope };
                Some(Frame::finish(&envelope, self.bytes.to_vec(), false))
            }
        }
    }

    /// The same with one bit of the UDP payload flipped, counted from the first; the count wraps at its end.
    pub(crate) fn damaged(&self, bit: u64) -> Frame {
        let payload = self.payload_range();
        let mut bytes = self.bytes.to_vec();
        let bits = (payload.len() as u64 * 8).max(1);
        if let Some(byte) = bytes[payload].get_mut((bit % bits / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
        Frame { bytes: bytes.into(), ..*self }
    }

    /// The same around another UDP payload; `seal` computes its ICRC.
    pub(crate) fn replaced(&self, payload: &[u8], seal: bool) -> Frame {
        match self.envelope() {
            Some((envelope, head)) => {
                let mut bytes = vec![0; head + payload.len()];
                bytes[head..].copy_from_slice(payload);
                Frame::finish(&envelope, bytes, seal)
            }
            None => self.clone(),
        }
    }

    /// The same with only the first `len` bytes of its UDP payload.
    pub(crate) fn truncated(&self, len: usize) -> Frame {
        let payload = self.payload_range();
        let end = (payload.start + len).min(payload.end);
        self.replaced(&self.bytes[payload.start..end], false)
    }

    /// Bits of its UDP payload.
    pub(crate) fn payload_bits(&self) -> u64 {
        self.payload_range().len() as u64 * 8
    }

    fn payload_range(&self) -> std::ops::Range<usize> {
        let start = self.envelope().map_or(EthernetHeader::LEN, |(_, start)| start);
        start..self.bytes.len()
    }

    /// What it was made with, and where its UDP payload begins.
    fn envelope(&self) -> Option<(Envelope, usize)> {
        let parsed = self.parse().ok()?;
        let (src, dst, traffic_class, hop_limit, flow_label, source_port, ip_id) = match parsed.network() {
            Network::Ipv4(ip, udp) => {
                let (src, dst) = (IpAddr::from(ip.source()), IpAddr::from(ip.destination()));
                (src, dst, ip.tos(), ip.ttl(), 0, udp.source_port(), ip.id())
            }
            Network::Ipv6(ip, udp) => {
                let (src, dst) = (IpAddr::from(ip.source()), IpAddr::from(ip.destination()));
                (src, dst, ip.traffic_class(), ip.hop_limit(), ip.flow_label(), udp.source_port(), 0)
            }
            Network::RoceV1(_) => return None,
        };
        let (source, destination) = (self.source(), self.destination());
        let envelope = Envelope {
            source,
            destination,
            src,
            dst,
            traffic_class,
            hop_limit,
            flow_label,
            source_port,
            ip_id,
        };
        Some((envelope, self.bytes.len() - parsed.transport().len()))
    }
}

/// Bytes that a frame of `len` bytes, without FCS, occupies a link for.
pub(crate) fn wire_len(len: usize) -> u64 {
    (len.max(MIN_FRAME) + FRAME_OVERHEAD) as u64
}

/// The priority of a traffic class: the class selector, which is the upper half of the DSCP. So DSCP 26, the usual
/// class of RoCE, has priority 3, and DSCP 48, that of CNPs, has 6.
pub fn priority(traffic_class: u8) -> u8 {
    traffic_class >> 5
}

/// Priorities of IEEE 802.1p.
pub const PRIORITIES: usize = 8;

/// The ECN field of a traffic class when it says congestion experienced; its bits.
const CE: u8 = 3;
/// Least length of an Ethernet frame without FCS.
const MIN_FRAME: usize = 60;
/// Preamble (8), FCS (4) and inter-frame gap (12).
const FRAME_OVERHEAD: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_wire::{Opcode, PacketHeader, Psn, Qpn};

    fn frame(src: &str, dst: &str, traffic_class: u8) -> Frame {
        let envelope = Envelope {
            source: [2, 0, 0, 0, 0, 1],
            destination: [2, 0, 0, 0, 0, 2],
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            traffic_class,
            hop_limit: 64,
            flow_label: 7,
            source_port: 0xc000,
            ip_id: 99,
        };
        let header = PacketHeader::new(Opcode::RC_SEND_ONLY, Qpn::new(0x11), Psn::new(5));
        let head = Envelope::len(envelope.src, envelope.dst);
        let mut bytes = vec![0; head + header.packet_len(5)];
        header.write(&mut bytes[head..], 5).copy_from_slice(b"hello");
        Frame::finish(&envelope, bytes, true)
    }

    fn both(traffic_class: u8) -> [Frame; 2] {
        [frame("10.0.0.1", "10.0.0.2", traffic_class), frame("fd00::1", "fd00::2", traffic_class)]
    }

    #[test]
    fn headers_are_true() {
        for frame in both(26 << 2 | 2) {
            let parsed = frame.parse().expect("a RoCE frame");
            assert_eq!(parsed.verify_icrc(), Ok(()));
            assert_eq!(parsed.packet().expect("a packet").payload(), b"hello");
            assert_eq!(
                (frame.priority(), frame.destination(), frame.source()[5]),
                (3, [2, 0, 0, 0, 0, 2], 1)
            );
            if let Network::Ipv4(ip, _) = parsed.network() {
                assert!(ip.is_checksum_right() && ip.dont_fragment());
            }
        }
        // 14 + 20 + 8 + 12 + 8 + 4, and 24 more on the wire.
        assert_eq!(
            (both(0)[0].bytes().len(), both(0)[0].wire_len(), both(0)[0].datagram_len()),
            (66, 90, 52)
        );
    }

    #[test]
    fn a_mark_changes_the_traffic_class_alone() {
        for ect in [1, 2] {
            for frame in both(ect) {
                let marked = frame.marked(false).expect("it is ECN-capable");
                let parsed = marked.parse().expect("a RoCE frame");
                assert_eq!(parsed.verify_icrc(), Ok(()), "the ICRC leaves the mark out");
                match parsed.network() {
                    Network::Ipv4(ip, _) => assert!(ip.tos() == 3 && ip.is_checksum_right() && ip.id() == 99),
                    Network::Ipv6(ip, _) => assert_eq!((ip.traffic_class(), ip.flow_label()), (3, 7)),
                    Network::RoceV1(_) => panic!("no RoCEv1 here"),
                }
            }
        }
        for frame in both(0) {
            assert_eq!(frame.marked(false), None);
            assert!(frame.marked(true).is_some());
        }
    }

    #[test]
    fn damage_shows_in_the_icrc_alone() {
        for frame in both(0) {
            for bit in [0, 95, frame.payload_bits() - 1, frame.payload_bits()] {
                let damaged = frame.damaged(bit);
                assert_eq!(damaged.bytes().len(), frame.bytes().len());
                let parsed = damaged.parse().expect("the headers in front are whole");
                // The reserved byte of the BTH is the only one that the ICRC leaves out.
                assert!(parsed.verify_icrc().is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn another_payload_has_headers_that_agree_with_it() {
        for frame in both(2) {
            let short = frame.truncated(13);
            assert_eq!(short.parse().expect("lengths agree").transport().len(), 13);
            assert_eq!(frame.truncated(10_000), frame);
            let other = frame.replaced(&[0; 40], true);
            assert_eq!(other.parse().expect("lengths agree").verify_icrc(), Ok(()));
            assert_eq!(frame.replaced(&[], true).parse().expect("lengths agree").transport(), []);
        }
    }
}
