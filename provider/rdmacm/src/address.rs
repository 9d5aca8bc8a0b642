//! Socket addresses of C's.

use ferroce_abi::errno::Errno;
use ferroce_abi::pointer;
use libc::{AF_INET, AF_INET6, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};
use std::mem::zeroed;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Reads an IPv4 or IPv6 address.
///
/// # Safety
/// The C contract: null, or a socket address as long as its family says.
pub(crate) unsafe fn read(address: *const sockaddr) -> Result<SocketAddr, Errno> {
    if address.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: every socket address begins with its family; the caller's need not be aligned.
    let family = unsafe { pointer::read_unaligned(address.cast::<sa_family_t>()) }?;
    match i32::from(family) {
        AF_INET => {
            // SAFETY: an IPv4 address, as its family says.
            let v4 = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        AF_INET6 => {
            // SAFETY: an IPv6 address, as its family says.
            let v6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Ok(match ip.to_ipv4_mapped() {
                Some(v4) => SocketAddrV4::new(v4, port).into(),
                None => SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into(),
            })
        }
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Reads an address that may be missing.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn read_optional(address: *const sockaddr) -> Result<Option<SocketAddr>, Errno> {
    if address.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { read(address) }.map(Some)
}

/// An address in the room that C has for any.
pub(crate) fn storage(address: Option<SocketAddr>) -> sockaddr_storage {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut storage: sockaddr_storage = unsafe { zeroed() };
    match address {
        None => {}
        Some(SocketAddr::V4(v4)) => {
            let it = sockaddr_in {
                sin_family: AF_INET as sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the room is long and aligned enough for any socket address.
            unsafe { (&raw mut storage).cast::<sockaddr_in>().write(it) };
        }
        Some(SocketAddr::V6(v6)) => {
            let it = sockaddr_in6 {
                sin6_family: AF_INET6 as sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<sockaddr_in6>().write(it) };
        }
    }
    storage
}

/// The port of an address in C's room, big-endian as there; 0 where there is none.
pub(crate) fn port_be(storage: &sockaddr_storage) -> u16 {
    // SAFETY: a reference to a whole storage.
    unsafe { read((&raw const *storage).cast()) }.map_or(0, |address| address.port().to_be())
}
