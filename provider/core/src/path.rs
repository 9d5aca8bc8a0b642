//! Where packets go to and where they came from.

use std::net::IpAddr;

/// The IP level of a connection, resolved from its address vector and GID.
///
/// Packets of one path stay in order. IPv6 link-local addresses need the interface they belong to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Path {
    /// Source address: the GID at the QP's `sgid_index`.
    pub src: IpAddr,
    /// Destination address: the DGID.
    pub dst: IpAddr,
    /// Interface index for link-local addresses; 0 otherwise.
    pub interface: u32,
    /// The whole TOS byte or traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// UDP source port.
    pub source_port: u16,
    /// The receiving process's slot when it is on this host: whose socket buffer the packets fill. A sink may
    /// hold packets back for it; the transport does not look at it.
    pub receiver: Option<u8>,
}

impl Path {
    /// Whether the packets stay on this host.
    pub(crate) fn is_local(&self) -> bool {
        self.receiver.is_some() || self.src == self.dst || self.dst.to_canonical().is_loopback()
    }
}

/// What was seen around a received UDP payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketMeta {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// UDP source port.
    pub source_port: u16,
    /// The whole TOS byte or traffic class.
    pub traffic_class: u8,
    /// Whether the ICRC has been checked already; the core checks it otherwise.
    pub icrc_checked: bool,
    /// The IPv4 identification, which the ICRC covers; without meaning over IPv6.
    pub ip_id: Ipv4Id,
    /// Whether it came from the system in one piece with the packet before it (segmentation offload).
    pub continues: bool,
}

/// What a port knows of a packet's IPv4 identification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ipv4Id {
    /// It was in the header.
    Seen(u16),
    /// The port does not see the IP header. Any other identification is as good, if the ICRC fits it.
    Guessed(u16),
}

impl Ipv4Id {
    /// The number.
    pub fn value(self) -> u16 {
        match self {
            Ipv4Id::Seen(id) | Ipv4Id::Guessed(id) => id,
        }
    }
}

/// `class` as a sender that reacts to marks uses it (CA17-5, CA17-14): ECT(0), unless it says something itself.
pub(crate) fn ecn_capable(class: u8) -> u8 {
    if class & ECN_BITS == 0 { class | ECT_0 } else { class }
}

/// The ECN field of a TOS byte, and the codepoint ECT(0) in it.
const ECN_BITS: u8 = 3;
const ECT_0: u8 = 2;

/// The ECN field of a TOS byte (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ecn {
    /// Not ECN-capable.
    NotEct,
    /// ECN-capable.
    Ect,
    /// Congestion experienced.
    Ce,
}

impl PacketMeta {
    /// The ECN mark the packet arrived with.
    pub fn ecn(&self) -> Ecn {
        match self.traffic_class & ECN_BITS {
            0 => Ecn::NotEct,
            3 => Ecn::Ce,
            _ => Ecn::Ect,
        }
    }
}
