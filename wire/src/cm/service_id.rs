//! Service IDs, and how the RDMA CM makes them of a port space and a port.

use core::fmt;

/// What a REQ or SIDR_REQ wants to reach.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u64);

/// The port spaces of the RDMA CM (`rdma_port_space`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum PortSpace {
    /// IP over InfiniBand.
    Ipoib = 0x0002,
    /// Connected.
    Tcp = 0x0106,
    /// Datagrams.
    Udp = 0x0111,
    /// Native InfiniBand addressing.
    Ib = 0x013f,
}

impl ServiceId {
    /// The service ID of `port` in `space`, as the kernel's CM makes it.
    pub const fn of_port(space: PortSpace, port: u16) -> Self {
        ServiceId((space as u64) << PORT_BITS | port as u64)
    }

    /// The port space and the port, if it is a service ID of the RDMA CM.
    pub const fn port(self) -> Option<(PortSpace, u16)> {
        let port = self.0 as u16;
        match self.0 >> PORT_BITS {
            0x0002 => Some((PortSpace::Ipoib, port)),
            0x0106 => Some((PortSpace::Tcp, port)),
            0x0111 => Some((PortSpace::Udp, port)),
            0x013f => Some((PortSpace::Ib, port)),
            _ => None,
        }
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port() {
            Some((PortSpace::Ipoib, port)) => write!(f, "ipoib/{port}"),
            Some((PortSpace::Tcp, port)) => write!(f, "tcp/{port}"),
            Some((PortSpace::Udp, port)) => write!(f, "udp/{port}"),
            Some((PortSpace::Ib, port)) => write!(f, "ib/{port}"),
            None => write!(f, "{:#018x}", self.0),
        }
    }
}

impl fmt::Debug for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceId({self})")
    }
}

const PORT_BITS: u32 = 16;

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn ports_have_known_service_ids() {
        assert_eq!(ServiceId::of_port(PortSpace::Tcp, 7174), ServiceId(0x0000_0000_0106_1c06));
        assert_eq!(ServiceId::of_port(PortSpace::Udp, 0xffff), ServiceId(0x0000_0000_0111_ffff));
        for space in [PortSpace::Ipoib, PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib] {
            assert_eq!(ServiceId::of_port(space, 9).port(), Some((space, 9)));
        }
    }

    #[test]
    fn others_are_no_ports() {
        for id in [0, 0x1000_0000_0106_0001, 0x0107_0001, u64::MAX] {
            assert_eq!(ServiceId(id).port(), None);
        }
        assert_eq!(ServiceId(0x1000_0000_0106_0001).to_string(), "0x1000000001060001");
        assert_eq!(ServiceId(0x0106_0001).to_string(), "tcp/1");
    }
}
