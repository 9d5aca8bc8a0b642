//! From the connection manager's events to those of the application's IDs.

use super::agent::State;
use super::attributes::{HOP_LIMIT, PORT_NUM};
use super::event::{CmEvent, CmEventKind, ConnParam, UdParam};
use super::id::CmId;
use super::resolve::device_of;
use super::state::{IdState, Phase};
use crate::ah::AhAttr;
use crate::gid::Gid;
use ferroce_cm::{Answer, CommId, Datagram, Event, ListenerId, Lookup, Reply, Request, Route};
use ferroce_core::QpType;
use ferroce_wire::cm::{CmaHeader, RejectReason, ServiceId, SidrStatus, Transport};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

impl State {
    /// Handles one event; what nobody hears comes back.
    pub(super) fn dispatch(&mut self, event: Event) -> Option<CmEvent> {
        match event {
            Event::Request { listener, id, request } => self.requested(listener, id, &request),
            Event::Lookup { listener, id, lookup } => self.looked_up(listener, id, &lookup),
            Event::Reply { id, reply } => self.replied(id, &reply),
            Event::Found { id, datagram } => self.found(id, &datagram),
            Event::Established { id, .. } => {
                self.change(id, Phase::Connected, event_of(CmEventKind::Established, 0, ConnParam::default()))
            }
            Event::Rejected { id, reason, private_data } => {
                let conn = ConnParam { private_data, ..ConnParam::default() };
                self.change(id, Phase::Ended, event_of(CmEventKind::Rejected, i32::from(reason.0), conn))
            }
            Event::Unreachable { id } => {
                let event = event_of(CmEventKind::Unreachable, -libc::ETIMEDOUT, ConnParam::default());
                self.change(id, Phase::Ended, event)
            }
            Event::Disconnected { id, timed_out } => {
                let status = if timed_out { -libc::ETIMEDOUT } else { 0 };
                let event = event_of(CmEventKind::Disconnected, status, ConnParam::default());
                self.change(id, Phase::Ended, event)
            }
            Event::TimewaitExit { id } => {
                self.change(id, Phase::Ended, event_of(CmEventKind::TimewaitExit, 0, ConnParam::default()))
            }
        }
    }

    fn change(&mut self, comm: CommId, phase: Phase, event: CmEvent) -> Option<CmEvent> {
        let Some((token, id)) = self.id_of(comm) else { return Some(event) };
        id.phase = phase;
        self.tell(token, event);
        None
    }

    fn requested(&mut self, listener: ListenerId, comm: CommId, request: &Request) -> Option<CmEvent> {
        let qp_type = match request.transport {
            Transport::Uc => QpType::Uc,
            Transport::Xrc => QpType::XrcTgt,
            _ => QpType::Rc,
        };
        let addresses = Addresses::of(&request.route, request.service, &request.private_data);
        let conn = ConnParam {
            private_data: addresses.application_data(&request.private_data),
            responder_resources: request.responder_resources,
            initiator_depth: request.initiator_depth,
            flow_control: request.flow_control,
            retry_count: request.retry_count,
            rnr_retry_count: request.rnr_retry_count,
            srq: request.srq,
            qp_num: request.remote_qpn,
        };
        let device = device_of(request.route.local).ok();
        // A path that our interface cannot carry would fail with the first long message.
        let mtu = device.as_ref().map(|(device, _)| device.active_mtu() as u8);
        if mtu.is_none_or(|mtu| request.path_mtu > mtu) {
            let reason =
                if mtu.is_none() { RejectReason::INVALID_GID } else { RejectReason::INVALID_PATH_MTU };
            tracing::info!(%reason, from = %addresses.peer, "refused a request for a connection");
            let now = self.now;
            let _sent = self.cm.reject(now, comm, reason, &[]);
            self.cm.destroy(now, comm);
            return None;
        }
        self.announce(listener, comm, qp_type, addresses, device, conn)
    }

    fn looked_up(&mut self, listener: ListenerId, comm: CommId, lookup: &Lookup) -> Option<CmEvent> {
        let addresses = Addresses::of(&lookup.route, lookup.service, &lookup.private_data);
        let conn = ConnParam {
            private_data: addresses.application_data(&lookup.private_data),
            ..ConnParam::default()
        };
        let device = device_of(lookup.route.local).ok();
        self.announce(listener, comm, QpType::Ud, addresses, device, conn)
    }

