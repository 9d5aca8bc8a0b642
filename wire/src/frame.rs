//! Whole frames, as captures and raw sockets have them: from Ethernet (or IP) down to the packet.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::header::PROTOCOL_UDP;
use crate::icrc::{self, IcrcError};
use crate::{
    EthernetHeader, Grh, ICRC_LEN, Ipv4Header, Ipv6Header, Packet, ParseError, ROCE_UDP_PORT, UdpHeader,
    VlanTag,
};

/// A frame that carries a RoCE packet, with the lengths of its headers in agreement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    ethernet: Option<&'a EthernetHeader>,
    vlan: Option<&'a VlanTag>,
    network: Network<'a>,
    transport: &'a [u8],
}

/// The headers that carry a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network<'a> {
    /// RoCEv2 over IPv4.
    Ipv4(&'a Ipv4Header, &'a UdpHeader),
    /// RoCEv2 over IPv6.
    Ipv6(&'a Ipv6Header, &'a UdpHeader),
    /// RoCEv1.
    RoceV1(&'a Grh),
}

impl<'a> Frame<'a> {
    /// Takes an Ethernet frame apart, without its FCS. Bytes behind the IP datagram are padding and ignored.
    ///
    /// # Errors
    /// [`FrameError`]: another protocol, or lengths that contradict each other.
    pub fn parse_ethernet(bytes: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        let (ethernet, rest) = header::<EthernetHeader>(bytes, "Ethernet header")?;
        let (vlan, ethertype, rest) = match ethernet.ethertype() {
            EthernetHeader::VLAN => {
                let (tag, rest) = header::<VlanTag>(rest, "VLAN tag")?;
                (Some(tag), tag.ethertype(), rest)
            }
            ethertype => (None, ethertype, rest),
        };
        let (network, transport) = match ethertype {
            EthernetHeader::IPV4 => parse_ipv4(rest)?,
            EthernetHeader::IPV6 => parse_ipv6(rest)?,
            EthernetHeader::ROCEV1 => parse_grh(rest)?,
            other => return Err(FrameError::Ethertype(other)),
        };
        Ok(Frame { ethernet: Some(ethernet), vlan, network, transport })
    }

    /// Takes an IP datagram apart, as a raw socket or a tun device has it.
    ///
    /// # Errors
    /// [`FrameError`]: another protocol, or lengths that contradict each other.
    pub fn parse_ip(bytes: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        let first = bytes.first().ok_or(FrameError::TooShort { what: "IP header", len: 0, need: 1 })?;
        let (network, transport) = match first >> 4 {
            4 => parse_ipv4(bytes)?,
            6 => parse_ipv6(bytes)?,
            other => return Err(FrameError::IpVersion(other)),
        };
        Ok(Frame { ethernet: None, vlan: None, network, transport })
    }

    /// The Ethernet header, if the frame was parsed from one.
    pub fn ethernet(&self) -> Option<&'a EthernetHeader> {
        self.ethernet
    }

    /// The 802.1Q tag, if there is one.
    pub fn vlan(&self) -> Option<&'a VlanTag> {
        self.vlan
    }

    /// The headers that carry the packet.
    pub fn network(&self) -> Network<'a> {
        self.network
    }

    /// BTH to ICRC.
    pub fn transport(&self) -> &'a [u8] {
        self.transport
    }

    /// The packet.
    ///
    /// # Errors
    /// As [`Packet::parse`].
    pub fn packet(&self) -> Result<Packet<'a>, ParseError> {
        Packet::parse(self.transport)
    }

    /// Checks the ICRC against all headers as they are in the frame.
    ///
    /// # Errors
    /// As [`icrc::verify`].
    pub fn verify_icrc(&self) -> Result<(), IcrcError> {
        icrc::verify_behind(&self.network, self.transport)
    }

    /// The ICRC as it should be, in wire order.
    pub fn compute_icrc(&self) -> [u8; ICRC_LEN] {
        let covered = self.transport.len().saturating_sub(ICRC_LEN);
        icrc::compute_behind(&self.network, &self.transport[..covered])
    }
}

fn parse_ipv4(bytes: &[u8]) -> Result<(Network<'_>, &[u8]), FrameError> {
    let (ip, _) = header::<Ipv4Header>(bytes, "IPv4 header")?;
    if ip.version() != 4 {
        return Err(FrameError::IpVersion(ip.version()));
    }
    if ip.protocol() != PROTOCOL_UDP {
        return Err(FrameError::Protocol(ip.protocol()));
    }
    // CA17-3, CA17-8.
    if ip.header_len() != Ipv4Header::LEN {
        return Err(FrameError::IpOptions { header_len: ip.header_len() });
    }
    if ip.is_fragment() {
        return Err(FrameError::Fragment);
    }
    let datagram = cut(bytes, usize::from(ip.total_len()), "IPv4 datagram")?;
    let (_, rest) = header::<Ipv4Header>(datagram, "IPv4 header")?;
    let (udp, payload) = parse_udp(rest)?;
    Ok((Network::Ipv4(ip, udp), payload))
}

fn parse_ipv6(bytes: &[u8]) -> Result<(Network<'_>, &[u8]), FrameError> {
    let (ip, rest) = header::<Ipv6Header>(bytes, "IPv6 header")?;
    if ip.version() != 6 {
        return Err(FrameError::IpVersion(ip.version()));
    }
    if ip.next_header() != PROTOCOL_UDP {
        return Err(FrameError::Protocol(ip.next_header()));
    }
    let (udp, payload) = parse_udp(cut(rest, usize::from(ip.payload_len()), "IPv6 payload")?)?;
    Ok((Network::Ipv6(ip, udp), payload))
}

