//! A process's share of the port.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ferroce_port::wait::readable;

use crate::board::Board;
use crate::channel::Channel;
use crate::protocol::{Message, SOCKETS_PER_MESSAGE};
use crate::talk::{TalkError, ask, unexpected, with_keeper};
use crate::{KeeperError, KeeperMode, KeeperOptions, SLOT_SHIFT, SLOTS, alone};

/// One slot of the port: a socket to which all packets for the slot's QPNs come, for as long as the lease lives.
#[derive(Debug)]
pub struct Lease {
    slot: u8,
    generation: u64,
    /// Sockets of the group by index, our own last; our own only when alone. We never read the others: they keep the
    /// group and its indices alive when the keeper dies.
    sockets: Vec<OwnedFd>,
    board: Arc<Board>,
    /// `None`: we have the port alone.
    connection: Option<Channel>,
    options: KeeperOptions,
}

/// Gets a slot from the keeper, and starts a keeper if none runs.
///
/// Where none can be started (its program is missing, or the system forbids it), the process takes the port alone, and
/// a warning says so.
///
/// # Errors
/// [`KeeperError`], whose text says what to do.
pub fn acquire(options: &KeeperOptions) -> Result<Lease, KeeperError> {
    if options.mode == KeeperMode::Off {
        tracing::warn!(port = options.port, "no keeper wanted: this process takes the UDP port alone");
        return Lease::alone(options);
    }
    match with_keeper(options, |channel| Lease::ask_for(channel, options)) {
        Err(error @ (KeeperError::ProgramMissing { .. } | KeeperError::Spawn { .. })) => {
            tracing::warn!(%error, port = options.port, "no keeper: this process takes the UDP port alone");
            Lease::alone(options)
        }
        other => other,
    }
}

impl Lease {
    fn alone(options: &KeeperOptions) -> Result<Lease, KeeperError> {
        let (socket, board) = alone::open(options.port)?;
        Ok(Lease {
            slot: alone::ALONE_SLOT,
            generation: 1,
            sockets: vec![socket],
            board: Arc::new(board),
            connection: None,
            options: options.clone(),
        })
    }

    fn ask_for(channel: Channel, options: &KeeperOptions) -> Result<Lease, TalkError> {
        let question = Message::Acquire { pid: std::process::id() };
        let mut answer = ask(&channel, options, 0, &question, &[])?;
        let (Message::Granted { slot, generation }, Some(own), Some(board), None) =
            (&answer.message, answer.fds.pop(), answer.fds.pop(), answer.fds.pop())
        else {
            return Err(unexpected("a request for a slot", &answer.message));
        };
        let (slot, generation) = (*slot, *generation);
        let board = Board::open(board).map_err(|error| TalkError::Final(error.into()))?;
        let mut sockets = fetch_below(&channel, options, slot)?;
        sockets.push(own);
        tracing::debug!(slot, generation, "the keeper granted a slot");
        let options = options.clone();
        Ok(Lease { slot, generation, sockets, board: Arc::new(board), connection: Some(channel), options })
    }

    /// To be called when [`Lease::connection_fd`] has become readable: the keeper is gone. Finds or starts a new one
    /// and gives it what is needed to take over. Does nothing while the keeper lives, and when we are alone.
    ///
    /// Packets come all the time, whether this succeeds or not; it can be tried again later. Until it succeeds the
    /// descriptor stays readable, so whoever waits for it must leave it out for a while after a failure. It blocks
    /// while a keeper starts and while that waits for other clients: some milliseconds, a second at most when all are
    /// well, and ten before [`KeeperError::Silent`].
    ///
    /// # Errors
    /// [`KeeperError::SlotLost`] is final: the slot's QPNs belong to somebody else. After any other error the lease is
    /// as before.
    pub fn recover(&mut self) -> Result<(), KeeperError> {
        match &self.connection {
            None => return Ok(()),
            Some(channel) if !is_hung_up(channel)? => return Ok(()),
            Some(_) => {}
        }
        let channel = with_keeper(&self.options, |channel| self.reclaim(channel))?;
        tracing::info!(slot = self.slot, "a new keeper has taken over");
        self.connection = Some(channel);
        Ok(())
    }

    fn reclaim(&self, channel: Channel) -> Result<Channel, TalkError> {
        let pid = std::process::id();
        let question = Message::Recover { slot: self.slot, generation: self.generation, pid };
        let mut answer = ask(&channel, &self.options, self.slot, &question, &[self.board.as_fd()])?;
        // A keeper wants each of our sockets at most once.
        for _ in 0..SLOTS {
            let Message::Wanted { first, count } = answer.message else { break };
            let range = usize::from(first)..usize::from(first) + usize::from(count);
            let Some(wanted) = self.sockets.get(range) else { break };
            let fds: Vec<_> = wanted.iter().map(|socket| socket.as_fd()).collect();
            answer = ask(&channel, &self.options, self.slot, &Message::Sockets { first, count }, &fds)?;
        }
        match answer.message {
            Message::Granted { slot, generation } if (slot, generation) == (self.slot, self.generation) => {
                Ok(channel)
            }
            other => Err(unexpected("a slot offered back", &other)),
        }
    }

    /// The slot, 1 to 255.
    pub fn slot(&self) -> u8 {
        self.slot
    }

    /// The first of the slot's 65,536 QPNs.
    pub fn qpn_base(&self) -> u32 {
        u32::from(self.slot) << SLOT_SHIFT
    }

    /// The receiving socket: non-blocking, bound to the port of all addresses. Not to be bound or connected.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.sockets.last().expect("a lease has its own socket at least").as_fd()
    }

    /// The board; one that nobody else sees when we are alone.
    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Becomes readable when the keeper has died, and at no other time; then [`Lease::recover`] is due. `None` when we
    /// are alone.
    pub fn connection_fd(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(|channel| channel.as_fd())
    }

    /// All descriptors that stand for this process towards the port and the keeper: a forked child that kept one would
    /// keep the port taken. At most one for each slot, and one more.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.as_fd()).chain(self.connection_fd())
    }

    /// Whether this process has the port for itself, without a keeper.
    pub fn is_alone(&self) -> bool {
        self.connection.is_none()
    }
}

/// Duplicates of the sockets `0..slot`.
fn fetch_below(channel: &Channel, options: &KeeperOptions, slot: u8) -> Result<Vec<OwnedFd>, TalkError> {
    let mut sockets: Vec<OwnedFd> = Vec::with_capacity(usize::from(slot) + 1);
    for first in (0..slot).step_by(usize::from(SOCKETS_PER_MESSAGE)) {
        let count = SOCKETS_PER_MESSAGE.min(slot - first);
        let answer = ask(channel, options, slot, &Message::Fetch { first, count }, &[])?;
        if answer.message != (Message::Sockets { first, count }) || answer.fds.len() != usize::from(count) {
            return Err(unexpected("a request for sockets", &answer.message));
        }
        sockets.extend(answer.fds);
    }
    Ok(sockets)
}

fn is_hung_up(channel: &Channel) -> Result<bool, KeeperError> {
    // The keeper says nothing unasked, so whatever makes the connection readable ends it.
    readable(&[channel.as_fd()], Some(Duration::ZERO))
        .map(|ready| !ready.is_empty())
        .map_err(|source| KeeperError::System { step: "looking after the keeper", source })
}
