//! The device list: one device for each network interface with an address, as rxe would have one.

use crate::attr::{DeviceAttr, Link, PortAttr};
use crate::config::Config;
use crate::context::Context;
use crate::error::Error;
use crate::gid::{Gid, GidTable};
use crate::limits::{GID_TABLE_LEN, MAX_DEVICES};
use ferroce_core::PathMtu;
use ferroce_port::interfaces::{self, Interface};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A device: a port on a network interface.
#[derive(Clone, Debug)]
pub struct Device {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    interface_name: String,
    index: u32,
    guid: [u8; 8],
    port: Mutex<Port>,
}

/// What changes under a device while it is open.
#[derive(Debug)]
struct Port {
    view: PortView,
    mtu: u32,
    looked_at: Instant,
}

/// The part of a port whose changes are told to those who have the device open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PortView {
    /// The link; `None` once the interface is gone.
    pub(crate) link: Option<Link>,
    pub(crate) gids: GidTable,
}

/// How long a look at the interface is good for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The devices of this host: interfaces in the system's order, loopback last. `FERROCE_DEVICES` narrows it.
pub fn devices() -> Result<Vec<Device>, Error> {
    let mut found =
        interfaces::list().map_err(|source| Error::Os { doing: "listing network interfaces", source })?;
    let wanted = &Config::current().devices;
    found.retain(|interface| !interface.addrs.is_empty() && PathMtu::fitting(interface.mtu).is_some());
    found.retain(|interface| wanted.is_empty() || wanted.contains(&interface.name));
    found.sort_by_key(|interface| (interface.is_loopback, interface.index));
    found.truncate(MAX_DEVICES);
    Ok(found.into_iter().map(Device::of).collect())
}

impl Device {
    fn of(interface: Interface) -> Device {
        let shared = Shared {
            name: format!("{}{}", Device::PREFIX, interface.name),
            guid: guid(&interface),
            index: interface.index,
            port: Mutex::new(Port {
                view: PortView { link: Some(link(&interface)), gids: GidTable::new(&interface.addrs) },
                mtu: interface.mtu,
                looked_at: Instant::now(),
            }),
            interface_name: interface.name,
        };
        Device { shared: Arc::new(shared) }
    }

    /// What a device's name has before the interface's.
    pub const PREFIX: &str = "ferroce_";

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The interface under it.
    pub fn interface_name(&self) -> &str {
        &self.shared.interface_name
    }

    /// The interface's index.
    pub fn interface_index(&self) -> u32 {
        self.shared.index
    }

    /// Node GUID: the interface's MAC address as EUI-64, in network order.
    pub fn guid(&self) -> [u8; 8] {
        self.shared.guid
    }

    /// Attributes of the device.
    pub fn attr(&self) -> DeviceAttr {
        DeviceAttr::new(self.shared.guid)
    }

    /// Attributes of the port `port_num`, which is 1.
    pub fn port_attr(&self, port_num: u32) -> Result<PortAttr, Error> {
        check_port(port_num)?;
        let port = self.look();
        Ok(PortAttr::new(port.view.link.unwrap_or(Link::Off), active_mtu(port.mtu)))
    }

    /// The GID at `index` of port `port_num`; a zero GID where the table is empty.
    pub fn gid(&self, port_num: u32, index: u32) -> Result<Gid, Error> {
        check_port(port_num)?;
        self.look().view.gids.get(index).ok_or(Error::GidIndexRange { index, len: GID_TABLE_LEN })
    }

    /// The GIDs of the port that are not zero, with their index.
    pub fn gids(&self) -> Vec<(u32, Gid)> {
        self.look().view.gids.iter().collect()
    }

    /// The P_Key at `index` of port `port_num`, in host order.
    pub fn pkey(&self, port_num: u32, index: u32) -> Result<u16, Error> {
        check_port(port_num)?;
        if index == 0 { Ok(crate::limits::DEFAULT_PKEY) } else { Err(Error::NoSuchPkey(index)) }
    }

    /// Opens the device. The first one opened in a process starts the engine.
    pub fn open(&self) -> Result<Context, Error> {
        Context::open(self.clone())
    }

    /// The largest path MTU now.
    pub(crate) fn active_mtu(&self) -> PathMtu {
        active_mtu(self.look().mtu)
    }

    /// What those who have the device open are told about, as it is at this moment.
    pub(crate) fn look_closely(&self) -> PortView {
        let mut port = self.shared.port.lock();
        self.look_again(&mut port);
        port.view.clone()
    }

    /// The port as it is now, give or take [`LOOK_AGAIN`].
    fn look(&self) -> MutexGuard<'_, Port> {
        let mut port = self.shared.port.lock();
        if port.looked_at.elapsed() >= LOOK_AGAIN {
            self.look_again(&mut port);
        }
        port
    }

    fn look_again(&self, port: &mut Port) {
        port.looked_at = Instant::now();
        let Ok(all) = interfaces::list() else { return };
        // By its index: a name may change, or be given to another.
        let Some(now) = all.into_iter().find(|interface| interface.index == self.shared.index) else {
            port.view.link = None;
            return;
        };
        port.view.link = Some(link(&now));
        port.mtu = now.mtu;
        if port.view.gids.follow(&now.addrs) {
            tracing::info!(
                device = self.shared.name,
                "the interface's addresses changed: the GID table follows"
            );
        }
    }
}

fn link(interface: &Interface) -> Link {
    match (interface.is_up, interface.is_running) {
        (false, _) => Link::Off,
        (true, false) => Link::NoCarrier,
        (true, true) => Link::Up,
    }
}

/// The path MTU for an interface MTU; 256 when it shrank below what was listed.
fn active_mtu(mtu: u32) -> PathMtu {
    PathMtu::fitting(mtu).unwrap_or(PathMtu::Mtu256)
}

fn check_port(port_num: u32) -> Result<(), Error> {
    if port_num == 1 { Ok(()) } else { Err(Error::NoSuchPort(port_num)) }
}

/// The EUI-64 of the MAC address, or one made of the interface index where there is none (loopback).
fn guid(interface: &Interface) -> [u8; 8] {
    match interface.mac {
        Some(mac) if mac != [0; 6] => [mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]],
        _ => {
            let index = interface.index.to_be_bytes();
            [2, 0, 0, 0xff, 0xfe, index[1], index[2], index[3]]
        }
    }
}
