//! The control protocol between a client and its keeper.
//!
//! One `SOCK_SEQPACKET` Unix connection per client; every message is one record that starts with a [`Frame`] of
//! fixed size in host byte order (both ends share a host). Only `Refused` carries bytes behind the frame: its text.
//! File descriptors travel beside the record (`SCM_RIGHTS`).
//!
//! ```text
//! client                                   keeper
//! Acquire{pid}                      →
//!                                   ←      Granted{slot, generation} + [board, socket of the slot]
//! Fetch{first, count}               →                                     (repeated, for the sockets below the slot)
//!                                   ←      Sockets{first, count} + [sockets]
//! …the connection stays open for as long as the lease lives; its end returns the slot…
//!
//! Recover{slot, generation, pid} + [board]  →                             (to a new keeper, after the old one died)
//!                                   ←      Wanted{first, count}           (repeated, for the sockets it lacks)
//! Sockets{first, count} + [sockets] →
//!                                   ←      Granted{slot, generation}
//!
//! Join{number, pid}                 →
//!                                   ←      Joined{number} + [socket for datagrams of QP 1]
//! Bind{token, binding}              →                                     (and Listen, Release)
//!                                   ←      Bound{port}, Done
//! …the connection stays open for as long as the process uses the connection manager…
//!
//! Inspect                           →
//!                                   ←      BoardAttached + [board]
//! anything                          →
//!                                   ←      Refused{reason, text}
//! ```
//!
//! The client always speaks first and waits for the answer, so neither side queues: at most
//! [`SOCKETS_PER_MESSAGE`] descriptors are under way per connection.
//! Magic, version and kind keep their places in every version, so two releases can tell each other apart.

use std::borrow::Cow;

use ferroce_wire::cm::PortSpace;
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::binding::{Binding, decode_scope, encode_scope};

/// First word of every message: "FRKP" read as bytes on a little-endian host.
const MAGIC: u32 = u32::from_le_bytes(*b"FRKP");
/// Version of this protocol and of what travels with it. Raised with every change that another release could not read.
pub const PROTOCOL_VERSION: u16 = 2;
/// Longest record either side sends or accepts, in bytes.
pub const MESSAGE_MAX: usize = 1024;
/// Longest text of a refusal, in bytes.
pub const TEXT_MAX: usize = MESSAGE_MAX - size_of::<Frame>();
/// Sockets handed over with one message. Far below the kernel's 253 (SCM_MAX_FD), because descriptors under way count
/// against the sender's RLIMIT_NOFILE.
pub const SOCKETS_PER_MESSAGE: u8 = 32;

/// What a client and its keeper say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Client: grant me a slot. `pid` is used where SO_PEERCRED shows none (another PID namespace).
    Acquire {
        /// The client's process id as it sees itself.
        pid: u32,
    },
    /// Client: send me the sockets `first..first + count`.
    Fetch {
        /// Lowest slot asked for.
        first: u8,
        /// How many.
        count: u8,
    },
    /// Client: let me look at the board; I want no slot.
    Inspect,
    /// Client: I hold this slot from a keeper that died; the board is attached.
    Recover {
        /// The slot held.
        slot: u8,
        /// The generation it was granted with.
        generation: u64,
        /// As in `Acquire`.
        pid: u32,
    },
    /// Either: the sockets `first..first + count` are attached.
    Sockets {
        /// Slot of the first socket attached.
        first: u8,
        /// How many are attached.
        count: u8,
    },
    /// Keeper: the slot is yours.
    Granted {
        /// The slot.
        slot: u8,
        /// Tells this grant of the slot from earlier ones.
        generation: u64,
    },
    /// Keeper: send me the sockets `first..first + count` of those you hold.
    Wanted {
        /// Lowest slot wanted.
        first: u8,
        /// How many.
        count: u8,
    },
    /// Keeper: the board is attached.
    BoardAttached,
    /// Client: I manage connections of my own; `number` is what a keeper that died called me, 0 for a new one.
    Join {
        /// The number.
        number: u16,
        /// As in `Acquire`.
        pid: u32,
    },
    /// Keeper: communication IDs that begin with this number are yours; a socket for datagrams is attached.
    Joined {
        /// The number.
        number: u16,
    },
    /// Client: I want this port; `token` is what I call it.
    Bind {
        /// The client's name for it.
        token: u32,
        /// What is wanted.
        binding: Binding,
    },
    /// Keeper: it is yours.
    Bound {
        /// The port.
        port: u16,
    },
    /// Client: requests for that port are mine from now on.
    Listen {
        /// What the port is called.
        token: u32,
    },
    /// Client: I do not want that port any more.
    Release {
        /// What the port is called.
        token: u32,
    },
    /// Keeper: it is so.
    Done,
    /// Keeper: no.
    Refused {
        /// Which of the known reasons.
        reason: Reason,
        /// What the reason needs said (the holder of the port, the cause of a failure). At most [`TEXT_MAX`] bytes
        /// travel.
        text: String,
    },
}

