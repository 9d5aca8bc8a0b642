//! Answering what clients ask.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use super::connection::{Connection, Request, State};
use super::group::Group;
use super::members::Members;
use super::{Keeper, Phase};
use crate::KeeperError;
use crate::board::Board;
use crate::channel::{ChannelError, Received};
use crate::protocol::{Message, ProtocolError, Reason};

impl Keeper {
    /// Reads and answers what the connection at index `at` has to say.
    pub(super) fn serve(&mut self, at: usize, now: Instant) {
        let connection = &mut self.connections[at];
        match connection.channel().receive() {
            Ok(received) => self.handle(at, received, now),
            Err(ChannelError::Silent) => {}
            Err(ChannelError::Closed) => connection.is_closed = true,
            Err(ChannelError::Protocol(error @ ProtocolError::Version { .. })) => {
                tracing::warn!(%error, "a client of another release");
                // The frame around it tells our version.
                connection.say(&Message::Refused { reason: Reason::Version, text: String::new() }, &[]);
                connection.is_closed = true;
            }
            Err(error) => connection.refuse(&refused(error)),
        }
    }

    fn handle(&mut self, at: usize, Received { message, fds }: Received, now: Instant) {
        let connection = &mut self.connections[at];
        match (connection.state, message) {
            (State::Idle, Message::Acquire { pid }) => {
                let pid = connection.channel().peer_pid(pid);
                self.handle_request(at, Request::Slot { pid }, now);
            }
            (State::Idle, Message::Inspect) => self.handle_request(at, Request::Look, now),
            (State::Idle, Message::Join { number, .. }) => {
                self.handle_request(at, Request::Join { number }, now);
            }
            (
                State::Member { .. },
                message @ (Message::Bind { .. } | Message::Listen { .. } | Message::Release { .. }),
            ) => self.about_ports.push((at, message)),
            (State::Idle, Message::Recover { slot, generation, pid }) => {
                let pid = connection.channel().peer_pid(pid);
                // No sockets are asked for until the board has been looked at.
                connection.enter(State::Offering { slot, generation, pid, first: 0, count: 0 }, now);
                self.handle_offer(at, fds, now);
            }
            (State::Offering { first, count, .. }, Message::Sockets { first: f, count: c })
                if (first, count) == (f, c) && fds.len() == usize::from(count) =>
            {
                self.handle_sockets(at, first, fds, now);
            }
            (State::Holding { slot }, Message::Fetch { first, count }) => {
                self.handle_fetch(at, slot, first, count);
            }
            (State::Surplus, _) => connection.refuse(&refused(
                "Too many open files: it has no descriptor left for another client; raise the limit (ulimit -n) where \
                 the keeper is started",
            )),
            (state, message) => connection.refuse(&refused(format_args!(
                "{message:?} with {} descriptors makes no sense now ({state:?})",
                fds.len()
            ))),
        }
    }

    fn handle_request(&mut self, at: usize, request: Request, now: Instant) {
        self.connections[at].enter(State::Waiting(request), now);
        self.answer_waiting(now);
    }

    /// Answers all who wait, once it is clear whether we have the port.
    pub(super) fn answer_waiting(&mut self, now: Instant) {
        for connection in self.connections.iter_mut().filter(|one| !one.is_closed) {
            let State::Waiting(request) = connection.state else { continue };
            match &mut self.phase {
                Phase::Serving(group) => {
                    answer(connection, group, &mut self.management.members, request, now)
                }
                Phase::Refusing { error, has_told, .. } => {
                    connection.refuse(error);
                    *has_told = true;
                }
                Phase::Claiming { .. } => {}
            }
        }
    }

    /// A refusal is an answer here, and the connection goes on.
    pub(super) fn answer_bindings(&mut self) {
        for (at, message) in std::mem::take(&mut self.about_ports) {
            let connection = &mut self.connections[at];
            let State::Member { number } = connection.state else { continue };
            let ports = &mut self.management.members.ports;
            let answer = match message {
                Message::Bind { token, binding } => {
                    ports.bind(number, token, binding).map(|port| Message::Bound { port })
                }
                Message::Listen { token } => ports.listen(number, token).map(|()| Message::Done),
                Message::Release { token } => {
                    ports.release(number, token);
                    Ok(Message::Done)
                }
                other => Err(refused(format_args!("{other:?} is about no port"))),
            };
            connection.say(&answer.unwrap_or_else(|error| error.to_refusal()), &[]);
        }
        self.management.deliver_held();
    }

