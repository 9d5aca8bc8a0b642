//! The UDP source port of a connection.
//!
//! Switches spread flows over equal paths by it; no receiver looks at it. It stays fixed for a QP, because packets of
//! one QP must stay in order.

/// The source port for a flow label of an address vector, or for a pair of QPNs where that is 0.
///
/// The rule is the one that the Linux drivers share: both directions of a connection get the same port. The result is
/// then reduced to [`SOURCE_PORTS`], since each value costs a socket.
pub fn source_port(flow_label: u32, local_qpn: u32, remote_qpn: u32) -> u16 {
    let label = match flow_label & FLOW_LABEL_MASK {
        0 => label_of_pair(local_qpn, remote_qpn),
        label => label,
    };
    let hash = (label & 0x3fff) ^ (label >> 14);
    let reduced = hash ^ (hash >> 4) ^ (hash >> 8) ^ (hash >> 12);
    FIRST_SOURCE_PORT + (reduced & (SOURCE_PORTS - 1)) as u16
}

fn label_of_pair(local_qpn: u32, remote_qpn: u32) -> u32 {
    let mut value = u64::from(local_qpn) * u64::from(remote_qpn);
    value ^= value >> 20;
    value ^= value >> 40;
    value as u32 & FLOW_LABEL_MASK
}

/// The number of source ports in use; a power of two.
pub const SOURCE_PORTS: u32 = 16;

/// The first of them. RoCEv2 drivers use 0xC000 and up; Linux gives 32768 to 60999 to sockets without a port of their
/// own, so these are usually free.
pub const FIRST_SOURCE_PORT: u16 = 0xf000;

const FLOW_LABEL_MASK: u32 = 0xf_ffff;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn both_directions_have_the_same_port() {
        for (a, b) in [(0x01_0001, 0x02_0001), (17, 0xff_ffff), (0x01_0000, 5)] {
            assert_eq!(source_port(0, a, b), source_port(0, b, a));
        }
    }

    #[test]
    fn consecutive_qps_spread_over_all_ports_and_no_others() {
        let ports: HashSet<u16> = (0..256).map(|i| source_port(0, 0x01_0000 + i, 0x02_0000 + i)).collect();
        assert_eq!(ports.len(), SOURCE_PORTS as usize);
        assert!(ports.iter().all(|p| (0xf000..0xf010).contains(p)));
    }

    #[test]
    fn a_flow_label_decides_alone() {
        assert_eq!(source_port(0x12345, 1, 2), source_port(0x12345, 3, 4));
        assert_ne!(source_port(1, 1, 2), source_port(2, 1, 2));
        // Only 20 bits count.
        assert_eq!(source_port(0x10_0000, 7, 9), source_port(0, 7, 9));
    }
}
