//! What a QP does in each state, and how it gets from one to the next (transport.md 4).

use crate::arena::Arena;
use crate::end::{End, SEND_CQ, Setup, init, wr};
use crate::pair::Pair;
use crate::shot::*;
use crate::solo::{PEER, PEER_QPN, Solo, packets};
use ferroce_core::{
    AsyncEvent, Counter, CqId, CreateQpError, Device, DeviceConfig, ModifyQpError, Profile, QpAttr,
    QpAttrMask, QpState, QpType, SendOp, WcStatus,
};
use ferroce_wire::{NakCode, Qpn};

const READ: SendOp = SendOp::Read { va: Arena::BASE, rkey: RKEY };

/// Handed case D10, transport.md X-27.
#[test]
fn the_error_state_flushes_both_queues_in_order_and_says_nothing() {
    let mut solo = Solo::new();
    for wr_id in 0..8 {
        solo.post_recv(wr_id, 1000);
        solo.post_send(wr_id + 100, 10);
    }
    solo.skip();
    solo.rx(send_first(0)).end.enter(0, QpState::Err);
    let flushed = |from: u64| (from..from + 8).map(|id| (id, WcStatus::WrFlushErr)).collect::<Vec<_>>();
    assert_eq!(solo.end.sent(), flushed(100));
    let received: Vec<_> = solo.end.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(received, flushed(0));
    assert_eq!(solo.end.asyncs, []);
    solo.rx(send_only(0, 10)).rx(ack(0, 1)).at(1 << 40).idle();
    assert_eq!(solo.counter(Counter::DropState), 2);
    // What is posted now is flushed at once.
    solo.post_recv(9, 10).post_send(10, 10).idle();
    assert_eq!(solo.end.sent(), [(10, WcStatus::WrFlushErr)]);
    assert_eq!(solo.end.received()[0].wr_id, 9);
}

#[test]
fn the_error_state_with_nothing_outstanding_makes_no_completion() {
    let mut solo = Solo::new();
    solo.end.enter(0, QpState::Err);
    solo.end.enter(0, QpState::Err);
    assert_eq!(solo.end.completions.len(), 0);
}

#[test]
fn answers_that_wait_are_dropped_when_the_error_state_is_asked_for() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.rx(read_request(0, 0, rkey, packets(3))).rx(send_only(3, 1));
    solo.end.enter(0, QpState::Err);
    solo.idle();
}

#[test]
fn a_nak_still_leaves_when_the_error_state_is_asked_for_after_the_fault() {
    let mut solo = Solo::new();
    solo.rx(send_middle(0));
    solo.end.enter(0, QpState::Err);
    solo.tx(nak(0, 0, NakCode::InvalidRequest)).idle();
}

#[test]
fn reset_forgets_everything_and_the_qp_serves_again() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.post_recv(1, 1000).post_send(2, 10).post(3, READ, 8).skip();
    solo.rx(read_request(0, 0, rkey, 8)).rx(send_first(1)).rx(nak_seq(0, 0)).rx(send_only(5, 1));
    solo.end.enter(0, QpState::Reset);
    solo.at(1 << 40).idle();
    assert_eq!(solo.end.completions.len(), 0);
    assert_eq!(solo.end.device.poll_timeout(), None);
    let query = solo.end.device.query_qp(solo.end.qpn).expect("the QP");
    assert_eq!(query, QpAttr::default());
    solo.end.enter_init();
    solo.end.setup.rq_psn = 100;
    solo.end.setup.sq_psn = 200;
    solo.end.enter_rtr(PEER, PEER_QPN);
    solo.end.enter_rts();
    solo.post_recv(4, 1000).post_send(5, 10).tx(send_only(200, 10)).rx(ack(200, 1));
    solo.rx(send_only(100, 10)).tx(ack(100, 1)).idle();
    assert_eq!(solo.end.sent(), [(5, WcStatus::Success)]);
    assert_eq!(solo.end.received()[0].wr_id, 4);
}

