//! XRC: RC's transport with an SRQ named in each request (transport.md 1.15, 4).

use crate::arena::Arena;
use crate::end::{ALL_ACCESS, End, PD, RECV_CQ, Setup, XRCD, init, wr};
use crate::pair::{Fate, Pair};
use crate::shot::*;
use crate::solo::{PEER, PEER_QPN, Solo, packets};
use crate::workload::{Job, Workload, arena_for, bad_link};
use ferroce_core::{
    AsyncEvent, Counter, CqId, CreateQpError, DestroySrqError, PathMtu, PdId, QpAttr, QpAttrMask, QpInit,
    QpState, QpType, Queue, RegionSpec, Remote, SendOp, SrqInit, Srqn, WcOpcode, WcStatus, XrcSrq, XrcdId,
};
use ferroce_wire::{NakCode, Opcode, Packet, Service};
use proptest::prelude::*;

/// An initiator in RTS, whose requests name this SRQ.
fn initiator() -> Solo {
    let mut solo = Solo::with(Setup::of(QpType::XrcIni));
    solo.end.remote = Remote::Srq(Srqn::new(0x77));
    solo
}

/// A target in RTS, with an SRQ in its domain.
fn target() -> Solo {
    Solo::with(Setup::of(QpType::XrcTgt))
}

fn pair() -> Pair {
    Pair::with(Setup::of(QpType::XrcIni), Setup::of(QpType::XrcTgt))
}

fn xrc_srq(end: &mut End, pd: PdId, xrcd: XrcdId, cq: CqId) -> Srqn {
    let init = SrqInit { pd, xrc: Some(XrcSrq { xrcd, cq }) };
    end.device.create_srq(init).expect("an SRQ")
}

fn statuses(end: &mut End) -> Vec<(u64, WcStatus)> {
    end.received().iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

#[test]
fn every_request_names_the_srq_and_no_response_does() {
    let mut pair = pair();
    let srqn = pair.b.srqn.expect("an SRQ");
    let srqns = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&srqns);
    pair.rule(move |_, packet: &Packet<'_>| {
        assert_eq!(packet.opcode().service(), Service::Xrc);
        let named = packet.xrceth().map(|xrceth| xrceth.srqn());
        seen.borrow_mut().push((packet.opcode().is_request(), named));
        Fate::Pass
    });
    let (rkey, source) = (pair.b.keys.rkey, pair.a.sge(0, 3000));
    let word = pair.a.sge(8, 8);
    let target = pair.b.sge(0, 4000);
    pair.b.post_recv(0, 1, &[target]);
    pair.b.post_recv(0, 2, &[target]);
    let va = Arena::BASE + 64;
    pair.a.post_send(0, wr(1, SendOp::Send, &[source]));
    pair.a.post_send(0, wr(2, SendOp::Write { va, rkey }, &[source]));
    pair.a.post_send(0, wr(3, SendOp::WriteImm { va, rkey, imm: [9; 4] }, &[source]));
    pair.a.post_send(0, wr(4, SendOp::Read { va, rkey }, &[source]));
    pair.a.post_send(0, wr(5, SendOp::FetchAdd { va, rkey, add: 1 }, &[word]));
    pair.run();
    assert_eq!(pair.a.sent(), [1, 2, 3, 4, 5].map(|wr_id| (wr_id, WcStatus::Success)));
    let completions: Vec<_> =
        pair.b.completions.iter().map(|c| (c.cq, c.queue, c.wc.qpn, c.wc.opcode)).collect();
    let done = |opcode| (RECV_CQ, Queue::Srq(srqn), pair.b.qpn, opcode);
    assert_eq!(completions, [done(WcOpcode::Recv), done(WcOpcode::RecvRdmaWithImm)]);
    let srqns = srqns.borrow();
    assert!(srqns.iter().all(|(request, named)| *named == request.then_some(srqn.value())));
    assert!(srqns.iter().filter(|(request, _)| !*request).count() >= 4);
}

#[test]
fn an_initiator_sends_as_rc_does() {
    let mut solo = initiator();
    let write = SendOp::Write { va: Arena::BASE, rkey: RKEY };
    let read = SendOp::Read { va: Arena::BASE, rkey: RKEY };
    solo.post_send(1, packets(2) + 1).post(2, write, packets(2)).post(3, read, packets(2));
    solo.tx(send_first(0)).tx(send_middle(1)).tx(send_last(2, 1));
    solo.tx(write_first(3, 0, RKEY, packets(2))).tx(write_last(4, MTU));
    solo.tx(read_request(5, 0, RKEY, packets(2))).idle();
    solo.rx(nak_seq(4, 1)).tx(write_last(4, MTU)).tx(read_request(5, 0, RKEY, packets(2)));
    solo.rx(ack(4, 2)).rx(read_first(5, 3)).rx(read_last(6, MTU, 3)).idle();
    assert_eq!(solo.end.sent(), [1, 2, 3].map(|wr_id| (wr_id, WcStatus::Success)));
}

