//! Conversions of `enum ibv_rate`: to and from multiples of 2.5 Gb/s, and Mb/s.

use libc::c_int;

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mult(code: c_int) -> c_int {
    find(|rate| rate.code == code).map_or(NO_RATE, |rate| if rate.mult == 0 { NO_RATE } else { rate.mult })
}

#[unsafe(no_mangle)]
extern "C" fn mult_to_ibv_rate(mult: c_int) -> c_int {
    find(|rate| rate.mult == mult && mult != 0).map_or(RATE_MAX, |rate| rate.code)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mbps(code: c_int) -> c_int {
    find(|rate| rate.code == code).map_or(NO_RATE, |rate| rate.mbps)
}

#[unsafe(no_mangle)]
extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    find(|rate| rate.mbps == mbps).map_or(RATE_MAX, |rate| rate.code)
}

fn find(matches: impl Fn(&Rate) -> bool) -> Option<&'static Rate> {
    RATES.iter().find(|rate| matches(rate))
}

/// A static rate.
struct Rate {
    /// Its value in `enum ibv_rate`.
    code: c_int,
    /// In multiples of 2.5 Gb/s; 0 where none is defined.
    mult: c_int,
    /// In Mb/s.
    mbps: c_int,
}

/// `IBV_RATE_MAX`: no limit, and the answer to a number that is no rate.
const RATE_MAX: c_int = 0;
/// The answer to a code that is no rate.
const NO_RATE: c_int = -1;

const fn rate(code: c_int, mult: c_int, mbps: c_int) -> Rate {
    Rate { code, mult, mbps }
}

static RATES: [Rate; 23] = [
    rate(2, 1, 2_500),
    rate(5, 2, 5_000),
    rate(3, 4, 10_000),
    rate(6, 8, 20_000),
    rate(4, 12, 30_000),
    rate(7, 16, 40_000),
    rate(8, 24, 60_000),
    rate(9, 32, 80_000),
    rate(10, 48, 120_000),
    rate(11, 0, 14_062),
    rate(12, 0, 56_250),
    rate(13, 0, 112_500),
    rate(14, 0, 168_750),
    rate(15, 0, 25_781),
    rate(16, 0, 103_125),
    rate(17, 0, 206_250),
    rate(18, 0, 309_375),
    rate(19, 11, 28_125),
    rate(20, 20, 53_125),
    rate(21, 160, 425_000),
    rate(22, 240, 637_500),
    rate(23, 320, 850_000),
    rate(24, 480, 1_275_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_each_others_inverse() {
        for rate in &RATES {
            assert_eq!(mbps_to_ibv_rate(ibv_rate_to_mbps(rate.code)), rate.code);
            if rate.mult != 0 {
                assert_eq!(mult_to_ibv_rate(ibv_rate_to_mult(rate.code)), rate.code);
            }
        }
    }

    #[test]
    fn a_code_without_a_rate_gives_minus_1_and_a_rate_without_a_code_gives_0() {
        assert_eq!((ibv_rate_to_mult(0), ibv_rate_to_mbps(0), ibv_rate_to_mbps(99)), (-1, -1, -1));
        assert_eq!((mult_to_ibv_rate(3), mult_to_ibv_rate(0), mbps_to_ibv_rate(1)), (0, 0, 0));
        assert_eq!(ibv_rate_to_mult(12), -1);
    }
}
