//! The connection manager: its tables, and what all its parts need.

use crate::connection::{Connection, Pending, State};
use crate::ids::Ids;
use crate::limits::MAX_CONNECTIONS;
use crate::listeners::Listeners;
use crate::params::duration_ns;
use crate::peers::Peers;
use crate::resolution::Resolutions;
use crate::timers::Timers;
use crate::{
    Change, CmCallError, CmCounter, CmCounters, CommId, Event, ListenAddr, ListenerId, QpSettings, Route,
};
use ferroce_core::Nanos;
use ferroce_wire::mad::Mad;
use std::collections::{BTreeMap, VecDeque};

/// The connections and listeners of a process.
#[derive(Debug)]
pub struct Cm {
    pub(crate) ids: Ids,
    pub(crate) connections: BTreeMap<CommId, Connection>,
    pub(crate) resolutions: Resolutions,
    pub(crate) peers: Peers,
    pub(crate) listeners: Listeners,
    pub(crate) timers: Timers,
    pub(crate) counters: CmCounters,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    changes: VecDeque<Change>,
}

/// How a connection manager numbers its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmConfig {
    /// What its communication IDs begin with, by which QP 1's owner knows whose they are.
    pub id_prefix: u32,
    /// How many low bits of an ID vary.
    pub id_bits: u32,
    /// Where the IDs begin: anything that differs from run to run, so that late messages of a run before meet nobody.
    pub seed: u32,
}

/// A datagram to be sent from QP 1 to QP 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// From where to where.
    pub route: Route,
    /// The datagram.
    pub mad: Box<Mad>,
}

impl Cm {
    /// A connection manager without connections.
    pub fn new(config: CmConfig) -> Cm {
        Cm {
            ids: Ids::new(config.id_prefix, config.id_bits, config.seed),
            connections: BTreeMap::new(),
            resolutions: Resolutions::default(),
            peers: Peers::default(),
            listeners: Listeners::default(),
            timers: Timers::default(),
            counters: CmCounters::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            changes: VecDeque::new(),
        }
    }

    /// IDs of connections to come begin with another prefix.
    pub fn renumber(&mut self, config: CmConfig) {
        self.ids = Ids::new(config.id_prefix, config.id_bits, config.seed);
    }

    /// Listens. At most `backlog` requests wait for [`Cm::taken`], a request beyond them is refused (no resources);
    /// 0 stands for [`MAX_BACKLOG`](crate::limits::MAX_BACKLOG), which is the most.
    ///
    /// # Errors
    /// Somebody listens on the same service and addresses; too many listeners.
    pub fn listen(&mut self, addr: ListenAddr, backlog: u32) -> Result<ListenerId, CmCallError> {
        self.listeners.add(addr, backlog)
    }

    /// Listens no more. Requests that wait stay as they are.
    pub fn unlisten(&mut self, listener: ListenerId) {
        self.listeners.remove(listener);
    }

    /// The application has got to know a request or lookup: it leaves the backlog.
    pub fn taken(&mut self, id: CommId) {
        let waits_at = match self.connections.get_mut(&id) {
            Some(connection) => connection.waits_at.take(),
            None => self.resolutions.taken(id),
        };
        if let Some(listener) = waits_at {
            self.listeners.leave(listener);
        }
    }

    /// What the queue pair of a connection is to be told. The peer's part is there from [`Event::Request`] or
    /// [`Event::Reply`] on.
    pub fn qp_settings(&self, id: CommId) -> Option<QpSettings> {
        let connection = self.connections.get(&id)?;
        connection.remote.is_some().then_some(connection.settings)
    }

    /// The peer's communication ID and queue pair of a connection that the peer may take for established: what somebody
    /// else needs to end it.
    pub fn orphan(&self, id: CommId) -> Option<crate::Orphan> {
        let connection = self.connections.get(&id);
        let connection = connection.filter(|it| matches!(it.state, State::RepSent | State::Established))?;
        let remote = connection.remote?;
        Some(crate::Orphan {
            local_comm_id: id.0,
            remote_comm_id: remote.comm_id,
            remote_qpn: remote.qpn,
            route: connection.route,
        })
    }

    /// Does what is due at `now`. Bounded by the number of connections and lookups.
    pub fn handle_timeout(&mut self, now: Nanos) {
        // Ends: what is set again lies after `now`.
        while let Some(id) = self.timers.take_due(now) {
            if self.connections.contains_key(&id) {
                self.handle_connection_timeout(now, id);
            } else {
                self.handle_resolution_timeout(now, id);
            }
        }
    }

    /// When [`Cm::handle_timeout`] is to be called next.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.timers.next()
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next change of what is to be done should this process die.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// What it has counted.
    pub fn counters(&self) -> CmCounters {
        self.counters
    }

