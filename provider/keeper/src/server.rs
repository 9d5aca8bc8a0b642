//! The keeper: grants slots, watches its clients, takes over from a keeper that died. Control plane only.
//!
//! One thread, one loop. The abstract socket's name makes sure that there is one keeper: whoever cannot bind it leaves.
//! Then there is the question whose the port is, which has three answers:
//!
//! ```text
//!             free ──────────────────────────────────────────────► Serving ──► idle for long: end
//!  Claiming ─ sockets that we may join ─► all of them handed over ──► Serving
//!             somebody else's, or nobody reports in time ─────────► Refusing ──► told those who asked: end
//! ```

mod connection;
mod group;
mod gsi;
mod management;
mod members;
mod requests;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use ferroce_port::holder::bound_sockets;
use ferroce_port::wait::readable;
use ferroce_port::{ReceiveSocketError, Sharing, abstract_socket, open_receive_socket};

use self::connection::{Connection, State};
use self::group::Group;
use self::management::Management;
use crate::channel::{Channel, ChannelError};
use crate::protocol::Message;
use crate::{KeeperError, MAX_MEMBERS, MAX_SLOTS};

/// What a keeper needs to know.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The abstract name to listen on.
    pub name: String,
    /// The UDP port to share.
    pub port: u16,
    /// How long to stay without clients.
    pub idle: Duration,
}

/// How long a new keeper waits for the clients of an earlier one to hand over the sockets.
const CLAIM_SECONDS: u64 = 1;
/// How often it looks meanwhile whether the port has become free, which no event tells.
const CLAIM_TICK: Duration = Duration::from_millis(20);
/// How long a keeper that could not get the port waits for the process that started it to hear why.
const REFUSING_SECONDS: u64 = 2;
/// Connections that hold no slot; beyond that, more are left in the backlog.
const MAX_WITHOUT_SLOT: usize = 64;
/// How long no connection is accepted after the system refused one (no descriptors, no memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A keeper that listens.
#[derive(Debug)]
pub struct Keeper {
    // Dropped in this order: when the name is free, the port must be; when clients see us gone, the name must be free.
    phase: Phase,
    management: Management,
    listener: UnixListener,
    connections: Vec<Connection>,
    /// What was asked about ports in this round, by the connection's index: answered when all who have gone are known.
    about_ports: Vec<(usize, Message)>,
    options: ServeOptions,
    /// A descriptor kept back for the client that is to hear that there are none left.
    spare: Option<File>,
    /// Since when no client has needed us.
    idle_since: Option<Instant>,
    accept_again: Instant,
}

/// Who has something to say.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The connection of that index.
    Connection(usize),
    /// The process of that number, about its connections.
    Member(u16),
    /// The network, to QP 1.
    Gsi,
    /// Somebody new.
    Listener,
}

#[derive(Debug)]
enum Phase {
    /// Somebody has the port: the clients of an earlier keeper, perhaps.
    Claiming { group: Option<Group>, until: Instant },
    /// The port is ours.
    Serving(Group),
    /// The port is not to be had.
    Refusing { error: KeeperError, until: Instant, has_told: bool },
}

