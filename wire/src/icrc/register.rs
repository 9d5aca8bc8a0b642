//! The CRC register as a polynomial, so that it can be run backwards.
//!
//! Feeding n zero bytes multiplies the register by x^(8n) modulo the CRC's polynomial, and so does, for the difference
//! of two registers, feeding both the same n bytes. Multiplying by x^(−8n) takes the difference back to what it was
//! before those bytes.

/// The register `bytes` bytes earlier, if those bytes were zeros (or if it is a difference of two registers).
///
/// Bounded: one multiplication for each bit set in `bytes`.
pub(super) fn retreat(register: u32, bytes: usize) -> u32 {
    let mut register = register;
    let mut left = bytes;
    for power in BACKWARDS {
        if left & 1 != 0 {
            register = multiply(register, power);
        }
        left >>= 1;
    }
    debug_assert!(left == 0, "{bytes} bytes are more than a UDP datagram holds");
    register
}

/// The product of two polynomials modulo [`POLYNOMIAL`]. Bit 31 is the coefficient of x^0.
const fn multiply(left: u32, right: u32) -> u32 {
    let mut product = 0;
    let mut shifted = right;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        product ^= shifted & ((left >> bit) & 1).wrapping_neg();
        shifted = (shifted >> 1) ^ (POLYNOMIAL & (shifted & 1).wrapping_neg());
    }
    product
}

/// CRC-32 of Ethernet, reflected; x^32 is not written.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// Element k is x^(−8·2^k): 2^k bytes back.
const BACKWARDS: [u32; 17] = {
    let mut powers = [one_byte_back(); 17];
    let mut k = 1;
    while k < powers.len() {
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
};

const fn one_byte_back() -> u32 {
    const X_TO_THE_0: u32 = 1 << 31;
    let mut register = X_TO_THE_0;
    let mut bits = 8;
    while bits > 0 {
        // The step forward is `register >> 1`, with the polynomial added if a one fell out; the polynomial's top bit
        // then shows that it did.
        register = if register >> 31 != 0 { ((register ^ POLYNOMIAL) << 1) | 1 } else { register << 1 };
        bits -= 1;
    }
    register
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advance(register: u32, bytes: usize) -> u32 {
        (0..8 * bytes).fold(register, |r, _| (r >> 1) ^ (POLYNOMIAL & (r & 1).wrapping_neg()))
    }

    #[test]
    fn retreat_undoes_zero_bytes() {
        for bytes in (0..70).chain([255, 256, 1023, 4096, 4180, 65_535, 65_559]) {
            for register in [1, 0x8000_0000, 0xdead_beef, u32::MAX] {
                assert_eq!(retreat(advance(register, bytes), bytes), register, "{bytes} bytes");
            }
        }
    }
}