/// Why a keeper refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Somebody else holds the UDP port; the text says who.
    PortTaken = 1,
    /// Every slot has an owner.
    NoSlotFree = 2,
    /// Sockets of an earlier keeper are held by processes that have not reported; the text has the numbers.
    GroupIncomplete = 3,
    /// The slot a client wants back has been granted to another process, or belongs to another group.
    SlotLost = 4,
    /// The message came from another release of the protocol.
    Version = 5,
    /// The text says it all.
    Other = 6,
    /// Somebody has the address and port.
    AddressInUse = 7,
    /// No port of the space is left.
    NoPortLeft = 8,
}

/// A record that is not a message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// Shorter than a frame.
    #[error("a message of {length} bytes is shorter than the {} of a frame", size_of::<Frame>())]
    TooShort {
        /// Bytes received.
        length: usize,
    },
    /// The first word is not ours.
    #[error("not a message of a Ferroce keeper (it starts with {magic:#010x})")]
    Magic {
        /// The word found.
        magic: u32,
    },
    /// Another version of the protocol.
    #[error("protocol version {theirs}, this release speaks {PROTOCOL_VERSION}")]
    Version {
        /// Their version.
        theirs: u16,
    },
    /// A kind nobody knows.
    #[error("unknown message kind {kind}")]
    Kind {
        /// The kind found.
        kind: u16,
    },
    /// A slot, a range or a reason out of its bounds.
    #[error("message kind {kind} carries a value out of range ({value})")]
    OutOfRange {
        /// The kind of the message.
        kind: u16,
        /// The value.
        value: u32,
    },
}

impl Message {
    /// The record to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut frame = Frame { magic: MAGIC, version: PROTOCOL_VERSION, ..Frame::default() };
        let mut text: &[u8] = &[];
        match *self {
            Message::Acquire { pid } => (frame.kind, frame.pid) = (kind::ACQUIRE, pid),
            Message::Fetch { first, count } => frame.set_range(kind::FETCH, first, count),
            Message::Inspect => frame.kind = kind::INSPECT,
            Message::Recover { slot, generation, pid } => {
                frame.kind = kind::RECOVER;
                (frame.slot, frame.generation, frame.pid) = (slot.into(), generation, pid);
            }
            Message::Sockets { first, count } => frame.set_range(kind::SOCKETS, first, count),
            Message::Granted { slot, generation } => {
                frame.kind = kind::GRANTED;
                (frame.slot, frame.generation) = (slot.into(), generation);
            }
            Message::Wanted { first, count } => frame.set_range(kind::WANTED, first, count),
            Message::BoardAttached => frame.kind = kind::BOARD,
            Message::Join { number, pid } => {
                (frame.kind, frame.slot, frame.pid) = (kind::JOIN, number.into(), pid);
            }
            Message::Joined { number } => (frame.kind, frame.slot) = (kind::JOINED, number.into()),
            Message::Bind { token, binding } => frame.set_binding(token, &binding),
            Message::Bound { port } => (frame.kind, frame.port) = (kind::BOUND, port),
            Message::Listen { token } => (frame.kind, frame.count) = (kind::LISTEN, token),
            Message::Release { token } => (frame.kind, frame.count) = (kind::RELEASE, token),
            Message::Done => frame.kind = kind::DONE,
            Message::Refused { reason, text: ref words } => {
                (frame.kind, frame.count) = (kind::REFUSED, reason as u32);
                text = cut(words, TEXT_MAX).as_bytes();
            }
        }
        [frame.as_bytes(), text].concat()
    }

    /// Reads one record.
    ///
    /// # Errors
    /// [`ProtocolError`] names what is wrong with it; nothing a peer sends panics.
    pub fn decode(record: &[u8]) -> Result<Message, ProtocolError> {
        let (frame, text) =
            Frame::read_from_prefix(record).map_err(|_| ProtocolError::TooShort { length: record.len() })?;
        if frame.magic != MAGIC {
            return Err(ProtocolError::Magic { magic: frame.magic });
        }
        if frame.version != PROTOCOL_VERSION {
            return Err(ProtocolError::Version { theirs: frame.version });
        }
        let message = match frame.kind {
            kind::ACQUIRE => Message::Acquire { pid: frame.pid },
            kind::FETCH => frame.range().map(|(first, count)| Message::Fetch { first, count })?,
            kind::INSPECT => Message::Inspect,
            kind::RECOVER => {
                let slot = frame.byte(frame.slot)?;
                Message::Recover { slot, generation: frame.generation, pid: frame.pid }
            }
            kind::SOCKETS => frame.range().map(|(first, count)| Message::Sockets { first, count })?,
            kind::GRANTED => Message::Granted { slot: frame.byte(frame.slot)?, generation: frame.generation },
            kind::WANTED => frame.range().map(|(first, count)| Message::Wanted { first, count })?,
            kind::BOARD => Message::BoardAttached,
            kind::JOIN => Message::Join { number: frame.number()?, pid: frame.pid },
            kind::JOINED => Message::Joined { number: frame.number()? },
            kind::BIND => Message::Bind { token: frame.count, binding: frame.binding()? },
            kind::BOUND => Message::Bound { port: frame.port },
            kind::LISTEN => Message::Listen { token: frame.count },
            kind::RELEASE => Message::Release { token: frame.count },
            kind::DONE => Message::Done,
            kind::REFUSED => {
                let reason = Reason::from_u32(frame.count)
                    .ok_or(ProtocolError::OutOfRange { kind: frame.kind, value: frame.count })?;
                let text: Cow<'_, str> = String::from_utf8_lossy(text);
                Message::Refused { reason, text: text.into_owned() }
            }
            kind => return Err(ProtocolError::Kind { kind }),
        };
        Ok(message)
    }
}

