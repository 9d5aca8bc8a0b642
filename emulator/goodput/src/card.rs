//! The card of the experiments, where it differs from the transport's defaults.

use ferroce_core::Profile;

/// Every link, in bits per second.
pub const RATE_BPS: u64 = 100_000_000_000;

/// Local ACK timeout code: 262 µs. With the usual 14 each loss that only the timeout finds would cost 67 ms.
pub const TIMEOUT: u8 = 6;

/// A window that stays at 512 packets whatever is lost, as a card's does.
pub fn profile() -> Profile {
    Profile {
        window_packets: 512,
        first_window_packets: 512,
        window_shrinks: false,
        ack_req_interval: 16,
        ..Profile::default()
    }
}
