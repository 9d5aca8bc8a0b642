//! What a rule can do to a packet.

use bytes::Bytes;
use ferroce_core::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What happens to a packet.
///
/// In a script an action without fields is a word (`action = "drop"`), one with fields a table
/// (`action = { delay = { ns = 10_000 } }`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Nothing. Later rules are not asked.
    Pass,
    /// It is lost.
    Drop,
    /// It arrives this much later. Those behind it do not wait, and may overtake it.
    Delay {
        /// Nanoseconds.
        ns: Nanos,
    },
    /// It arrives, and then again.
    Duplicate {
        /// How often again.
        #[serde(default = "one")]
        copies: u32,
        /// Nanoseconds between one and the next.
        #[serde(default)]
        after_ns: Nanos,
    },
    /// One bit of the UDP payload is flipped: the receiver's ICRC check finds it.
    Corrupt {
        /// The bit, counted from the first of the BTH; wraps at the payload's end. A random one if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bit: Option<u64>,
    },
    /// It gets the ECN mark CE, whether it is ECN-capable or not.
    MarkCe,
    /// So many later packets of the same link and direction overtake it.
    Reorder {
        /// Packets.
        packets: u32,
        /// It waits no longer than this, nanoseconds.
        #[serde(default = "one_millisecond")]
        at_most_ns: Nanos,
    },
    /// Another UDP payload arrives in its place, behind the same addresses and ports.
    Replace {
        /// BTH to ICRC, in hexadecimal.
        payload: HexBytes,
        /// Whether the last four bytes are replaced by the right ICRC.
        seal: bool,
    },
    /// Only the first bytes of its UDP payload arrive; the lengths in its IP and UDP headers say so.
    Truncate {
        /// Bytes left.
        len: usize,
    },
}

fn one() -> u32 {
    1
}

fn one_millisecond() -> Nanos {
    1_000_000
}

/// As captures write it.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Pass => f.write_str("pass"),
            Action::Drop => f.write_str("drop"),
            Action::Delay { ns } => write!(f, "delay {ns} ns"),
            Action::Duplicate { copies, after_ns } => {
                write!(f, "duplicate {copies} times, {after_ns} ns apart")
            }
            Action::Corrupt { bit: Some(bit) } => write!(f, "corrupt bit {bit}"),
            Action::Corrupt { bit: None } => f.write_str("corrupt a bit"),
            Action::MarkCe => f.write_str("mark CE"),
            Action::Reorder { packets, .. } => write!(f, "reorder behind {packets}"),
            Action::Replace { payload, .. } => write!(f, "replace by {} bytes", payload.0.len()),
            Action::Truncate { len } => write!(f, "truncate to {len} bytes"),
        }
    }
}

/// Bytes that a script writes in hexadecimal; spaces between them are ignored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HexBytes(pub Bytes);

impl TryFrom<String> for HexBytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .filter(|c| !c.is_whitespace())
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect();
        let digits = digits.ok_or("bytes are written as hexadecimal digits")?;
        if !digits.len().is_multiple_of(2) {
            return Err(format!("{} hexadecimal digits are no whole number of bytes", digits.len()));
        }
        Ok(HexBytes(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
    }
}

impl From<HexBytes> for String {
    fn from(bytes: HexBytes) -> String {
        bytes.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