    /// Connections there are, those in timewait included.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// An ID for a new connection, if there may be one more.
    pub(crate) fn new_connection_id(&mut self) -> Option<CommId> {
        if self.connections.len() >= MAX_CONNECTIONS {
            return None;
        }
        self.new_id()
    }

    pub(crate) fn new_id(&mut self) -> Option<CommId> {
        let (connections, resolutions) = (&self.connections, &self.resolutions);
        self.ids.next(|id| connections.contains_key(&id) || resolutions.contains(id))
    }

    /// The connection, if it is in one of `states`; otherwise why `call` is refused.
    pub(crate) fn connection_for(
        &mut self,
        id: CommId,
        states: &[State],
        call: &'static str,
    ) -> Result<&mut Connection, CmCallError> {
        match self.connections.get_mut(&id) {
            None => Err(CmCallError::Unknown(id)),
            Some(connection) if states.contains(&connection.state) => Ok(connection),
            Some(connection) => Err(CmCallError::State { id, state: connection.state.name(), call }),
        }
    }

    pub(crate) fn count(&mut self, counter: CmCounter) {
        self.counters.count(counter);
    }

    pub(crate) fn send(&mut self, route: Route, mad: Mad) {
        self.count(CmCounter::Sent);
        self.transmits.push_back(Transmit { route, mad: Box::new(mad) });
    }

    /// Tells about a connection that somebody owns.
    pub(crate) fn raise(&mut self, id: CommId, event: Event) {
        if self.connections.get(&id).is_some_and(|connection| connection.is_owned) {
            self.events.push_back(event);
        }
    }

    /// As [`Cm::raise`], for lookups.
    pub(crate) fn raise_unasked(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Sends a message of `id` and goes on until it is answered.
    pub(crate) fn send_until_answered(&mut self, now: Nanos, id: CommId, mad: Mad) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let route = connection.route;
        connection.pending = Some(Pending { mad: Box::new(mad), left: connection.max_retries });
        self.timers.set(id, now + connection.patience);
        self.send(route, mad);
    }

    /// Sends an answer of `id`, and keeps it for a peer that asks again.
    pub(crate) fn send_answer(&mut self, id: CommId, mad: Mad) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let route = connection.route;
        connection.answer = Some(Box::new(mad));
        self.send(route, mad);
    }

    /// Sends the last answer once more.
    pub(crate) fn repeat_answer(&mut self, id: CommId) {
        let Some(connection) = self.connections.get(&id) else { return };
        if let Some(mad) = &connection.answer {
            let (route, mad) = (connection.route, **mad);
            self.send(route, mad);
        }
    }

    /// Goes on to `state`; what was to be answered needs no answer any more.
    pub(crate) fn enter(&mut self, now: Nanos, id: CommId, state: State) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let before = std::mem::replace(&mut connection.state, state);
        connection.pending = None;
        let (remote, waits_at, is_owned) = (connection.remote, connection.waits_at, connection.is_owned);
        self.timers.clear(id);
        self.note_change(id, before, state);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match state {
            State::Timewait => {
                let stay = duration_ns(connection.settings.timeout);
                self.timers.set(id, now.saturating_add(stay));
                if let Some(remote) = remote {
                    self.peers.release_qpn(id, remote);
                }
            }
            State::Idle => {
                connection.waits_at = None;
                if let Some(listener) = waits_at {
                    self.listeners.leave(listener);
                }
                if let Some(remote) = remote {
                    self.peers.remove(id, remote);
                }
                if !is_owned {
                    self.connections.remove(&id);
                }
            }
            _ => {}
        }
    }

    fn note_change(&mut self, id: CommId, before: State, after: State) {
        let is_connected = |state| {
            matches!(state, State::RepSent | State::Established | State::DreqSent | State::DreqReceived)
        };
        match (is_connected(before), is_connected(after)) {
            (false, true) => self.changes.extend(self.orphan(id).map(Change::Connected)),
            (true, false) => self.changes.push_back(Change::Ended(id)),
            _ => {}
        }
    }

    fn handle_connection_timeout(&mut self, now: Nanos, id: CommId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(pending) = connection.pending.as_mut().filter(|pending| pending.left > 0) {
            pending.left -= 1;
            let (route, mad) = (connection.route, *pending.mad);
            self.timers.set(id, now + connection.patience);
            self.count(CmCounter::Repeated);
            return self.send(route, mad);
        }
        match connection.state {
            State::ReqSent | State::RepSent => {
                self.raise(id, Event::Unreachable { id });
                self.enter(now, id, State::Idle);
            }
            State::DreqSent => {
                self.raise(id, Event::Disconnected { id, timed_out: true });
                self.enter(now, id, State::Timewait);
            }
            State::Timewait => {
                self.raise(id, Event::TimewaitExit { id });
                self.enter(now, id, State::Idle);
            }
            // They have no deadlines.
            State::ReqReceived
            | State::RepReceived
            | State::Established
            | State::DreqReceived
            | State::Idle => {}
        }
    }
}