    /// A client offers its slot back. The first one's offer to a new keeper brings the board.
    fn handle_offer(&mut self, at: usize, mut fds: Vec<OwnedFd>, now: Instant) {
        let connection = &mut self.connections[at];
        let State::Offering { slot, .. } = connection.state else { return };
        let (Some(board), true) = (fds.pop(), fds.is_empty()) else {
            return connection.refuse(&refused("an offer comes with one board"));
        };
        let port = self.options.port;
        match &mut self.phase {
            Phase::Serving(group) | Phase::Claiming { group: Some(group), .. } => {
                if group.has_board(board.as_fd()) {
                    proceed_with_offer(connection, group, now);
                } else {
                    connection.refuse(&KeeperError::SlotLost { slot });
                }
            }
            Phase::Claiming { group: none @ None, .. } => match Board::open(board) {
                Ok(board) => {
                    proceed_with_offer(connection, none.insert(Group::from_board(port, board)), now);
                }
                Err(error) => connection.refuse(&error.into()),
            },
            Phase::Refusing { error, has_told, .. } => {
                connection.refuse(error);
                *has_told = true;
            }
        }
    }

    fn handle_sockets(&mut self, at: usize, first: u8, sockets: Vec<OwnedFd>, now: Instant) {
        let connection = &mut self.connections[at];
        let (Phase::Serving(group) | Phase::Claiming { group: Some(group), .. }) = &mut self.phase else {
            return connection.refuse(&refused("nothing is taken over now"));
        };
        match group.adopt(first, sockets) {
            Ok(()) => proceed_with_offer(connection, group, now),
            Err(error) => connection.refuse(&error),
        }
    }

    /// A holder gets the sockets below its own, which keep the group alive without us.
    fn handle_fetch(&mut self, at: usize, slot: u8, first: u8, count: u8) {
        let connection = &mut self.connections[at];
        let (Phase::Serving(group) | Phase::Claiming { group: Some(group), .. }) = &self.phase else {
            return connection.refuse(&refused("no sockets to give now"));
        };
        let is_below = u16::from(first) + u16::from(count) <= u16::from(slot);
        match group.sockets(first, count).filter(|_| is_below) {
            Some(sockets) => connection.say(&Message::Sockets { first, count }, &sockets),
            None => connection.refuse(&refused(format_args!(
                "of the {count} sockets from {first} up, some are not below slot {slot}"
            ))),
        }
    }
}

fn answer(
    connection: &mut Connection,
    group: &mut Group,
    members: &mut Members,
    request: Request,
    now: Instant,
) {
    match request {
        Request::Join { number } => match members.join(number) {
            Ok((number, socket)) => {
                tracing::info!(number, "a process manages connections");
                connection.enter(State::Member { number }, now);
                connection.say(&Message::Joined { number }, &[socket.as_fd()]);
            }
            Err(error) => connection.refuse(&error),
        },
        Request::Look => {
            connection.enter(State::Idle, now);
            connection.say(&Message::BoardAttached, &[group.board_fd()]);
        }
        Request::Slot { pid } => match group.grant(pid) {
            Ok((slot, generation)) => {
                tracing::info!(slot, pid, "granted");
                connection.enter(State::Holding { slot }, now);
                let own = group.sockets(slot, 1).unwrap_or_default();
                let fds: Vec<_> = [group.board_fd()].into_iter().chain(own).collect();
                connection.say(&Message::Granted { slot, generation }, &fds);
            }
            Err(error) => connection.refuse(&error),
        },
    }
}

/// Asks for the sockets that we lack, or gives the slot back when we lack none.
fn proceed_with_offer(connection: &mut Connection, group: &mut Group, now: Instant) {
    let State::Offering { slot, generation, pid, .. } = connection.state else { return };
    if let Some((first, count)) = group.wanted_up_to(slot) {
        connection.enter(State::Offering { slot, generation, pid, first, count }, now);
        connection.say(&Message::Wanted { first, count }, &[]);
        return;
    }
    match group.reclaim(slot, generation, pid) {
        Ok(()) => {
            tracing::info!(slot, pid, "took over");
            connection.enter(State::Holding { slot }, now);
            connection.say(&Message::Granted { slot, generation }, &[]);
        }
        Err(error) => connection.refuse(&error),
    }
}

fn refused(text: impl ToString) -> KeeperError {
    KeeperError::Refused { text: text.to_string() }
}
