//! What a backend is: something that opens fabrics of endpoints with the verbs, and perhaps faults, a trace and a raw
//! peer besides.

use crate::needs::Need;
use crate::verbs::{Endpoint, Verbs};
use ferroce_emulator::rules::ScriptRule;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// An implementation of the verbs under test, and the way to it.
pub trait Backend {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// What it lacks on this machine besides what its file says, and why.
    fn lacks_here(&self) -> Vec<(Need, String)> {
        Vec::new()
    }

    /// Opens a fabric.
    ///
    /// # Errors
    /// The backend cannot be had here, with what to do about it.
    fn open(&self, spec: &FabricSpec) -> Result<Box<dyn Fabric>, OpenError>;
}

/// What a fabric is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FabricSpec {
    /// Endpoints with the verbs.
    pub endpoints: usize,
    /// Whether there is a raw peer.
    pub raw_peer: bool,
    /// Whether packets between endpoints pass where faults and the trace are.
    pub observed: bool,
    /// From this follow all chances, where the backend has a say in them.
    pub seed: u64,
}

impl Default for FabricSpec {
    fn default() -> Self {
        FabricSpec { endpoints: 2, raw_peer: false, observed: false, seed: 0 }
    }
}

/// Why a fabric was not opened.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("backend {backend}: {reason}")]
pub struct OpenError {
    /// The backend's name.
    pub backend: &'static str,
    /// What is in the way.
    pub reason: String,
}

/// Endpoints that reach one another, and the means to let things happen between them.
pub trait Fabric: Verbs {
    /// Lets things happen until `done` says so. `false` if it never did: nothing more will happen, or the backend has
    /// lost its patience.
    fn wait(&mut self, done: &mut dyn FnMut(&mut dyn Fabric) -> bool) -> bool;

    /// Lets everything happen that is under way now. Timers that end within `ns` nanoseconds end where time is virtual,
    /// and may or may not end elsewhere.
    fn settle(&mut self, ns: u64);

    /// Nanoseconds since some moment, as the fabric sees time.
    fn now_ns(&self) -> u64;

    /// Adds a rule about packets between endpoints, which are called a, b, c … in it.
    ///
    /// # Errors
    /// The backend has no faults.
    fn add_fault(&mut self, rule: ScriptRule) -> Result<(), Unable> {
        let _ = rule;
        Err(Unable(Need::Faults))
    }

    /// The packets that left their hosts since the last call, before faults.
    ///
    /// # Errors
    /// The backend has no trace.
    fn take_trace(&mut self) -> Result<Vec<Traced>, Unable> {
        Err(Unable(Need::Trace))
    }

    /// Where packets for an endpoint are sent, if that is not its own address.
    fn way_to(&self, to: Endpoint, version: IpVersion) -> Option<IpAddr> {
        let _ = (to, version);
        None
    }

    /// The raw peer's address.
    ///
    /// # Errors
    /// There is no raw peer, or not over this version of IP.
    fn raw_address(&self, version: IpVersion) -> Result<IpAddr, Unable> {
        Err(Unable(version.raw_need()))
    }

    /// Sends a packet from the raw peer.
    ///
    /// # Errors
    /// There is no raw peer, or it cannot make such a packet.
    fn raw_send(&mut self, packet: &RawPacket) -> Result<(), Unable> {
        let _ = packet;
        Err(Unable(Need::RawPeer))
    }

    /// The next packet that came to the raw peer, if there is one.
    fn raw_receive(&mut self) -> Option<RawReceived> {
        None
    }
}

/// The backend has no such thing; the case should have said that it needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("this backend has no {0}, which the case did not say it needs")]
pub struct Unable(pub Need);

/// A packet on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Traced {
    /// When, nanoseconds of [`Fabric::now_ns`].
    pub at_ns: u64,
    /// Who sent it.
    pub from: Endpoint,
    /// The whole TOS byte or traffic class.
    pub traffic_class: u8,
    /// BTH to ICRC.
    pub payload: Vec<u8>,
}

/// A packet that the raw peer sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawPacket {
    /// Where it claims to come from.
    pub from: RawSource,
    /// Over which IP.
    pub version: IpVersion,
    /// UDP source port; `None` leaves it to the peer.
    pub source_port: Option<u16>,
    /// The whole TOS byte or traffic class.
    pub traffic_class: u8,
    /// BTH to ICRC.
    pub payload: Vec<u8>,
    /// Whether the last four bytes become the right ICRC.
    pub seal: bool,
    /// What is wrong with the headers in front.
    pub envelope: Envelope,
    /// Whether it goes to [`RawPacket::group`] and not to the endpoint.
    pub to_group: bool,
}

impl RawPacket {
    /// The multicast group that raw packets to a group go to.
    pub const fn group(version: IpVersion) -> IpAddr {
        match version {
            IpVersion::V4 => IpAddr::V4(Ipv4Addr::new(224, 0, 7, 9)),
            IpVersion::V6 => IpAddr::V6(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0x709)),
        }
    }
}

/// Where a raw packet claims to come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawSource {
    /// The peer's own address.
    Peer,
    /// Another address.
    Stranger,
}

/// The IP and UDP headers of a raw packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Envelope {
    /// As they should be.
    True,
    /// IPv4 options, so that IHL is 6.
    IpOptions,
    /// A UDP length that differs from the IP datagram's by so many bytes.
    UdpLength(i16),
}

/// A packet that came to the raw peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawReceived {
    /// When, nanoseconds of [`Fabric::now_ns`].
    pub at_ns: u64,
    /// BTH to ICRC.
    pub payload: Vec<u8>,
    /// Whether its ICRC is right.
    pub sealed: bool,
    /// The whole TOS byte or traffic class; `None` where the peer cannot see it.
    pub traffic_class: Option<u8>,
}

/// A version of IP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// Both.
    pub const ALL: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];

    /// What a case with a raw peer over it needs.
    pub const fn raw_need(self) -> Need {
        match self {
            IpVersion::V4 => Need::RawPeer,
            IpVersion::V6 => Need::RawPeerIpv6,
        }
    }

    /// What a case with multicast groups over it needs.
    pub const fn group_need(self) -> Need {
        match self {
            IpVersion::V4 => Need::Multicast,
            IpVersion::V6 => Need::MulticastIpv6,
        }
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IpVersion::V4 => "ipv4",
            IpVersion::V6 => "ipv6",
        })
    }
}