#[test]
fn a_qp_in_rtr_answers_but_asks_nothing() {
    let mut end = End::new(1, Setup { mtu: ferroce_core::PathMtu::Mtu256, ..Setup::default() }, 1 << 16);
    let packet = send_only(0, 10).bytes(PEER, end.address, end.qpn);
    let sge = end.sge(0, 100);
    end.post_recv(0, 1, &[sge]);
    end.handle_packet(0, PEER, &packet);
    assert!(end.transmit(0).is_empty(), "INIT answers nothing");
    end.enter_rtr(PEER, PEER_QPN);
    end.post_send(0, wr(2, SendOp::Send, &[sge]));
    end.handle_packet(0, PEER, &ack(0, 0).bytes(PEER, end.address, end.qpn));
    end.handle_packet(0, PEER, &packet);
    end.handle_packet(0, PEER, &packet);
    assert_eq!(end.transmit(0).len(), 1);
    assert_eq!(end.asyncs, [AsyncEvent::CommEst(end.qpn)]);
    assert_eq!(end.received().len(), 1);
    assert_eq!(end.device.counters().get(Counter::DropState), 2);
    end.enter_rts();
    assert_eq!(end.transmit(0).len(), 1, "what was posted early goes out in RTS");
}

///
#[test]
fn sqd_finishes_what_was_begun_and_begins_nothing() {
    let mut solo = Solo::new();
    solo.post_send(1, 300).post(2, READ, 8).tx(send_first(0)).skip();
    let attr = QpAttr { qp_state: QpState::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    solo.end.modify(0, attr, QpAttrMask::EN_SQD_ASYNC_NOTIFY);
    solo.post_send(3, 10).idle();
    assert!(solo.end.device.query_qp(solo.end.qpn).expect("the QP").sq_draining);
    solo.rx(nak_seq(1, 0)).tx(send_last(1, 44)).tx(read_request(2, 0, RKEY, 8)).idle();
    solo.rx(ack(1, 1));
    assert_eq!(solo.end.asyncs, []);
    solo.rx(read_only(2, 8, 2));
    assert_eq!(solo.end.asyncs, [AsyncEvent::SqDrained(solo.end.qpn)]);
    assert!(!solo.end.device.query_qp(solo.end.qpn).expect("the QP").sq_draining);
    // The responder goes on.
    solo.post_recv(7, 10).rx(send_only(0, 1)).tx(ack(0, 1)).idle();
    solo.end.modify(0, QpAttr { qp_state: QpState::Rts, ..QpAttr::default() }, QpAttrMask::empty());
    solo.tx(send_only(3, 10)).idle();
}

#[test]
fn sqd_with_nothing_begun_is_drained_at_once() {
    let mut solo = Solo::new();
    let attr = QpAttr { qp_state: QpState::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    solo.end.modify(0, attr, QpAttrMask::EN_SQD_ASYNC_NOTIFY);
    solo.end.collect();
    assert_eq!(solo.end.asyncs, [AsyncEvent::SqDrained(solo.end.qpn)]);
}

/// S-6; ConnectX and rxe report where the QP stands, not where it began.
#[test]
fn query_tells_the_next_psns_of_both_directions() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let mut solo = Solo::with(Setup { sq_psn: 0xff_ffff, rq_psn: 0x1000, ..Setup::of(qp_type) });
        let query = |solo: &Solo| {
            let attr = solo.end.device.query_qp(solo.end.qpn).expect("the QP");
            (attr.sq_psn.value(), attr.rq_psn.value())
        };
        assert_eq!(query(&solo), (0xff_ffff, 0x1000), "{qp_type}");
        solo.post_send(1, packets(3)).skip();
        solo.post_recv(2, packets(2)).rx(send_first(0x1000));
        assert_eq!(query(&solo), (2, 0x1001), "{qp_type}");
        if qp_type == QpType::Rc {
            solo.rx(nak_seq(0xff_ffff, 0));
            assert_eq!(query(&solo), (2, 0x1001), "what is sent again is not new");
        }
        solo.end.enter(0, QpState::Err);
        assert_eq!(query(&solo), (2, 0x1001), "{qp_type}");
        solo.end.enter(0, QpState::Reset);
        assert_eq!(query(&solo), (0, 0), "{qp_type}");
    }
}

