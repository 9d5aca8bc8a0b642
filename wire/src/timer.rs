//! The two time codes of the transport: how long a receiver that is not ready asks to be left alone, and how long
//! a requester waits for an acknowledgement.

/// How long to wait after an RNR NAK with timer code `code`, in nanoseconds. Only the low five bits count; code 0
/// is the longest time, not none.
pub const fn rnr_timer_ns(code: u8) -> u64 {
    RNR_TIMER_US[(code & 0x1f) as usize] as u64 * 1_000
}

/// The local ACK timeout of code `code` in nanoseconds: 4.096 µs · 2^code. `None` for code 0, which waits for ever.
/// Only the low five bits count.
pub const fn ack_timeout_ns(code: u8) -> Option<u64> {
    match code & 0x1f {
        0 => None,
        code => Some(ACK_TIMEOUT_UNIT_NS << code),
    }
}

const ACK_TIMEOUT_UNIT_NS: u64 = 4_096;

/// Microseconds by RNR timer code. (Code 25 is 61.44 ms; rxe's own table says 61.41.)
const RNR_TIMER_US: [u32; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120,
    7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680,
    491_520,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnr_codes_have_their_times() {
        assert_eq!(rnr_timer_ns(0), 655_360_000);
        assert_eq!(rnr_timer_ns(1), 10_000);
        assert_eq!(rnr_timer_ns(12), 640_000);
        assert_eq!(rnr_timer_ns(26), 81_920_000);
        assert_eq!(rnr_timer_ns(31), 491_520_000);
        assert_eq!(rnr_timer_ns(32 + 7), rnr_timer_ns(7));
    }

    #[test]
    fn rnr_times_double_every_second_code() {
        for code in 2..=28 {
            // Code 1 to 3 count up in tens of microseconds; from 4 on, two codes double the time.
            if code >= 4 {
                assert_eq!(rnr_timer_ns(code + 2), 2 * rnr_timer_ns(code), "code {code}");
            }
            assert!(rnr_timer_ns(code) > rnr_timer_ns(code - 1));
        }
    }

    #[test]
    fn ack_timeouts_are_powers_of_two_of_four_microseconds() {
        assert_eq!(ack_timeout_ns(0), None);
        assert_eq!(ack_timeout_ns(1), Some(8_192));
        assert_eq!(ack_timeout_ns(14), Some(67_108_864));
        assert_eq!(ack_timeout_ns(31), Some(8_796_093_022_208));
        assert_eq!(ack_timeout_ns(32), None);
    }
}
