//! Opcodes, and the one table that says what each of them is: operation, place in its message, headers, payload.

use core::fmt;

use crate::Bth;

mod headers;
mod table;

pub use headers::{Header, Headers};

/// The opcode of a packet that some rule describes. An opcode byte without a rule is no `Opcode`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(u8);

/// The transport service an opcode belongs to: its upper three bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0b000,
    /// Unreliable connection.
    Uc = 0b001,
    /// Reliable datagram.
    Rd = 0b010,
    /// Unreliable datagram.
    Ud = 0b011,
    /// Congestion notification.
    Cnp = 0b100,
    /// Extended reliable connection.
    Xrc = 0b101,
}

/// What a packet does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// SEND, with or without immediate data or invalidation.
    Send,
    /// RDMA WRITE, with or without immediate data.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// ACK or NAK.
    Acknowledge,
    /// The answer to an atomic operation.
    AtomicAcknowledge,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// Memory placement: flush (Annex A19).
    Flush,
    /// Memory placement: write of 8 bytes at once (Annex A19).
    AtomicWrite,
    /// Reliable datagram's resynchronisation.
    Resync,
    /// Congestion notification.
    Cnp,
}

/// The place of a packet in its message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The whole message.
    Only,
}

/// How many payload bytes (without pad) an opcode goes with, against the path MTU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PayloadRule {
    /// No payload at all.
    Empty,
    /// Exactly this many bytes.
    Exactly(u8),
    /// The path MTU exactly: FIRST and MIDDLE.
    FullMtu,
    /// 1 to the path MTU: LAST.
    NonEmpty,
    /// 0 to the path MTU: ONLY.
    UpToMtu,
}

impl Opcode {
    /// The opcode of `byte`, if it is one.
    pub const fn from_u8(byte: u8) -> Option<Opcode> {
        match table::TABLE[byte as usize] {
            Some(_) => Some(Opcode(byte)),
            None => None,
        }
    }

    /// The opcode that does in `service` what the low five bits `operation` say, if the service has it.
    pub const fn of_service(service: Service, operation: u8) -> Option<Opcode> {
        if operation > table::OPERATION_MASK {
            return None;
        }
        Opcode::from_u8((service as u8) << table::SERVICE_SHIFT | operation)
    }

    /// The same operation in another service, if that has it: RC and XRC engines share their tables by this.
    pub const fn in_service(self, service: Service) -> Option<Opcode> {
        Opcode::of_service(service, self.0 & table::OPERATION_MASK)
    }

    /// Every opcode, in the order of their bytes.
    pub fn all() -> impl Iterator<Item = Opcode> {
        (0..=u8::MAX).filter_map(Opcode::from_u8)
    }

    /// The byte on the wire.
    pub const fn as_u8(self) -> u8 {
        self.0
    }

    const fn row(self) -> &'static table::Row {
        table::TABLE[self.0 as usize].as_ref().expect("an Opcode is made only from a row of the table")
    }

    /// The transport service.
    pub const fn service(self) -> Service {
        self.row().service
    }

    /// The operation.
    pub const fn operation(self) -> Operation {
        self.row().operation
    }

    /// The place in the message.
    pub const fn position(self) -> Position {
        self.row().position
    }

    /// The extended headers behind the BTH.
    pub const fn headers(self) -> Headers {
        self.row().headers
    }

    /// What payload goes with it.
    pub const fn payload_rule(self) -> PayloadRule {
        self.row().payload
    }

    /// Length of the BTH and the extended headers in bytes.
    pub const fn header_len(self) -> usize {
        self.row().header_len as usize
    }

    /// The name as printed, such as `RC_SEND_FIRST`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether a message begins with this packet.
    pub const fn starts_message(self) -> bool {
        matches!(self.position(), Position::First | Position::Only)
    }

    /// Whether a message ends with this packet.
    pub const fn ends_message(self) -> bool {
        matches!(self.position(), Position::Last | Position::Only)
    }

    /// Whether it goes from requester to responder. A CNP is neither request nor response.
    pub const fn is_request(self) -> bool {
        !self.is_response() && !matches!(self.operation(), Operation::Cnp)
    }

    /// Whether it goes from responder to requester.
    pub const fn is_response(self) -> bool {
        table::is_response(self.operation())
    }

    /// Whether the responder takes a receive from its queue when this packet comes: at the start of a SEND, at the
    /// end of a WRITE with immediate data.
    pub const fn consumes_receive(self) -> bool {
        match self.operation() {
            Operation::Send => self.starts_message(),
            Operation::Write => self.has_imm(),
            _ => false,
        }
    }

    /// Whether it carries `header`.
    pub const fn has(self, header: Header) -> bool {
        self.headers().contains(header)
    }

    /// Whether it carries a RETH.
    pub const fn has_reth(self) -> bool {
        self.has(Header::Reth)
    }

    /// Whether it carries immediate data.
    pub const fn has_imm(self) -> bool {
        self.has(Header::ImmDt)
    }

    /// Whether it carries an IETH.
    pub const fn has_ieth(self) -> bool {
        self.has(Header::Ieth)
    }

    /// Whether it carries an AETH.
    pub const fn has_aeth(self) -> bool {
        self.has(Header::Aeth)
    }

    /// Whether it carries an AtomicETH.
    pub const fn has_atomic_eth(self) -> bool {
        self.has(Header::AtomicEth)
    }

    /// Whether it carries an AtomicAckETH.
    pub const fn has_atomic_ack_eth(self) -> bool {
        self.has(Header::AtomicAckEth)
    }

    /// Whether it carries a DETH.
    pub const fn has_deth(self) -> bool {
        self.has(Header::Deth)
    }

    /// Whether it carries an XRCETH.
    pub const fn has_xrceth(self) -> bool {
        self.has(Header::Xrceth)
    }

    /// Whether it carries an FETH.
    pub const fn has_feth(self) -> bool {
        self.has(Header::Feth)
    }

    /// Where `header` lies in the packet, counted from the BTH, if the opcode carries it.
    pub const fn offset_of(self, header: Header) -> Option<usize> {
        match self.headers().offset_of(header) {
            Some(offset) => Some(Bth::LEN + offset),
            None => None,
        }
    }
}

impl PayloadRule {
    /// Whether `len` payload bytes are right under a path MTU of `mtu` bytes.
    pub const fn allows(self, len: usize, mtu: usize) -> bool {
        match self {
            PayloadRule::Empty => len == 0,
            PayloadRule::Exactly(exact) => len == exact as usize,
            PayloadRule::FullMtu => len == mtu,
            PayloadRule::NonEmpty => len >= 1 && len <= mtu,
            PayloadRule::UpToMtu => len <= mtu,
        }
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:#04x})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests;
