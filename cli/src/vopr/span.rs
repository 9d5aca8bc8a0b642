//! Spans of time as people write them: `250us`, `10ms`, `2s`, `5m`, `1h`.

use std::time::Duration;

use ferroce_core::Nanos;

/// Reads a span.
///
/// # Errors
/// What a span looks like.
pub fn parse(text: &str) -> Result<Duration, String> {
    parse_ns(text).map(Duration::from_nanos)
}

/// Reads a span as nanoseconds.
///
/// # Errors
/// What a span looks like.
pub fn parse_ns(text: &str) -> Result<Nanos, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor: Option<Nanos> = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let span =
        number.parse::<Nanos>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    span.ok_or_else(|| "a number and a unit: ns, us, ms, s, m or h, as in 10ms".into())
}

const UNITS: [(&str, Nanos); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        let spans = ["0ns", "250us", "10ms", "2s", "5m", "1h"].map(parse_ns);
        let expected = [0, 250_000, 10_000_000, 2_000_000_000, 300_000_000_000, 3_600_000_000_000].map(Ok);
        assert_eq!(spans, expected);
        for wrong in ["", "10", "ms", "-1s", "1.5s", "10 ms", "1d", "99999999999h"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
