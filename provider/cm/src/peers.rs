//! What peers call their ends: to know a message that comes again, and a queue pair that is connected already.

use crate::CommId;
use std::collections::BTreeMap;

/// Our connections by what the peer's device calls them.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    by_comm_id: BTreeMap<(u64, u32), CommId>,
    by_qpn: BTreeMap<(u64, u32), CommId>,
}

/// A peer's end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remote {
    pub(crate) ca_guid: u64,
    pub(crate) comm_id: u32,
    pub(crate) qpn: u32,
}

impl Peers {
    pub(crate) fn by_comm_id(&self, ca_guid: u64, comm_id: u32) -> Option<CommId> {
        self.by_comm_id.get(&(ca_guid, comm_id)).copied()
    }

    pub(crate) fn by_qpn(&self, ca_guid: u64, qpn: u32) -> Option<CommId> {
        self.by_qpn.get(&(ca_guid, qpn)).copied()
    }

    /// Notes the end of `id`.
    pub(crate) fn insert(&mut self, id: CommId, remote: Remote) {
        self.by_comm_id.insert((remote.ca_guid, remote.comm_id), id);
        self.by_qpn.insert((remote.ca_guid, remote.qpn), id);
    }

    /// The peer may use the queue pair for another connection.
    pub(crate) fn release_qpn(&mut self, id: CommId, remote: Remote) {
        remove(&mut self.by_qpn, (remote.ca_guid, remote.qpn), id);
    }

    /// Forgets the end of `id`.
    pub(crate) fn remove(&mut self, id: CommId, remote: Remote) {
        remove(&mut self.by_comm_id, (remote.ca_guid, remote.comm_id), id);
        self.release_qpn(id, remote);
    }
}

/// Removes an entry if it is still that of `id`.
fn remove(map: &mut BTreeMap<(u64, u32), CommId>, key: (u64, u32), id: CommId) {
    if map.get(&key) == Some(&id) {
        map.remove(&key);
    }
}
