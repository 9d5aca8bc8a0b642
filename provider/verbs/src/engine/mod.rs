//! The engine: one transport, one port and one lock for all devices that a process opens.
//!
//! Application threads leave work requests in their QP's [`QpShared`] and ring a bell. Whoever holds the lock
//! runs *rounds*: receive, take what the bells announce, time out, deliver completions, transmit. That is the
//! application's own thread while it polls or posts, so that a polling application pays no thread switch, and
//! the engine's thread otherwise (see [`progress`]).

mod groups;
mod habit;
mod hold;
mod objects;
mod overdue;
mod ports;
mod progress;
mod queues;
mod round;
mod srqs;

pub(crate) use objects::NO_CQ;
pub(crate) use queues::{Cqs, QpShared};
pub(crate) use srqs::SrqShared;

use crate::config::Config;
use crate::cq::CqShared;
use crate::error::Error;
use crate::fork;
use crate::limits::{MAX_QP, MAX_RD_ATOMIC};
use crate::memory::AppMemory;
use crossbeam::queue::SegQueue;
use ferroce_core::{Counter, Dcqcn, Device, DeviceConfig, Nanos, Profile};
use ferroce_keeper::{Board, KeeperMode, KeeperOptions, Lease};
use ferroce_port::process::SignalsBlocked;
use ferroce_port::{Port, UdpOptions, UdpPort};
use groups::Groups;
use hold::Hold;
use objects::Objects;
use overdue::Overdue;
use parking_lot::{Condvar, Mutex};
use ports::OpenPort;
use progress::{Progress, Watched};
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

/// The process's engine, alive as long as a context is open.
#[derive(Debug)]
pub(crate) struct Engine {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

/// What application threads and the engine's thread share.
#[derive(Debug)]
pub(crate) struct Inner {
    generation: u32,
    start: Instant,
    state: Mutex<State>,
    bells: SegQueue<Bell>,
    progress: Progress,
    ports: Mutex<Vec<OpenPort>>,
    lease: Mutex<Lease>,
    board: Arc<Board>,
    slot: usize,
    assisted: bool,
    /// Dropped last: the sockets are closed then.
    _alive: Alive,
}

/// Whoever has something for the engine to take.
#[derive(Debug)]
enum Bell {
    Qp(Arc<QpShared>),
    Srq(Arc<SrqShared>),
}

/// What only the holder of the lock touches.
pub(crate) struct State {
    device: Device,
    port: UdpPort,
    memory: AppMemory,
    objects: Objects,
    groups: Groups,
    hold: Hold,
    /// CQs with an event to raise, and when; one for each, perhaps late for an event that was raised already.
    held_events: Vec<(Nanos, Arc<CqShared>)>,
    /// When a round last moved something.
    busy_at: Nanos,
    overdue: Overdue,
    /// Packets that the receiving socket holds at most.
    socket_holds: u64,
    /// When the counters were last shown on the board.
    shown_at: Nanos,
}

/// How late the engine may be for a packet that congestion control holds back, and make up for it: a thread that
/// sleeps wakes some 50 µs late, and later on a busy machine.
const LATE_NS: Nanos = 200_000;

static SHARED: Mutex<Weak<Engine>> = Mutex::new(Weak::new());

impl Engine {
    /// The process's engine; the first caller starts it.
    pub(crate) fn shared() -> Result<Arc<Engine>, Error> {
        let mut shared = SHARED.lock();
        if let Some(engine) = shared.upgrade()
            && !engine.is_dead()
        {
            return Ok(engine);
        }
        // The parent's: its objects may still be dropped in this process, its threads are not here.
        let engine = Arc::new(Engine::start()?);
        *shared = Arc::downgrade(&engine);
        Ok(engine)
    }

