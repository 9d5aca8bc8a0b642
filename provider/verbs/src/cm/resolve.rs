//! From IP addresses to devices.

use crate::device::{Device, devices};
use crate::error::Error;
use crate::gid::Gid;
use parking_lot::Mutex;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The device that has the address, and the index of its GID. A device that was found before is not looked for again:
/// it follows its interface's addresses itself.
///
/// # Errors
/// None has.
pub fn device_of(address: IpAddr) -> Result<(Device, u32), Error> {
    static KNOWN: Mutex<Vec<Device>> = Mutex::new(Vec::new());
    let wanted = Gid::from_ip(address);
    let find = |devices: &[Device]| {
        devices.iter().find_map(|device| {
            let (index, _) = device.gids().into_iter().find(|(_, gid)| *gid == wanted)?;
            Some((device.clone(), index))
        })
    };
    let mut known = KNOWN.lock();
    if let Some(found) = find(&known) {
        return Ok(found);
    }
    *known = devices()?;
    find(&known).ok_or(Error::NoDevice(address))
}

/// The local address from which the system would reach `peer`.
pub(super) fn source_for(peer: SocketAddr) -> Result<IpAddr, Error> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a datagram socket sends nothing and looks the route up (udp(7)); it wants some port.
    let mut target = peer;
    if target.port() == 0 {
        target.set_port(1);
    }
    let asked = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(target)?;
        socket.local_addr()
    });
    asked.map(|address| address.ip()).map_err(|source| Error::NoRoute { peer, source })
}

/// Interface index that a link-local peer is behind; 0 where the address says enough.
pub(super) fn interface_of(peer: SocketAddr, device: &Device) -> u32 {
    match peer {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => match v6.scope_id() {
            0 => device.interface_index(),
            scope => scope,
        },
        _ => 0,
    }
}