    /// Makes an ID of a request, and tells the listener.
    fn announce(
        &mut self,
        listener: ListenerId,
        comm: CommId,
        qp_type: QpType,
        addresses: Addresses,
        device: Option<(crate::Device, u32)>,
        conn: ConnParam,
    ) -> Option<CmEvent> {
        let of = self.by_listener.get(&listener).copied();
        let (Some(listening), Some(agent)) = (of, self.agent.upgrade()) else {
            self.cm.destroy(self.now, comm);
            return None;
        };
        let listener_id = self.ids.get(&listening)?;
        let mut id = IdState::new(listener_id.channel.clone(), listener_id.space, qp_type, 0);
        id.phase = Phase::Requested;
        id.local = Some(addresses.local);
        id.peer = Some(addresses.peer);
        id.device = device;
        id.comm = Some(comm);
        id.options = listener_id.options;
        let token = self.new_token();
        self.ids.insert(token, id);
        self.by_comm.insert(comm, token);
        let mut event = event_of(CmEventKind::ConnectRequest, 0, conn);
        event.request = Some(CmId::from_parts(agent, token));
        self.tell(listening, event);
        None
    }

    fn replied(&mut self, comm: CommId, reply: &Reply) -> Option<CmEvent> {
        let conn = ConnParam {
            private_data: reply.private_data.clone(),
            responder_resources: reply.responder_resources,
            initiator_depth: reply.initiator_depth,
            flow_control: reply.flow_control,
            retry_count: 0,
            rnr_retry_count: reply.rnr_retry_count,
            srq: reply.srq,
            qp_num: reply.remote_qpn,
        };
        self.change(comm, Phase::Connecting, event_of(CmEventKind::ConnectResponse, 0, conn))
    }

    fn found(&mut self, comm: CommId, datagram: &Datagram) -> Option<CmEvent> {
        let (_, id) = self.id_of(comm)?;
        if datagram.status != SidrStatus::Valid {
            let event =
                event_of(CmEventKind::Unreachable, i32::from(datagram.status.as_u8()), ConnParam::default());
            return self.change(comm, Phase::Ended, event);
        }
        let peer = id.peer.map_or(Gid::default(), |peer| Gid::from_ip(peer.ip()));
        let ud = UdParam { ah: datagram_ah(id, peer), qp_num: datagram.qpn, qkey: datagram.qkey };
        id.ud = Some(ud);
        let conn = ConnParam {
            private_data: datagram.private_data.clone(),
            qp_num: datagram.qpn,
            ..ConnParam::default()
        };
        let mut event = event_of(CmEventKind::Established, 0, conn);
        event.ud = Some(ud);
        self.change(comm, Phase::Connected, event)
    }

    /// The answer to a lookup, for [`CmId::accept`].
    pub(super) fn answer(&mut self, comm: CommId, answer: &Answer) -> Result<(), crate::Error> {
        Ok(self.cm.answer(self.now, comm, answer)?)
    }
}

/// How the peer of a datagram ID is reached.
pub(super) fn datagram_ah(id: &IdState, dgid: Gid) -> AhAttr {
    AhAttr {
        is_global: true,
        dgid,
        sgid_index: id.device.as_ref().map_or(0, |(_, index)| *index),
        flow_label: 0,
        hop_limit: HOP_LIMIT,
        traffic_class: id.options.traffic_class,
        sl: 0,
        port_num: PORT_NUM,
    }
}

pub(super) fn event_of(kind: CmEventKind, status: i32, conn: ConnParam) -> CmEvent {
    CmEvent { cookie: 0, kind, status, request: None, conn, ud: None, arg: 0 }
}

/// The socket addresses of a request.
struct Addresses {
    local: SocketAddr,
    peer: SocketAddr,
    has_header: bool,
}

impl Addresses {
    fn of(route: &Route, service: ServiceId, private_data: &[u8]) -> Addresses {
        let port = service.port().map_or(0, |(_, port)| port);
        let header = CmaHeader::parse(private_data).ok().map(|(header, _)| header);
        let (local, peer, source_port) = match header {
            Some(header) => (header.destination(), header.source(), header.source_port()),
            None => (route.local, route.peer, 0),
        };
        Addresses {
            local: scoped(local, port, route.interface),
            peer: scoped(peer, source_port, route.interface),
            has_header: header.is_some(),
        }
    }

    /// What the RDMA CM's header leaves to the application.
    fn application_data(&self, private_data: &[u8]) -> Vec<u8> {
        private_data[if self.has_header { CmaHeader::LEN } else { 0 }..].to_vec()
    }
}

fn scoped(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => SocketAddrV6::new(v6, port, 0, interface).into(),
        ip => SocketAddr::new(ip, port),
    }
}
