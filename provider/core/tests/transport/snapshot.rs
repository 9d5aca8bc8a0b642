//! Looking at a QP from outside.

use crate::shot::*;
use crate::solo::{Solo, packets};
use ferroce_core::{QpState, SendOp};
use ferroce_wire::{Psn, Qpn};

#[test]
fn a_snapshot_follows_the_requester() {
    let mut solo = Solo::new();
    let read = SendOp::Read { va: 0, rkey: RKEY };
    solo.post_send(10, packets(2)).post(11, read, packets(3)).post_send(12, 1);
    solo.tx(send_first(0)).tx(send_last(1, MTU));
    let snapshot = solo.end.device.snapshot(solo.end.qpn).expect("the QP");
    assert_eq!(snapshot.state, QpState::Rts);
    let requester = snapshot.requester.expect("RC has one");
    assert_eq!((requester.unacked, requester.next, requester.high), (Psn::new(0), Psn::new(6), Psn::new(6)));
    assert_eq!((requester.wqes, requester.begun, requester.reads_outstanding), (3, 3, 1));
    assert_eq!((requester.in_flight, requester.rnr_waiting), (3, false));
    let holders: Vec<_> = (0..7).map(|psn| solo.end.device.wr_at(solo.end.qpn, Psn::new(psn))).collect();
    assert_eq!(holders, [Some(10), Some(10), Some(11), Some(11), Some(11), Some(12), None]);
    solo.rx(ack(1, 1));
    let snapshot = solo.end.device.snapshot(solo.end.qpn).expect("the QP");
    let requester = snapshot.requester.expect("RC has one");
    assert_eq!((requester.unacked, requester.wqes, requester.in_flight), (Psn::new(2), 2, 1));
    assert_eq!(solo.end.device.wr_at(solo.end.qpn, Psn::new(1)), None);
}

#[test]
fn a_snapshot_follows_the_responder() {
    let mut solo = Solo::new();
    solo.post_recv(1, 1000).post_recv(2, 1000);
    let responder = |solo: &Solo| {
        let snapshot = solo.end.device.snapshot(solo.end.qpn).expect("the QP");
        let responder = snapshot.responder.expect("RC has one");
        (responder.expected, responder.msn)
    };
    solo.rx(send_first(0));
    assert_eq!(responder(&solo), (Psn::new(1), 0));
    solo.rx(send_last(1, 5));
    assert_eq!(responder(&solo), (Psn::new(2), 1));
    assert_eq!(solo.end.device.snapshot(Qpn::new(3)), None);
}