/// A change in SQD holds for the first request after it.
#[test]
fn retry_counts_set_in_sqd_hold_at_once() {
    let mut solo = Solo::with(Setup { timeout: 1, retry_cnt: 7, rnr_retry: 6, ..Setup::default() });
    solo.end.enter(0, QpState::Sqd);
    let none = QpAttr { qp_state: QpState::Sqd, ..QpAttr::default() };
    solo.end.modify(0, none, QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY);
    solo.end.modify(0, QpAttr { qp_state: QpState::Rts, ..QpAttr::default() }, QpAttrMask::empty());
    solo.post_send(1, 10).tx(send_only(0, 10)).at(1 << 40).idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::RetryExcErr)]);
}

/// S-12, class G.
#[test]
fn a_cq_that_overruns_takes_its_qps_to_the_error_state() {
    let mut solo = Solo::new();
    let unused = solo.end.device.create_qp(init(&Setup::default())).expect("a QP");
    solo.post_recv(1, 10);
    solo.end.device.cq_overrun(0, CqId(77));
    assert_eq!(solo.end.state(), QpState::Rts);
    solo.end.device.cq_overrun(0, SEND_CQ);
    solo.end.collect();
    assert_eq!(solo.end.state(), QpState::Err);
    assert_eq!(solo.end.asyncs, [AsyncEvent::QpFatal(solo.end.qpn)]);
    assert_eq!(solo.end.device.qp_state(unused), Some(QpState::Reset));
    assert_eq!(solo.end.received()[0].status, WcStatus::WrFlushErr);
}

#[test]
fn a_destroyed_qp_is_not_heard_of_again() {
    let mut solo = Solo::new();
    solo.post_recv(1, 10).post_send(2, 10).rx(send_only(0, 1));
    solo.end.post_send(0, wr(3, SendOp::Send, &[]));
    let (device, qpn) = (&mut solo.end.device, solo.end.qpn);
    device.destroy_qp(qpn).expect("the QP");
    assert!(device.destroy_qp(qpn).is_err());
    assert_eq!((device.poll_timeout(), device.poll_completion(), device.poll_event()), (None, None, None));
    let mut batch = crate::end::Batch::default();
    device.poll_transmit(0, &solo.end.memory, &mut batch);
    assert!(batch.packets.is_empty());
    let packet = send_only(1, 1).bytes(PEER, solo.end.address, qpn);
    solo.end.handle_packet(0, PEER, &packet);
    assert_eq!(solo.counter(Counter::DropUnknownQpn), 1);
}

#[test]
fn a_refused_modify_changes_nothing() {
    let mut solo = Solo::new();
    let before = solo.end.device.query_qp(solo.end.qpn).expect("the QP");
    let attr = QpAttr { qp_state: QpState::Rts, min_rnr_timer: 32, ..QpAttr::default() };
    let mask = QpAttrMask::STATE | QpAttrMask::MIN_RNR_TIMER;
    assert!(solo.end.device.modify_qp(0, solo.end.qpn, &attr, mask).is_err());
    let unknown = Qpn::new(5);
    let result = solo.end.device.modify_qp(0, unknown, &attr, mask);
    assert_eq!(result, Err(ModifyQpError::UnknownQp { qpn: unknown }));
    assert_eq!(solo.end.device.query_qp(solo.end.qpn), Ok(before));
}

fn device(qpn_base: u32, qpn_count: u32, seed: u64) -> Device {
    Device::new(DeviceConfig { qpn_base, qpn_count, seed, profile: Profile::default() })
}

#[test]
fn qpns_follow_from_the_seed_and_are_not_used_again_soon() {
    let start = |seed| device(0x30000, 0x10000, seed).create_qp(init(&Setup::default())).expect("a QP");
    assert_eq!(start(1), start(1));
    assert_ne!(start(1), start(2));
    let mut device = device(0x30000, 0x10000, 1);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        let qpn = device.create_qp(init(&Setup::default())).expect("a QP");
        assert!((0x30000..0x40000).contains(&qpn.value()));
        assert!(seen.insert(qpn), "{qpn} came back");
        device.destroy_qp(qpn).expect("the QP");
    }
}

