//! The two 24-bit numbers of the base transport header: packet sequence numbers and queue pair numbers.

use core::fmt;

/// A packet sequence number: 24 bits, compared around the circle (IBTA C9-57 and following).
///
/// There is no `Ord`: which of two PSNs is earlier depends on which half of the circle they share, so the
/// question is asked by name ([`Psn::is_before`], [`Psn::distance_from`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// One more than the largest value.
    pub const MODULUS: u32 = 1 << 24;

    /// The PSN made of the low 24 bits of `value`, as the verbs treat `sq_psn` and `rq_psn`.
    pub const fn new(value: u32) -> Self {
        Psn(value & (Self::MODULUS - 1))
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The PSN `count` packets later.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Psn::new(self.0.wrapping_add(count))
    }

    /// The PSN `count` packets earlier.
    #[must_use]
    pub const fn minus(self, count: u32) -> Self {
        Psn::new(self.0.wrapping_sub(count))
    }

    /// How far `self` lies after `origin`, from −2^23 to 2^23 − 1.
    pub const fn distance_from(self, origin: Psn) -> i32 {
        (self.0.wrapping_sub(origin.0) << 8) as i32 >> 8
    }

    /// Whether `self` lies in the half circle behind `other`.
    pub const fn is_before(self, other: Psn) -> bool {
        self.distance_from(other) < 0
    }

    /// Whether `self` lies in the half circle ahead of `other`.
    pub const fn is_after(self, other: Psn) -> bool {
        self.distance_from(other) > 0
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A queue pair number: 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// QP 1, the general services interface, which carries the connection manager's datagrams.
    pub const GSI: Qpn = Qpn(1);
    /// The destination of every multicast datagram.
    pub const MULTICAST: Qpn = Qpn(0xff_ffff);

    /// The QPN made of the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Qpn(value & 0xff_ffff)
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qpn({:#08x})", self.0)
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_is_signed_and_wraps() {
        assert_eq!(Psn::new(0).distance_from(Psn::new(0xff_ffff)), 1);
        assert_eq!(Psn::new(0xff_ffff).distance_from(Psn::new(0)), -1);
        assert_eq!(Psn::new(0x80_0000).distance_from(Psn::new(0)), -0x80_0000);
        assert_eq!(Psn::new(0x7f_ffff).distance_from(Psn::new(0)), 0x7f_ffff);
        assert!(Psn::new(0xff_fff0).is_before(Psn::new(3)));
        assert!(Psn::new(3).is_after(Psn::new(0xff_fff0)));
        assert!(!Psn::new(7).is_before(Psn::new(7)));
    }

    #[test]
    fn arithmetic_stays_in_24_bits() {
        assert_eq!(Psn::new(0xff_ffff).plus(2), Psn::new(1));
        assert_eq!(Psn::new(1).minus(2), Psn::new(0xff_ffff));
        assert_eq!(Psn::new(0x1ff_ffff), Psn::new(0xff_ffff));
    }
}
