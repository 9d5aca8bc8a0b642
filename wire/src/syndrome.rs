//! The AETH syndrome: what a responder says about a request.

use core::fmt;

/// An AETH syndrome. Every byte is one, and every one is its byte again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Syndrome {
    /// Acknowledged, with a credit count code; [`Syndrome::CREDITS_INVALID`] is "no limit".
    Ack {
        /// Credit count code, 0 to 31.
        credits: u8,
    },
    /// Receiver not ready: no receive was posted. To be repeated after [`crate::rnr_timer_ns`] of `timer`.
    RnrNak {
        /// Timer code, 0 to 31.
        timer: u8,
    },
    /// Refused.
    Nak(NakCode),
    /// A syndrome with no meaning: bits 6:5 are `10`, or bit 7 is set. Holds the whole byte.
    Reserved(u8),
}

/// Why a request was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NakCode {
    /// 0: an earlier packet is missing.
    PsnSequenceError,
    /// 1: an operation the responder does not do, or malformed.
    InvalidRequest,
    /// 2: a bad R_Key, address or permission.
    RemoteAccessError,
    /// 3: the responder failed by itself.
    RemoteOperationalError,
    /// 4: reliable datagram only.
    InvalidRdRequest,
    /// 5 to 31, which nothing defines.
    Reserved(u8),
}

impl Syndrome {
    /// The credit code that tells the requester not to count credits.
    pub const CREDITS_INVALID: u8 = 31;
    /// An acknowledgement without credits, 0x1f, as rxe sends it always and anyone may.
    pub const ACK: Syndrome = Syndrome::Ack { credits: Self::CREDITS_INVALID };

    const CLASS_SHIFT: u32 = 5;
    const VALUE_MASK: u8 = 0x1f;
    const CLASS_ACK: u8 = 0b000;
    const CLASS_RNR_NAK: u8 = 0b001;
    const CLASS_NAK: u8 = 0b011;

    /// The meaning of `byte`.
    pub const fn from_u8(byte: u8) -> Self {
        let value = byte & Self::VALUE_MASK;
        match byte >> Self::CLASS_SHIFT {
            Self::CLASS_ACK => Syndrome::Ack { credits: value },
            Self::CLASS_RNR_NAK => Syndrome::RnrNak { timer: value },
            Self::CLASS_NAK => Syndrome::Nak(NakCode::from_u8(value)),
            _ => Syndrome::Reserved(byte),
        }
    }

    /// The byte on the wire; of codes larger than 31 the low five bits.
    pub const fn as_u8(self) -> u8 {
        let (class, value) = match self {
            Syndrome::Ack { credits } => (Self::CLASS_ACK, credits),
            Syndrome::RnrNak { timer } => (Self::CLASS_RNR_NAK, timer),
            Syndrome::Nak(code) => (Self::CLASS_NAK, code.as_u8()),
            Syndrome::Reserved(byte) => return byte,
        };
        class << Self::CLASS_SHIFT | value & Self::VALUE_MASK
    }
}

impl NakCode {
    /// The meaning of the low five bits of `value`.
    pub const fn from_u8(value: u8) -> Self {
        match value & Syndrome::VALUE_MASK {
            0 => NakCode::PsnSequenceError,
            1 => NakCode::InvalidRequest,
            2 => NakCode::RemoteAccessError,
            3 => NakCode::RemoteOperationalError,
            4 => NakCode::InvalidRdRequest,
            other => NakCode::Reserved(other),
        }
    }

    /// The code, 0 to 31.
    pub const fn as_u8(self) -> u8 {
        match self {
            NakCode::PsnSequenceError => 0,
            NakCode::InvalidRequest => 1,
            NakCode::RemoteAccessError => 2,
            NakCode::RemoteOperationalError => 3,
            NakCode::InvalidRdRequest => 4,
            NakCode::Reserved(value) => value & Syndrome::VALUE_MASK,
        }
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Syndrome::Ack { credits: Self::CREDITS_INVALID } => write!(f, "ack"),
            Syndrome::Ack { credits } => write!(f, "ack credits {credits}"),
            Syndrome::RnrNak { timer } => write!(f, "rnr nak timer {timer}"),
            Syndrome::Nak(code) => write!(f, "nak {code}"),
            Syndrome::Reserved(byte) => write!(f, "reserved syndrome {byte:#04x}"),
        }
    }
}

impl fmt::Display for NakCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NakCode::PsnSequenceError => write!(f, "PSN sequence error"),
            NakCode::InvalidRequest => write!(f, "invalid request"),
            NakCode::RemoteAccessError => write!(f, "remote access error"),
            NakCode::RemoteOperationalError => write!(f, "remote operational error"),
            NakCode::InvalidRdRequest => write!(f, "invalid RD request"),
            NakCode::Reserved(value) => write!(f, "code {value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bytes_have_their_meaning() {
        let known = [
            (0x1f, Syndrome::ACK),
            (0x05, Syndrome::Ack { credits: 5 }),
            (0x20, Syndrome::RnrNak { timer: 0 }),
            (0x3f, Syndrome::RnrNak { timer: 31 }),
            (0x60, Syndrome::Nak(NakCode::PsnSequenceError)),
            (0x61, Syndrome::Nak(NakCode::InvalidRequest)),
            (0x62, Syndrome::Nak(NakCode::RemoteAccessError)),
            (0x63, Syndrome::Nak(NakCode::RemoteOperationalError)),
            (0x64, Syndrome::Nak(NakCode::InvalidRdRequest)),
            (0x65, Syndrome::Nak(NakCode::Reserved(5))),
            (0x40, Syndrome::Reserved(0x40)),
            (0x9f, Syndrome::Reserved(0x9f)),
            (0xe0, Syndrome::Reserved(0xe0)),
        ];
        for (byte, syndrome) in known {
            assert_eq!(Syndrome::from_u8(byte), syndrome);
            assert_eq!(syndrome.as_u8(), byte);
        }
    }

    #[test]
    fn every_byte_is_a_syndrome_and_back() {
        for byte in 0..=u8::MAX {
            assert_eq!(Syndrome::from_u8(byte).as_u8(), byte);
        }
    }
}
