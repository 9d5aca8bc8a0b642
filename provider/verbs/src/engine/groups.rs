//! Multicast groups: the QPs attached, and the host's membership for as long as there are any.

use super::Inner;
use crate::error::Error;
use crate::gid::Gid;
use ferroce_port::Membership;
use ferroce_wire::Qpn;
use std::collections::HashMap;
use std::net::IpAddr;

/// The memberships of this process, by group and interface, each with how many attachments it serves.
#[derive(Debug, Default)]
pub(super) struct Groups {
    members: HashMap<(IpAddr, u32), (usize, Membership)>,
}

impl Groups {
    fn join(&mut self, group: IpAddr, interface: u32) -> std::io::Result<()> {
        match self.members.get_mut(&(group, interface)) {
            Some((count, _)) => *count += 1,
            None => {
                let membership = Membership::join(group, interface)?;
                self.members.insert((group, interface), (1, membership));
            }
        }
        Ok(())
    }

    fn leave(&mut self, group: IpAddr, interface: u32) {
        let Some((count, _)) = self.members.get_mut(&(group, interface)) else { return };
        *count -= 1;
        if *count == 0 {
            self.members.remove(&(group, interface));
        }
    }
}

impl Inner {
    /// Attaches a QP that is not attached yet to a group on an interface.
    pub(crate) fn attach_mcast(&self, qpn: Qpn, gid: Gid, interface: u32) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.device.attach_mcast(qpn, gid.0)?;
        state.groups.join(gid.ip(), interface).or_else(|source| {
            state.device.detach_mcast(qpn, gid.0)?;
            Err(Error::Os { doing: "joining a multicast group", source })
        })
    }

    /// Detaches a QP that is attached.
    pub(crate) fn detach_mcast(&self, qpn: Qpn, gid: Gid, interface: u32) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.device.detach_mcast(qpn, gid.0)?;
        state.groups.leave(gid.ip(), interface);
        Ok(())
    }
}
