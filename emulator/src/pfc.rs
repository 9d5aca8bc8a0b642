//! Priority-based flow control (IEEE 802.1Qbb): pause frames, and the account that says when to send them.

use crate::frame::{Frame, Mac, PRIORITIES};
use ferroce_core::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// When a receiver tells its neighbour to stop.
///
/// For each of the priorities in `priorities` and each port, the receiver counts the bytes that came in there and
/// have not left yet. At `xoff_bytes` it sends a pause, at `xon_bytes` it takes it back. What is still on its way
/// when the pause leaves needs `headroom_bytes`; with less than the link holds, frames are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pfc {
    /// Bit n stands for priority n.
    pub priorities: u8,
    /// Pause at so many bytes.
    pub xoff_bytes: u64,
    /// Go on at so many.
    pub xon_bytes: u64,
    /// Bytes taken after the pause.
    pub headroom_bytes: u64,
}

impl Default for Pfc {
    /// Priority 3, which is RoCE's by custom.
    fn default() -> Self {
        Pfc { priorities: 1 << 3, xoff_bytes: 64 << 10, xon_bytes: 48 << 10, headroom_bytes: 64 << 10 }
    }
}

impl Pfc {
    /// Whether `priority` is lossless.
    pub fn covers(&self, priority: usize) -> bool {
        self.priorities >> priority & 1 == 1
    }
}

/// What a neighbour is to be told about a priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signal {
    /// Stop.
    Xoff,
    /// Go on.
    Xon,
}

/// The bytes of one port's ingress that are still held, by priority.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    bytes: [u64; PRIORITIES],
    paused: [bool; PRIORITIES],
}

impl Account {
    /// Whether a frame of `len` bytes still fits.
    pub(crate) fn has_room(&self, pfc: &Pfc, priority: usize, len: u64) -> bool {
        self.bytes[priority] + len <= pfc.xoff_bytes + pfc.headroom_bytes
    }

    /// A frame came in.
    pub(crate) fn add(&mut self, pfc: &Pfc, priority: usize, len: u64) -> Option<Signal> {
        self.bytes[priority] += len;
        if self.paused[priority] || self.bytes[priority] < pfc.xoff_bytes {
            return None;
        }
        self.paused[priority] = true;
        Some(Signal::Xoff)
    }

    /// A frame has left.
    pub(crate) fn remove(&mut self, pfc: &Pfc, priority: usize, len: u64) -> Option<Signal> {
        self.bytes[priority] -= len;
        if !self.paused[priority] || self.bytes[priority] > pfc.xon_bytes {
            return None;
        }
        self.paused[priority] = false;
        Some(Signal::Xon)
    }

    /// Whether the neighbour has been told to stop.
    pub(crate) fn is_paused(&self, priority: usize) -> bool {
        self.paused[priority]
    }
}

/// A pause frame: how long to stop, for each priority that it speaks of, in quanta.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PauseFrame {
    pub(crate) quanta: [Option<u16>; PRIORITIES],
}

impl PauseFrame {
    /// The frame that tells `priority` what `signal` says.
    pub(crate) fn new(priority: usize, signal: Signal) -> PauseFrame {
        let mut pause = PauseFrame::default();
        pause.quanta[priority] = Some(match signal {
            Signal::Xoff => PAUSE_QUANTA,
            Signal::Xon => 0,
        });
        pause
    }

    /// As an Ethernet frame from `source`.
    pub(crate) fn encode(&self, source: Mac) -> Frame {
        let mut bytes = vec![0; LEN];
        bytes[..6].copy_from_slice(&MAC_CONTROL);
        bytes[6..12].copy_from_slice(&source);
        bytes[12..16].copy_from_slice(&[0x88, 0x08, 0x01, 0x01]);
        for (priority, quanta) in self.quanta.iter().enumerate() {
            if let Some(quanta) = quanta {
                bytes[17] |= 1 << priority;
                bytes[18 + 2 * priority..][..2].copy_from_slice(&quanta.to_be_bytes());
            }
        }
        Frame::control(bytes)
    }

    /// What `frame` says, if it is a pause frame.
    pub(crate) fn decode(frame: &Frame) -> Option<PauseFrame> {
        let bytes = frame.bytes();
        if bytes.len() < LEN || bytes[..6] != MAC_CONTROL || bytes[12..16] != [0x88, 0x08, 0x01, 0x01] {
            return None;
        }
        let mut pause = PauseFrame::default();
        for (priority, quanta) in pause.quanta.iter_mut().enumerate() {
            if bytes[17] >> priority & 1 == 1 {
                *quanta = Some(u16::from_be_bytes([bytes[18 + 2 * priority], bytes[19 + 2 * priority]]));
            }
        }
        Some(pause)
    }
}

/// As captures write it: `priority 3: stop`.
impl fmt::Display for PauseFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told =
            self.quanta.iter().enumerate().filter_map(|(priority, quanta)| Some((priority, (*quanta)?)));
        for (number, (priority, quanta)) in told.enumerate() {
            let separator = if number > 0 { ", " } else { "" };
            let word = if quanta > 0 { "stop" } else { "go on" };
            write!(f, "{separator}priority {priority}: {word}")?;
        }
        Ok(())
    }
}

/// How long `quanta` are on a link of `rate_bps`.
pub(crate) fn pause_ns(quanta: u16, rate_bps: u64) -> Nanos {
    let bits = u128::from(quanta) * u128::from(QUANTUM_BITS);
    (bits * 1_000_000_000).div_ceil(u128::from(rate_bps.max(1))) as Nanos
}

/// The longest pause there is. It is renewed while the cause lasts, and taken back when it ends.
pub(crate) const PAUSE_QUANTA: u16 = u16::MAX;
/// A quantum is the time of so many bits.
const QUANTUM_BITS: u64 = 512;
/// Where MAC control frames go: to the neighbour, and no further.
const MAC_CONTROL: Mac = [0x01, 0x80, 0xc2, 0, 0, 0x01];
/// The least Ethernet frame.
const LEN: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_frame_has_known_bytes() {
        let pause = PauseFrame::new(3, Signal::Xoff);
        let frame = pause.encode([2, 0, 0, 0, 0, 9]);
        assert_eq!(frame.bytes().len(), 60);
        assert_eq!(
            frame.bytes()[..26],
            [1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 8, 1, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
        );
        assert_eq!(PauseFrame::decode(&frame), Some(pause));
        let xon = PauseFrame::new(7, Signal::Xon);
        assert_eq!(PauseFrame::decode(&xon.encode([0; 6])), Some(xon));
    }

    #[test]
    fn a_pause_lasts_512_bits_a_quantum() {
        assert_eq!(pause_ns(1, 1_000_000_000), 512);
        assert_eq!(pause_ns(PAUSE_QUANTA, 100_000_000_000), 335_540);
    }

    #[test]
    fn the_account_signals_once_each_way() {
        let pfc = Pfc { xoff_bytes: 100, xon_bytes: 50, headroom_bytes: 60, ..Pfc::default() };
        let mut account = Account::default();
        assert_eq!(account.add(&pfc, 3, 60), None);
        assert_eq!(account.add(&pfc, 3, 60), Some(Signal::Xoff));
        assert_eq!(account.add(&pfc, 3, 20), None);
        assert!(account.is_paused(3) && !account.is_paused(4));
        assert!(account.has_room(&pfc, 3, 20) && !account.has_room(&pfc, 3, 21));
        assert_eq!(account.remove(&pfc, 3, 60), None);
        assert_eq!(account.remove(&pfc, 3, 60), Some(Signal::Xon));
        assert_eq!(account.remove(&pfc, 3, 20), None);
    }
}
