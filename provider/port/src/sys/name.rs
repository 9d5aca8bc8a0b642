//! Socket addresses in the kernel's form.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A `sockaddr_in` or `sockaddr_in6` as bytes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct SocketName {
    bytes: [u8; LEN_V6],
    len: u32,
}

impl SocketName {
    /// Room for the kernel to write a name into.
    pub(crate) const EMPTY: SocketName = SocketName { bytes: [0; LEN_V6], len: 0 };

    /// The name of a port at an address; `interface` is the scope of a link-local IPv6 address.
    pub(crate) fn new(address: IpAddr, port: u16, interface: u32) -> SocketName {
        let mut name = SocketName::EMPTY;
        name.bytes[2..4].copy_from_slice(&port.to_be_bytes());
        let family = match address {
            IpAddr::V4(address) => {
                name.bytes[4..8].copy_from_slice(&address.octets());
                name.len = LEN_V4 as u32;
                libc::AF_INET
            }
            IpAddr::V6(address) => {
                name.bytes[8..24].copy_from_slice(&address.octets());
                name.bytes[24..28].copy_from_slice(&interface.to_ne_bytes());
                name.len = LEN_V6 as u32;
                libc::AF_INET6
            }
        };
        name.bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        name
    }

    /// The address and port, IPv4-mapped addresses as IPv4; `None` for anything else.
    pub(crate) fn to_socket_addr(self) -> Option<SocketAddr> {
        let family = i32::from(u16::from_ne_bytes([self.bytes[0], self.bytes[1]]));
        let port = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        let address = match (family, self.len as usize) {
            (libc::AF_INET, LEN_V4..) => {
                let [a, b, c, d]: [u8; 4] = self.bytes[4..8].try_into().ok()?;
                IpAddr::from([a, b, c, d])
            }
            (libc::AF_INET6, LEN_V6) => {
                let octets: [u8; 16] = self.bytes[8..24].try_into().ok()?;
                Ipv6Addr::from(octets).to_canonical()
            }
            _ => return None,
        };
        Some(SocketAddr::new(address, port))
    }

    /// The bytes in use, for the kernel to read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// All bytes, for the kernel to write; [`SocketName::filled`] tells how many it wrote.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The kernel wrote `len` bytes.
    pub(crate) fn filled(&mut self, len: u32) {
        self.len = len.min(LEN_V6 as u32);
    }
}

const LEN_V4: usize = size_of::<libc::sockaddr_in>();
const LEN_V6: usize = size_of::<libc::sockaddr_in6>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_laid_out_as_the_kernel_wants_them() {
        let [a, b] = (libc::AF_INET as u16).to_ne_bytes();
        let name = SocketName::new("127.0.0.1".parse().unwrap(), 4791, 0);
        assert_eq!(name.bytes(), [a, b, 0x12, 0xb7, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(name.to_socket_addr(), Some("127.0.0.1:4791".parse().unwrap()));

        let name = SocketName::new("fe80::1".parse().unwrap(), 4791, 7);
        assert_eq!(name.bytes()[2..10], [0x12, 0xb7, 0, 0, 0, 0, 0xfe, 0x80]);
        assert_eq!(name.bytes()[23..], [&[1][..], &7u32.to_ne_bytes()].concat());
        assert_eq!(name.to_socket_addr(), Some("[fe80::1]:4791".parse().unwrap()));
    }

    #[test]
    fn mapped_addresses_become_ipv4() {
        let name = SocketName::new("::ffff:10.1.2.3".parse().unwrap(), 9, 0);
        assert_eq!(name.to_socket_addr(), Some("10.1.2.3:9".parse().unwrap()));
    }

    #[test]
    fn other_families_are_none() {
        assert_eq!(SocketName::EMPTY.to_socket_addr(), None);
    }
}
