//! The opcode table. A row of [`OPERATIONS`] describes one value of the low five bits; the list of names says which
//! services have it; the service adds its own headers.

use super::{Header, Headers, Opcode, Operation, PayloadRule, Position, Service};
use crate::Bth;

/// What is known of one opcode.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) service: Service,
    pub(super) operation: Operation,
    pub(super) position: Position,
    pub(super) payload: PayloadRule,
    pub(super) headers: Headers,
    pub(super) header_len: u8,
}

/// The low five bits of an opcode: what is done.
pub(super) const OPERATION_MASK: u8 = 0x1f;
/// The bits above them: for which service.
pub(super) const SERVICE_SHIFT: u32 = 5;

/// The row of each opcode byte.
pub(super) static TABLE: [Option<Row>; 256] = table();

/// One value of the low five bits: operation, position, headers in every service, payload.
type Shape = (u8, Operation, Position, &'static [Header], PayloadRule);

#[rustfmt::skip]
const OPERATIONS: &[Shape] = {
    use Header::{Aeth, AtomicAckEth, AtomicEth, Feth, Ieth, ImmDt, Reth};
    use Operation::{
        Acknowledge, AtomicAcknowledge, AtomicWrite, CompareSwap, FetchAdd, Flush, ReadRequest, ReadResponse, Resync,
        Send, Write,
    };
    use PayloadRule::{Empty, Exactly, FullMtu, NonEmpty, UpToMtu};
    use Position::{First, Last, Middle, Only};
    &[
        (0x00, Send,              First,  &[],                    FullMtu),
        (0x01, Send,              Middle, &[],                    FullMtu),
        (0x02, Send,              Last,   &[],                    NonEmpty),
        (0x03, Send,              Last,   &[ImmDt],               NonEmpty),
        (0x04, Send,              Only,   &[],                    UpToMtu),
        (0x05, Send,              Only,   &[ImmDt],               UpToMtu),
        (0x06, Write,             First,  &[Reth],                FullMtu),
        (0x07, Write,             Middle, &[],                    FullMtu),
        (0x08, Write,             Last,   &[],                    NonEmpty),
        (0x09, Write,             Last,   &[ImmDt],               NonEmpty),
        (0x0a, Write,             Only,   &[Reth],                UpToMtu),
        (0x0b, Write,             Only,   &[Reth, ImmDt],         UpToMtu),
        (0x0c, ReadRequest,       Only,   &[Reth],                Empty),
        (0x0d, ReadResponse,      First,  &[Aeth],                FullMtu),
        (0x0e, ReadResponse,      Middle, &[],                    FullMtu),
        (0x0f, ReadResponse,      Last,   &[Aeth],                NonEmpty),
        (0x10, ReadResponse,      Only,   &[Aeth],                UpToMtu),
        (0x11, Acknowledge,       Only,   &[Aeth],                Empty),
        (0x12, AtomicAcknowledge, Only,   &[Aeth, AtomicAckEth],  Empty),
        (0x13, CompareSwap,       Only,   &[AtomicEth],           Empty),
        (0x14, FetchAdd,          Only,   &[AtomicEth],           Empty),
        (0x15, Resync,            Only,   &[],                    Empty),
        (0x16, Send,              Last,   &[Ieth],                NonEmpty),
        (0x17, Send,              Only,   &[Ieth],                UpToMtu),
        (0x1c, Flush,             Only,   &[Feth, Reth],          Empty),
        (0x1d, AtomicWrite,       Only,   &[Reth],                Exactly(8)),
    ]
};

macro_rules! names {
    ($($name:ident = $byte:literal,)*) => {
        /// Names: service, operation, position and what else it carries. The rows of one service stand together.
        #[expect(missing_docs, reason = "the names say all there is")]
        impl Opcode {
            $(pub const $name: Opcode = Opcode($byte);)*
        }
        const NAMES: &[(u8, &str)] = &[$(($byte, stringify!($name)),)*];
    };
}

names! {
    RC_SEND_FIRST = 0x00,
    RC_SEND_MIDDLE = 0x01,
    RC_SEND_LAST = 0x02,
    RC_SEND_LAST_IMM = 0x03,
    RC_SEND_ONLY = 0x04,
    RC_SEND_ONLY_IMM = 0x05,
    RC_WRITE_FIRST = 0x06,
    RC_WRITE_MIDDLE = 0x07,
    RC_WRITE_LAST = 0x08,
    RC_WRITE_LAST_IMM = 0x09,
    RC_WRITE_ONLY = 0x0a,
    RC_WRITE_ONLY_IMM = 0x0b,
    RC_READ_REQUEST = 0x0c,
    RC_READ_RESP_FIRST = 0x0d,
    RC_READ_RESP_MIDDLE = 0x0e,
    RC_READ_RESP_LAST = 0x0f,
    RC_READ_RESP_ONLY = 0x10,
    RC_ACKNOWLEDGE = 0x11,
    RC_ATOMIC_ACK = 0x12,
    RC_COMPARE_SWAP = 0x13,
    RC_FETCH_ADD = 0x14,
    RC_SEND_LAST_INV = 0x16,
    RC_SEND_ONLY_INV = 0x17,
    RC_FLUSH = 0x1c,
    RC_ATOMIC_WRITE = 0x1d,
    UC_SEND_FIRST = 0x20,
    UC_SEND_MIDDLE = 0x21,
    UC_SEND_LAST = 0x22,
    UC_SEND_LAST_IMM = 0x23,
    UC_SEND_ONLY = 0x24,
    UC_SEND_ONLY_IMM = 0x25,
    UC_WRITE_FIRST = 0x26,
    UC_WRITE_MIDDLE = 0x27,
    UC_WRITE_LAST = 0x28,
    UC_WRITE_LAST_IMM = 0x29,
    UC_WRITE_ONLY = 0x2a,
    UC_WRITE_ONLY_IMM = 0x2b,
    RD_SEND_FIRST = 0x40,
    RD_SEND_MIDDLE = 0x41,
    RD_SEND_LAST = 0x42,
    RD_SEND_LAST_IMM = 0x43,
    RD_SEND_ONLY = 0x44,
    RD_SEND_ONLY_IMM = 0x45,
    RD_WRITE_FIRST = 0x46,
    RD_WRITE_MIDDLE = 0x47,
    RD_WRITE_LAST = 0x48,
    RD_WRITE_LAST_IMM = 0x49,
    RD_WRITE_ONLY = 0x4a,
    RD_WRITE_ONLY_IMM = 0x4b,
    RD_READ_REQUEST = 0x4c,
    RD_READ_RESP_FIRST = 0x4d,
    RD_READ_RESP_MIDDLE = 0x4e,
    RD_READ_RESP_LAST = 0x4f,
    RD_READ_RESP_ONLY = 0x50,
    RD_ACKNOWLEDGE = 0x51,
    RD_ATOMIC_ACK = 0x52,
    RD_COMPARE_SWAP = 0x53,
    RD_FETCH_ADD = 0x54,
    RD_RESYNC = 0x55,
    UD_SEND_ONLY = 0x64,
    UD_SEND_ONLY_IMM = 0x65,
    XRC_SEND_FIRST = 0xa0,
    XRC_SEND_MIDDLE = 0xa1,
    XRC_SEND_LAST = 0xa2,
    XRC_SEND_LAST_IMM = 0xa3,
    XRC_SEND_ONLY = 0xa4,
    XRC_SEND_ONLY_IMM = 0xa5,
    XRC_WRITE_FIRST = 0xa6,
    XRC_WRITE_MIDDLE = 0xa7,
    XRC_WRITE_LAST = 0xa8,
    XRC_WRITE_LAST_IMM = 0xa9,
    XRC_WRITE_ONLY = 0xaa,
    XRC_WRITE_ONLY_IMM = 0xab,
    XRC_READ_REQUEST = 0xac,
    XRC_READ_RESP_FIRST = 0xad,
    XRC_READ_RESP_MIDDLE = 0xae,
    XRC_READ_RESP_LAST = 0xaf,
    XRC_READ_RESP_ONLY = 0xb0,
    XRC_ACKNOWLEDGE = 0xb1,
    XRC_ATOMIC_ACK = 0xb2,
    XRC_COMPARE_SWAP = 0xb3,
    XRC_FETCH_ADD = 0xb4,
    XRC_SEND_LAST_INV = 0xb6,
    XRC_SEND_ONLY_INV = 0xb7,
    CNP = 0x81,
}

const fn table() -> [Option<Row>; 256] {
    let mut table = [const { None }; 256];
    let mut i = 0;
    while i < NAMES.len() {
        let (byte, name) = NAMES[i];
        assert!(table[byte as usize].is_none(), "an opcode is named twice");
        table[byte as usize] = Some(row(byte, name));
        i += 1;
    }
    table
}

const fn row(byte: u8, name: &'static str) -> Row {
    if byte == Opcode::CNP.as_u8() {
        return cnp_row(name);
    }
    let service = match byte >> SERVICE_SHIFT {
        0b000 => Service::Rc,
        0b001 => Service::Uc,
        0b010 => Service::Rd,
        0b011 => Service::Ud,
        0b101 => Service::Xrc,
        _ => panic!("a named opcode has no service"),
    };
    let (_, operation, position, common, payload) = shape(byte & OPERATION_MASK);
    let headers = service_headers(Headers::of(common), service, is_response(operation));
    Row { name, service, operation, position, payload, headers, header_len: header_len(headers) }
}

/// CA17-44: a BTH and 16 reserved bytes. Its low five bits mean nothing of their own.
const fn cnp_row(name: &'static str) -> Row {
    let headers = Headers::of(&[Header::CnpReserved]);
    Row {
        name,
        service: Service::Cnp,
        operation: Operation::Cnp,
        position: Position::Only,
        payload: PayloadRule::Empty,
        headers,
        header_len: header_len(headers),
    }
}

const fn shape(operation: u8) -> Shape {
    let mut i = 0;
    while OPERATIONS[i].0 != operation {
        i += 1;
    }
    OPERATIONS[i]
}

/// What a service puts before the headers of the operation. XRC responses carry no XRCETH: they go to the queue pair
/// that sent the request. Every RD packet names its end-to-end context, and requests the sending queue pair too.
const fn service_headers(headers: Headers, service: Service, response: bool) -> Headers {
    match (service, response) {
        (Service::Ud, _) => headers.with(Header::Deth),
        (Service::Xrc, false) => headers.with(Header::Xrceth),
        (Service::Rd, false) => headers.with(Header::Rdeth).with(Header::Deth),
        (Service::Rd, true) => headers.with(Header::Rdeth),
        _ => headers,
    }
}

pub(super) const fn is_response(operation: Operation) -> bool {
    matches!(operation, Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge)
}

const fn header_len(headers: Headers) -> u8 {
    let len = Bth::LEN + headers.byte_len();
    assert!(len <= u8::MAX as usize);
    len as u8
}
