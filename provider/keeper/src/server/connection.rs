//! One client's connection, as the keeper sees it.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::KeeperError;
use crate::channel::Channel;
use crate::protocol::Message;

/// How long a client may take to say what it wants, or to send what it was asked for.
pub(crate) const SILENCE_SECONDS: u64 = 2;

/// A client, and how far it has come.
#[derive(Debug)]
pub(crate) struct Connection {
    channel: Channel,
    /// What it is about.
    pub(crate) state: State,
    /// To be dropped at the end of the round.
    pub(crate) is_closed: bool,
    /// When it has been silent for too long.
    until: Instant,
}

/// What a connection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has asked for nothing yet, or just for a look.
    Idle,
    /// It was accepted with the last descriptor, to be told that there are no more.
    Surplus,
    /// It has asked, and is answered when it is clear whether we have the port.
    Waiting(Request),
    /// It offers its slot back and was asked for the sockets `first..first + count`.
    Offering {
        /// The slot.
        slot: u8,
        /// The generation of its grant.
        generation: u64,
        /// The owner.
        pid: u32,
        /// First socket asked for.
        first: u8,
        /// How many.
        count: u8,
    },
    /// It has a slot.
    Holding {
        /// The slot.
        slot: u8,
    },
    /// It manages connections.
    Member {
        /// What its communication IDs begin with.
        number: u16,
    },
}

/// A request that takes a group to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A slot for the process `pid`.
    Slot {
        /// The process.
        pid: u32,
    },
    /// A look at the board.
    Look,
    /// To manage connections, under the number that an earlier keeper gave it or (0) a new one.
    Join {
        /// The number.
        number: u16,
    },
}

impl Connection {
    pub(crate) fn new(channel: Channel, state: State, now: Instant) -> Connection {
        let until = now + Duration::from_secs(SILENCE_SECONDS);
        Connection { channel, state, is_closed: false, until }
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Goes on to `state`, with new time to be silent.
    pub(crate) fn enter(&mut self, state: State, now: Instant) {
        self.state = state;
        self.until = now + Duration::from_secs(SILENCE_SECONDS);
    }

    /// Says something; a client that does not take it is dropped.
    pub(crate) fn say(&mut self, message: &Message, fds: &[BorrowedFd<'_>]) {
        if let Err(error) = self.channel.send(message, fds) {
            tracing::warn!(%error, ?message, "cannot answer a client");
            self.is_closed = true;
            // Descriptors may be what could not be sent (ETOOMANYREFS): the words alone may still pass.
            if !fds.is_empty() {
                let text = format!(
                    "descriptors could not be sent: {error}; raise the limit of open files (ulimit -n)"
                );
                let _ = self.channel.send(&KeeperError::Refused { text }.to_refusal(), &[]);
            }
        }
    }

    /// Says no, and ends the conversation.
    pub(crate) fn refuse(&mut self, error: &KeeperError) {
        tracing::warn!(%error, "refused a client");
        self.say(&error.to_refusal(), &[]);
        self.is_closed = true;
    }

    /// When it will have been silent for too long; `None` when it may be.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Idle | State::Surplus | State::Offering { .. } => Some(self.until),
            State::Waiting(_) | State::Holding { .. } | State::Member { .. } => None,
        }
    }

    /// Whether a keeper with this client has work to do.
    pub(crate) fn is_busy(&self) -> bool {
        !matches!(self.state, State::Idle | State::Surplus)
    }
}
