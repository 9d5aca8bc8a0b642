//! GIDs and the port's GID table.
//!
//! A RoCE v2 GID is an IP address: an IPv6 address as it is, an IPv4 address as `::ffff:a.b.c.d`
//! (transport.md's W-15; IBTA Annex A17). Index 0 holds the link-local IPv6 address (or the first IPv6
//! address, or the first address), then come the IPv4 addresses and the rest. An entry keeps its index as
//! long as its address exists; a new address takes the first empty entry.

use crate::limits::GID_TABLE_LEN;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A port's address, 128 bits in network order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The GID of an IP address.
    pub fn from_ip(ip: IpAddr) -> Gid {
        match ip {
            IpAddr::V4(v4) => Gid(v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => Gid(v6.octets()),
        }
    }

    /// The IP address of a GID; the IP version follows from its being v4-mapped or not (W-16).
    pub fn ip(self) -> IpAddr {
        let v6 = Ipv6Addr::from(self.0);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    }

    /// Whether no address is there.
    pub fn is_zero(self) -> bool {
        self.0 == [0; 16]
    }

    /// Whether it is link-local, so that the interface has to be named when sending.
    pub fn is_link_local(self) -> bool {
        matches!(self.ip(), IpAddr::V6(v6) if v6.is_unicast_link_local())
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Ipv6Addr::from(self.0))
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

/// A port's GID table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GidTable {
    entries: Vec<Gid>,
}

impl GidTable {
    /// A table of these addresses.
    pub fn new(addrs: &[IpAddr]) -> GidTable {
        let mut table = GidTable::default();
        table.follow(addrs);
        table
    }

    /// The GID at `index`; zero where the table is empty, `None` past its end.
    pub fn get(&self, index: u32) -> Option<Gid> {
        (index < GID_TABLE_LEN).then(|| self.entries.get(index as usize).copied().unwrap_or_default())
    }

    /// The entries that are not empty, with their index.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Gid)> + '_ {
        (0u32..).zip(self.entries.iter().copied()).filter(|(_, gid)| !gid.is_zero())
    }

    /// Whether `gid` is in it.
    pub fn contains(&self, gid: Gid) -> bool {
        self.entries.contains(&gid)
    }

    /// Follows the interface's addresses. Whether anything changed.
    pub fn follow(&mut self, addrs: &[IpAddr]) -> bool {
        let before = self.clone();
        let mut wanted: Vec<Gid> =
            addrs.iter().copied().map(Gid::from_ip).filter(|gid| !gid.is_zero()).collect();
        let first = wanted.iter().position(|gid| gid.is_link_local());
        let first = first.or_else(|| wanted.iter().position(|gid| gid.ip().is_ipv6())).unwrap_or(0);
        if !wanted.is_empty() {
            wanted[..=first].rotate_right(1);
            wanted[1..].sort_by_key(|gid| gid.ip().is_ipv6());
        }
        for entry in &mut self.entries {
            if !wanted.contains(entry) {
                *entry = Gid::default();
            }
        }
        for gid in wanted {
            if self.entries.contains(&gid) {
                continue;
            }
            match self.entries.iter().position(|entry| entry.is_zero()) {
                Some(index) => self.entries[index] = gid,
                None if (self.entries.len() as u32) < GID_TABLE_LEN => self.entries.push(gid),
                None => break,
            }
        }
        *self != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn link_local_comes_first_then_ipv4() {
        let table = GidTable::new(&[ip("10.0.0.1"), ip("fd00::2"), ip("fe80::1"), ip("10.0.0.2")]);
        let shown: Vec<String> = table.iter().map(|(i, gid)| format!("{i} {gid}")).collect();
        assert_eq!(shown, ["0 fe80::1", "1 ::ffff:10.0.0.1", "2 ::ffff:10.0.0.2", "3 fd00::2"]);
    }

    #[test]
    fn without_link_local_the_first_ipv6_comes_first() {
        let table = GidTable::new(&[ip("10.0.0.1"), ip("fd00::2"), ip("fd00::3")]);
        let shown: Vec<String> = table.iter().map(|(i, gid)| format!("{i} {gid}")).collect();
        assert_eq!(shown, ["0 fd00::2", "1 ::ffff:10.0.0.1", "2 fd00::3"]);
    }

    #[test]
    fn loopback_has_ipv6_at_0_and_ipv4_at_1() {
        let table = GidTable::new(&[ip("127.0.0.1"), ip("::1")]);
        assert_eq!(table.get(0).map(Gid::ip), Some(ip("::1")));
        assert_eq!(table.get(1).map(Gid::ip), Some(ip("127.0.0.1")));
        assert_eq!(table.get(2), Some(Gid::default()));
        assert_eq!(table.get(GID_TABLE_LEN), None);
    }

    #[test]
    fn entries_keep_their_index_when_addresses_come_and_go() {
        let mut table = GidTable::new(&[ip("fe80::1"), ip("10.0.0.1"), ip("10.0.0.2")]);
        assert!(table.follow(&[ip("fe80::1"), ip("10.0.0.2"), ip("fd00::7")]));
        assert_eq!(table.get(2).map(Gid::ip), Some(ip("10.0.0.2")));
        assert_eq!(table.get(1).map(Gid::ip), Some(ip("fd00::7")));
        assert!(!table.follow(&[ip("fd00::7"), ip("fe80::1"), ip("10.0.0.2")]));
    }

    #[test]
    fn the_table_is_bounded() {
        let many: Vec<IpAddr> = (0..100).map(|i| ip(&format!("10.0.0.{i}"))).collect();
        let table = GidTable::new(&many);
        assert_eq!(table.iter().count(), GID_TABLE_LEN as usize);
    }
}
