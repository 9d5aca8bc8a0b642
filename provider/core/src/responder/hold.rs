//! Requests that arrived behind a gap, kept by a responder whose requester repeats selectively.

use crate::sack::{Bitmap, SPAN, bitmap};
use ferroce_wire::{Packet, Psn};
use std::collections::VecDeque;
use zerocopy::IntoBytes;

/// Packets behind the expected PSN, in PSN order, at most [`SPAN`].
#[derive(Default, Debug)]
pub(super) struct Hold {
    packets: VecDeque<(Psn, Box<[u8]>)>,
}

impl Hold {
    /// Keeps a packet that came too early; `false` if it is too far ahead.
    pub(super) fn insert(&mut self, expected: Psn, packet: &Packet<'_>) -> bool {
        let psn = packet.bth().psn();
        let distance = psn.distance_from(expected);
        if !(1..=SPAN as i32).contains(&distance) {
            return false;
        }
        if let Err(place) =
            self.packets.binary_search_by_key(&distance, |(psn, _)| psn.distance_from(expected))
        {
            self.packets.insert(place, (psn, bytes(packet)));
        }
        true
    }

    /// Takes the packet with the PSN that is expected now, if it is here.
    pub(super) fn take(&mut self, expected: Psn) -> Option<Box<[u8]>> {
        while self.packets.front().is_some_and(|(psn, _)| psn.is_before(expected)) {
            self.packets.pop_front();
        }
        let is_next = self.packets.front().is_some_and(|(psn, _)| *psn == expected);
        if is_next { self.packets.pop_front().map(|(_, bytes)| bytes) } else { None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// What is here, for the requester.
    pub(super) fn bitmap(&self, expected: Psn) -> Bitmap {
        bitmap(self.packets.iter().map(|(psn, _)| psn.distance_from(expected).max(0) as u32))
    }

    pub(super) fn clear(&mut self) {
        self.packets.clear();
    }
}

/// The packet as it came, but for what its pad bytes were.
fn bytes(packet: &Packet<'_>) -> Box<[u8]> {
    let pad = &[0; 3][..usize::from(packet.pad_count())];
    [packet.bth().as_bytes(), packet.extended_headers(), packet.payload(), pad, &packet.icrc()]
        .concat()
        .into()
}
