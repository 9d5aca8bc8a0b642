//! How long the local ACK timeout lasts.

use crate::Nanos;

/// The timeout of a QP with this code, after so many timeouts without any progress; `None`: there is none (code 0).
///
/// Nominal is 4.096 µs · 2^code (IBTA 9.7.6.1.3), and a card may take its time. So the first is nominal and the second
/// twice that, so that a lost packet is repaired soon. From the third on the peer rather seems to be stopped than a
/// packet lost, and they last as long as with ConnectX's default firmware, which takes twice the nominal time of at
/// least code 16. A peer that is dead is given up with the usual code 14 and 7 retries after 3.4 s; ConnectX-6 was seen to
/// take 3.5 s to 3.8 s, the formula would say 0.5 s. A process of a busy host may well be off its processor for so long.
pub(super) fn ack_timeout_ns(code: u8, timeouts_in_a_row: u8) -> Option<Nanos> {
    let nominal = ferroce_wire::ack_timeout_ns(code)?;
    match timeouts_in_a_row {
        0 => Some(nominal),
        1 => Some(2 * nominal),
        _ => Some(2 * ferroce_wire::ack_timeout_ns(code.max(PATIENT_CODE))?),
    }
}

/// Codes below this one count as this one when a peer is silent for long.
const PATIENT_CODE: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_timeout_is_shorter_than_nominal_or_than_the_one_before() {
        for code in 1..=31 {
            let timeouts: Vec<_> = (0..8).filter_map(|in_a_row| ack_timeout_ns(code, in_a_row)).collect();
            assert_eq!(timeouts[0], 4096 << code);
            assert!(timeouts.is_sorted(), "code {code}: {timeouts:?}");
        }
        assert_eq!(ack_timeout_ns(0, 0), None);
    }

    #[test]
    fn a_dead_peer_is_given_up_about_when_a_card_would() {
        let until =
            |code| (0..8).filter_map(|in_a_row| ack_timeout_ns(code, in_a_row)).sum::<Nanos>() / 1_000_000;
        assert_eq!(until(14), 3422);
        assert_eq!(until(20), 64_424);
    }
}
