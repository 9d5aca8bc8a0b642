//! DCQCN: a QP whose packets meet a long queue slows down (annex A17, RoCEv2 congestion management).
//!
//! A switch marks packets whose queue is long (ECN). The *notification point*, which receives a marked packet, answers
//! with a CNP ([`notification`]); the *reaction point*, whose QP the CNP names, slows down ([`reaction`]) and spaces its
//! packets out ([`pacing`]). None of them touches PSNs, retries or timers of the transport (W-47).
//!
//! UD takes no part: one QP sends to many peers there, and no single rate suits them.

pub(crate) mod notification;
mod pacing;
pub(crate) mod reaction;

use crate::{Nanos, Path};

/// Settings of DCQCN, with the names they have on ConnectX. The default is ConnectX's, but that nothing reacts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dcqcn {
    /// Whether marked packets are answered with CNPs. It costs next to nothing, and a peer that reacts needs it.
    pub notifies: bool,
    /// Which QPs react to CNPs. Their packets are sent as ECN-capable.
    pub reacts: Reacts,
    /// A QP sends no two CNPs closer together than this (`MIN_TIME_BETWEEN_CNPS`; 0, 2 or 4 µs by firmware).
    pub min_time_between_cnps_ns: Nanos,
    /// The rate of a QP that was told nothing, in bits per second: that of the link.
    pub line_rate_bps: u64,
    /// The rate after the first CNP (`RATE_TO_SET_ON_FIRST_CNP`); without it the line rate is cut as any other.
    pub rate_to_set_on_first_cnp_bps: Option<u64>,
    /// Weight of the past in alpha, in parts of 1024 (`DCE_TCP_G`).
    pub dce_tcp_g: u32,
    /// How often alpha is brought up to date (`DCE_TCP_RTT`).
    pub dce_tcp_rtt_ns: Nanos,
    /// Alpha at the first CNP, in parts of 1024 (`INITIAL_ALPHA`).
    pub initial_alpha: u32,
    /// The rate is cut at most once in this time (`RATE_REDUCE_MONITOR_PERIOD`).
    pub rate_reduce_monitor_period_ns: Nanos,
    /// The rate rises whenever no CNP has come for this time (`RPG_TIME_RESET`).
    pub rpg_time_reset_ns: Nanos,
    /// The rate rises whenever so many bytes were sent and no CNP has come (`RPG_BYTE_RESET`).
    pub rpg_byte_reset: u32,
    /// Rises, by time or by bytes, that only go back towards the rate before the cut (`RPG_THRESHOLD`).
    pub rpg_threshold: u32,
    /// What the target rises by then (`RPG_AI_RATE`), in bits per second.
    pub rpg_ai_rate_bps: u64,
    /// What it rises by once both time and bytes have passed the threshold (`RPG_HAI_RATE`).
    pub rpg_hai_rate_bps: u64,
    /// A cut takes alpha · 1024 / 2^`rpg_gd` of the rate (`RPG_GD`): with 11, half of it at most.
    pub rpg_gd: u32,
    /// What a cut leaves of the rate at least, in percent (`RPG_MIN_DEC_FAC`).
    pub rpg_min_dec_fac: u32,
    /// No cut goes below this rate (`RPG_MIN_RATE`).
    pub rpg_min_rate_bps: u64,
    /// Every CNP makes the present rate the target (`CLAMP_TGT_RATE`).
    pub clamp_tgt_rate: bool,
    /// A CNP does so if the rate has risen by time since the last one (`CLAMP_TGT_RATE_AFTER_TIME_INC`); it always does
    /// if it has risen by bytes.
    pub clamp_tgt_rate_after_time_inc: bool,
    /// A packet that could have left up to so long ago is made up for. 0 spaces packets exactly, which takes timers as
    /// exact as a card's; an engine in software wakes late and would lose what it is late by.
    pub late_ns: Nanos,
}

impl Default for Dcqcn {
    fn default() -> Self {
        Dcqcn {
            notifies: true,
            reacts: Reacts::Never,
            min_time_between_cnps_ns: 4_000,
            line_rate_bps: 100_000_000_000,
            rate_to_set_on_first_cnp_bps: None,
            dce_tcp_g: 1019,
            dce_tcp_rtt_ns: 1_000,
            initial_alpha: 1023,
            rate_reduce_monitor_period_ns: 4_000,
            rpg_time_reset_ns: 300_000,
            rpg_byte_reset: 32_767,
            rpg_threshold: 1,
            rpg_ai_rate_bps: 5_000_000,
            rpg_hai_rate_bps: 50_000_000,
            rpg_gd: 11,
            rpg_min_dec_fac: 50,
            rpg_min_rate_bps: 1_000_000,
            clamp_tgt_rate: false,
            clamp_tgt_rate_after_time_inc: true,
            late_ns: 0,
        }
    }
}

/// Which QPs react to CNPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reacts {
    /// None: CNPs are counted and ignored.
    #[default]
    Never,
    /// Those whose peer is on another host. No switch marks what stays on one.
    OffHost,
    /// All.
    Always,
}

impl Reacts {
    /// Whether a QP on `path` reacts.
    pub(crate) fn on(self, path: &Path) -> bool {
        match self {
            Reacts::Never => false,
            Reacts::OffHost => !path.is_local(),
            Reacts::Always => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn path(src: IpAddr, dst: IpAddr) -> Path {
        Path {
            src,
            dst,
            interface: 0,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            source_port: 0xc000,
            receiver: None,
        }
    }

    #[test]
    fn what_stays_on_the_host_does_not_react_off_host() {
        let [near, far] = [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)));
        let away = path(near, far);
        let same = path(near, near);
        let loopback = path(Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        let neighbour = Path { receiver: Some(3), ..away };
        for (path, off_host) in [(away, true), (same, false), (loopback, false), (neighbour, false)] {
            assert_eq!(Reacts::OffHost.on(&path), off_host, "{path:?}");
            assert!(Reacts::Always.on(&path) && !Reacts::Never.on(&path));
        }
    }
}
