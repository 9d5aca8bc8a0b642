//! What a process binds: a port of a port space at some of the host's addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use ferroce_cm::{ListenAddr, ListenScope};
use ferroce_wire::cm::{PortSpace, ServiceId};

/// A port at some addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The port space.
    pub space: PortSpace,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// At which addresses.
    pub scope: ListenScope,
    /// Whether others that say so, too, may bind the same (`RDMA_OPTION_ID_REUSEADDR`).
    pub shares: bool,
}

impl Binding {
    /// What somebody listens on who has it.
    pub fn listen_addr(&self) -> ListenAddr {
        ListenAddr { service: ServiceId::of_port(self.space, self.port), scope: self.scope }
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = ServiceId::of_port(self.space, self.port);
        match self.scope {
            ListenScope::Any => write!(f, "{service} at all addresses"),
            ListenScope::AnyV4 => write!(f, "{service} at all IPv4 addresses"),
            ListenScope::AnyV6 => write!(f, "{service} at all IPv6 addresses"),
            ListenScope::Address(ip) => write!(f, "{service} at {ip}"),
        }
    }
}

/// A scope as a number and an address.
pub(crate) fn encode_scope(scope: ListenScope) -> (u32, [u8; 16]) {
    match scope {
        ListenScope::Any => (0, [0; 16]),
        ListenScope::AnyV4 => (1, [0; 16]),
        ListenScope::AnyV6 => (2, [0; 16]),
        ListenScope::Address(ip) => (3, octets(ip)),
    }
}

/// The scope again.
pub(crate) fn decode_scope(kind: u32, address: [u8; 16]) -> Option<ListenScope> {
    Some(match kind {
        0 => ListenScope::Any,
        1 => ListenScope::AnyV4,
        2 => ListenScope::AnyV6,
        3 => ListenScope::Address(address_of(address)),
        _ => return None,
    })
}

/// An address in 16 bytes; IPv4 as IPv6 maps it.
pub(crate) fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The address again.
pub(crate) fn address_of(octets: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(octets).to_canonical()
}
