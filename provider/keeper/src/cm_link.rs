//! A process's share of QP 1 and of the port spaces.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ferroce_port::fd_passing;

use crate::binding::Binding;
use crate::channel::Channel;
use crate::gsi_record::{GsiRecord, RECORD_LEN};
use crate::protocol::Message;
use crate::talk::{TalkError, ask, unexpected, with_keeper};
use crate::{COMM_ID_BITS, KeeperError, KeeperMode, KeeperOptions};

/// The connection of a process that manages connections to its keeper.
///
/// Ports are asked for here and belong to the process until it gives them up or ends. Datagrams go through the
/// [`GsiSocket`], which hangs up when the keeper dies; then [`CmLink::recover`] is due.
#[derive(Debug)]
pub struct CmLink {
    number: u16,
    control: Channel,
    socket: GsiSocket,
    /// What is bound, to be told to a new keeper.
    bindings: BTreeMap<u32, (Binding, bool)>,
    next_token: u32,
    options: KeeperOptions,
}

/// Where a process's datagrams of QP 1 come and go; clones are the same socket.
#[derive(Clone, Debug)]
pub struct GsiSocket(Arc<OwnedFd>);

impl CmLink {
    /// Joins those who manage connections, and starts a keeper if none runs.
    ///
    /// # Errors
    /// [`KeeperError`], whose text says what to do.
    pub fn open(options: &KeeperOptions) -> Result<CmLink, KeeperError> {
        if options.mode == KeeperMode::Off {
            return Err(KeeperError::NeedsKeeper);
        }
        let (control, number, socket) = join(options, 0)?;
        let options = options.clone();
        Ok(CmLink { number, control, socket, bindings: BTreeMap::new(), next_token: 1, options })
    }

    /// What the process's communication IDs begin with: the bits above [`COMM_ID_BITS`].
    pub fn comm_id_prefix(&self) -> u32 {
        u32::from(self.number) << COMM_ID_BITS
    }

    /// The socket for datagrams, until the next [`CmLink::recover`].
    pub fn socket(&self) -> GsiSocket {
        self.socket.clone()
    }

    /// The descriptors that stand for this process towards the keeper: a forked child that kept one would keep its
    /// connections alive.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.control.as_fd(), self.socket.0.as_fd()]
    }

    /// Binds a port; what it is called, and the port.
    ///
    /// # Errors
    /// [`KeeperError::AddressInUse`], [`KeeperError::NoPortLeft`], or the keeper cannot be reached.
    pub fn bind(&mut self, binding: Binding) -> Result<(u32, u16), KeeperError> {
        let token = self.next_token;
        let port = match self.ask(&Message::Bind { token, binding })? {
            Message::Bound { port } => port,
            other => return Err(unexpected_answer("a port", other)),
        };
        self.next_token += 1;
        self.bindings.insert(token, (Binding { port, ..binding }, false));
        Ok((token, port))
    }

    /// Requests for the port are this process's from now on.
    ///
    /// # Errors
    /// [`KeeperError::AddressInUse`]: somebody else has the port, too; or the keeper cannot be reached.
    pub fn listen(&mut self, token: u32) -> Result<(), KeeperError> {
        match self.ask(&Message::Listen { token })? {
            Message::Done => {}
            other => return Err(unexpected_answer("to listen", other)),
        }
        if let Some((_, listens)) = self.bindings.get_mut(&token) {
            *listens = true;
        }
        Ok(())
    }

    /// Gives a port up. A keeper that cannot be reached holds it no more.
    pub fn release(&mut self, token: u32) {
        if self.bindings.remove(&token).is_some()
            && let Err(error) = self.ask(&Message::Release { token })
        {
            tracing::debug!(%error, "a port was given up without a keeper");
        }
    }

    /// To be called when the socket has hung up: finds or starts a new keeper, and tells it what is bound. The caller
    /// tells it of its connections. The new socket is [`CmLink::socket`].
    ///
    /// Another process may have our number by now: then [`CmLink::comm_id_prefix`] is a new one, and the peers of the
    /// connections there are can reach them no more.
    ///
    /// # Errors
    /// No keeper can be had. It can be tried again.
    pub fn recover(&mut self) -> Result<(), KeeperError> {
        let joined = match join(&self.options, self.number) {
            Err(KeeperError::Refused { text }) => {
                tracing::warn!(text, "the new keeper does not know us");
                join(&self.options, 0)
            }
            other => other,
        };
        (self.control, self.number, self.socket) = joined?;
        for (token, (binding, listens)) in &self.bindings {
            let mut messages = vec![Message::Bind { token: *token, binding: *binding }];
            messages.extend(listens.then_some(Message::Listen { token: *token }));
            for message in messages {
                if let Err(error) = self.say(&message) {
                    tracing::warn!(%binding, ?error, "the new keeper has given the port to somebody else");
                }
            }
        }
        Ok(())
    }

    /// Asks, of a new keeper if the old one is gone.
    fn ask(&mut self, message: &Message) -> Result<Message, KeeperError> {
        match self.say(message) {
            Err(TalkError::Gone) => {
                self.recover()?;
                self.say(message).map_err(|error| self.final_error(error))
            }
            other => other.map_err(|error| self.final_error(error)),
        }
    }

    fn say(&self, message: &Message) -> Result<Message, TalkError> {
        ask(&self.control, &self.options, 0, message, &[]).map(|answer| answer.message)
    }

    fn final_error(&self, error: TalkError) -> KeeperError {
        match error {
            TalkError::Final(error) => error,
            TalkError::Gone => KeeperError::Vanishing { name: self.options.socket_name(), attempts: 2 },
        }
    }
}

impl GsiSocket {
    /// Sends a record without waiting; `false` when there is no room now, or no keeper.
    pub fn send(&self, record: &GsiRecord) -> bool {
        loop {
            match fd_passing::send(&*self.0, &record.encode(), &[]) {
                Ok(_) => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Takes a record that waits.
    ///
    /// # Errors
    /// `WouldBlock`: none waits. `UnexpectedEof`: the keeper is gone.
    pub fn receive(&self) -> io::Result<GsiRecord> {
        let mut bytes = [0; RECORD_LEN];
        loop {
            match fd_passing::receive(&*self.0, &mut bytes) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((len, _)) => {
                    if let Some(record) = GsiRecord::decode(&bytes[..len]) {
                        return Ok(record);
                    }
                }
                Err(fd_passing::ReceiveError::Socket(error)) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset => return Err(io::ErrorKind::UnexpectedEof.into()),
                    _ => return Err(error),
                },
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

impl AsFd for GsiSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn join(options: &KeeperOptions, number: u16) -> Result<(Channel, u16, GsiSocket), KeeperError> {
    with_keeper(options, |channel| {
        let question = Message::Join { number, pid: std::process::id() };
        let mut answer = ask(&channel, options, 0, &question, &[])?;
        match (&answer.message, answer.fds.pop()) {
            (Message::Joined { number }, Some(socket)) => Ok((channel, *number, GsiSocket(Arc::new(socket)))),
            (other, _) => Err(unexpected("to manage connections", other)),
        }
    })
}

fn unexpected_answer(question: &'static str, answer: Message) -> KeeperError {
    KeeperError::Unexpected { question, answer: format!("{answer:?}") }
}