impl Reason {
    fn from_u32(value: u32) -> Option<Reason> {
        [
            Reason::PortTaken,
            Reason::NoSlotFree,
            Reason::GroupIncomplete,
            Reason::SlotLost,
            Reason::Version,
            Reason::Other,
            Reason::AddressInUse,
            Reason::NoPortLeft,
        ]
        .into_iter()
        .find(|&reason| reason as u32 == value)
    }
}

/// The fixed part of every message. Fields a kind does not use are zero.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Frame {
    magic: u32,
    version: u16,
    kind: u16,
    /// A slot, or the number of a client that manages connections.
    slot: u32,
    /// Number of sockets; the reason of a refusal; the token of a binding.
    count: u32,
    pid: u32,
    /// Of a binding: how its address is meant, and whether it may be shared.
    flags: u32,
    generation: u64,
    address: [u8; 16],
    space: u16,
    port: u16,
    reserved: u32,
}

impl Frame {
    fn set_range(&mut self, kind: u16, first: u8, count: u8) {
        (self.kind, self.slot, self.count) = (kind, first.into(), count.into());
    }

    /// `slot..slot + count`, checked: not empty, not more than a message carries, inside the slots there are.
    fn range(&self) -> Result<(u8, u8), ProtocolError> {
        let first = self.byte(self.slot)?;
        let count = self.byte(self.count)?;
        if count == 0 || count > SOCKETS_PER_MESSAGE || first.checked_add(count - 1).is_none() {
            return Err(ProtocolError::OutOfRange { kind: self.kind, value: self.count });
        }
        Ok((first, count))
    }

    fn set_binding(&mut self, token: u32, binding: &Binding) {
        (self.kind, self.count) = (kind::BIND, token);
        (self.space, self.port) = (binding.space as u16, binding.port);
        let (scope, address) = encode_scope(binding.scope);
        self.address = address;
        self.flags = scope | if binding.shares { SHARES } else { 0 };
    }

    fn binding(&self) -> Result<Binding, ProtocolError> {
        let out_of_range = |value| ProtocolError::OutOfRange { kind: self.kind, value };
        let scope = decode_scope(self.flags & !SHARES, self.address).ok_or(out_of_range(self.flags))?;
        let spaces = [PortSpace::Ipoib, PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib];
        let space = spaces.into_iter().find(|space| *space as u16 == self.space);
        let space = space.ok_or(out_of_range(self.space.into()))?;
        Ok(Binding { space, port: self.port, scope, shares: self.flags & SHARES != 0 })
    }

