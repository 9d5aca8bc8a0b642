//! Interface requests (netdevice(7)).

use std::io;
use std::os::fd::AsRawFd;

use socket2::{Domain, Socket, Type};

/// The MTU of an interface in bytes; `ENODEV` when there is none of that name.
///
/// /sys/class/net would tell it, too, but of the network namespace that /sys was mounted in.
pub(crate) fn mtu(name: &str) -> io::Result<u32> {
    // SAFETY: all fields of an ifreq are integers or pointers, for which zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (room, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *room = byte as libc::c_char;
    }
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    // SAFETY: SIOCGIFMTU reads the name of an ifreq, which ends in a zero, and writes its MTU.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: SIOCGIFMTU has just filled in this member of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}
