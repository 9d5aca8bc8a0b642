//! Which message an MRA or REJ is about.

use core::fmt;

/// The message that is answered, two bits on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Subject {
    /// A REQ.
    Req,
    /// A REP.
    Rep,
    /// In an MRA a LAP; in a REJ no particular message.
    Other,
    /// Undefined.
    Reserved,
}

impl Subject {
    /// The meaning of the low two bits.
    pub const fn from_u8(value: u8) -> Self {
        match value & 3 {
            0 => Subject::Req,
            1 => Subject::Rep,
            2 => Subject::Other,
            _ => Subject::Reserved,
        }
    }

    /// The two bits.
    pub const fn as_u8(self) -> u8 {
        match self {
            Subject::Req => 0,
            Subject::Rep => 1,
            Subject::Other => 2,
            Subject::Reserved => 3,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Req => "REQ",
            Subject::Rep => "REP",
            Subject::Other => "other",
            Subject::Reserved => "reserved",
        })
    }
}