impl Keeper {
    /// Listens. `None`: there is a keeper of that name already.
    ///
    /// # Errors
    /// [`KeeperError::System`] when the socket cannot be had. That the port is taken is not told here but to the
    /// clients.
    pub fn listen(options: ServeOptions) -> Result<Option<Keeper>, KeeperError> {
        let failed = |source| KeeperError::System { step: "listening on the abstract socket", source };
        let listener = match abstract_socket::listen(&options.name) {
            Ok(listener) => listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        listener.set_nonblocking(true).map_err(failed)?;
        let now = Instant::now();
        let until = now + Duration::from_secs(CLAIM_SECONDS);
        let phase = Phase::Claiming { group: None, until };
        Ok(Some(Keeper {
            phase,
            management: Management::new(now),
            listener,
            connections: Vec::new(),
            about_ports: Vec::new(),
            options,
            spare: open_spare(),
            idle_since: None,
            accept_again: now,
        }))
    }

    /// Serves until nobody needs it any more.
    ///
    /// # Errors
    /// [`KeeperError`] when the port was not to be had (the clients know by then), or waiting fails.
    pub fn run(mut self) -> Result<(), KeeperError> {
        self.look_at_port();
        loop {
            let now = Instant::now();
            self.advance(now);
            self.sweep(now);
            if let Some(end) = self.end(now) {
                return end;
            }
            let (sources, waited) = self.sources(now);
            let timeout = self.next_deadline(now).map(|at| at.saturating_duration_since(now));
            let ready = readable(&waited, timeout)
                .map_err(|source| KeeperError::System { step: "waiting for clients", source })?;
            let now = Instant::now();
            for at in ready {
                self.serve_source(sources[at], now);
            }
            self.release_ports(now);
            self.answer_bindings();
            self.management.handle_timeout(now);
        }
    }

    /// What is waited for, and what each of it is.
    fn sources(&self, now: Instant) -> (Vec<Source>, Vec<BorrowedFd<'_>>) {
        let connections = self.connections.iter().enumerate();
        let connections = connections.map(|(at, one)| (Source::Connection(at), one.channel().as_fd()));
        let members = self.management.members.sockets();
        let members = members.map(|(number, socket)| (Source::Member(number), socket));
        let gsi = self.management.sockets().into_iter().map(|socket| (Source::Gsi, socket));
        let listener = self.accepts(now).then(|| (Source::Listener, self.listener.as_fd()));
        connections.chain(members).chain(gsi).chain(listener).unzip()
    }

    fn serve_source(&mut self, source: Source, now: Instant) {
        match source {
            Source::Connection(at) if self.connections[at].is_closed => {}
            Source::Connection(at) => self.serve(at, now),
            Source::Member(number) => {
                self.management.serve_member(number);
            }
            Source::Gsi => self.management.receive(),
            // What it brings has its first words read in the next round.
            Source::Listener => self.accept(now),
        }
    }

    /// Somebody else's port is seen at once: sockets of a group that we might join let us join.
    fn look_at_port(&mut self) {
        let port = self.options.port;
        if bound_sockets(port).is_empty() {
            return;
        }
        // Joins at the end of the group and leaves from there, which moves nobody.
        match open_receive_socket(port, Sharing::Group) {
            Err(ReceiveSocketError::InUse { port, holder }) if !holder.sockets.is_empty() => {
                self.refuse_all(ReceiveSocketError::InUse { port, holder }.into());
            }
            // Perhaps ours, perhaps free by now; or a fault that binding will show again.
            _ => {}
        }
    }

    /// What time and other processes' ends bring about.
    fn advance(&mut self, now: Instant) {
        let port = self.options.port;
        let Phase::Claiming { group, until } = &mut self.phase else { return };
        let is_over = now >= *until;
        let is_whole = group.as_mut().is_some_and(Group::check_complete);
        let is_some = group.as_ref().is_some_and(|group| !group.is_empty());
        if (is_whole || (is_some && is_over))
            && let Some(group) = group.take()
        {
            if !is_whole {
                tracing::warn!("not all processes have reported: no new slots are opened until they have");
            }
            self.serve_group(group);
        } else if is_over || (group.is_none() && bound_sockets(port).is_empty()) {
            // Free; or nobody has reported, or those who began have died.
            self.try_port(port, is_over);
        }
    }

    /// Binds the port for ourselves, as the start of a new group.
    fn try_port(&mut self, port: u16, is_over: bool) {
        let group = open_receive_socket(port, Sharing::Exclusive)
            .map_err(KeeperError::from)
            .and_then(|first| Group::new(port, first));
        match group {
            Ok(group) => self.serve_group(group),
            Err(KeeperError::PortTaken { .. }) if !is_over => {}
            Err(error) => self.refuse_all(error),
        }
    }

    fn serve_group(&mut self, group: Group) {
        tracing::info!(port = self.options.port, "the port is ours");
        let socket = group.sockets(0, 1).and_then(|sockets| sockets.first()?.try_clone_to_owned().ok());
        if let Some(socket) = socket {
            self.management.open(socket, self.options.port);
        }
        self.phase = Phase::Serving(group);
        self.answer_waiting(Instant::now());
    }

    fn refuse_all(&mut self, error: KeeperError) {
        tracing::error!(%error, "the port is not to be had");
        let now = Instant::now();
        let until = now + Duration::from_secs(REFUSING_SECONDS);
        self.phase = Phase::Refusing { error, until, has_told: false };
        self.answer_waiting(now);
    }

    /// Whether it is time to end, and how.
    fn end(&mut self, now: Instant) -> Option<Result<(), KeeperError>> {
        if let Phase::Refusing { until, has_told, .. } = &self.phase {
            let all_know = *has_told && self.connections.is_empty();
            if !all_know && now < *until {
                return None;
            }
            let Phase::Refusing { error, .. } =
                std::mem::replace(&mut self.phase, Phase::Claiming { group: None, until: now })
            else {
                return None;
            };
            return Some(Err(error));
        }
        if matches!(self.phase, Phase::Claiming { .. }) || self.is_busy() {
            self.idle_since = None;
            return None;
        }
        let since = *self.idle_since.get_or_insert(now);
        if now.saturating_duration_since(since) < self.options.idle {
            return None;
        }
        tracing::info!("nobody has needed us for a while");
        Some(Ok(()))
    }

    fn is_busy(&self) -> bool {
        self.management.is_busy() || self.connections.iter().any(Connection::is_busy)
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Claiming { until, .. } => Some((now + CLAIM_TICK).min(*until)),
            Phase::Refusing { until, .. } => Some(*until),
            Phase::Serving(_) => self.idle_since.map(|since| since + self.options.idle),
        };
        let pause = Some(self.accept_again).filter(|&again| again > now);
        let silent = self.connections.iter().filter_map(Connection::deadline).min();
        let management = self.management.deadline(now);
        [phase, pause, silent, management].into_iter().flatten().min()
    }