#[test]
fn qpns_run_out_with_a_message_and_never_include_the_reserved_ones() {
    for base in [0, 0xff_fff0] {
        let mut device = device(base, 16, 3);
        let mut qpns = Vec::new();
        let error = loop {
            match device.create_qp(init(&Setup::default())) {
                Ok(qpn) => qpns.push(qpn.value()),
                Err(error) => break error,
            }
        };
        qpns.sort_unstable();
        let expected: Vec<u32> = (base.max(2)..(base + 16).min(0xff_ffff)).collect();
        assert_eq!(qpns, expected);
        assert!(matches!(error, CreateQpError::TooManyQps { max: 16, .. }));
    }
}

/// Handed case D6.
#[test]
fn after_the_first_error_every_request_is_flushed() {
    let mut pair = Pair::new();
    let (good, source) = (pair.b.keys.rkey, pair.a.sge(0, 64));
    pair.a.post_send(0, wr(0, SendOp::Write { va: Arena::BASE, rkey: good }, &[source]));
    for wr_id in 1..10 {
        pair.a.post_send(pair.now, wr(wr_id, SendOp::Write { va: Arena::BASE, rkey: good ^ 1 }, &[source]));
        pair.run();
    }
    let mut expected = vec![(0, WcStatus::Success), (1, WcStatus::RemAccessErr)];
    expected.extend((2..10).map(|wr_id| (wr_id, WcStatus::WrFlushErr)));
    assert_eq!(pair.a.sent(), expected);
    // Handed case D5: by the NAK, not by a timeout.
    assert_eq!(pair.a.device.counters().get(Counter::LocalAckTimeoutErr), 0);
    assert_eq!((pair.a.state(), pair.b.state()), (QpState::Err, QpState::Err));
}

/// S-9, Q-28.
#[test]
fn a_peer_in_the_error_state_is_found_out_by_silence() {
    let mut pair = Pair::new();
    pair.b.enter(0, QpState::Err);
    pair.a.post_send(0, wr(1, SendOp::Send, &[]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::RetryExcErr)]);
}

/// Handed case D15.
#[test]
fn protection_domains_are_kept_apart_on_both_sides() {
    let other = |end: &mut End| {
        let spec = ferroce_core::RegionSpec {
            pd: ferroce_core::PdId(9),
            addr: Arena::BASE,
            length: 4096,
            iova: Arena::BASE,
            access: crate::end::ALL_ACCESS,
        };
        end.device.register(spec).expect("a region").lkey
    };
    let mut pair = Pair::new();
    let rkey = other(&mut pair.b);
    pair.a.memory.put(0, &[1; 64]);
    let source = pair.a.sge(0, 64);
    pair.a.post_send(0, wr(1, SendOp::Write { va: Arena::BASE, rkey }, &[source]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::RemAccessErr)]);
    assert_eq!(pair.b.memory.get(0, 64), [0; 64]);
    let mut pair = Pair::new();
    let lkey = other(&mut pair.a);
    let source = ferroce_core::Sge { lkey, ..pair.a.sge(0, 64) };
    let rkey = pair.b.keys.rkey;
    pair.a.post_send(0, wr(1, SendOp::Write { va: Arena::BASE, rkey }, &[source]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::LocProtErr)]);
    assert_eq!(pair.trace.len(), 0);
}

/// Handed case D19.
#[test]
fn ends_that_disagree_on_the_mtu_are_told_so() {
    use ferroce_core::PathMtu::{Mtu1024, Mtu4096};
    let setups = || (Setup { mtu: Mtu4096, ..Setup::default() }, Setup { mtu: Mtu1024, ..Setup::default() });
    let (a, b) = setups();
    let mut pair = Pair::with(a, b);
    let (rkey, source) = (pair.b.keys.rkey, pair.a.sge(0, 4096));
    pair.a.post_send(0, wr(1, SendOp::Write { va: Arena::BASE, rkey }, &[source]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::RemInvReqErr)]);
    pair.b.assert_reason("RC_WRITE_ONLY carried 4096 bytes but this QP's path MTU is 1024");
    let (a, b) = setups();
    let mut pair = Pair::with(a, b);
    let source = pair.a.sge(0, 512);
    pair.a.post_send(0, wr(1, SendOp::Write { va: Arena::BASE, rkey }, &[source]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
}