fn parse_grh(bytes: &[u8]) -> Result<(Network<'_>, &[u8]), FrameError> {
    let (grh, rest) = header::<Grh>(bytes, "GRH")?;
    if grh.version() != 6 {
        return Err(FrameError::IpVersion(grh.version()));
    }
    if grh.next_header() != Grh::NEXT_IS_BTH {
        return Err(FrameError::Protocol(grh.next_header()));
    }
    Ok((Network::RoceV1(grh), cut(rest, usize::from(grh.payload_len()), "GRH payload")?))
}

/// `datagram` is all that IP carries.
fn parse_udp(datagram: &[u8]) -> Result<(&UdpHeader, &[u8]), FrameError> {
    let (udp, payload) = header::<UdpHeader>(datagram, "UDP header")?;
    if udp.destination_port() != ROCE_UDP_PORT {
        return Err(FrameError::DestinationPort(udp.destination_port()));
    }
    if usize::from(udp.datagram_len()) != datagram.len() {
        return Err(FrameError::UdpLength { udp: udp.datagram_len(), ip: datagram.len() });
    }
    Ok((udp, payload))
}

fn header<'a, T: FromBytes + KnownLayout + Immutable + Unaligned>(
    bytes: &'a [u8],
    what: &'static str,
) -> Result<(&'a T, &'a [u8]), FrameError> {
    let need = size_of::<T>();
    T::ref_from_prefix(bytes).map_err(|_| FrameError::TooShort { what, len: bytes.len(), need })
}

fn cut<'a>(bytes: &'a [u8], need: usize, what: &'static str) -> Result<&'a [u8], FrameError> {
    bytes.get(..need).ok_or(FrameError::TooShort { what, len: bytes.len(), need })
}

/// Why a frame carries no RoCE packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// Something ends before its length.
    TooShort {
        /// What ends.
        what: &'static str,
        /// Bytes there are.
        len: usize,
        /// Bytes there must be.
        need: usize,
    },
    /// Another protocol over Ethernet.
    Ethertype(u16),
    /// An IP version that does not belong here.
    IpVersion(u8),
    /// Another protocol over IP.
    Protocol(u8),
    /// A datagram to another port.
    DestinationPort(u16),
    /// IPv4 options (or a header length below its own), which RoCEv2 does not allow.
    IpOptions {
        /// Header length in bytes.
        header_len: usize,
    },
    /// A fragment, which RoCEv2 does not allow.
    Fragment,
    /// UDP and IP disagree about the length of the datagram.
    UdpLength {
        /// Bytes according to UDP.
        udp: u16,
        /// Bytes according to IP.
        ip: usize,
    },
}

impl FrameError {
    /// Whether it is simply no RoCE, rather than RoCE gone wrong.
    pub fn is_other_protocol(&self) -> bool {
        matches!(self, FrameError::Ethertype(_) | FrameError::Protocol(_) | FrameError::DestinationPort(_))
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FrameError::TooShort { what, len, need } => write!(f, "{what} of {need} bytes ends after {len}"),
            FrameError::Ethertype(ethertype) => write!(f, "not RoCE: ethertype {ethertype:#06x}"),
            FrameError::IpVersion(version) => write!(f, "IP version {version}"),
            FrameError::Protocol(protocol) => write!(f, "not RoCE: IP protocol {protocol}"),
            FrameError::DestinationPort(port) => {
                write!(f, "not RoCE: UDP port {port}, where RoCE has {ROCE_UDP_PORT}")
            }
            FrameError::IpOptions { header_len } => {
                write!(f, "IPv4 header of {header_len} bytes, where RoCE allows no options")
            }
            FrameError::Fragment => write!(f, "an IPv4 fragment, which RoCE does not allow"),
            FrameError::UdpLength { udp, ip } => write!(f, "UDP length {udp}, where IP carries {ip} bytes"),
        }
    }
}

impl core::error::Error for FrameError {}

/// One line in tcpdump's manner: `IP 10.77.0.2.49153 > 10.77.0.3.4791: RC_SEND_ONLY qpn …`.
impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vlan) = self.vlan {
            write!(f, "{vlan}, ")?;
        }
        write!(f, "{}: ", self.network)?;
        match self.packet() {
            Ok(packet) => write!(f, "{packet}"),
            Err(error) => write!(f, "malformed: {error}"),
        }
    }
}

impl fmt::Display for Network<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::Ipv4(ip, udp) => write!(
                f,
                "IP {}.{} > {}.{}",
                Ipv4Addr::from(ip.source()),
                udp.source_port(),
                Ipv4Addr::from(ip.destination()),
                udp.destination_port()
            ),
            Network::Ipv6(ip, udp) => write!(
                f,
                "IP6 {}.{} > {}.{}",
                Ipv6Addr::from(ip.source()),
                udp.source_port(),
                Ipv6Addr::from(ip.destination()),
                udp.destination_port()
            ),
            Network::RoceV1(grh) => {
                write!(f, "GRH {} > {}", Ipv6Addr::from(grh.sgid()), Ipv6Addr::from(grh.dgid()))
            }
        }
    }
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({self})")
    }
}

#[cfg(test)]
mod tests;