    fn start() -> Result<Engine, Error> {
        fork::watch();
        let alive = Alive::begin();
        let config = Config::current();
        let lease = ferroce_keeper::acquire(&keeper_options(config)?)?;
        let socket = lease.socket().try_clone_to_owned();
        let socket =
            socket.map_err(|source| Error::Os { doing: "duplicating the receiving socket", source })?;
        let options = UdpOptions { gso: !config.no_gso, ..UdpOptions::default() };
        let port = UdpPort::new(socket, options)?;
        let watched = Watched::new(&lease)?;
        let socket_holds = offer_buffer(&lease)? / hold::LEAST_CHARGE;
        let device = Device::new(DeviceConfig {
            qpn_base: lease.qpn_base(),
            qpn_count: MAX_QP,
            seed: seed(),
            profile: profile(config),
        });
        tracing::debug!(slot = lease.slot(), "engine started");
        let inner = Arc::new(Inner {
            generation: fork::generation(),
            start: Instant::now(),
            state: Mutex::new(State {
                device,
                port,
                memory: if config.check_memory { AppMemory::Checked } else { AppMemory::Direct },
                objects: Objects::default(),
                groups: Groups::default(),
                hold: Hold::default(),
                held_events: Vec::new(),
                busy_at: 0,
                overdue: Overdue::default(),
                socket_holds,
                shown_at: 0,
            }),
            bells: SegQueue::new(),
            progress: Progress::new()?,
            ports: Mutex::default(),
            board: Arc::clone(lease.board()),
            slot: usize::from(lease.slot()),
            lease: Mutex::new(lease),
            assisted: !config.no_assist,
            _alive: alive,
        });
        inner.name_descriptors(&inner.lease.lock(), &watched);
        let for_thread = Arc::clone(&inner);
        // The thread is not the application's: a signal that its own threads block, to read it from a descriptor say,
        // must not find one that does not.
        let blocked = SignalsBlocked::begin()
            .map_err(|source| Error::Os { doing: "blocking signals for the engine's thread", source })?;
        let thread = std::thread::Builder::new()
            .name("ferroce-engine".into())
            .spawn(move || for_thread.run_thread(watched))
            .map_err(|source| Error::Os { doing: "starting the engine's thread", source })?;
        drop(blocked);
        Ok(Engine { inner, thread: Some(thread) })
    }
}

impl Deref for Engine {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.is_dead() {
            // In a forked child: the thread is not here, and the descriptors were closed by the fork handler
            // (their numbers may be others' by now), so nothing of it may be dropped.
            std::mem::forget(Arc::clone(&self.inner));
            std::mem::forget(self.thread.take());
            return;
        }
        fork::close_in_child(&[]);
        self.progress.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the engine's thread panicked");
        }
    }
}

impl Inner {
    /// Whether it belongs to the parent of this process.
    pub(crate) fn is_dead(&self) -> bool {
        self.generation != fork::generation()
    }

    /// Names the descriptors that stand for this process, for a forked child to close.
    fn name_descriptors(&self, lease: &Lease, watched: &Watched) {
        let mut fds: Vec<RawFd> = self.state.lock().port.fds().iter().map(AsRawFd::as_raw_fd).collect();
        fds.extend(lease.descriptors().map(|fd| fd.as_raw_fd()));
        fds.extend(watched.raw());
        fork::close_in_child(&fds);
    }

    /// When the device's clock began.
    pub(crate) fn clock(&self) -> Instant {
        self.start
    }

    /// What was counted.
    pub(crate) fn counters<const N: usize>(&self, counters: [Counter; N]) -> [u64; N] {
        let state = self.state.lock();
        counters.map(|counter| state.device.counters().get(counter))
    }

    /// Nanoseconds since the engine started.
    fn now(&self) -> Nanos {
        self.start.elapsed().as_nanos() as Nanos
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("busy_at", &self.busy_at).finish_non_exhaustive()
    }
}

/// Keeps a new engine from starting while the one before still gives its slot back: whoever has the port alone
/// could not have it twice.
#[derive(Debug)]
struct Alive {
    generation: u32,
}

/// The generation of processes whose engine is alive.
static ALIVE: Mutex<Option<u32>> = Mutex::new(None);
static ALIVE_ENDED: Condvar = Condvar::new();

impl Alive {
    fn begin() -> Alive {
        let generation = fork::generation();
        let mut alive = ALIVE.lock();
        // Callers hold the lock on the shared engine, so only one that is being dropped can be alive here.
        while *alive == Some(generation) {
            ALIVE_ENDED.wait(&mut alive);
        }
        *alive = Some(generation);
        Alive { generation }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let mut alive = ALIVE.lock();
        if *alive == Some(self.generation) {
            *alive = None;
            ALIVE_ENDED.notify_all();
        }
    }
}

pub(crate) fn keeper_options(config: &Config) -> Result<KeeperOptions, Error> {
    let mut options = KeeperOptions::from_env()?;
    if config.alone {
        options.mode = KeeperMode::Off;
    }
    options.binary_hint.clone_from(&config.keeper_bin);
    Ok(options)
}

/// The device's limits and habits.
fn profile(config: &Config) -> Profile {
    let dcqcn = Dcqcn { reacts: config.reacts, late_ns: LATE_NS, ..Dcqcn::default() };
    Profile {
        max_rd_atomic: MAX_RD_ATOMIC,
        selective_repeat: config.selective_repeat,
        dcqcn,
        ..Profile::default()
    }
}

/// Tells senders on this host how much the receiving socket holds: three quarters of its buffer, since Linux counts what
/// was read out as still there until it is a quarter of the buffer, or the socket is empty (seen on 6.18). Returns the
/// size of the buffer.
fn offer_buffer(lease: &Lease) -> Result<u64, Error> {
    let size = rustix::net::sockopt::socket_recv_buffer_size(lease.socket())
        .map_err(|errno| Error::Os { doing: "reading SO_RCVBUF", source: errno.into() })?;
    if let Some(record) = lease.board().slot(usize::from(lease.slot())) {
        record.set_capacity(size as u64 / 4 * 3);
    }
    Ok(size as u64)
}

/// Where QPNs and keys start, so that those of two runs differ: stale packets of the last run find nobody.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
