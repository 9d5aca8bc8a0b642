//! The side that is asked for a connection.

use crate::active::gid;
use crate::connection::{Connection, State};
use crate::params::{ACK_DELAY, duration_ns};
use crate::peers::Remote;
use crate::{
    AcceptParams, Cm, CmCallError, CmCounter, CommId, Event, ListenAddr, ListenerId, QpSettings, Request,
    Route,
};
use ferroce_core::Nanos;
use ferroce_wire::cm::{
    self, CmaHeader, PortSpace, RejectReason, Rep, Req, Rtu, ServiceId, Subject, Transport,
};
use std::net::IpAddr;

impl Cm {
    /// Accepts a request (REP). [`Event::Established`], or the end, follows.
    ///
    /// # Errors
    /// It is no request; more private data than there is room for.
    pub fn accept(&mut self, now: Nanos, id: CommId, params: &AcceptParams) -> Result<(), CmCallError> {
        let connection = self.connection_for(id, &[State::ReqReceived], "accept it")?;
        let mut rep = Rep::default()
            .with_local_comm_id(id.0)
            .with_remote_comm_id(connection.remote_comm_id())
            .with_starting_psn(params.starting_psn)
            .with_responder_resources(params.responder_resources)
            .with_target_ack_delay(ACK_DELAY)
            .with_local_ca_guid(params.ca_guid)
            .with_private_data(&params.private_data)?;
        rep = match connection.transport {
            Transport::Xrc => rep.with_local_eecn(params.qpn).with_srq(true),
            _ => rep
                .with_local_qpn(params.qpn)
                .with_initiator_depth(params.initiator_depth)
                .with_end_to_end_flow_control(params.flow_control)
                .with_rnr_retry_count(params.rnr_retry_count)
                .with_srq(params.srq),
        };
        connection.local_qpn = params.qpn;
        connection.ca_guid = params.ca_guid;
        connection.settings.rq_psn = params.starting_psn;
        connection.settings.max_rd_atomic = params.initiator_depth;
        connection.settings.max_dest_rd_atomic = params.responder_resources;
        let mad = cm::encode(connection.transaction, &rep);
        self.taken(id);
        self.enter(now, id, State::RepSent);
        self.send_until_answered(now, id, mad);
        Ok(())
    }

    /// The queue pair has received (`IBV_EVENT_COMM_EST`), so the peer is ready, whether its RTU came or not.
    /// Does nothing unless the RTU is waited for.
    pub fn notify_established(&mut self, now: Nanos, id: CommId) {
        if self.connections.get(&id).is_some_and(|connection| connection.state == State::RepSent) {
            self.enter(now, id, State::Established);
            self.raise(id, Event::Established { id, private_data: Vec::new() });
        }
    }

    pub(crate) fn handle_req(&mut self, now: Nanos, route: &Route, transaction: u64, req: &Req) {
        let remote =
            Remote { ca_guid: req.local_ca_guid(), comm_id: req.local_comm_id(), qpn: req.local_qpn() };
        if let Some(id) = self.peers.by_comm_id(remote.ca_guid, remote.comm_id)
            && self.connections.get(&id).is_some_and(|connection| connection.route.peer == route.peer)
        {
            return self.handle_repeated_req(id);
        }
        if let Err(reason) = self.admit(now, route, transaction, req, remote) {
            self.count(match reason {
                RejectReason::INVALID_SERVICE_ID => CmCounter::NobodyListens,
                RejectReason::NO_RESOURCES => CmCounter::NoRoom,
                RejectReason::STALE_CONNECTION => CmCounter::Stale,
                _ => CmCounter::Malformed,
            });
            self.send_reject(*route, transaction, Subject::Req, 0, remote.comm_id, reason);
        }
    }

    fn handle_repeated_req(&mut self, id: CommId) {
        self.count(CmCounter::Duplicates);
        let Some(connection) = self.connections.get(&id) else { return };
        match connection.state {
            State::ReqReceived => self.send_patience(id, Subject::Req),
            State::Timewait => {
                let (route, transaction) = (connection.route, connection.transaction);
                let remote = connection.remote_comm_id();
                self.send_reject(route, transaction, Subject::Req, 0, remote, RejectReason::STALE_CONNECTION);
            }
            // What answers it is under way or repeated anyhow.
            _ => {}
        }
    }

