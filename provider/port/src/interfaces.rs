//! The network interfaces of this network namespace.

use std::io;
use std::net::IpAddr;

use crate::sys::interface::mtu;

/// A network interface, as of the moment it was listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its number in this network namespace, from 1.
    pub index: u32,
    /// The Ethernet address; `None` without one (tunnels). All zero for the loopback interface.
    pub mac: Option<[u8; 6]>,
    /// The longest IP packet, in bytes.
    pub mtu: u32,
    /// Switched on.
    pub is_up: bool,
    /// Switched on, with a carrier.
    pub is_running: bool,
    /// The loopback interface.
    pub is_loopback: bool,
    /// Its addresses, IPv4 and IPv6, in the kernel's order.
    pub addrs: Vec<IpAddr>,
}

/// Lists all interfaces, in the order of their index. One that goes away meanwhile is left out.
///
/// # Errors
/// The system's, from asking for an MTU.
pub fn list() -> io::Result<Vec<Interface>> {
    let mut interfaces = Vec::new();
    for facts in pnet_datalink::interfaces() {
        let mtu = match mtu(&facts.name) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
            other => other?,
        };
        interfaces.push(Interface {
            index: facts.index,
            mac: facts.mac.map(|mac| mac.octets()),
            mtu,
            is_up: facts.is_up(),
            is_running: facts.is_up() && facts.is_running(),
            is_loopback: facts.is_loopback(),
            addrs: facts.ips.iter().map(|network| network.ip()).collect(),
            name: facts.name,
        });
    }
    interfaces.sort_by_key(|interface| interface.index);
    Ok(interfaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_listed_with_its_facts() {
        let interfaces = list().unwrap();
        let loopback = interfaces.iter().find(|i| i.is_loopback).expect("every namespace has one");
        assert_eq!(loopback.name, "lo");
        assert!(loopback.is_up && loopback.index >= 1);
        assert!(loopback.addrs.contains(&"127.0.0.1".parse().unwrap()), "{loopback:?}");
        // 65,536 unless somebody changed it; IPv4 needs 68.
        assert!(loopback.mtu >= 68);
        assert!(interfaces.is_sorted_by_key(|i| i.index));
    }

    #[test]
    fn an_unknown_interface_has_no_mtu() {
        assert_eq!(mtu("no-such-if").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert_eq!(mtu("a-name-that-is-too-long").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
