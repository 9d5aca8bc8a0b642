//! Communication management in the keeper: QP 1, the processes behind it, and what nobody claims.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ferroce_cm::{Cm, CmConfig, Route};
use ferroce_wire::mad::Mad;

use super::gsi::Gsi;
use super::members::Members;
use crate::COMM_ID_BITS;

/// QP 1 and those who use it.
pub(super) struct Management {
    gsi: Option<Gsi>,
    pub(super) members: Members,
    /// Refuses what nobody claims, and ends the connections of processes that died.
    cm: Cm,
    start: Instant,
    /// Some process has not taken all its datagrams.
    has_waiting: bool,
    /// Requests to ports whose listener left lately, and until when they wait for another.
    held: VecDeque<(Instant, Route, Box<Mad>)>,
}

impl Management {
    pub(super) fn new(now: Instant) -> Management {
        // The standard library's only source of randomness.
        let seed = RandomState::new().build_hasher().finish();
        let cm = CmConfig { id_prefix: 0, id_bits: COMM_ID_BITS, seed: seed as u32 };
        Management {
            gsi: None,
            members: Members::new((seed >> 32) as u16),
            cm: Cm::new(cm),
            start: now,
            has_waiting: false,
            held: VecDeque::new(),
        }
    }

    /// QP 1's socket is ours. Without it there is no communication management, and all else goes on.
    pub(super) fn open(&mut self, socket: OwnedFd, port: u16) {
        match Gsi::new(socket, port) {
            Ok(gsi) => self.gsi = Some(gsi),
            Err(error) => tracing::error!(%error, "QP 1 cannot be used: no connections can be made"),
        }
    }

    /// What becomes readable with packets for QP 1.
    pub(super) fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.gsi.as_ref().map(Gsi::fds).unwrap_or_default()
    }

    /// Whether connections of processes that died are being ended.
    pub(super) fn is_busy(&self) -> bool {
        self.cm.connections() > 0
    }

    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let waiting = self.has_waiting.then(|| now + RETRY);
        let timers = self.cm.poll_timeout().map(|at| self.start + Duration::from_nanos(at));
        let held = self.held.front().map(|(until, ..)| *until);
        [waiting, timers, held].into_iter().flatten().min()
    }

    /// A process is gone.
    pub(super) fn leave(&mut self, number: u16, now: Instant) {
        // What it said last is still there.
        for _ in 0..LAST_WORDS {
            if !self.serve_member(number) {
                break;
            }
        }
        let orphans = self.members.leave(number);
        tracing::info!(number, connections = orphans.len(), "a process that managed connections has gone");
        for orphan in &orphans {
            self.cm.end_orphan(self.nanos(now), orphan);
        }
    }

    /// Takes what the process `number` wants to send; whether there was something.
    pub(super) fn serve_member(&mut self, number: u16) -> bool {
        let mut datagrams = Vec::new();
        let has_some = self.members.receive(number, &mut datagrams);
        if let Some(gsi) = &mut self.gsi {
            for (route, mad) in &datagrams {
                gsi.send(route, mad);
            }
            gsi.flush();
        }
        // Those that went to this host have arrived: they make room before others follow.
        self.receive();
        has_some
    }

    /// Takes what has arrived, until there is no more or it has been much.
    pub(super) fn receive(&mut self) {
        let now = self.nanos(Instant::now());
        let Some(gsi) = &mut self.gsi else { return };
        let mut datagrams = Vec::new();
        for _ in 0..BATCHES_PER_ROUND {
            if !gsi.receive(&mut datagrams) {
                break;
            }
        }
        for (route, mad) in datagrams {
            self.deliver(now, route, mad);
        }
        self.has_waiting = self.members.flush();
        self.send_own();
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while self.held.front().is_some_and(|(until, ..)| *until <= now) {
            let Some((_, route, mad)) = self.held.pop_front() else { break };
            if let Some(mad) = self.members.deliver(route, mad) {
                self.cm.handle_mad(self.nanos(now), &route, &mad);
            }
        }
        self.cm.handle_timeout(self.nanos(now));
        self.has_waiting = self.members.flush();
        self.send_own();
    }

    fn deliver(&mut self, now: u64, route: Route, mad: Box<Mad>) {
        let Some(mad) = self.members.deliver(route, mad) else { return };
        if self.held.len() < HELD_MAX && self.members.was_served(&mad, LATELY) {
            self.held.push_back((Instant::now() + HOLD, route, mad));
        } else {
            self.cm.handle_mad(now, &route, &mad);
        }
    }

    /// Somebody listens: it may be for what waits.
    pub(super) fn deliver_held(&mut self) {
        for (until, route, mad) in std::mem::take(&mut self.held) {
            if let Some(mad) = self.members.deliver(route, mad) {
                self.held.push_back((until, route, mad));
            }
        }
    }

    fn send_own(&mut self) {
        let Some(gsi) = &mut self.gsi else { return };
        while let Some(transmit) = self.cm.poll_transmit() {
            gsi.send(&transmit.route, &transmit.mad);
        }
        gsi.flush();
        // It owns nothing that anybody wants to hear of.
        while self.cm.poll_event().is_some() || self.cm.poll_change().is_some() {}
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl std::fmt::Debug for Management {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Management").field("members", &self.members).finish_non_exhaustive()
    }
}

/// How long a request waits for a new listener where one left lately, at most.
const HOLD: Duration = Duration::from_secs(2);
/// How long ago that is, at most.
const LATELY: Duration = Duration::from_secs(5);
/// Requests that wait so.
const HELD_MAX: usize = 256;
/// How soon a process that had no room for its datagrams is tried again.
const RETRY: Duration = Duration::from_millis(1);
/// Rounds in which the last datagrams of a process that has gone are taken; a socket holds fewer.
const LAST_WORDS: usize = 64;
/// Receive calls of one round.
const BATCHES_PER_ROUND: usize = 256;
