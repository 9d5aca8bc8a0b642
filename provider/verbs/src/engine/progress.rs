//! The engine's thread, and how it keeps out of the way of an application that polls.
//!
//! The thread sleeps in one of two ways. It *watches* the receiving socket when nobody polls: a packet wakes
//! it. While the application polls, its own thread moves the packets, and a watching thread would be woken by
//! each of them for nothing; so it *naps* for [`NAP_NS`] at a time and looks whether the application still
//! polls. [`Habit`] decides which.

use super::Inner;
use super::habit::{Found, Habit, NAP_NS, is_polling, spins};
use super::round::Moved;
use crate::error::Error;
use ferroce_core::Nanos;
use ferroce_keeper::Lease;
use ferroce_port::{InterfaceWatch, off_stdio};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// How long it stays away when packets can't be sent for now.
const RETRY_BLOCKED_NS: Nanos = 50_000;
/// Shortest nap. The application that polls answers for the deadlines, and for what can't be sent for now: were the thread
/// to come back for each of them at once, it would take the application's processor just to leave them to it.
const SHORTEST_NAP_NS: Nanos = 50_000;
/// Longest sleep: counters are shown at least this often.
const LONGEST_SLEEP_NS: Nanos = 1_000_000_000;

/// What the thread is doing.
const RUNNING: u8 = 0;
const WATCHING: u8 = 1;
const NAPPING: u8 = 2;

/// The engine's thread, as other threads see it.
#[derive(Debug)]
pub(super) struct Progress {
    wake: OwnedFd,
    doing: AtomicU8,
    /// When it wakes by itself; 0 while it does not sleep.
    wakes_at: AtomicU64,
    /// The transport's next deadline, as the last round left it.
    deadline: AtomicU64,
    stop: AtomicBool,
    /// Rounds that application threads have run.
    assists: AtomicU64,
    /// When the last of them was; 0 for never.
    assisted_at: AtomicU64,
    /// Since when application threads that would run a round find the engine taken; 0 while they do not.
    locked_out_at: AtomicU64,
    /// When a CQ was last armed.
    armed_at: AtomicU64,
    /// Whether packets are ready to be sent that an assisting thread left behind.
    deferred: AtomicBool,
}

