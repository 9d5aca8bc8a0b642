//! The notification point: which marked packets are answered with a CNP, and what is in it.

use crate::{Dcqcn, Nanos, Path};
use ferroce_wire::{Opcode, PacketHeader, Psn, Qpn};

/// The notification point of one QP.
#[derive(Default, Debug)]
pub(crate) struct NotificationPoint {
    /// A CNP is to be sent, with this P_Key: that of the marked packet (CA17-44).
    due: Option<u16>,
    /// The next CNP may not leave before.
    quiet_until: Nanos,
}

impl NotificationPoint {
    /// A packet of the peer arrived with the mark CE, whatever else is wrong with it (C-2).
    pub(crate) fn note_mark(&mut self, now: Nanos, pkey: u16, settings: &Dcqcn) {
        if settings.notifies && now >= self.quiet_until {
            self.due.get_or_insert(pkey);
        }
    }

    /// Whether a CNP waits to be sent.
    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// The CNP that waits, for the QP `dest` (W-45).
    pub(crate) fn cnp(&self, dest: Qpn) -> Option<PacketHeader> {
        let pkey = self.due?;
        Some(PacketHeader::new(Opcode::CNP, dest, Psn::new(0)).mig_req(false).pkey(pkey).becn(true))
    }

    /// The CNP has left.
    pub(crate) fn note_sent(&mut self, now: Nanos, settings: &Dcqcn) {
        self.due = None;
        self.quiet_until = now.saturating_add(settings.min_time_between_cnps_ns);
    }
}

/// The way of a CNP to the sender at the other end of `path`.
pub(crate) fn cnp_path(path: &Path) -> Path {
    Path { traffic_class: CNP_TRAFFIC_CLASS, ..*path }
}

/// DSCP 48 (`CNP_DSCP`), ECT(0), as ConnectX sends it.
const CNP_TRAFFIC_CLASS: u8 = 48 << 2 | 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cnp_in_an_interval() {
        let settings = Dcqcn { min_time_between_cnps_ns: 100, ..Dcqcn::default() };
        let mut point = NotificationPoint::default();
        assert!(!point.is_due());
        point.note_mark(5, 0xffff, &settings);
        point.note_mark(6, 0x7fff, &settings);
        assert!(point.is_due(), "the second is in the same CNP");
        point.note_sent(50, &settings);
        point.note_mark(149, 0xffff, &settings);
        assert!(!point.is_due(), "the interval counts from the CNP");
        point.note_mark(150, 0xffff, &settings);
        assert!(point.is_due());
    }

    #[test]
    fn off_is_off() {
        let settings = Dcqcn { notifies: false, ..Dcqcn::default() };
        let mut point = NotificationPoint::default();
        point.note_mark(5, 0xffff, &settings);
        assert!(!point.is_due() && point.cnp(Qpn::new(7)).is_none());
    }
}
