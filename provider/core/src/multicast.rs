//! Which QPs are attached to which multicast group (`ibv_attach_mcast(3)`).

use ferroce_wire::Qpn;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::net::{IpAddr, Ipv6Addr};
use thiserror::Error;

/// The groups that have members. A member is a QP, by its index.
#[derive(Default, Debug)]
pub(crate) struct Groups {
    /// Hashed without a random seed; its order shows nowhere.
    members: HashMap<IpAddr, SmallVec<[u32; 2]>, BuildHasherDefault<DefaultHasher>>,
}

impl Groups {
    /// Adds a member. One that is there already stays so, once.
    pub(crate) fn attach(&mut self, group: IpAddr, member: u32) {
        let members = self.members.entry(group).or_default();
        if !members.contains(&member) {
            members.push(member);
        }
    }

    /// Takes a member out; whether it was one.
    pub(crate) fn detach(&mut self, group: IpAddr, member: u32) -> bool {
        let Some(members) = self.members.get_mut(&group) else { return false };
        let before = members.len();
        members.retain(|it| *it != member);
        let was_member = members.len() < before;
        if members.is_empty() {
            self.members.remove(&group);
        }
        was_member
    }

    /// Takes a member out of all groups.
    pub(crate) fn forget(&mut self, member: u32) {
        self.members.retain(|_, members| {
            members.retain(|it| *it != member);
            !members.is_empty()
        });
    }

    /// The members of a group, in the order in which they were attached.
    pub(crate) fn members(&self, group: IpAddr) -> &[u32] {
        self.members.get(&group.to_canonical()).map_or(&[], |members| members)
    }
}

/// The multicast address that a GID stands for (W-20): IPv6 as it is, IPv4 as a mapped address.
pub(crate) fn group_of(gid: [u8; 16]) -> Option<IpAddr> {
    let group = IpAddr::V6(Ipv6Addr::from(gid)).to_canonical();
    group.is_multicast().then_some(group)
}

/// Why a QP was not attached to a group, or detached from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum McastError {
    /// No such QP.
    #[error("there is no QP {qpn}")]
    UnknownQp {
        /// The QPN asked for.
        qpn: Qpn,
    },
    /// A QP of another type.
    #[error("QP {qpn} is not a UD QP, and only those receive multicast")]
    NotUd {
        /// The QPN asked for.
        qpn: Qpn,
    },
    /// The GID is no multicast address.
    #[error("{} is not a multicast address: take ff00::/8, or ::ffff:224.0.0.0/100 for IPv4", Ipv6Addr::from(*.gid))]
    NotMulticast {
        /// The GID asked for.
        gid: [u8; 16],
    },
    /// To be detached, but not attached.
    #[error("QP {qpn} is not attached to {}", Ipv6Addr::from(*.gid))]
    NotAttached {
        /// The QPN asked for.
        qpn: Qpn,
        /// The GID asked for.
        gid: [u8; 16],
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn gid(text: &str) -> [u8; 16] {
        text.parse::<Ipv6Addr>().expect("a GID").octets()
    }

    #[test]
    fn members_come_in_order_and_once() {
        let mut groups = Groups::default();
        for member in [5, 3, 9, 3, 5] {
            groups.attach(ip("ff0e::1"), member);
        }
        groups.attach(ip("224.0.0.9"), 3);
        assert_eq!(groups.members(ip("ff0e::1")), [5, 3, 9]);
        assert_eq!(groups.members(ip("::ffff:224.0.0.9")), [3]);
        assert!(groups.detach(ip("ff0e::1"), 3));
        assert!(!groups.detach(ip("ff0e::1"), 3));
        assert_eq!(groups.members(ip("ff0e::1")), [5, 9]);
        groups.forget(3);
        assert_eq!(groups.members(ip("224.0.0.9")), [0; 0]);
        assert_eq!(groups.members.len(), 1);
    }

    #[test]
    fn gids_of_groups_are_multicast_addresses() {
        assert_eq!(group_of(gid("ff0e::1:2")), Some(ip("ff0e::1:2")));
        assert_eq!(group_of(gid("::ffff:239.1.2.3")), Some(ip("239.1.2.3")));
        for no in ["::ffff:10.0.0.1", "fe80::1", "::", "::224.0.0.1"] {
            assert_eq!(group_of(gid(no)), None, "{no}");
        }
    }
}
