//! How connections end.

use crate::connection::{Connection, State};
use crate::params::{MAX_RETRIES, PACKET_LIFETIME, RESPONSE_TIMEOUT, ack_timeout, duration_ns};
use crate::peers::Remote;
use crate::{Cm, CmCallError, CmCounter, CommId, Event, Orphan, QpSettings, Route};
use ferroce_core::Nanos;
use ferroce_wire::cm::{self, Drep, Dreq, Rej, RejectReason, Subject, Transport};

impl Cm {
    /// Refuses a request, or a peer's acceptance (REJ).
    ///
    /// # Errors
    /// There is nothing to refuse; more private data than there is room for.
    pub fn reject(
        &mut self,
        now: Nanos,
        id: CommId,
        reason: RejectReason,
        private_data: &[u8],
    ) -> Result<(), CmCallError> {
        let states = [State::ReqReceived, State::RepReceived, State::RepSent];
        let connection = self.connection_for(id, &states, "reject it")?;
        let subject = if connection.state == State::RepReceived { Subject::Rep } else { Subject::Req };
        let after = if connection.state == State::RepSent { State::Timewait } else { State::Idle };
        let rej = Rej::default()
            .with_local_comm_id(id.0)
            .with_remote_comm_id(connection.remote_comm_id())
            .with_subject(subject)
            .with_reason(reason)
            .with_private_data(private_data)?;
        let (route, mad) = (connection.route, cm::encode(connection.transaction, &rej));
        self.send(route, mad);
        self.enter(now, id, after);
        Ok(())
    }

    /// Ends an established connection (DREQ), or agrees that the peer ended it (DREP).
    ///
    /// # Errors
    /// It is not established; more private data than there is room for.
    pub fn disconnect(&mut self, now: Nanos, id: CommId, private_data: &[u8]) -> Result<(), CmCallError> {
        let states = [State::Established, State::DreqReceived];
        let connection = self.connection_for(id, &states, "disconnect it")?;
        let remote = connection.remote.unwrap_or(Remote { ca_guid: 0, comm_id: 0, qpn: 0 });
        if connection.state == State::DreqReceived {
            let drep = drep(id.0, remote.comm_id).with_private_data(private_data)?;
            let mad = cm::encode(connection.transaction, &drep);
            self.enter(now, id, State::Timewait);
            self.send_answer(id, mad);
            return Ok(());
        }
        let dreq = Dreq::default()
            .with_local_comm_id(id.0)
            .with_remote_comm_id(remote.comm_id)
            .with_remote_qpn(remote.qpn)
            .with_private_data(private_data)?;
        connection.transaction = u64::from(id.0);
        let mad = cm::encode(connection.transaction, &dreq);
        self.enter(now, id, State::DreqSent);
        self.send_until_answered(now, id, mad);
        Ok(())
    }

    /// Nobody wants to hear of the connection, or lookup, any more. What the peer waits for it gets: a reject or a
    /// disconnection.
    pub fn destroy(&mut self, now: Nanos, id: CommId) {
        self.taken(id);
        let Some(connection) = self.connections.get_mut(&id) else { return self.forget_resolution(id) };
        connection.is_owned = false;
        let (route, transaction, ca_guid) = (connection.route, connection.transaction, connection.ca_guid);
        match connection.state {
            State::ReqSent => {
                // The peer does not know our ID by its own, so it is told whose it is.
                let rej = rej(Subject::Req, id.0, 0, RejectReason::TIMEOUT);
                let rej = rej.with_information(&ca_guid.to_be_bytes()).expect("8 bytes fit");
                self.send(route, cm::encode(transaction, &rej));
                self.enter(now, id, State::Idle);
            }
            State::ReqReceived | State::RepSent | State::RepReceived => {
                let _sent = self.reject(now, id, RejectReason::CONSUMER_DEFINED, &[]);
            }
            State::Established | State::DreqReceived => {
                let _sent = self.disconnect(now, id, &[]);
            }
            State::DreqSent | State::Timewait => {}
            State::Idle => self.enter(now, id, State::Idle),
        }
    }

    /// Ends the connection of a process that is gone, in its place (DREQ).
    pub fn end_orphan(&mut self, now: Nanos, orphan: &Orphan) {
        let id = CommId(orphan.local_comm_id);
        if self.connections.contains_key(&id) || self.connections.len() >= crate::limits::MAX_CONNECTIONS {
            return;
        }
        let remote = Remote { ca_guid: 0, comm_id: orphan.remote_comm_id, qpn: orphan.remote_qpn };
        self.connections.insert(id, orphaned(orphan, remote));
        let _sent = self.disconnect(now, id, &[]);
    }

