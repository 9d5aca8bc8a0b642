//! The side that asks for a connection.

use crate::connection::{Connection, State};
use crate::params::{ACK_DELAY, MAX_RETRIES, RESPONSE_TIMEOUT, ack_timeout, duration_ns};
use crate::peers::Remote;
use crate::{Cm, CmCallError, CmCounter, CommId, ConnectParams, Event, QpSettings, Reply, Route};
use ferroce_core::Nanos;
use ferroce_wire::cm::{self, RejectReason, Rep, Req, ReqPath, Rtu, Subject, Transport};
use std::net::IpAddr;

impl Cm {
    /// Asks for a connection (REQ). [`Event::Reply`], [`Event::Rejected`] or [`Event::Unreachable`] follows.
    ///
    /// # Errors
    /// More private data than there is room for; too many connections.
    pub fn connect(&mut self, now: Nanos, params: &ConnectParams) -> Result<CommId, CmCallError> {
        let ack_timeout = ack_timeout(ACK_DELAY, params.packet_lifetime);
        let req = request(params, ack_timeout).with_private_data(&params.private_data)?;
        let id = self.new_connection_id().ok_or(CmCallError::TooManyConnections)?;
        let transaction = u64::from(id.0);
        let connection = Connection {
            state: State::ReqSent,
            route: params.route,
            transport: params.transport,
            ca_guid: params.ca_guid,
            local_qpn: params.qpn,
            remote: None,
            transaction,
            settings: QpSettings {
                route: params.route,
                dest_qpn: 0,
                rq_psn: params.starting_psn,
                sq_psn: 0,
                path_mtu: params.path_mtu,
                timeout: ack_timeout,
                retry_count: params.retry_count & 7,
                rnr_retry: 0,
                max_rd_atomic: params.initiator_depth,
                max_dest_rd_atomic: params.responder_resources,
            },
            patience: 2 * duration_ns(params.packet_lifetime) + duration_ns(RESPONSE_TIMEOUT),
            max_retries: MAX_RETRIES,
            pending: None,
            answer: None,
            waits_at: None,
            is_owned: true,
        };
        self.connections.insert(id, connection);
        self.send_until_answered(now, id, cm::encode(transaction, &req.with_local_comm_id(id.0)));
        Ok(id)
    }

    /// Takes the peer's acceptance (RTU): the queue pair is ready to receive.
    ///
    /// # Errors
    /// The peer has not accepted; more private data than there is room for.
    pub fn establish(&mut self, now: Nanos, id: CommId, private_data: &[u8]) -> Result<(), CmCallError> {
        let connection = self.connection_for(id, &[State::RepReceived], "establish it")?;
        let rtu = Rtu::default()
            .with_local_comm_id(id.0)
            .with_remote_comm_id(connection.remote_comm_id())
            .with_private_data(private_data)?;
        let mad = cm::encode(connection.transaction, &rtu);
        self.enter(now, id, State::Established);
        self.send_answer(id, mad);
        Ok(())
    }

    pub(crate) fn handle_rep(&mut self, now: Nanos, route: &Route, transaction: u64, rep: &Rep) {
        let Some(id) = self.known(route, rep.remote_comm_id(), rep.local_comm_id()) else {
            return self.send_reject(
                *route,
                transaction,
                Subject::Rep,
                0,
                rep.local_comm_id(),
                RejectReason::INVALID_COMM_ID,
            );
        };
        match self.connections.get(&id).map(|connection| connection.state) {
            Some(State::ReqSent) => self.take_rep(now, id, rep),
            Some(State::RepReceived) => {
                self.count(CmCounter::Duplicates);
                self.send_patience(id, Subject::Rep);
            }
            // The RTU was lost.
            Some(State::Established) => {
                self.count(CmCounter::Duplicates);
                self.repeat_answer(id);
            }
            _ => self.count(CmCounter::OutOfState),
        }
    }

    fn take_rep(&mut self, now: Nanos, id: CommId, rep: &Rep) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let qpn = match connection.transport {
            Transport::Xrc => rep.local_eecn(),
            _ => rep.local_qpn(),
        };
        let remote = Remote { ca_guid: rep.local_ca_guid(), comm_id: rep.local_comm_id(), qpn };
        let (route, transaction) = (connection.route, connection.transaction);
        if self.end_stale(now, id, &route, remote) {
            return self.send_reject(
                route,
                transaction,
                Subject::Rep,
                id.0,
                remote.comm_id,
                RejectReason::STALE_CONNECTION,
            );
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.remote = Some(remote);
        let settings = &mut connection.settings;
        settings.dest_qpn = qpn;
        settings.sq_psn = rep.starting_psn();
        settings.rnr_retry = rep.rnr_retry_count();
        settings.max_rd_atomic = rep.responder_resources();
        settings.max_dest_rd_atomic = rep.initiator_depth();
        settings.timeout = ack_timeout(rep.target_ack_delay(), settings.timeout.saturating_sub(1));
        self.peers.insert(id, remote);
        self.enter(now, id, State::RepReceived);
        let reply = Reply {
            remote_ca_guid: remote.ca_guid,
            remote_qpn: qpn,
            responder_resources: rep.initiator_depth(),
            initiator_depth: rep.responder_resources(),
            flow_control: rep.end_to_end_flow_control(),
            rnr_retry_count: rep.rnr_retry_count(),
            srq: rep.srq(),
            private_data: rep.private_data().to_vec(),
        };
        self.raise(id, Event::Reply { id, reply: Box::new(reply) });
    }
}

fn request(params: &ConnectParams, ack_timeout: u8) -> Req {
    let path = ReqPath::default()
        .with_local_lid(NO_LID)
        .with_remote_lid(NO_LID)
        .with_local_gid(gid(params.route.local))
        .with_remote_gid(gid(params.route.peer))
        .with_traffic_class(params.route.traffic_class)
        .with_hop_limit(HOP_LIMIT)
        .with_local_ack_timeout(ack_timeout);
    let req = Req::default()
        .with_service_id(params.service)
        .with_local_ca_guid(params.ca_guid)
        .with_local_qpn(params.qpn)
        .with_initiator_depth(params.initiator_depth)
        .with_remote_response_timeout(RESPONSE_TIMEOUT)
        .with_local_response_timeout(RESPONSE_TIMEOUT)
        .with_transport(params.transport)
        .with_end_to_end_flow_control(params.flow_control)
        .with_starting_psn(params.starting_psn)
        .with_pkey(params.pkey)
        .with_path_mtu(params.path_mtu)
        .with_max_cm_retries(MAX_RETRIES)
        .with_primary_path(path);
    match params.transport {
        // An initiator answers nothing.
        Transport::Xrc => req,
        _ => req
            .with_responder_resources(params.responder_resources)
            .with_retry_count(params.retry_count)
            .with_rnr_retry_count(params.rnr_retry_count)
            .with_srq(params.srq),
    }
}

/// The GID of an address.
pub(crate) fn gid(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// LIDs are reserved in RoCE; the kernel fills them so.
const NO_LID: u16 = 0xffff;
const HOP_LIMIT: u8 = 64;