    fn number(&self) -> Result<u16, ProtocolError> {
        u16::try_from(self.slot).map_err(|_| ProtocolError::OutOfRange { kind: self.kind, value: self.slot })
    }

    fn byte(&self, value: u32) -> Result<u8, ProtocolError> {
        u8::try_from(value).map_err(|_| ProtocolError::OutOfRange { kind: self.kind, value })
    }
}

/// The longest prefix of `text` that fits `max` bytes and ends between two characters.
fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

mod kind {
    pub(super) const ACQUIRE: u16 = 1;
    pub(super) const FETCH: u16 = 2;
    pub(super) const INSPECT: u16 = 3;
    pub(super) const RECOVER: u16 = 4;
    pub(super) const SOCKETS: u16 = 5;
    pub(super) const GRANTED: u16 = 6;
    pub(super) const WANTED: u16 = 7;
    pub(super) const BOARD: u16 = 8;
    pub(super) const REFUSED: u16 = 9;
    pub(super) const JOIN: u16 = 10;
    pub(super) const JOINED: u16 = 11;
    pub(super) const BIND: u16 = 12;
    pub(super) const BOUND: u16 = 13;
    pub(super) const LISTEN: u16 = 14;
    pub(super) const RELEASE: u16 = 15;
    pub(super) const DONE: u16 = 16;
}

/// Flag of a binding.
const SHARES: u32 = 1 << 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn binding() -> Binding {
        let scope = ferroce_cm::ListenScope::Address([10, 0, 0, 1].into());
        Binding { space: PortSpace::Udp, port: 7174, scope, shares: true }
    }

    fn every_message() -> Vec<Message> {
        vec![
            Message::Acquire { pid: 4_000_000 },
            Message::Fetch { first: 224, count: 32 },
            Message::Inspect,
            Message::Recover { slot: 255, generation: u64::MAX, pid: 1 },
            Message::Sockets { first: 0, count: 1 },
            Message::Granted { slot: 1, generation: 7 },
            Message::Wanted { first: 3, count: 2 },
            Message::BoardAttached,
            Message::Join { number: 4095, pid: 1 },
            Message::Joined { number: 1 },
            Message::Bind { token: 7, binding: binding() },
            Message::Bound { port: 65_535 },
            Message::Listen { token: u32::MAX },
            Message::Release { token: 0 },
            Message::Done,
            Message::Refused { reason: Reason::PortTaken, text: "pid 1 (init)".into() },
        ]
    }

    #[test]
    fn every_message_survives_the_way() {
        for message in every_message() {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn a_truncated_message_is_an_error_at_every_length() {
        for message in every_message() {
            let record = message.encode();
            for length in 0..size_of::<Frame>() {
                assert_eq!(Message::decode(&record[..length]), Err(ProtocolError::TooShort { length }));
            }
        }
    }

    #[test]
    fn every_corrupted_byte_is_read_without_a_panic() {
        for message in every_message() {
            let record = message.encode();
            for at in 0..record.len() {
                for value in 0..=u8::MAX {
                    let mut record = record.clone();
                    record[at] = value;
                    // Whatever it means now: an answer, never a panic.
                    let _ = Message::decode(&record);
                }
            }
        }
    }

    #[test]
    fn another_version_is_told_apart_from_garbage() {
        let mut record = Message::Inspect.encode();
        record[4..6].copy_from_slice(&9u16.to_ne_bytes());
        assert_eq!(Message::decode(&record), Err(ProtocolError::Version { theirs: 9 }));
        record[0] ^= 1;
        assert!(matches!(Message::decode(&record), Err(ProtocolError::Magic { .. })));
    }

    #[test]
    fn ranges_outside_the_slots_are_refused() {
        for (first, count) in [(0, 0), (0, SOCKETS_PER_MESSAGE + 1), (255, 2), (230, 32)] {
            let record = Message::Fetch { first, count }.encode();
            assert!(
                matches!(Message::decode(&record), Err(ProtocolError::OutOfRange { .. })),
                "{first}+{count}"
            );
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "é".repeat(TEXT_MAX);
        let record = Message::Refused { reason: Reason::Other, text: text.clone() }.encode();
        assert!(record.len() <= MESSAGE_MAX);
        let Ok(Message::Refused { text: cut, .. }) = Message::decode(&record) else {
            panic!("not a refusal")
        };
        assert!(text.starts_with(&cut) && cut.len() > TEXT_MAX - 2);
    }
}
