//! SRQs: several QPs that receive through one queue, its limit, and the end of a QP (transport.md 3.7).

use crate::arena::Arena;
use crate::end::{ALL_ACCESS, End, PD, RECV_CQ, SEND_CQ, Setup, init, wr};
use crate::pair::Pair;
use crate::shot::*;
use crate::solo::{PEER, PEER_QPN, Solo, packets};
use crate::workload::{Job, Workload, arena_for, bad_link};
use ferroce_core::{
    AsyncEvent, Counter, CreateQpError, DestroySrqError, PathMtu, PdId, QpInit, QpState, QpType, Queue,
    RecvWr, RegionSpec, SendOp, Sge, SrqInit, Srqn, UnknownSrq, WcStatus,
};
use ferroce_wire::{NakCode, Qpn};

fn setup(qp_type: QpType) -> Setup {
    Setup { srq: true, mtu: PathMtu::Mtu256, ..Setup::of(qp_type) }
}

fn solo() -> Solo {
    Solo::with(setup(QpType::Rc))
}

fn statuses(end: &mut End) -> Vec<(u64, WcStatus)> {
    end.received().iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

/// One more QP on the same SRQ, in RTS; it becomes the one that the end speaks of.
fn another(end: &mut End) -> Qpn {
    end.qpn = end.device.create_qp(QpInit { srq: end.srqn, ..init(&end.setup) }).expect("a QP");
    end.enter_init();
    end.enter_rtr(PEER, PEER_QPN);
    end.enter_rts();
    end.qpn
}

#[test]
fn qps_take_from_one_queue_in_the_order_of_their_messages() {
    let mut solo = solo();
    let first = solo.end.qpn;
    let second = another(&mut solo.end);
    for wr_id in 1..=4 {
        solo.post_recv(wr_id, 1000);
    }
    let rx = |solo: &mut Solo, qpn, shot| {
        solo.end.qpn = qpn;
        solo.rx(shot);
    };
    rx(&mut solo, first, send_first(0));
    rx(&mut solo, second, send_only(0, 5));
    rx(&mut solo, first, send_last(1, 6));
    rx(&mut solo, second, send_only(1, 7));
    let done: Vec<_> = solo.end.completions.iter().map(|c| (c.cq, c.queue, c.wc.wr_id, c.wc.qpn)).collect();
    let queue = Queue::Srq(solo.end.srqn.expect("an SRQ"));
    let expected = [(2, second), (1, first), (3, second)].map(|(wr_id, qpn)| (RECV_CQ, queue, wr_id, qpn));
    assert_eq!(done, expected);
}

#[test]
fn an_empty_srq_puts_the_sender_off() {
    let mut solo = solo();
    solo.rx(send_only(0, 10)).tx(rnr_nak(0, 0, 1));
    solo.post_recv(1, 100).rx(send_only(0, 10)).tx(ack(0, 1)).idle();
    assert_eq!(statuses(&mut solo.end), [(1, WcStatus::Success)]);
}

#[test]
fn a_write_with_immediate_takes_from_the_srq_and_other_writes_do_not() {
    let mut pair = Pair::with(Setup::default(), setup(QpType::Rc));
    pair.a.setup.mtu = PathMtu::Mtu256;
    pair.b.post_recv(0, 1, &[]);
    let rkey = pair.b.keys.rkey;
    pair.a.post_send(0, wr(1, SendOp::Write { va: Arena::BASE, rkey }, &[]));
    pair.a.post_send(0, wr(2, SendOp::WriteImm { va: Arena::BASE, rkey, imm: [1; 4] }, &[]));
    pair.run();
    assert_eq!(statuses(&mut pair.b), [(1, WcStatus::Success)]);
}

/// P-26.
#[test]
fn the_limit_is_reached_once_and_has_to_be_armed_again() {
    let mut solo = solo();
    let srqn = solo.end.srqn.expect("an SRQ");
    for wr_id in 0..6 {
        solo.post_recv(wr_id, 10);
    }
    let limit = |solo: &Solo| solo.end.device.srq_limit(srqn).expect("the SRQ");
    let reached = AsyncEvent::SrqLimitReached(srqn);
    solo.end.device.arm_srq(srqn, 4).expect("the SRQ");
    solo.rx(send_only(0, 1)).rx(send_only(1, 1));
    assert_eq!((&solo.end.asyncs[..], limit(&solo)), (&[][..], 4), "four are not fewer than four");
    solo.rx(send_only(2, 1));
    assert_eq!((&solo.end.asyncs[..], limit(&solo)), (&[reached][..], 0));
    solo.rx(send_only(3, 1)).post_recv(6, 10).rx(send_only(4, 1));
    assert_eq!(solo.end.asyncs.len(), 1);
    solo.end.device.arm_srq(srqn, 2).expect("the SRQ");
    solo.rx(send_only(5, 1));
    assert_eq!(solo.end.asyncs, [reached, reached]);
    solo.end.device.arm_srq(srqn, 2).expect("the SRQ");
    solo.end.device.arm_srq(srqn, 0).expect("the SRQ");
    solo.rx(send_only(6, 1));
    assert_eq!(solo.end.asyncs.len(), 2);
}

/// P-27, transport.md X-27.
#[test]
fn the_error_state_leaves_the_srq_alone_and_says_when_the_last_wqe_is_done() {
    let mut solo = solo();
    for wr_id in 1..=3 {
        solo.post_recv(wr_id, 1000);
    }
    solo.rx(send_first(0)).end.enter(0, QpState::Err);
    solo.end.enter(0, QpState::Err);
    solo.idle();
    // P-24: the WQE of the message half received.
    assert_eq!(statuses(&mut solo.end), [(1, WcStatus::WrFlushErr)]);
    assert_eq!(solo.end.asyncs, [AsyncEvent::QpLastWqeReached(solo.end.qpn)]);
    another(&mut solo.end);
    solo.rx(send_only(0, 1)).rx(send_only(1, 1));
    assert_eq!(statuses(&mut solo.end), [(2, WcStatus::Success), (3, WcStatus::Success)]);
}

#[test]
fn a_request_that_ends_the_qp_takes_one_wqe_with_it() {
    let mut solo = solo();
    solo.post_recv(1, 10).post_recv(2, 10);
    solo.rx(send_only(0, 11)).tx(nak(0, 0, NakCode::InvalidRequest)).idle();
    assert_eq!(statuses(&mut solo.end), [(1, WcStatus::LocLenErr)]);
    assert_eq!(solo.end.asyncs, [AsyncEvent::QpLastWqeReached(solo.end.qpn)]);
}

#[test]
fn reset_without_an_error_says_nothing_of_the_last_wqe() {
    let mut solo = solo();
    solo.end.enter(0, QpState::Reset);
    solo.idle();
    assert_eq!(solo.end.asyncs, []);
}

#[test]
fn a_qp_that_goes_in_the_middle_of_a_message_gives_its_wqe_back() {
    let go: [fn(&mut End); 2] =
        [|end| end.device.destroy_qp(end.qpn).expect("the QP"), |end| end.enter(0, QpState::Reset)];
    for qp_type in [QpType::Rc, QpType::Uc] {
        for go in go {
            let mut solo = Solo::with(setup(qp_type));
            solo.post_recv(1, 1000).post_recv(2, 1000).rx(send_first(0));
            go(&mut solo.end);
            assert_eq!(statuses(&mut solo.end), []);
            another(&mut solo.end);
            solo.rx(send_only(0, 1)).rx(send_only(1, 1));
            assert_eq!(statuses(&mut solo.end), [(1, WcStatus::Success), (2, WcStatus::Success)]);
        }
    }
}

#[test]
fn keys_are_those_of_the_srqs_protection_domain() {
    let mut solo = solo();
    let other = PdId(9);
    let srqn = solo.end.device.create_srq(SrqInit { pd: other, xrc: None }).expect("an SRQ");
    let spec =
        RegionSpec { pd: other, addr: Arena::BASE, length: 4096, iova: Arena::BASE, access: ALL_ACCESS };
    let lkey = solo.end.device.register(spec).expect("a region").lkey;
    let own = solo.end.sge(0, 100);
    solo.end.srqn = Some(srqn);
    another(&mut solo.end);
    solo.end.post_recv(0, 1, &[Sge { lkey, ..own }]);
    solo.end.post_recv(0, 2, &[own]);
    solo.rx(send_only(0, 10)).rx(send_only(1, 10));
    assert_eq!(statuses(&mut solo.end), [(1, WcStatus::Success), (2, WcStatus::LocProtErr)]);
    assert_eq!(solo.end.memory.get(0, 3), [0, 1, 2]);
}

#[test]
fn a_bad_wqe_ends_the_qp_that_took_it_and_no_other() {
    let mut solo = solo();
    let first = solo.end.qpn;
    let bad = Sge { lkey: 1, ..solo.end.sge(0, 10) };
    solo.end.post_recv(0, 1, &[bad]);
    solo.post_recv(2, 10);
    solo.rx(send_only(0, 1)).tx(nak(0, 0, NakCode::RemoteOperationalError));
    assert_eq!(statuses(&mut solo.end), [(1, WcStatus::LocProtErr)]);
    assert_eq!(solo.end.asyncs, [AsyncEvent::QpLastWqeReached(first)]);
    another(&mut solo.end);
    solo.rx(send_only(0, 1)).tx(ack(0, 1)).idle();
    assert_eq!(statuses(&mut solo.end), [(2, WcStatus::Success)]);
}

/// Class E: what a UC message that is dropped took from an SRQ cannot go back.
#[test]
fn a_uc_message_that_is_dropped_costs_a_wqe() {
    let mut solo = Solo::with(setup(QpType::Uc));
    for wr_id in 1..=6 {
        solo.post_recv(wr_id, 300);
    }
    // A lost packet, a missing LAST, too long a message.
    solo.rx(send_first(0)).rx(send_last(2, 1)).rx(send_first(3)).rx(send_only(4, 1)).rx(send_first(5));
    solo.rx(send_last(6, 45)).rx(send_only(7, 2)).idle();
    let expected = [
        (1, WcStatus::RemInvReqErr),
        (2, WcStatus::RemInvReqErr),
        (3, WcStatus::Success),
        (4, WcStatus::RemInvReqErr),
        (5, WcStatus::Success),
    ];
    assert_eq!(statuses(&mut solo.end), expected);
    assert_eq!((solo.end.state(), &solo.end.asyncs[..]), (QpState::Rts, &[][..]));
    // What never held a WQE costs none.
    let rkey = solo.rkey();
    solo.rx(write_first(8, 0, rkey, 300)).rx(send_only(9, 2));
    assert_eq!(statuses(&mut solo.end), [(6, WcStatus::Success)]);
    solo.rx(send_only(10, 2)).idle();
    assert_eq!(solo.counter(Counter::OutOfBuffer), 1);
}

#[test]
fn datagram_qps_share_too_and_keep_a_wqe_that_is_too_small() {
    let mut pair = Pair::with(Setup::of(QpType::Ud), setup(QpType::Ud));
    let target = pair.b.sge(0, 50);
    pair.b.post_recv(0, 1, &[target]);
    let (remote, source) = (pair.a.to(&pair.b), pair.a.sge(0, 20));
    let small = Sge { length: 10, ..source };
    for (wr_id, sge) in [(1, source), (2, small), (3, small)] {
        let request = wr(wr_id, SendOp::Send, &[sge]);
        pair.a.post_send(0, ferroce_core::SendWr { remote: remote.clone(), ..request });
    }
    pair.run();
    assert_eq!(statuses(&mut pair.b), [(1, WcStatus::Success)]);
    let counters = pair.b.device.counters();
    assert_eq!((counters.get(Counter::RespLocalLengthError), counters.get(Counter::OutOfBuffer)), (1, 1));
    pair.b.enter(0, QpState::Err);
    pair.b.collect();
    assert_eq!(pair.b.asyncs, [AsyncEvent::QpLastWqeReached(pair.b.qpn)]);
}

#[test]
fn an_srq_that_is_used_stays() {
    let mut solo = solo();
    let srqn = solo.end.srqn.expect("an SRQ");
    let (first, second) = (solo.end.qpn, another(&mut solo.end));
    let device = &mut solo.end.device;
    assert_eq!(device.destroy_srq(srqn), Err(DestroySrqError::InUse { srqn, qps: 2 }));
    device.destroy_qp(first).expect("the QP");
    assert_eq!(device.destroy_srq(srqn), Err(DestroySrqError::InUse { srqn, qps: 1 }));
    device.destroy_qp(second).expect("the QP");
    device.post_srq_recv(srqn, RecvWr { wr_id: 1, sges: Default::default() }).expect("the SRQ");
    assert_eq!(device.destroy_srq(srqn), Ok(()));
    assert_eq!(device.poll_completion(), None);
    let gone = UnknownSrq { srqn };
    assert_eq!(device.destroy_srq(srqn), Err(gone.into()));
    assert_eq!(device.post_srq_recv(srqn, RecvWr { wr_id: 1, sges: Default::default() }), Err(gone));
    assert_eq!((device.arm_srq(srqn, 1), device.srq_limit(srqn)), (Err(gone), Err(gone)));
    let with_it = QpInit { srq: Some(srqn), ..init(&Setup::default()) };
    assert_eq!(device.create_qp(with_it), Err(CreateQpError::Srq(gone)));
    assert_eq!(device.qp_state(first), None);
}

#[test]
fn numbers_do_not_come_back_soon() {
    let mut solo = solo();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..2000 {
        let srqn = solo.end.device.create_srq(SrqInit { pd: PD, xrc: None }).expect("an SRQ");
        assert!(srqn.value() < 1 << 24 && seen.insert(srqn), "{srqn} came back");
        solo.end.device.destroy_srq(srqn).expect("the SRQ");
    }
    assert_eq!(Srqn::new(0xff12_3456).value(), 0x12_3456);
}

/// A CQ that overruns ends the QPs on it, not the SRQ.
#[test]
fn an_overrun_ends_qps_and_leaves_the_srq() {
    let mut solo = solo();
    solo.post_recv(1, 10);
    solo.end.device.cq_overrun(0, SEND_CQ);
    solo.end.collect();
    let qpn = solo.end.qpn;
    assert_eq!(solo.end.asyncs, [AsyncEvent::QpFatal(qpn), AsyncEvent::QpLastWqeReached(qpn)]);
    another(&mut solo.end);
    solo.rx(send_only(0, 1));
    assert_eq!(statuses(&mut solo.end), [(1, WcStatus::Success)]);
}

#[test]
fn a_bad_link_delivers_everything_once_and_in_order_through_srqs() {
    let jobs = |seed: u32| -> Vec<Job> {
        (0..200u32)
            .map(|n| match (n + seed) % 5 {
                0 => Job::Send(n * 37 % 5000),
                1 => Job::SendImm(n * 11 % 300),
                2 => Job::Write(n * 53 % 5000),
                3 => Job::Read(n * 53 % 5000),
                _ => Job::WriteImm(packets(n % 9)),
            })
            .collect()
    };
    for seed in 0..4 {
        let setup = Setup { retry_cnt: 7, mtu: PathMtu::Mtu1024, ..setup(QpType::Rc) };
        let mut pair = Pair::sized(setup.clone(), setup, arena_for(200));
        pair.rule(bad_link(seed, 60));
        Workload::new(jobs(1), jobs(2)).run(&mut pair);
    }
}
