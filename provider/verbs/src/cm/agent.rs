//! The process's connection manager: its connections, its link to the keeper, and the thread that serves both.

use super::channel::ChannelShared;
use super::event::{CmEvent, CmEventKind};
use super::state::IdState;
use crate::config::Config;
use crate::engine::keeper_options;
use crate::error::Error;
use crate::fork;
use ferroce_cm::{Change, Cm, CmConfig, CommId, ListenerId};
use ferroce_core::Nanos;
use ferroce_keeper::{COMM_ID_BITS, CmLink, GsiRecord, GsiSocket};
use ferroce_port::off_stdio;
use ferroce_port::process::SignalsBlocked;
use ferroce_port::wait::readable;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The process's connection manager, alive as long as a channel or an ID is.
#[derive(Debug)]
pub(super) struct Agent {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

/// What application threads and the agent's thread share.
#[derive(Debug)]
struct Inner {
    generation: u32,
    start: Instant,
    state: Mutex<State>,
    wake: OwnedFd,
    stop: AtomicBool,
}

/// What only the holder of the lock touches.
#[derive(Debug)]
pub(super) struct State {
    pub(super) link: CmLink,
    pub(super) cm: Cm,
    pub(super) ids: BTreeMap<u64, IdState>,
    pub(super) by_comm: BTreeMap<CommId, u64>,
    pub(super) by_listener: BTreeMap<ListenerId, u64>,
    /// The moment of the call or datagram that is being handled.
    pub(super) now: Nanos,
    /// For the IDs that it makes itself.
    pub(super) agent: Weak<Agent>,
    /// What could not be sent yet.
    outbox: VecDeque<GsiRecord>,
    /// What connections are to be ended by the keeper, to be told to a new one.
    connected: BTreeMap<CommId, GsiRecord>,
    next_token: u64,
}

static SHARED: Mutex<Weak<Agent>> = Mutex::new(Weak::new());

impl Agent {
    /// The process's agent; the first caller starts it.
    pub(super) fn shared() -> Result<Arc<Agent>, Error> {
        let mut shared = SHARED.lock();
        if let Some(agent) = shared.upgrade()
            && !agent.is_dead()
        {
            return Ok(agent);
        }
        let agent = Arc::new(Agent::start()?);
        agent.inner.state.lock().agent = Arc::downgrade(&agent);
        *shared = Arc::downgrade(&agent);
        Ok(agent)
    }

    fn start() -> Result<Agent, Error> {
        fork::watch();
        let link = CmLink::open(&keeper_options(Config::current())?)?;
        let os = |doing| move |source| Error::Os { doing, source };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(Into::into);
        let wake = wake.and_then(off_stdio).map_err(os("making the connection manager's eventfd"))?;
        name_descriptors(&link);
        let inner = Arc::new(Inner {
            generation: fork::generation(),
            start: Instant::now(),
            state: Mutex::new(State {
                cm: Cm::new(config(&link)),
                link,
                ids: BTreeMap::new(),
                by_comm: BTreeMap::new(),
                by_listener: BTreeMap::new(),
                now: 0,
                agent: Weak::new(),
                outbox: VecDeque::new(),
                connected: BTreeMap::new(),
                next_token: 1,
            }),
            wake,
            stop: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&inner);
        // As for the engine's thread: the application's signals are not for it.
        let blocked =
            SignalsBlocked::begin().map_err(os("blocking signals for the connection manager's thread"))?;
        let thread = std::thread::Builder::new()
            .name("ferroce-cm".into())
            .spawn(move || for_thread.run())
            .map_err(os("starting the connection manager's thread"))?;
        drop(blocked);
        Ok(Agent { inner, thread: Some(thread) })
    }

    /// Whether it belongs to the parent of this process.
    pub(super) fn is_dead(&self) -> bool {
        self.inner.generation != fork::generation()
    }

    /// Does something with the connection manager, then sends and tells what comes of it.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> Result<T, Error>) -> Result<T, Error> {
        if self.is_dead() {
            return Err(Error::Forked);
        }
        let mut state = self.inner.state.lock();
        let deadline = state.cm.poll_timeout();
        state.now = self.inner.now();
        let result = work(&mut state);
        let left = state.settle();
        let has_news = !state.outbox.is_empty() || state.cm.poll_timeout() != deadline;
        drop(state);
        // What was to be told and nobody hears may be an ID, whose end needs the lock.
        drop(left);
        if has_news {
            self.inner.wake();
        }
        result
    }