    pub(crate) fn handle_dreq(&mut self, now: Nanos, route: &Route, transaction: u64, dreq: &Dreq) {
        let (ours, theirs) = (dreq.remote_comm_id(), dreq.local_comm_id());
        let Some(id) = self.known(route, ours, theirs) else {
            // It waits for nothing else.
            return self.send(*route, cm::encode(transaction, &drep(ours, theirs)));
        };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.is_owned && dreq.remote_qpn() != connection.local_qpn {
            return self.count(CmCounter::Strangers);
        }
        match connection.state {
            State::Established | State::RepSent => {
                connection.transaction = transaction;
                self.raise(id, Event::Disconnected { id, timed_out: false });
                self.enter(now, id, State::DreqReceived);
                if self.connections.get(&id).is_some_and(|connection| !connection.is_owned) {
                    let _sent = self.disconnect(now, id, &[]);
                }
            }
            // Both ended it at the same time.
            State::DreqSent => {
                self.raise(id, Event::Disconnected { id, timed_out: false });
                self.enter(now, id, State::Timewait);
                self.send_answer(id, cm::encode(transaction, &drep(ours, theirs)));
            }
            State::Timewait => {
                self.count(CmCounter::Duplicates);
                self.send_answer(id, cm::encode(transaction, &drep(ours, theirs)));
            }
            State::DreqReceived => self.count(CmCounter::Duplicates),
            _ => self.count(CmCounter::OutOfState),
        }
    }

    pub(crate) fn handle_drep(&mut self, now: Nanos, route: &Route, drep: &Drep) {
        let Some(id) = self.known(route, drep.remote_comm_id(), drep.local_comm_id()) else { return };
        match self.connections.get(&id).map(|connection| connection.state) {
            Some(State::DreqSent) => {
                self.raise(id, Event::Disconnected { id, timed_out: false });
                self.enter(now, id, State::Timewait);
            }
            Some(State::Timewait) => self.count(CmCounter::Duplicates),
            _ => self.count(CmCounter::OutOfState),
        }
    }

    pub(crate) fn handle_rej(&mut self, now: Nanos, route: &Route, rej: &Rej) {
        let id = match rej.remote_comm_id() {
            // The peer gives up a request of which it has no answer.
            0 => self.rejected_request(route, rej),
            ours => self.known(route, ours, rej.local_comm_id()),
        };
        let Some(id) = id else { return };
        let reason = rej.reason();
        let is_stale = reason == RejectReason::STALE_CONNECTION;
        let rejected = Event::Rejected { id, reason, private_data: rej.private_data().to_vec() };
        match self.connections.get(&id).map(|connection| connection.state) {
            Some(State::ReqSent | State::ReqReceived | State::RepSent | State::RepReceived) => {
                self.raise(id, rejected);
                self.enter(now, id, if is_stale { State::Timewait } else { State::Idle });
            }
            Some(State::Established) => {
                self.raise(id, rejected);
                self.enter(now, id, State::Timewait);
            }
            Some(State::DreqSent) => {
                self.raise(id, Event::Disconnected { id, timed_out: false });
                self.enter(now, id, State::Timewait);
            }
            _ => self.count(CmCounter::OutOfState),
        }
    }

    fn rejected_request(&mut self, route: &Route, rej: &Rej) -> Option<CommId> {
        let ca_guid = rej.information().first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let id = ca_guid.and_then(|ca_guid| self.peers.by_comm_id(ca_guid, rej.local_comm_id()));
        let id = id.filter(|id| self.connections.get(id).is_some_and(|it| it.route.peer == route.peer));
        if id.is_none() {
            self.count(CmCounter::Strangers);
        }
        id
    }

    /// Sends a reject that belongs to no connection of ours.
    pub(crate) fn send_reject(
        &mut self,
        route: Route,
        transaction: u64,
        subject: Subject,
        local: u32,
        remote: u32,
        reason: RejectReason,
    ) {
        self.send(route, cm::encode(transaction, &rej(subject, local, remote, reason)));
    }
}

fn rej(subject: Subject, local: u32, remote: u32, reason: RejectReason) -> Rej {
    Rej::default()
        .with_local_comm_id(local)
        .with_remote_comm_id(remote)
        .with_subject(subject)
        .with_reason(reason)
}

fn drep(local: u32, remote: u32) -> Drep {
    Drep::default().with_local_comm_id(local).with_remote_comm_id(remote)
}

fn orphaned(orphan: &Orphan, remote: Remote) -> Connection {
    Connection {
        state: State::Established,
        route: orphan.route,
        transport: Transport::Rc,
        ca_guid: 0,
        local_qpn: 0,
        remote: Some(remote),
        transaction: u64::from(orphan.local_comm_id),
        settings: QpSettings {
            route: orphan.route,
            dest_qpn: orphan.remote_qpn,
            rq_psn: 0,
            sq_psn: 0,
            path_mtu: 0,
            timeout: ack_timeout(crate::params::ACK_DELAY, PACKET_LIFETIME),
            retry_count: 0,
            rnr_retry: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
        },
        patience: duration_ns(RESPONSE_TIMEOUT),
        max_retries: MAX_RETRIES,
        pending: None,
        answer: None,
        waits_at: None,
        is_owned: false,
    }
}