    fn accepts(&self, now: Instant) -> bool {
        if self.spare.is_none() {
            // Nobody more until the client that took it has gone.
            return false;
        }
        let stays = |one: &&Connection| matches!(one.state, State::Holding { .. } | State::Member { .. });
        let staying = self.connections.iter().filter(stays).count();
        let without_slot = self.connections.len() - staying;
        now >= self.accept_again
            && without_slot < MAX_WITHOUT_SLOT
            && staying < usize::from(MAX_SLOTS) + MAX_MEMBERS
    }

    /// Accepts one; the loop comes back for the next.
    fn accept(&mut self, now: Instant) {
        let mut state = State::Idle;
        let mut accepted = Channel::accept(&self.listener);
        if let Err(ChannelError::Io(error)) = &accepted
            && self.spare.take().is_some()
        {
            tracing::warn!(%error, "turning a client away");
            state = State::Surplus;
            accepted = Channel::accept(&self.listener);
        }
        match accepted {
            Ok(channel) => self.connections.push(Connection::new(channel, state, now)),
            Err(ChannelError::Silent | ChannelError::Closed) => {}
            Err(error @ ChannelError::WrongUser { .. }) => tracing::warn!(%error, "turned a stranger away"),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                self.accept_again = now + ACCEPT_PAUSE;
            }
        }
    }

    /// Drops those that are done or silent for too long, and takes their slots back.
    fn sweep(&mut self, now: Instant) {
        for connection in &mut self.connections {
            if connection.deadline().is_some_and(|deadline| now >= deadline) {
                tracing::debug!("dropped a silent client");
                connection.is_closed = true;
            }
            if let (true, State::Holding { slot }) = (connection.is_closed, connection.state) {
                tracing::info!(slot, "the client has gone");
                if let Phase::Serving(group) | Phase::Claiming { group: Some(group), .. } = &mut self.phase {
                    group.release(slot);
                }
            }
        }
        self.release_ports(now);
        self.connections.retain(|connection| !connection.is_closed);
        if self.spare.is_none() {
            self.spare = open_spare();
            if self.spare.is_none() {
                self.accept_again = now + ACCEPT_PAUSE;
            }
        }
    }

    /// Takes back the ports of processes that have gone, and ends their connections.
    fn release_ports(&mut self, now: Instant) {
        for connection in self.connections.iter_mut().filter(|connection| connection.is_closed) {
            if let State::Member { number } = connection.state {
                self.management.leave(number, now);
                connection.state = State::Idle;
            }
        }
    }
}

fn open_spare() -> Option<File> {
    File::open("/dev/null").ok()
}