#[test]
fn a_target_answers_as_rc_does() {
    let mut solo = target();
    let rkey = solo.rkey();
    solo.rx(send_only(0, 10)).tx(rnr_nak(0, 0, 1));
    solo.post_recv(1, 100).rx(send_only(0, 10)).tx(ack(0, 1));
    solo.rx(send_only(2, 10)).tx(nak_seq(1, 1));
    solo.rx(fetch_add(1, 64, rkey, 5)).tx(atomic_ack(1, 2, 0)).rx(fetch_add(1, 64, rkey, 5));
    solo.tx(atomic_ack(1, 2, 0)).rx(read_request(2, 0, rkey, packets(2)));
    solo.tx(read_first(2, 3)).tx(read_last(3, MTU, 3)).idle();
    assert_eq!(statuses(&mut solo.end), [(1, WcStatus::Success)]);
}

/// W-57.
#[test]
fn packets_that_go_the_wrong_way_are_dropped() {
    let mut solo = initiator();
    solo.rx(send_only(0, 10)).rx(read_request(0, 0, 1, 8)).idle();
    assert_eq!(solo.counter(Counter::DropService), 2);
    let mut solo = target();
    solo.rx(ack(0, 1)).rx(read_only(0, 8, 1)).idle();
    solo.rx_as_it_is(send_only(0, 10)).idle();
    assert_eq!(solo.counter(Counter::DropService), 3);
}

#[test]
fn each_request_finds_the_srq_that_it_names() {
    let mut pair = pair();
    let first = pair.b.srqn.expect("an SRQ");
    let other_cq = CqId(9);
    let second = xrc_srq(&mut pair.b, PD, XRCD, other_cq);
    let target = pair.b.sge(0, 5000);
    pair.b.post_recv(0, 1, &[target]);
    pair.b.srqn = Some(second);
    pair.b.post_recv(0, 2, &[target]);
    pair.b.post_recv(0, 3, &[target]);
    for (wr_id, srqn) in [(1, second), (2, first), (3, second)] {
        let source = pair.a.sge(0, 2500);
        let request = wr(wr_id, SendOp::Send, &[source]);
        pair.a.post_send(0, ferroce_core::SendWr { remote: Remote::Srq(srqn), ..request });
    }
    pair.run();
    let done: Vec<_> = pair.b.completions.iter().map(|c| (c.cq, c.queue, c.wc.wr_id)).collect();
    let (one, two) = (Queue::Srq(first), Queue::Srq(second));
    assert_eq!(done, [(other_cq, two, 2), (RECV_CQ, one, 1), (other_cq, two, 3)]);
}

/// W-56: R_Keys and the keys of receive WQEs are looked up in the SRQ's protection domain.
#[test]
fn the_srq_decides_the_protection_domain() {
    let mut pair = pair();
    let (own, other) = (pair.b.srqn.expect("an SRQ"), PdId(9));
    let second = xrc_srq(&mut pair.b, other, XRCD, RECV_CQ);
    let spec =
        RegionSpec { pd: other, addr: Arena::BASE, length: 1 << 16, iova: Arena::BASE, access: ALL_ACCESS };
    let keys = pair.b.device.register(spec).expect("a region");
    let (va, source) = (Arena::BASE, pair.a.sge(0, 3000));
    let ops: [SendOp; 3] = [
        SendOp::Write { va, rkey: keys.rkey },
        SendOp::Read { va, rkey: keys.rkey },
        SendOp::WriteImm { va, rkey: keys.rkey, imm: [0; 4] },
    ];
    let device = &mut pair.b.device;
    device
        .post_srq_recv(second, ferroce_core::RecvWr { wr_id: 1, sges: Default::default() })
        .expect("the SRQ");
    for (wr_id, op) in ops.into_iter().enumerate() {
        let request = wr(wr_id as u64, op, &[source]);
        pair.a.post_send(0, ferroce_core::SendWr { remote: Remote::Srq(second), ..request });
    }
    pair.run();
    assert_eq!(pair.a.sent(), [0, 1, 2].map(|wr_id| (wr_id, WcStatus::Success)));
    let request = wr(4, SendOp::Write { va, rkey: keys.rkey }, &[source]);
    pair.a.post_send(pair.now, ferroce_core::SendWr { remote: Remote::Srq(own), ..request });
    pair.run();
    assert_eq!(pair.a.sent(), [(4, WcStatus::RemAccessErr)]);
}

