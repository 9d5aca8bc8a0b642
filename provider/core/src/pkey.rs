//! Partition keys: which packets a QP takes by their P_Key (IBTA 10.9).

/// The P_Key of every QP: a full member of the default partition. RoCE has no subnet manager that would set others, and
/// cards' tables have this one entry there.
pub const DEFAULT_PKEY: u16 = 0xffff;

/// Whether a packet with the P_Key `theirs` is for a QP with the P_Key `ours`: they name the same partition, and one of
/// the two at least is a full member of it (IBTA 10.9.3).
pub(crate) fn matches(ours: u16, theirs: u16) -> bool {
    let partition = |pkey: u16| pkey & !FULL_MEMBER;
    partition(ours) == partition(theirs) && (ours | theirs) & FULL_MEMBER != 0
}

/// The top bit is the membership, the others name the partition.
const FULL_MEMBER: u16 = 0x8000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_the_two_has_to_be_a_full_member() {
        for (ours, theirs, expected) in [
            (0xffff, 0xffff, true),
            (0xffff, 0x7fff, true),
            (0x7fff, 0xffff, true),
            (0x7fff, 0x7fff, false),
            (0x8001, 0x0001, true),
            (0x8001, 0x8002, false),
            (0xffff, 0x7ffe, false),
            (0xffff, 0x0000, false),
        ] {
            assert_eq!(matches(ours, theirs), expected, "{ours:#06x} {theirs:#06x}");
        }
    }
}