    /// The application has taken an event about the ID `token`: what its owner calls it, if it is still there.
    pub(super) fn note_taken(&self, token: u64, event: &CmEvent) -> Option<u64> {
        let found = self.with(|state| {
            if let (CmEventKind::ConnectRequest, Some(request)) = (event.kind, &event.request) {
                let comm = state.ids.get(&request.token()).and_then(|id| id.comm);
                comm.into_iter().for_each(|comm| state.cm.taken(comm));
            }
            Ok(state.ids.get_mut(&token).map(|id| {
                id.reported += 1;
                id.cookie
            }))
        });
        found.ok().flatten()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.is_dead() {
            // As with the engine: the thread is not in this process, and the descriptors are closed.
            std::mem::forget(Arc::clone(&self.inner));
            std::mem::forget(self.thread.take());
            return;
        }
        self.inner.stop.store(true, Ordering::SeqCst);
        self.inner.wake();
        // The agent's own thread may be the last to drop an ID, one that nobody has heard of.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the connection manager's thread panicked");
        }
        // What is still under way is the keeper's from now on.
        fork::close_cm_in_child(&[]);
    }
}

impl Inner {
    /// The agent's thread.
    fn run(self: &Arc<Self>) {
        let mut socket = self.state.lock().link.socket();
        let mut tried_at: Option<Instant> = None;
        while !self.stop.load(Ordering::SeqCst) {
            let until = self.serve();
            let now = self.now();
            let wait = Duration::from_nanos(until.saturating_sub(now));
            let is_down = tried_at.is_some();
            let watched = [self.wake.as_fd(), socket.as_fd()];
            let watched = if is_down { &watched[..1] } else { &watched[..] };
            // An error is a lack of memory, which passes.
            let ready = readable(watched, Some(wait)).unwrap_or_default();
            if ready.contains(&0) {
                let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
            }
            let is_up = is_down || !ready.contains(&1) || self.receive(&socket);
            let is_time = tried_at.is_none_or(|at| at.elapsed() >= RETRY_KEEPER);
            if (is_down || !is_up) && is_time {
                tried_at = if self.recover(&mut socket) { None } else { Some(Instant::now()) };
            }
        }
        self.serve();
    }

    /// Does what is due, and says when more is.
    fn serve(&self) -> Nanos {
        let mut state = self.state.lock();
        let now = self.now();
        state.now = now;
        state.cm.handle_timeout(now);
        let left = state.settle();
        let deadline = state.cm.poll_timeout().unwrap_or(Nanos::MAX);
        let retry = if state.outbox.is_empty() { Nanos::MAX } else { now + RETRY_SEND_NS };
        drop(state);
        drop(left);
        deadline.min(retry).min(now + LONGEST_SLEEP_NS)
    }

