//! Where the numbers and bytes of keys come from.

/// The numbers of keys: a seeded permutation of 0..2^24.
///
/// Slots are used from index 0 up, so that the table stays small, and yet a peer that knows one key learns
/// nothing about the next: a four-round Feistel network on two halves of 12 bits, undone by running it backwards.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    round_keys: [u32; 4],
}

impl Numbers {
    /// How many there are.
    pub(super) const COUNT: u32 = 1 << (2 * HALF_BITS);

    /// The permutation that follows from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        let mut stream = SplitMix(seed);
        Numbers { round_keys: std::array::from_fn(|_| stream.next() as u32) }
    }

    /// The number of the slot at `index`, which is below [`Numbers::COUNT`].
    #[inline]
    pub(super) fn of_index(&self, index: u32) -> u32 {
        let (mut left, mut right) = (index >> HALF_BITS, index & HALF_MASK);
        for key in self.round_keys {
            (left, right) = (right, left ^ round(right, key));
        }
        left << HALF_BITS | right
    }

    /// The index of the slot with `number`, which is below [`Numbers::COUNT`].
    #[inline]
    pub(super) fn to_index(&self, number: u32) -> u32 {
        let (mut left, mut right) = (number >> HALF_BITS, number & HALF_MASK);
        for key in self.round_keys.into_iter().rev() {
            (left, right) = (right ^ round(left, key), left);
        }
        left << HALF_BITS | right
    }
}

/// Mixes half a number with a round key: the top bits of a product, which depend on all bits below them.
#[inline]
fn round(half: u32, key: u32) -> u32 {
    (half ^ key).wrapping_mul(0x9e37_79b1) >> (32 - HALF_BITS)
}

const HALF_BITS: u32 = 12;
const HALF_MASK: u32 = (1 << HALF_BITS) - 1;

/// The first key bytes of slots. A key byte is never 0, so no key is 0.
#[derive(Clone, Debug)]
pub(super) struct KeyBytes {
    stream: SplitMix,
}

impl KeyBytes {
    /// The bytes that follow from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        // Apart from the stream that the permutation of the same seed is made from.
        KeyBytes { stream: SplitMix(!seed) }
    }

    /// The first byte of a new slot.
    pub(super) fn first(&mut self) -> u8 {
        (self.stream.next() % 255) as u8 + 1
    }

    /// The byte of a slot that was given up with `byte`.
    pub(super) fn after(byte: u8) -> u8 {
        byte.checked_add(1).unwrap_or(1)
    }
}

/// Sebastiano Vigna's SplitMix64: one addition and a mix for each number.
#[derive(Clone, Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_numbers() {
        let mut stream = SplitMix(1234567);
        assert_eq!(stream.next(), 6457827717110365317);
        assert_eq!(stream.next(), 3203168211198807973);
    }

    #[test]
    fn numbers_and_indexes_are_each_others_inverse() {
        for seed in [0, 1, u64::MAX] {
            let numbers = Numbers::new(seed);
            for index in (0..Numbers::COUNT).step_by(61) {
                let number = numbers.of_index(index);
                assert!(number < Numbers::COUNT);
                assert_eq!(numbers.to_index(number), index);
            }
        }
    }

    #[test]
    fn neighbours_get_numbers_far_apart() {
        let numbers = Numbers::new(7);
        let first: Vec<u32> = (0..1000).map(|index| numbers.of_index(index)).collect();
        let near = first.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < Numbers::COUNT / 1024).count();
        assert!(near < 20, "{near} of 1000 neighbours stay close");
        let other = Numbers::new(8);
        assert!((0..1000).all(|index| other.of_index(index) != first[index as usize]));
    }

    #[test]
    fn key_bytes_run_through_all_values_but_zero() {
        let mut byte = KeyBytes::new(3).first();
        let mut seen = [false; 256];
        for _ in 0..255 {
            seen[usize::from(byte)] = true;
            byte = KeyBytes::after(byte);
        }
        assert!(!seen[0]);
        assert!(seen[1..].iter().all(|&s| s));
    }
}