#[test]
fn an_srq_that_is_not_there_is_an_invalid_request() {
    let mut solo = target();
    let known = solo.end.srqn;
    let plain = solo.end.device.create_srq(SrqInit { pd: PD, xrc: None }).expect("an SRQ");
    for (number, shot) in [(plain, send_only(0, 1)), (Srqn::new(0xff_ffff), write_only(0, 0, 1, 0))] {
        solo.end.srqn = Some(number);
        solo.rx(shot).tx(nak(0, 0, NakCode::InvalidRequest)).idle();
        assert_eq!(solo.end.state(), QpState::Err);
        solo.end.assert_reason("no XRC SRQ");
        let qpn = solo.end.qpn;
        let expected = [AsyncEvent::QpReqErr(qpn), AsyncEvent::QpLastWqeReached(qpn)];
        let mut events = std::mem::take(&mut solo.end.asyncs);
        events.sort_by_key(|event| matches!(event, AsyncEvent::QpLastWqeReached(_)));
        assert_eq!(events, expected);
        solo.end.srqn = known;
        solo.end.enter(0, QpState::Reset);
        solo.end.enter_init();
        solo.end.enter_rtr(PEER, PEER_QPN);
        solo.end.enter_rts();
    }
    solo.post_recv(1, 10).rx(send_only(0, 1)).tx(ack(0, 1)).idle();
}

#[test]
fn an_srq_of_another_domain_is_out_of_reach() {
    let mut solo = target();
    solo.end.srqn = Some(xrc_srq(&mut solo.end, PD, XrcdId(6), RECV_CQ));
    solo.post_recv(1, 10).rx(send_only(0, 1)).tx(nak(0, 0, NakCode::RemoteAccessError)).idle();
    assert_eq!(statuses(&mut solo.end), []);
    assert!(solo.end.asyncs.contains(&AsyncEvent::QpAccessErr(solo.end.qpn)));
}

#[test]
fn an_srq_may_go_while_a_target_holds_its_wqe() {
    let mut solo = target();
    let srqn = solo.end.srqn.expect("an SRQ");
    solo.post_recv(1, 1000).post_recv(2, 1000).rx(send_first(0));
    assert_eq!(solo.end.device.destroy_srq(srqn), Ok(()));
    assert!(matches!(solo.end.device.destroy_srq(srqn), Err(DestroySrqError::Unknown(_))));
    solo.rx(send_last(1, 1)).tx(nak(1, 0, NakCode::InvalidRequest)).idle();
    assert_eq!(statuses(&mut solo.end), [(1, WcStatus::RemInvReqErr)]);
}

#[test]
fn a_target_in_the_error_state_leaves_its_srqs_alone() {
    let mut solo = target();
    solo.post_recv(1, 1000).post_recv(2, 1000).rx(send_first(0));
    solo.end.enter(0, QpState::Err);
    solo.idle();
    assert_eq!(statuses(&mut solo.end), [(1, WcStatus::WrFlushErr)]);
    assert_eq!(solo.end.asyncs, [AsyncEvent::QpLastWqeReached(solo.end.qpn)]);
    // The next target of the domain receives what is left.
    solo.end.qpn = solo.end.device.create_qp(init(&solo.end.setup)).expect("a QP");
    solo.end.enter_init();
    solo.end.enter_rtr(PEER, PEER_QPN);
    solo.rx(send_only(0, 1)).tx(ack(0, 1)).idle();
    assert_eq!(statuses(&mut solo.end), [(2, WcStatus::Success)]);
}

/// Class G, for an SRQ.
#[test]
fn an_srq_whose_cq_overruns_is_dead_and_its_neighbours_are_not() {
    let mut solo = target();
    let (alive, dead_cq) = (solo.end.srqn, CqId(9));
    let dead = xrc_srq(&mut solo.end, PD, XRCD, dead_cq);
    solo.post_recv(1, 10);
    solo.end.device.cq_overrun(0, dead_cq);
    solo.end.device.cq_overrun(0, dead_cq);
    solo.rx(send_only(0, 1)).tx(ack(0, 1));
    assert_eq!(solo.end.asyncs, [AsyncEvent::SrqErr(dead)]);
    solo.end.srqn = Some(dead);
    solo.rx(send_only(1, 1)).tx(nak(1, 1, NakCode::RemoteOperationalError)).idle();
    assert!(solo.end.asyncs.contains(&AsyncEvent::QpFatal(solo.end.qpn)));
    solo.end.srqn = alive;
    assert_eq!(statuses(&mut solo.end), [(1, WcStatus::Success)]);
}