impl Progress {
    pub(super) fn new() -> Result<Progress, Error> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags)
            .map_err(Into::into)
            .and_then(off_stdio)
            .map_err(|source| Error::Os { doing: "making the engine's eventfd", source })?;
        Ok(Progress {
            wake,
            doing: AtomicU8::new(RUNNING),
            wakes_at: AtomicU64::new(0),
            deadline: AtomicU64::new(Nanos::MAX),
            stop: AtomicBool::new(false),
            assists: AtomicU64::new(0),
            assisted_at: AtomicU64::new(0),
            locked_out_at: AtomicU64::new(0),
            armed_at: AtomicU64::new(0),
            deferred: AtomicBool::new(false),
        })
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes the thread, or keeps it from falling asleep.
    pub(super) fn wake(&self) {
        // Full (2^64 - 1 wakes nobody took) is as good as written.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Makes it wake no later than at `deadline`. A thread about to sleep reads the deadline after it has said
    /// when it will wake, so that one of the two sees the other.
    pub(super) fn wake_by(&self, deadline: Nanos) {
        self.deadline.store(deadline, Ordering::SeqCst);
        if deadline < self.wakes_at.load(Ordering::SeqCst) {
            self.wakes_at.store(deadline, Ordering::SeqCst);
            self.wake();
        }
    }

    /// An application thread has run a round.
    pub(super) fn note_assist(&self, now: Nanos) {
        self.assists.fetch_add(1, Ordering::Relaxed);
        self.assisted_at.store(now, Ordering::Relaxed);
        self.locked_out_at.store(0, Ordering::Relaxed);
    }

    /// An application thread would have run a round, but another thread has the engine. For how long that has been so.
    pub(super) fn note_locked_out(&self, now: Nanos) -> Nanos {
        self.assists.fetch_add(1, Ordering::Relaxed);
        self.assisted_at.store(now, Ordering::Relaxed);
        match self.locked_out_at.load(Ordering::Relaxed) {
            0 => {
                self.locked_out_at.store(now, Ordering::Relaxed);
                0
            }
            since => now.saturating_sub(since),
        }
    }

    /// An application armed a CQ.
    pub(super) fn note_armed(&self, now: Nanos) {
        self.armed_at.store(now, Ordering::SeqCst);
        if self.doing.load(Ordering::SeqCst) == NAPPING {
            self.wake();
        }
    }

    /// Whether packets may be left behind: only while the thread naps, so that it is back soon.
    pub(super) fn may_defer(&self) -> bool {
        self.doing.load(Ordering::SeqCst) == NAPPING
    }

    pub(super) fn set_deferred(&self) {
        self.deferred.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_deferred(&self) -> bool {
        self.deferred.load(Ordering::SeqCst)
    }

    /// Whoever transmits takes the deferred packets with it.
    pub(super) fn take_deferred(&self) -> bool {
        self.deferred.load(Ordering::Relaxed) && self.deferred.swap(false, Ordering::SeqCst)
    }
}

/// The descriptors that the thread watches: duplicates of its own, so that no lock is needed to name them.
#[derive(Debug)]
pub(super) struct Watched {
    socket: OwnedFd,
    keeper: Option<OwnedFd>,
    /// `None` where the system does not let us: then nothing is told about ports.
    interfaces: Option<InterfaceWatch>,
}

impl Watched {
    pub(super) fn new(lease: &Lease) -> Result<Watched, Error> {
        let interfaces = InterfaceWatch::new();
        if let Err(error) = &interfaces {
            tracing::warn!(%error, "no netlink: there will be no events about ports and GIDs");
        }
        let keeper = duplicate_keeper(lease)?;
        Ok(Watched { socket: duplicate(lease.socket())?, keeper, interfaces: interfaces.ok() })
    }

    /// The lease is another one.
    fn renew(&mut self, lease: &Lease) -> Result<(), Error> {
        let keeper = duplicate_keeper(lease)?;
        self.socket = duplicate(lease.socket())?;
        self.keeper = keeper;
        Ok(())
    }

    /// Their numbers, for a forked child to close.
    pub(super) fn raw(&self) -> impl Iterator<Item = RawFd> {
        let interfaces = self.interfaces.as_ref().map(|watch| watch.fd().as_raw_fd());
        let keeper = self.keeper.as_ref().map(AsRawFd::as_raw_fd);
        [Some(self.socket.as_raw_fd()), keeper, interfaces].into_iter().flatten()
    }

    fn have_interfaces_changed(&self) -> bool {
        self.interfaces.as_ref().is_some_and(InterfaceWatch::has_changed)
    }
}

fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    fd.try_clone_to_owned().map_err(|source| Error::Os { doing: "duplicating a descriptor to watch", source })
}

fn duplicate_keeper(lease: &Lease) -> Result<Option<OwnedFd>, Error> {
    lease.connection_fd().map(duplicate).transpose()
}

/// What ended a sleep.
#[derive(Clone, Copy, Debug, Default)]
struct Woken {
    by_packet: bool,
    by_keeper: bool,
    by_interfaces: bool,
}

