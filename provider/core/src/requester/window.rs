//! How many request packets may be in flight.
//!
//! A receiver in software has a socket buffer of a few hundred kilobytes, so a fixed window either wastes the
//! path or overruns it. This one grows while nothing is lost, halves on a loss, and never leaves its limits.

use crate::Profile;

/// The window of one QP, in packets.
#[derive(Debug)]
pub(super) struct Window {
    size: u32,
    limit: u32,
    /// Below this size the window grows by one for each packet acknowledged, above it by one for each window.
    threshold: u32,
    acked: u32,
    shrinks: bool,
}

impl Window {
    pub(super) fn new(profile: &Profile) -> Self {
        let limit = profile.window_packets.max(MIN_PACKETS);
        Window {
            size: profile.first_window_packets.clamp(MIN_PACKETS, limit),
            limit,
            threshold: limit,
            acked: 0,
            shrinks: profile.window_shrinks,
        }
    }

    /// Packets that may be in flight.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// `packets` were acknowledged.
    pub(super) fn grow(&mut self, packets: u32) {
        if self.size < self.threshold {
            self.size = (self.size + packets).min(self.threshold);
            return;
        }
        self.acked += packets;
        if self.acked >= self.size {
            self.acked = 0;
            self.size = (self.size + 1).min(self.limit);
        }
    }

    /// Something was lost.
    pub(super) fn halve(&mut self) {
        if !self.shrinks {
            return;
        }
        self.size = (self.size / 2).max(MIN_PACKETS);
        self.threshold = self.size;
        self.acked = 0;
    }
}

/// Smallest window. A few packets are worth keeping in flight on any path, since a single one that is lost
/// costs a timeout.
const MIN_PACKETS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_s_window_stays_as_it_is() {
        let profile = Profile {
            window_packets: 100,
            first_window_packets: 100,
            window_shrinks: false,
            ..Profile::default()
        };
        let mut window = Window::new(&profile);
        window.halve();
        assert_eq!(window.size(), 100);
    }

    #[test]
    fn halves_on_loss_and_grows_one_a_window() {
        let mut window =
            Window::new(&Profile { window_packets: 100, first_window_packets: 40, ..Profile::default() });
        window.grow(50);
        assert_eq!(window.size(), 90);
        window.grow(50);
        assert_eq!(window.size(), 100);
        window.halve();
        assert_eq!(window.size(), 50);
        window.grow(49);
        assert_eq!(window.size(), 50);
        window.grow(1);
        assert_eq!(window.size(), 51);
        for _ in 0..20 {
            window.halve();
        }
        assert_eq!(window.size(), MIN_PACKETS);
    }
}