#[test]
fn requests_that_cannot_be_sent_fail() {
    let mut solo = initiator();
    solo.end.remote = Remote::Peer;
    solo.post_send(1, 10).idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::LocQpOpErr)]);
    assert_eq!(solo.end.state(), QpState::Err);
    solo.end.assert_reason("names no SRQ");
    let mut solo = target();
    solo.post_send(1, 10).idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::LocQpOpErr)]);
    solo.end.assert_reason("SEND is nothing that QPs of type XRC_TGT do");
}

#[test]
fn what_a_qp_cannot_be_made_of_is_named() {
    let mut end = End::new(1, Setup::of(QpType::XrcTgt), 1 << 12);
    let srqn = end.srqn.expect("an SRQ");
    let plain = end.device.create_srq(SrqInit { pd: PD, xrc: None }).expect("an SRQ");
    let of = |qp_type| init(&Setup::of(qp_type));
    let mut refuse = |init: QpInit, error| assert_eq!(end.device.create_qp(init), Err(error));
    refuse(QpInit { xrcd: None, ..of(QpType::XrcTgt) }, CreateQpError::NoXrcd);
    for qp_type in [QpType::XrcIni, QpType::XrcTgt] {
        refuse(QpInit { srq: Some(plain), ..of(qp_type) }, CreateQpError::UnwantedSrq { qp_type });
    }
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni] {
        refuse(QpInit { xrcd: Some(XRCD), ..of(qp_type) }, CreateQpError::UnwantedXrcd { qp_type });
    }
    refuse(QpInit { srq: Some(srqn), ..of(QpType::Rc) }, CreateQpError::XrcSrq { srqn });
}

/// Transport.md 4.1: as an initiator has no responder it takes no attributes of one, and the other way round.
#[test]
fn attributes_of_the_half_that_is_not_there_are_refused() {
    let refused = |qp_type, to, attribute| {
        let mut end = End::new(1, Setup::of(qp_type), 1 << 12);
        end.enter_rtr(PEER, PEER_QPN);
        end.enter_rts();
        let attr = QpAttr { qp_state: to, ..QpAttr::default() };
        let mask = QpAttrMask::STATE | attribute;
        end.device.modify_qp(0, end.qpn, &attr, mask).is_err()
    };
    assert!(refused(QpType::XrcIni, QpState::Rts, QpAttrMask::MIN_RNR_TIMER));
    assert!(!refused(QpType::XrcTgt, QpState::Rts, QpAttrMask::MIN_RNR_TIMER));
    assert!(refused(QpType::XrcTgt, QpState::Rts, QpAttrMask::QKEY));
}

#[test]
fn a_write_with_a_bad_key_is_refused_as_on_rc() {
    let mut pair = pair();
    let (rkey, source) = (pair.b.keys.rkey ^ 1, pair.a.sge(0, 64));
    pair.a.post_send(0, wr(1, SendOp::Write { va: Arena::BASE, rkey }, &[source]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::RemAccessErr)]);
    assert!(pair.b.asyncs.contains(&AsyncEvent::QpAccessErr(pair.b.qpn)));
    assert_eq!(pair.traced(Opcode::XRC_ACKNOWLEDGE.name()), 1);
}

fn job() -> impl Strategy<Value = Job> {
    let len = prop_oneof![Just(0), 1..300u32, 0..12_000u32];
    prop_oneof![
        len.clone().prop_map(Job::Send),
        len.clone().prop_map(Job::SendImm),
        len.clone().prop_map(Job::Write),
        len.clone().prop_map(Job::WriteImm),
        len.prop_map(Job::Read),
        Just(Job::FetchAdd),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_workload_over_any_link_completes(
        jobs in prop::collection::vec(job(), 0..40),
        mtu in prop::sample::select(PathMtu::ALL.to_vec()),
        faults in prop::sample::select(vec![20u64, 50, 200]),
        seed in any::<u64>(),
    ) {
        let setup = |qp_type| Setup {
            mtu,
            retry_cnt: 7,
            sq_psn: 0xff_ffe0,
            rq_psn: 0xff_ffe0,
            ..Setup::of(qp_type)
        };
        let mut pair = Pair::sized(setup(QpType::XrcIni), setup(QpType::XrcTgt), arena_for(40));
        pair.rule(bad_link(seed, faults));
        Workload::new(jobs, vec![]).run(&mut pair);
    }
}