    /// Takes the datagrams that wait, a bounded number; `false` when the keeper is gone.
    fn receive(&self, socket: &GsiSocket) -> bool {
        for _ in 0..RECORDS_PER_ROUND {
            match socket.receive() {
                Ok(GsiRecord::Mad { route, mad }) => {
                    let mut state = self.state.lock();
                    state.now = self.now();
                    let now = state.now;
                    state.cm.handle_mad(now, &route, &mad);
                    let left = state.settle();
                    drop(state);
                    drop(left);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// The keeper is gone: connections go on, and a new keeper is told of them.
    fn recover(&self, socket: &mut GsiSocket) -> bool {
        let mut state = self.state.lock();
        let prefix = state.link.comm_id_prefix();
        // A call of the application's may have been faster.
        let is_recovered = socket.as_fd().as_raw_fd() != state.link.socket().as_fd().as_raw_fd();
        if !is_recovered && let Err(error) = state.link.recover() {
            tracing::warn!(%error, "the keeper is gone and no new one could be reached: no connections for now");
            return false;
        }
        if state.link.comm_id_prefix() != prefix {
            let config = config(&state.link);
            state.cm.renumber(config);
        }
        name_descriptors(&state.link);
        *socket = state.link.socket();
        let connected: Vec<_> = state.connected.values().cloned().collect();
        state.outbox.extend(connected);
        true
    }

    fn wake(&self) {
        // Full (2^64 - 1 wakes nobody took) is as good as written.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Nanoseconds since the agent started.
    fn now(&self) -> Nanos {
        self.start.elapsed().as_nanos() as Nanos
    }
}

impl State {
    /// A number for a new ID.
    pub(super) fn new_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Tells what happened and sends what is to be sent. What comes back is to be dropped without the lock.
    #[must_use]
    fn settle(&mut self) -> Vec<CmEvent> {
        let mut left = Vec::new();
        while let Some(event) = self.cm.poll_event() {
            left.extend(self.dispatch(event));
        }
        while let Some(transmit) = self.cm.poll_transmit() {
            self.outbox.push_back(GsiRecord::Mad { route: transmit.route, mad: transmit.mad });
        }
        while let Some(change) = self.cm.poll_change() {
            let record = match change {
                Change::Connected(orphan) => {
                    let record = GsiRecord::Connected(orphan);
                    self.connected.insert(CommId(orphan.local_comm_id), record.clone());
                    record
                }
                Change::Ended(id) => {
                    self.connected.remove(&id);
                    GsiRecord::Ended { local_comm_id: id.0 }
                }
            };
            self.outbox.push_back(record);
        }
        let socket = self.link.socket();
        while self.outbox.front().is_some_and(|record| socket.send(record)) {
            self.outbox.pop_front();
        }
        if self.outbox.len() > OUTBOX_MAX {
            // Datagrams are repeated when they are missed; what the keeper must know is told again to the next one.
            self.outbox.retain(|record| !matches!(record, GsiRecord::Mad { .. }));
        }
        left
    }

    /// Tells the owner of the ID `token`.
    pub(super) fn tell(&self, token: u64, event: CmEvent) {
        if let Some(id) = self.ids.get(&token) {
            id.channel.push(token, event);
        }
    }

    /// The ID of a connection.
    pub(super) fn id_of(&mut self, comm: CommId) -> Option<(u64, &mut IdState)> {
        let token = *self.by_comm.get(&comm)?;
        Some((token, self.ids.get_mut(&token)?))
    }

    /// Moves what waits for the ID `token` to another channel.
    pub(super) fn migrate(&mut self, token: u64, channel: Arc<ChannelShared>) {
        let Some(id) = self.ids.get_mut(&token) else { return };
        let old = std::mem::replace(&mut id.channel, channel);
        for event in old.discard(token) {
            id.channel.push(token, event);
        }
    }
}

fn config(link: &CmLink) -> CmConfig {
    use std::hash::{BuildHasher, Hasher};
    let seed = std::collections::hash_map::RandomState::new().build_hasher().finish();
    CmConfig { id_prefix: link.comm_id_prefix(), id_bits: COMM_ID_BITS, seed: seed as u32 }
}

/// Names the descriptors that stand for this process, for a forked child to close.
fn name_descriptors(link: &CmLink) {
    let fds: Vec<RawFd> = link.descriptors().iter().map(|fd| fd.as_raw_fd()).collect();
    fork::close_cm_in_child(&fds);
}

/// Datagrams taken before the stop flag and the timers are looked at.
const RECORDS_PER_ROUND: usize = 256;
/// How soon what the keeper had no room for is tried again, in nanoseconds.
const RETRY_SEND_NS: Nanos = 1_000_000;
/// How long a keeper that could not be had is left alone.
const RETRY_KEEPER: Duration = Duration::from_millis(100);
/// The thread wakes at least so often, in nanoseconds.
const LONGEST_SLEEP_NS: Nanos = 60_000_000_000;
/// Records that wait for a keeper that takes none.
const OUTBOX_MAX: usize = 1 << 16;
