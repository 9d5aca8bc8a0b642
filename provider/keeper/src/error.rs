//! Why a process did not get its share of the port.

use std::io;
use std::path::PathBuf;

use ferroce_port::ReceiveSocketError;
use thiserror::Error;

use crate::board::BoardError;
use crate::protocol::{Message, PROTOCOL_VERSION, ProtocolError, Reason};

/// How anybody gets a port of their own. A new namespace has no address before its loopback interface is up.
const OWN_NAMESPACE: &str = "unshare -Urn sh -c 'ip link set lo up && exec COMMAND'";

/// Why there is no lease, or no answer. Every text says what to do where something can be done.
#[derive(Debug, Error)]
pub enum KeeperError {
    /// Somebody else has the UDP port.
    #[error(
        "UDP port {port} is taken: {holder}. A network namespace has room for one RoCEv2 stack, and for the Ferroce of \
         one user: end the other one (a keeper leaves by itself {} s after its last program), run in a network \
         namespace of your own ({OWN_NAMESPACE}), or set FERROCE=off to use the system's RDMA devices",
        crate::IDLE_SECONDS
    )]
    PortTaken {
        /// The port.
        port: u16,
        /// By whom, as a sentence.
        holder: String,
    },
    /// All slots have owners.
    #[error(
        "all {} slots of the keeper are in use by other processes (ferroce stat lists them): end one, or run in a \
         network namespace of your own ({OWN_NAMESPACE})",
        crate::MAX_SLOTS
    )]
    NoSlotFree,
    /// The keeper took over from one that died and does not have all its sockets yet.
    #[error(
        "the keeper was restarted and some processes have not given their sockets back yet: {detail}. Try again; if it \
         stays so, one of them is stopped or hangs: continue or end it"
    )]
    GroupIncomplete {
        /// The numbers.
        detail: String,
    },
    /// The slot that a process wanted back from a new keeper belongs to somebody else now.
    #[error(
        "slot {slot} was given to another process while there was no keeper: close the device and open it again"
    )]
    SlotLost {
        /// The slot.
        slot: u8,
    },
    /// Somebody of another user listens under the keeper's name.
    #[error(
        "the socket @{name} belongs to user id {theirs}, not to ours ({ours}): it is no keeper of ours; choose another \
         name with FERROCE_KEEPER_NAME"
    )]
    ForeignKeeper {
        /// The abstract name.
        name: String,
        /// Whose it is.
        theirs: u32,
        /// Who we are.
        ours: u32,
    },
    /// The running keeper is of another release.
    #[error(
        "the running keeper speaks protocol version {theirs}, this release of Ferroce speaks {PROTOCOL_VERSION}: stop \
         the programs that use the other release (ferroce stat lists them) and wait until their keeper has gone, or \
         use the same release everywhere"
    )]
    Version {
        /// Its version.
        theirs: u16,
    },
    /// No program to start.
    #[error("the keeper's program was not found ({}): set FERROCE_KEEPER_BIN to its path", list(tried))]
    ProgramMissing {
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },
    /// The program could not be started.
    #[error("the keeper could not be started from {}: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program was started and gave up.
    #[error("the keeper {} gave up: {text}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Its words.
        text: String,
    },
    /// Somebody listens, and does not answer in time.
    #[error("the keeper behind @{name} does not answer; end it, and the next process starts a new one")]
    Silent {
        /// The abstract name.
        name: String,
    },
    /// One keeper after another ended before it answered.
    #[error(
        "{attempts} times in a row the keeper behind @{name} ended before it answered; see FERROCE_KEEPER_LOG"
    )]
    Vanishing {
        /// The abstract name.
        name: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// The keeper said no for a reason of its own.
    #[error("the keeper refused: {text}")]
    Refused {
        /// Its words.
        text: String,
    },
    /// The keeper's answer makes no sense.
    #[error("the keeper's answer: {0}")]
    Protocol(#[from] ProtocolError),
    /// The keeper's answer is none to the question.
    #[error("the keeper answered {question} with {answer}")]
    Unexpected {
        /// What was asked.
        question: &'static str,
        /// What came.
        answer: String,
    },
    /// The board is unusable.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// Somebody has bound the address and port.
    #[error("{text} is in use: choose another port, or set RDMA_OPTION_ID_REUSEADDR on both")]
    AddressInUse {
        /// Which one.
        text: String,
    },
    /// All ports that are handed out to whoever names none are in use.
    #[error("no port is left in the port space: close connections, or name a port")]
    NoPortLeft,
    /// The process has the UDP port for itself.
    #[error(
        "connections are managed by the keeper, and this process works without one: unset FERROCE_KEEPER=off, and see \
         that the keeper's program can be started"
    )]
    NeedsKeeper,
    /// An environment variable has a value that means nothing.
    #[error("{variable}={value} means nothing: expected {expected}")]
    Setting {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A system call failed.
    #[error("{step}: {source}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl KeeperError {
    /// How a keeper tells this error to a client.
    pub(crate) fn to_refusal(&self) -> Message {
        let (reason, text) = match self {
            KeeperError::PortTaken { holder, .. } => (Reason::PortTaken, holder.clone()),
            KeeperError::NoSlotFree => (Reason::NoSlotFree, String::new()),
            KeeperError::GroupIncomplete { detail } => (Reason::GroupIncomplete, detail.clone()),
            KeeperError::SlotLost { .. } => (Reason::SlotLost, String::new()),
            KeeperError::Refused { text } => (Reason::Other, text.clone()),
            KeeperError::AddressInUse { text } => (Reason::AddressInUse, text.clone()),
            KeeperError::NoPortLeft => (Reason::NoPortLeft, String::new()),
            other => (Reason::Other, other.to_string()),
        };
        Message::Refused { reason, text }
    }

    /// The error behind a refusal that concerns `port` and, where it does, `slot`.
    pub(crate) fn from_refusal(reason: Reason, text: String, port: u16, slot: u8) -> KeeperError {
        match reason {
            Reason::PortTaken => KeeperError::PortTaken { port, holder: text },
            Reason::NoSlotFree => KeeperError::NoSlotFree,
            Reason::GroupIncomplete => KeeperError::GroupIncomplete { detail: text },
            Reason::SlotLost => KeeperError::SlotLost { slot },
            Reason::AddressInUse => KeeperError::AddressInUse { text },
            Reason::NoPortLeft => KeeperError::NoPortLeft,
            // A keeper of our version says so only to others; the words are all there is to tell.
            Reason::Version | Reason::Other => KeeperError::Refused { text },
        }
    }
}

impl From<ReceiveSocketError> for KeeperError {
    fn from(error: ReceiveSocketError) -> KeeperError {
        match error {
            ReceiveSocketError::InUse { port, holder } => {
                KeeperError::PortTaken { port, holder: holder.to_string() }
            }
            ReceiveSocketError::System { step, source, .. } => KeeperError::System { step, source },
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    if shown.is_empty() { "nowhere to look".to_owned() } else { format!("tried {}", shown.join(", ")) }
}
