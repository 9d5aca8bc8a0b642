//! The client's half of a conversation with the keeper.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::channel::{Channel, ChannelError, Received};
use crate::protocol::{Message, ProtocolError};
use crate::start::start_keeper;
use crate::{KeeperError, KeeperOptions};

/// Why a conversation came to nothing.
#[derive(Debug)]
pub(crate) enum TalkError {
    /// There is no keeper, or it ended meanwhile: start one and try again.
    Gone,
    /// Trying again changes nothing.
    Final(KeeperError),
}

/// Longest wait for one answer: longer than a new keeper waits for the clients of an old one.
const ANSWER_SECONDS: u64 = 10;
/// How often a conversation is begun. A keeper may end just when we ask; that this happens often means a fault.
const ATTEMPTS: u32 = 10;

/// Has the conversation `talk` with the keeper, and starts one if there is none.
pub(crate) fn with_keeper<T>(
    options: &KeeperOptions,
    mut talk: impl FnMut(Channel) -> Result<T, TalkError>,
) -> Result<T, KeeperError> {
    let name = options.socket_name();
    for _ in 0..ATTEMPTS {
        match connect(&name) {
            Ok(channel) => match talk(channel) {
                Ok(outcome) => return Ok(outcome),
                Err(TalkError::Gone) => tracing::debug!(name, "the keeper ended before it answered"),
                Err(TalkError::Final(error)) => return Err(error),
            },
            Err(TalkError::Gone) => start_keeper(options)?,
            Err(TalkError::Final(error)) => return Err(error),
        }
    }
    Err(KeeperError::Vanishing { name, attempts: ATTEMPTS })
}

/// Connects to the keeper that runs.
pub(crate) fn connect(name: &str) -> Result<Channel, TalkError> {
    Channel::connect(name, Duration::from_secs(ANSWER_SECONDS)).map_err(|error| match error {
        ChannelError::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => TalkError::Gone,
        error => talk_error(error, name),
    })
}

/// Says one thing and hears the answer; `slot` is the one it concerns, for the error.
pub(crate) fn ask(
    channel: &Channel,
    options: &KeeperOptions,
    slot: u8,
    message: &Message,
    fds: &[BorrowedFd<'_>],
) -> Result<Received, TalkError> {
    let name = options.socket_name();
    channel.send(message, fds).map_err(|error| talk_error(error, &name))?;
    let answer = channel.receive().map_err(|error| talk_error(error, &name))?;
    match answer.message {
        Message::Refused { reason, text } => {
            Err(TalkError::Final(KeeperError::from_refusal(reason, text, options.port, slot)))
        }
        _ => Ok(answer),
    }
}

/// The keeper's answer makes no sense.
pub(crate) fn unexpected(question: &'static str, answer: &Message) -> TalkError {
    TalkError::Final(KeeperError::Unexpected { question, answer: format!("{answer:?}") })
}

fn talk_error(error: ChannelError, name: &str) -> TalkError {
    let name = name.to_owned();
    TalkError::Final(match error {
        ChannelError::Closed => return TalkError::Gone,
        ChannelError::Silent => KeeperError::Silent { name },
        ChannelError::WrongUser { theirs, ours } => KeeperError::ForeignKeeper { name, theirs, ours },
        ChannelError::Protocol(ProtocolError::Version { theirs }) => KeeperError::Version { theirs },
        ChannelError::Protocol(error) => error.into(),
        ChannelError::Message(error) => KeeperError::Refused { text: error.to_string() },
        ChannelError::Io(source) => KeeperError::System { step: "talking to the keeper", source },
    })
}
