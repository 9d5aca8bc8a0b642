//! Numbers, times, places in memory and runs of bytes, as scripts write them.

use super::words::Reason;

/// A decimal number, or a hexadecimal one after `0x`; underscores are for readers.
pub(super) fn parse_number(text: &str) -> Result<u64, Reason> {
    let plain = text.replace('_', "");
    let parsed = match plain.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => plain.parse(),
    };
    parsed.map_err(|_| format!("{text} is no number"))
}

/// A number with a sign.
pub(super) fn parse_signed(text: &str) -> Result<i32, Reason> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = i32::try_from(parse_number(digits)?).map_err(|_| format!("{text} is too large"))?;
    Ok(sign * number)
}

/// A time, `0.64ms` or `20us`, in nanoseconds.
pub(super) fn parse_time(text: &str) -> Result<u64, Reason> {
    let units = [("ms", 1_000_000), ("us", 1_000), ("ns", 1), ("s", 1_000_000_000)];
    for (unit, scale) in units {
        if let Some(number) = text.strip_suffix(unit) {
            return scaled(number, scale).ok_or_else(|| format!("{text} is no time"));
        }
    }
    Err(format!("{text} is no time: write ns, us, ms or s behind the number"))
}

/// A decimal fraction times `scale`, exactly.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut value = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let mut unit = scale;
    for digit in fraction.chars() {
        unit /= 10;
        value = value.checked_add(u64::from(digit.to_digit(10)?).checked_mul(unit)?)?;
    }
    Some(value)
}

/// A place in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// So far from the start of the buffer; `at`, `at+16`, `at-8`.
    Buffer(i64),
    /// An address.
    Address(u64),
}

impl Place {
    pub(super) fn parse(text: &str) -> Result<Place, Reason> {
        match text.strip_prefix("at") {
            Some("") => Ok(Place::Buffer(0)),
            Some(offset) => parse_signed(offset).map(|offset| Place::Buffer(offset.into())),
            None => parse_number(text).map(Place::Address),
        }
    }
}

/// A remote key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    /// The buffer's.
    Good,
    /// One that differs from it in the key byte.
    Bad,
    /// This one.
    Number(u32),
}

impl Key {
    pub(super) fn parse(text: &str) -> Result<Key, Reason> {
        match text {
            "ok" => Ok(Key::Good),
            "bad" => Ok(Key::Bad),
            number => {
                let number = parse_number(number)?;
                u32::try_from(number).map(Key::Number).map_err(|_| format!("{text} has more than 32 bits"))
            }
        }
    }
}

/// Bytes of the sequence that messages are made of: `20` are its first twenty, `20@256` those from byte 256 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) len: usize,
    pub(super) from: usize,
}

impl Run {
    pub(super) fn parse(text: &str) -> Result<Run, Reason> {
        let (len, from) = text.split_once('@').unwrap_or((text, "0"));
        Ok(Run { len: parse_number(len)? as usize, from: parse_number(from)? as usize })
    }

    /// The bytes.
    pub(super) fn bytes(self) -> Vec<u8> {
        crate::lab::pattern(SEQUENCE, self.from + self.len).split_off(self.from)
    }
}

/// The seed of the sequence.
const SEQUENCE: u64 = 0x5c;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(parse_number("0xff_ff"), Ok(0xffff));
        assert_eq!([parse_signed("-3"), parse_signed("+3"), parse_signed("3")], [Ok(-3), Ok(3), Ok(3)]);
        assert_eq!(parse_time("0.64ms"), Ok(640_000));
        assert_eq!(parse_time("655.36ms"), Ok(655_360_000));
        assert_eq!(parse_time("2s"), Ok(2_000_000_000));
        for text in ["", "ms", "3", "1.x ms", "-1ms"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn places_keys_and_runs() {
        assert_eq!(Place::parse("at"), Ok(Place::Buffer(0)));
        assert_eq!(Place::parse("at-8"), Ok(Place::Buffer(-8)));
        assert_eq!(Place::parse("0x1000"), Ok(Place::Address(0x1000)));
        assert_eq!(Key::parse("bad"), Ok(Key::Bad));
        assert!(Key::parse("0x1_0000_0000").is_err());
        let run = Run::parse("4@2").expect("a run");
        assert_eq!(run.bytes(), Run { len: 6, from: 0 }.bytes()[2..]);
    }
}
