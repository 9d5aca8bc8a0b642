//! Datagrams that arrive: what they are, and whom they concern.

use crate::connection::State;
use crate::params::{MRA_TIMEOUT, duration_ns};
use crate::{Cm, CmCounter, CommId, Route};
use ferroce_core::Nanos;
use ferroce_wire::cm::{self, Apr, AprStatus, Lap, Message, Mra, Subject};
use ferroce_wire::mad::Mad;

impl Cm {
    /// A datagram arrived at QP 1 between the addresses of `route`.
    pub fn handle_mad(&mut self, now: Nanos, route: &Route, mad: &Mad) {
        let transaction = mad.header().transaction_id();
        let Ok(message) = Message::parse(mad) else { return self.count(CmCounter::NotUnderstood) };
        self.count(CmCounter::Received);
        match message {
            Message::Req(req) => self.handle_req(now, route, transaction, req),
            Message::Mra(mra) => self.handle_mra(now, route, mra),
            Message::Rej(rej) => self.handle_rej(now, route, rej),
            Message::Rep(rep) => self.handle_rep(now, route, transaction, rep),
            Message::Rtu(rtu) => self.handle_rtu(now, route, rtu),
            Message::Dreq(dreq) => self.handle_dreq(now, route, transaction, dreq),
            Message::Drep(drep) => self.handle_drep(now, route, drep),
            Message::SidrReq(req) => self.handle_sidr_req(route, transaction, req),
            Message::SidrRep(rep) => self.handle_sidr_rep(route, rep),
            Message::Lap(lap) => self.handle_lap(route, transaction, lap),
            // We never ask for an alternate path.
            Message::Apr(_) => self.count(CmCounter::OutOfState),
        }
    }

    /// The connection that a message names by `ours`, if its sender is the peer.
    pub(crate) fn known(&mut self, route: &Route, ours: u32, theirs: u32) -> Option<CommId> {
        let id = CommId(ours);
        let is_known = self.connections.get(&id).is_some_and(|connection| {
            // A reject from a peer that made no connection of our request has no ID of its own.
            let is_end = connection.remote.is_none_or(|remote| remote.comm_id == theirs || theirs == 0);
            is_end && connection.route.peer == route.peer
        });
        if !is_known {
            self.count(CmCounter::Strangers);
        }
        is_known.then_some(id)
    }

    /// Asks the peer to wait for the application (MRA).
    pub(crate) fn send_patience(&mut self, id: CommId, subject: Subject) {
        let Some(connection) = self.connections.get(&id) else { return };
        let mra = Mra::default()
            .with_local_comm_id(id.0)
            .with_remote_comm_id(connection.remote_comm_id())
            .with_subject(subject)
            .with_service_timeout(MRA_TIMEOUT);
        let (route, mad) = (connection.route, cm::encode(connection.transaction, &mra));
        self.send(route, mad);
    }

    /// The peer needs more time.
    fn handle_mra(&mut self, now: Nanos, route: &Route, mra: &Mra) {
        let Some(id) = self.known(route, mra.remote_comm_id(), mra.local_comm_id()) else { return };
        let Some(connection) = self.connections.get(&id) else { return };
        let is_about = matches!(
            (connection.state, mra.subject()),
            (State::ReqSent, Subject::Req) | (State::RepSent, Subject::Rep)
        );
        if !is_about {
            return self.count(CmCounter::OutOfState);
        }
        let wait = duration_ns(mra.service_timeout()) + duration_ns(connection.settings.timeout);
        self.timers.set(id, now + wait);
    }

    /// There is one path.
    fn handle_lap(&mut self, route: &Route, transaction: u64, lap: &Lap) {
        let Some(id) = self.known(route, lap.remote_comm_id(), lap.local_comm_id()) else { return };
        if self.connections.get(&id).is_none_or(|connection| connection.state != State::Established) {
            return self.count(CmCounter::OutOfState);
        }
        let apr = Apr::default()
            .with_local_comm_id(id.0)
            .with_remote_comm_id(lap.local_comm_id())
            .with_status(AprStatus::NOT_SUPPORTED);
        self.send(*route, cm::encode(transaction, &apr));
    }
}
