//! The RDMA CM's own header: IP addresses and the source port, first in the private data of a REQ or SIDR_REQ whose
//! service ID is in an IP port space.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// RDMA CM address header, 36 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CmaHeader {
    cma_version: u8,
    ip_version: u8,
    port: U16,
    source: [u8; 16],
    destination: [u8; 16],
}

impl CmaHeader {
    /// Length in bytes; what private data has left belongs to the application.
    pub const LEN: usize = size_of::<Self>();
    /// The only version.
    pub const CMA_VERSION: u8 = 0;

    const IP_VERSION_SHIFT: u32 = 4;
    /// An IPv4 address lies in the last four of its 16 bytes.
    const IPV4_OFFSET: usize = 12;

    /// A connection from `source_port` at `source` to `destination`, IPv4.
    pub fn new_v4(source_port: u16, source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        Self::new(4, source_port, widened(source), widened(destination))
    }

    /// A connection from `source_port` at `source` to `destination`, IPv6.
    pub fn new_v6(source_port: u16, source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        Self::new(6, source_port, source.octets(), destination.octets())
    }

    fn new(ip_version: u8, port: u16, source: [u8; 16], destination: [u8; 16]) -> Self {
        CmaHeader {
            cma_version: Self::CMA_VERSION,
            ip_version: ip_version << Self::IP_VERSION_SHIFT,
            port: U16::new(port),
            source,
            destination,
        }
    }

    /// Looks at the beginning of private data, and returns what is left for the application.
    ///
    /// # Errors
    /// Too short, of another version, or neither IPv4 nor IPv6.
    pub fn parse(private_data: &[u8]) -> Result<(&CmaHeader, &[u8]), CmaError> {
        let (header, rest) =
            CmaHeader::ref_from_prefix(private_data).map_err(|_| CmaError::TooShort(private_data.len()))?;
        if header.cma_version != Self::CMA_VERSION {
            return Err(CmaError::Version(header.cma_version));
        }
        match header.ip_version() {
            4 | 6 => Ok((header, rest)),
            other => Err(CmaError::IpVersion(other)),
        }
    }

    /// 4 or 6.
    pub const fn ip_version(&self) -> u8 {
        self.ip_version >> Self::IP_VERSION_SHIFT
    }

    /// The port of the sender; the destination's is in the service ID.
    pub const fn source_port(&self) -> u16 {
        self.port.get()
    }

    /// Address of the sender.
    pub fn source(&self) -> IpAddr {
        self.address(self.source)
    }

    /// Address of the receiver.
    pub fn destination(&self) -> IpAddr {
        self.address(self.destination)
    }

    fn address(&self, bytes: [u8; 16]) -> IpAddr {
        let [.., a, b, c, d] = bytes;
        match self.ip_version() {
            4 => IpAddr::from([a, b, c, d]),
            _ => IpAddr::from(bytes),
        }
    }
}

fn widened(address: Ipv4Addr) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[CmaHeader::IPV4_OFFSET..].copy_from_slice(&address.octets());
    bytes
}

/// Why private data does not begin with an RDMA CM header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CmaError {
    /// Only this many bytes.
    TooShort(usize),
    /// Another version than 0.
    Version(u8),
    /// Neither 4 nor 6.
    IpVersion(u8),
}

impl fmt::Display for CmaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CmaError::TooShort(len) => {
                write!(f, "{len} bytes, where the RDMA CM's header has {}", CmaHeader::LEN)
            }
            CmaError::Version(version) => write!(f, "RDMA CM header version {version}, where only 0 exists"),
            CmaError::IpVersion(version) => write!(f, "IP version {version} in the RDMA CM's header"),
        }
    }
}

impl core::error::Error for CmaError {}

impl fmt::Display for CmaHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {} > {}", self.source(), self.source_port(), self.destination())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::header::testing::assert_header;

    #[test]
    fn ipv4_is_thirty_six_known_bytes() {
        let header = CmaHeader::new_v4(0x1234, [10, 77, 0, 2].into(), [10, 77, 0, 3].into());
        let mut bytes = [0; 36];
        bytes[..4].copy_from_slice(&[0, 0x40, 0x12, 0x34]);
        bytes[16..20].copy_from_slice(&[10, 77, 0, 2]);
        bytes[32..].copy_from_slice(&[10, 77, 0, 3]);
        assert_header(header, &bytes);
    }

    #[test]
    fn ipv6_is_thirty_six_known_bytes() {
        let mut bytes = [0; 36];
        bytes[..6].copy_from_slice(&[0, 0x60, 0, 9, 0xfd, 0x77]);
        bytes[19] = 2;
        bytes[20..22].copy_from_slice(&[0xfd, 0x77]);
        bytes[35] = 3;
        let (source, destination) =
            ("fd77::2".parse().expect("an address"), "fd77::3".parse().expect("an address"));
        assert_header(CmaHeader::new_v6(9, source, destination), &bytes);
    }

    #[test]
    fn other_private_data_is_refused() {
        let mut bytes = [0; 40];
        for len in 0..36 {
            assert_eq!(CmaHeader::parse(&bytes[..len]), Err(CmaError::TooShort(len)));
        }
        assert_eq!(CmaHeader::parse(&bytes), Err(CmaError::IpVersion(0)));
        bytes[1] = 0x4f;
        assert_eq!(CmaHeader::parse(&bytes).map(|(_, rest)| rest.len()), Ok(4), "reserved bits do not count");
        bytes[0] = 1;
        assert_eq!(CmaHeader::parse(&bytes), Err(CmaError::Version(1)));
    }

    proptest! {
        #[test]
        fn what_is_set_is_what_is_read(port: u16, a: [u8; 4], b: [u8; 4], c: [u8; 16], d: [u8; 16]) {
            let four = CmaHeader::new_v4(port, a.into(), b.into());
            prop_assert_eq!(
                (four.ip_version(), four.source_port(), four.source(), four.destination()),
                (4, port, IpAddr::from(a), IpAddr::from(b))
            );
            let six = CmaHeader::new_v6(port, c.into(), d.into());
            prop_assert_eq!(
                (six.ip_version(), six.source_port(), six.source(), six.destination()),
                (6, port, IpAddr::from(c), IpAddr::from(d))
            );
        }
    }
}