    /// Makes a connection of a request, or says why not.
    fn admit(
        &mut self,
        now: Nanos,
        route: &Route,
        transaction: u64,
        req: &Req,
        remote: Remote,
    ) -> Result<(), RejectReason> {
        check(route, req)?;
        let destination = destination(req.service_id(), req.private_data(), route.local)?;
        if self.end_stale(now, CommId(0), route, remote) {
            return Err(RejectReason::STALE_CONNECTION);
        }
        let listener =
            self.listeners.find(req.service_id(), destination).ok_or(RejectReason::INVALID_SERVICE_ID)?;
        let id = self.new_connection_id().ok_or(RejectReason::NO_RESOURCES)?;
        if !self.listeners.enter(listener) {
            return Err(RejectReason::NO_RESOURCES);
        }
        let route = Route { traffic_class: req.primary_path().traffic_class(), ..*route };
        self.connections.insert(id, requested(listener, route, transaction, req, remote));
        self.peers.insert(id, remote);
        let request = Request {
            route,
            service: req.service_id(),
            transport: req.transport(),
            remote_ca_guid: remote.ca_guid,
            remote_qpn: remote.qpn,
            responder_resources: req.initiator_depth(),
            initiator_depth: req.responder_resources(),
            flow_control: req.end_to_end_flow_control(),
            retry_count: req.retry_count(),
            rnr_retry_count: req.rnr_retry_count(),
            srq: req.srq(),
            path_mtu: req.path_mtu(),
            pkey: req.pkey(),
            private_data: req.private_data().to_vec(),
        };
        self.raise(id, Event::Request { listener, id, request: Box::new(request) });
        Ok(())
    }

    /// Whether the peer's queue pair is connected already. That connection is over: the peer would not use the queue pair
    /// again otherwise.
    pub(crate) fn end_stale(&mut self, now: Nanos, id: CommId, route: &Route, remote: Remote) -> bool {
        let Some(old) = self.peers.by_qpn(remote.ca_guid, remote.qpn).filter(|old| *old != id) else {
            return false;
        };
        if self.connections.get(&old).is_none_or(|connection| connection.route.peer != route.peer) {
            return false;
        }
        // Refused in other states than established, from where there is nothing to disconnect.
        let _not_established = self.disconnect(now, old, &[]);
        true
    }

    pub(crate) fn handle_rtu(&mut self, now: Nanos, route: &Route, rtu: &Rtu) {
        let Some(id) = self.known(route, rtu.remote_comm_id(), rtu.local_comm_id()) else { return };
        match self.connections.get(&id).map(|connection| connection.state) {
            Some(State::RepSent) => {
                self.enter(now, id, State::Established);
                self.raise(id, Event::Established { id, private_data: rtu.private_data().to_vec() });
            }
            Some(State::Established) => self.count(CmCounter::Duplicates),
            _ => self.count(CmCounter::OutOfState),
        }
    }
}

/// What is wrong with a request in itself.
fn check(route: &Route, req: &Req) -> Result<(), RejectReason> {
    let path = req.primary_path();
    if !matches!(req.transport(), Transport::Rc | Transport::Uc | Transport::Xrc) {
        return Err(RejectReason::INVALID_TRANSPORT_TYPE);
    }
    if !PATH_MTUS.contains(&req.path_mtu()) {
        return Err(RejectReason::INVALID_PATH_MTU);
    }
    // The queue pair would send to somebody else than who asked.
    if (path.local_gid(), path.remote_gid()) != (gid(route.peer), gid(route.local)) {
        return Err(RejectReason::INVALID_GID);
    }
    Ok(())
}

/// At which address of ours a service is wanted.
pub(crate) fn destination(
    service: ServiceId,
    private_data: &[u8],
    arrived_at: IpAddr,
) -> Result<IpAddr, RejectReason> {
    if !ListenAddr::has_ip_header(service) {
        return Ok(arrived_at);
    }
    match CmaHeader::parse(private_data) {
        Ok((header, _)) => Ok(header.destination()),
        // Native InfiniBand addressing has no such header.
        Err(_) if matches!(service.port(), Some((PortSpace::Ib, _))) => Ok(arrived_at),
        Err(_) => Err(RejectReason::CONSUMER_DEFINED),
    }
}

fn requested(listener: ListenerId, route: Route, transaction: u64, req: &Req, remote: Remote) -> Connection {
    Connection {
        state: State::ReqReceived,
        route,
        transport: req.transport(),
        ca_guid: 0,
        local_qpn: 0,
        remote: Some(remote),
        transaction,
        settings: QpSettings {
            route,
            dest_qpn: remote.qpn,
            rq_psn: 0,
            sq_psn: req.starting_psn(),
            path_mtu: req.path_mtu(),
            timeout: req.primary_path().local_ack_timeout(),
            retry_count: req.retry_count(),
            rnr_retry: req.rnr_retry_count(),
            max_rd_atomic: req.responder_resources(),
            max_dest_rd_atomic: req.initiator_depth(),
        },
        patience: duration_ns(req.local_response_timeout().clamp(PATIENCE.0, PATIENCE.1)),
        max_retries: req.max_cm_retries(),
        pending: None,
        answer: None,
        waits_at: Some(listener),
        is_owned: true,
    }
}

const PATH_MTUS: std::ops::RangeInclusive<u8> = 1..=5;
/// Time codes: a peer that says less than 67 ms would get a flood, and one that says more than 69 s be waited for.
const PATIENCE: (u8, u8) = (14, 24);
