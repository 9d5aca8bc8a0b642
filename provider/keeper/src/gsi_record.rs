//! What travels between a process and its keeper beside the control connection: datagrams of QP 1, and which
//! connections are to be ended if the process dies. One record of fixed size for each, in host byte order.

use ferroce_cm::{Orphan, Route};
use ferroce_wire::mad::Mad;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::binding::{address_of, octets};

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GsiRecord {
    /// Either: a datagram that arrived, or is to be sent.
    Mad {
        /// Between which addresses; `local` is ours.
        route: Route,
        /// The datagram.
        mad: Box<Mad>,
    },
    /// Client: this connection is established.
    Connected(Orphan),
    /// Client: the connection of this communication ID is not.
    Ended {
        /// The communication ID.
        local_comm_id: u32,
    },
}

/// Length of every record in bytes.
pub(crate) const RECORD_LEN: usize = size_of::<Record>();

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Record {
    kind: u32,
    interface: u32,
    local: [u8; 16],
    peer: [u8; 16],
    traffic_class: u32,
    local_comm_id: u32,
    remote_comm_id: u32,
    remote_qpn: u32,
    mad: [u8; Mad::LEN],
}

impl GsiRecord {
    pub(crate) fn encode(&self) -> [u8; RECORD_LEN] {
        let mut record = Record::new_zeroed();
        match self {
            GsiRecord::Mad { route, mad } => {
                record.kind = KIND_MAD;
                record.set_route(route);
                record.mad.copy_from_slice(mad.as_bytes());
            }
            GsiRecord::Connected(orphan) => {
                record.kind = KIND_CONNECTED;
                record.set_route(&orphan.route);
                record.local_comm_id = orphan.local_comm_id;
                record.remote_comm_id = orphan.remote_comm_id;
                record.remote_qpn = orphan.remote_qpn;
            }
            GsiRecord::Ended { local_comm_id } => {
                record.kind = KIND_ENDED;
                record.local_comm_id = *local_comm_id;
            }
        }
        let mut bytes = [0; RECORD_LEN];
        bytes.copy_from_slice(record.as_bytes());
        bytes
    }

    /// `None` for what is no record.
    pub(crate) fn decode(bytes: &[u8]) -> Option<GsiRecord> {
        let record = Record::read_from_bytes(bytes).ok()?;
        match record.kind {
            KIND_MAD => {
                let mad = Box::new(*Mad::parse(&record.mad).ok()?);
                Some(GsiRecord::Mad { route: record.route(), mad })
            }
            KIND_CONNECTED => Some(GsiRecord::Connected(Orphan {
                local_comm_id: record.local_comm_id,
                remote_comm_id: record.remote_comm_id,
                remote_qpn: record.remote_qpn,
                route: record.route(),
            })),
            KIND_ENDED => Some(GsiRecord::Ended { local_comm_id: record.local_comm_id }),
            _ => None,
        }
    }
}

impl Record {
    fn new_zeroed() -> Record {
        zerocopy::FromZeros::new_zeroed()
    }

    fn set_route(&mut self, route: &Route) {
        self.interface = route.interface;
        (self.local, self.peer) = (octets(route.local), octets(route.peer));
        self.traffic_class = route.traffic_class.into();
    }

    fn route(&self) -> Route {
        Route {
            local: address_of(self.local),
            peer: address_of(self.peer),
            interface: self.interface,
            traffic_class: self.traffic_class as u8,
        }
    }
}

const KIND_MAD: u32 = 1;
const KIND_CONNECTED: u32 = 2;
const KIND_ENDED: u32 = 3;

#[cfg(test)]
mod tests {
    use ferroce_wire::cm;

    use super::*;

    #[test]
    fn records_survive_the_way() {
        let route = Route {
            local: [10, 0, 0, 1].into(),
            peer: "fe80::1".parse().expect("an address"),
            interface: 7,
            traffic_class: 0x6b,
        };
        let mad = Box::new(cm::encode(9, &cm::Rtu::default().with_local_comm_id(5)));
        let orphan = Orphan { local_comm_id: 1, remote_comm_id: 2, remote_qpn: 3, route };
        for record in [
            GsiRecord::Mad { route, mad },
            GsiRecord::Connected(orphan),
            GsiRecord::Ended { local_comm_id: 4 },
        ] {
            let bytes = record.encode();
            assert_eq!(GsiRecord::decode(&bytes), Some(record));
            for len in 0..RECORD_LEN {
                assert_eq!(GsiRecord::decode(&bytes[..len]), None);
            }
        }
        assert_eq!(GsiRecord::decode(&[0; RECORD_LEN]), None);
    }
}