impl Inner {
    /// The engine's thread.
    pub(super) fn run_thread(&self, mut watched: Watched) {
        let mut habit = Habit::default();
        let mut woken = Woken::default();
        let mut received_at = 0;
        while !self.progress.stop.load(Ordering::SeqCst) {
            let assisted_at = self.progress.assisted_at.load(Ordering::Relaxed);
            let polled = habit.has_napped() && is_polling(self.now(), assisted_at);
            let moved = match self.state.try_lock() {
                Some(mut state) if !polled || self.progress.is_deferred() => {
                    self.move_packets(&mut state, !polled)
                }
                // An application thread is at it, and answers for the deadlines too.
                _ => Moved::default(),
            };
            self.answer_late_bells();
            let now = self.now();
            let found = Found {
                received: moved.received,
                woken_by_packet: woken.by_packet,
                assists: self.progress.assists.load(Ordering::Relaxed),
                armed_at: self.progress.armed_at.load(Ordering::SeqCst),
            };
            let naps = habit.naps(now, found);
            if moved.received > 0 {
                received_at = now;
            }
            let assisted_at = self.progress.assisted_at.load(Ordering::Relaxed);
            if !naps && (moved.received > 0 || spins(now, received_at, assisted_at)) {
                woken = Woken::default();
                continue;
            }
            let mut until = now + if naps { NAP_NS } else { LONGEST_SLEEP_NS };
            if moved.blocked {
                until = until.min(now + RETRY_BLOCKED_NS);
            }
            woken = self.sleep(&watched, naps, until);
            if woken.by_keeper {
                self.recover_lease(&mut watched);
            }
            if woken.by_interfaces && watched.have_interfaces_changed() {
                self.follow_interfaces();
            }
        }
        let mut state = self.state.lock();
        self.move_packets(&mut state, false);
        let now = self.now();
        self.show_counters(&mut state, now);
    }

    /// Sleeps until `until`, the transport's deadline, a wake, or (when watching) a packet or the keeper's end.
    fn sleep(&self, watched: &Watched, naps: bool, until: Nanos) -> Woken {
        let progress = &self.progress;
        let now = self.now();
        progress.wakes_at.store(until, Ordering::SeqCst);
        progress.doing.store(if naps { NAPPING } else { WATCHING }, Ordering::SeqCst);
        // Whoever rings, defers, plans or stops after this line sees that the thread sleeps; what came before is
        // seen here.
        let mut until = until.min(progress.deadline.load(Ordering::SeqCst));
        if naps {
            until = until.max(now + SHORTEST_NAP_NS);
        }
        let busy = !self.bells.is_empty()
            || (progress.is_deferred() && !naps)
            || progress.stop.load(Ordering::SeqCst);
        let woken = if !busy && until > now {
            self.wait_for_events(watched, naps, until - now)
        } else {
            Woken::default()
        };
        progress.doing.store(RUNNING, Ordering::SeqCst);
        progress.wakes_at.store(0, Ordering::SeqCst);
        woken
    }

    fn wait_for_events(&self, watched: &Watched, naps: bool, timeout: Nanos) -> Woken {
        const SECOND: Nanos = 1_000_000_000;
        let timeout = Timespec { tv_sec: (timeout / SECOND) as i64, tv_nsec: (timeout % SECOND) as i64 };
        let wake = PollFd::new(&self.progress.wake, PollFlags::IN);
        let socket = PollFd::new(&watched.socket, PollFlags::IN);
        let keeper = PollFd::new(watched.keeper.as_ref().unwrap_or(&self.progress.wake), PollFlags::IN);
        let interfaces = watched.interfaces.as_ref().map_or(self.progress.wake.as_fd(), InterfaceWatch::fd);
        let interfaces = PollFd::from_borrowed_fd(interfaces, PollFlags::IN);
        let mut fds = [wake, interfaces, socket, keeper];
        let watches = if naps { &mut fds[..2] } else { &mut fds[..] };
        // An error is EINTR: the round that follows does no harm.
        let _ = poll(watches, Some(&timeout));
        let woken = Woken {
            by_packet: !fds[2].revents().is_empty(),
            by_keeper: watched.keeper.is_some() && !fds[3].revents().is_empty(),
            by_interfaces: !fds[1].revents().is_empty(),
        };
        let mut count = [0u8; 8];
        // EAGAIN: it was the timeout or a packet.
        let _ = rustix::io::read(&self.progress.wake, &mut count);
        woken
    }

    /// The keeper is gone: running traffic goes on, and a new keeper takes over the group from its clients.
    fn recover_lease(&self, watched: &mut Watched) {
        let mut lease = self.lease.lock();
        if let Err(error) = lease.recover() {
            tracing::warn!(%error, "the keeper is gone and no new one could be reached: this process goes on alone");
            watched.keeper = None;
            return;
        }
        if let Err(error) = watched.renew(&lease) {
            tracing::warn!(%error, "watching the new keeper");
        }
        self.name_descriptors(&lease, watched);
    }
}
