//! Hears from the kernel that something about network interfaces has changed; what, [`interfaces`](crate::interfaces)
//! tells.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use crate::off_stdio;

/// A netlink socket (rtnetlink(7)) that hears of links and addresses in its network namespace.
#[derive(Debug)]
pub struct InterfaceWatch {
    socket: OwnedFd,
}

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR`.
const GROUPS: u32 = 1 | 0x10 | 0x100;

impl InterfaceWatch {
    /// Hears of everything that happens from now on. It needs no privilege.
    ///
    /// # Errors
    /// The system's: no descriptors left, or a filter of system calls that forbids netlink.
    pub fn new() -> io::Result<InterfaceWatch> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        // The kernel chooses the port id.
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(InterfaceWatch { socket: off_stdio(socket)? })
    }

    /// Becomes readable when something has changed.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether something has changed since the last call.
    pub fn has_changed(&self) -> bool {
        let mut changed = false;
        // Bounded: interfaces do not change so often, and what is left is found the next time.
        for _ in 0..MOST_MESSAGES {
            // Messages are cut short: that there was one is all that matters.
            match recv(&self.socket, &mut [0u8; 16], RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // ENOBUFS: there were more than the socket holds.
                _ => changed = true,
            }
        }
        changed
    }
}

const MOST_MESSAGES: usize = 1024;
