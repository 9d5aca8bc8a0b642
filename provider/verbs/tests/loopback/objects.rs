//! Objects: limits, lifetimes, events.

use crate::end::{ALL, End, Plan, loopback, pair};
use ferroce::core::{QpAttr, QpAttrMask, QpState, QpType, RecvWr, SendOp, WcStatus};
use ferroce::{AsyncEventKind, Cq, CqSpec, ErrorKind, PostCause, Qp, QpSpec};

#[test]
fn a_full_send_queue_has_room_again_when_completions_are_polled() {
    let (a, b) = pair(Plan::default());
    for wr_id in 0..16 {
        b.recv(wr_id, b.sge(0, 64)).expect("posted");
        a.send(wr_id, SendOp::Send, a.sge(0, 8)).expect("posted");
    }
    let error = a.send(16, SendOp::Send, a.sge(0, 8)).expect_err("full");
    assert_eq!((error.index, error.cause), (0, PostCause::QueueFull { limit: 16 }));
    assert_eq!(error.cause.kind(), ErrorKind::NoRoom);
    for wr_id in 0..16 {
        assert_eq!(a.wait_success().wr_id, wr_id);
    }
    b.recv(16, b.sge(0, 64)).expect_err("the receives were not polled");
    assert_eq!(b.wait_success().wr_id, 0);
    b.recv(16, b.sge(0, 64)).expect("room for one");
    a.send(16, SendOp::Send, a.sge(0, 8)).expect("room again");
    a.wait_success();
}

#[test]
fn completions_survive_a_resize_and_bound_it() {
    let (a, b) = pair(Plan::default());
    for wr_id in 0..3 {
        b.recv(wr_id, b.sge(0, 64)).expect("posted");
        a.send(wr_id, SendOp::Send, a.sge(0, 8)).expect("posted");
    }
    a.wait_success();
    a.wait_success();
    a.wait_success();
    b.cq.resize(1000).expect("up");
    b.cq.resize(3).expect("down to what it holds");
    assert_eq!(b.cq.resize(2).expect_err("below").kind(), ErrorKind::Invalid);
    let ids: Vec<u64> = (0..3).map(|_| b.wait_success().wr_id).collect();
    assert_eq!(ids, [0, 1, 2]);
}

#[test]
fn objects_in_use_do_not_go_away() {
    let (a, _b) = pair(Plan::default());
    assert_eq!(a.cq.close().expect_err("the QP uses it").kind(), ErrorKind::Busy);
    assert_eq!(a.pd.close().expect_err("QP and region use it").kind(), ErrorKind::Busy);
    let End { qp, cq, mr, pd, .. } = a;
    qp.close().expect("closes");
    drop(qp);
    cq.close().expect("free now");
    drop(mr);
    pd.close().expect("free now");
}

#[test]
fn a_bad_rkey_is_an_error_here_and_an_event_there() {
    let (a, b) = pair(Plan::default());
    let op = SendOp::Write { va: b.addr(0), rkey: b.mr.rkey() ^ 1 };
    a.send(1, op, a.sge(0, 8)).expect("posted");
    a.send(2, op, a.sge(0, 8)).expect("posted");
    assert_eq!(a.wait().status, WcStatus::RemAccessErr);
    assert_eq!(a.wait().status, WcStatus::WrFlushErr);
    a.send(3, op, a.sge(0, 8)).expect("accepted in ERR");
    assert_eq!(a.wait().status, WcStatus::WrFlushErr);
    let event = b.context.next_async_event().expect("an event");
    assert_eq!((event.element, event.kind), (11, AsyncEventKind::QpAccessErr));
}

#[test]
fn a_notification_comes_once_for_the_next_completion() {
    let context = loopback().open().expect("opens");
    let channel = context.create_comp_channel().expect("a channel");
    let plan = Plan::default();
    let (mut a, b) = (End::new(&context, plan), End::new(&context, plan));
    let spec = CqSpec { cqe: 16, cookie: 99, channel: Some(&channel), ..CqSpec::default() };
    a.cq = context.create_cq(&spec).expect("a CQ");
    let spec = ferroce::QpSpec {
        qp_type: ferroce::core::QpType::Rc,
        send_cq: &a.cq,
        recv_cq: &a.cq,
        srq: None,
        caps: plan.caps,
        sq_sig_all: false,
        block_self_mcast: false,
        cookie: 1,
    };
    a.qp = a.pd.create_qp(&spec).expect("a QP");
    a.connect(&b, plan);
    b.connect(&a, plan);
    a.cq.req_notify(false).expect("armed");
    b.recv(1, b.sge(0, 64)).expect("posted");
    b.recv(2, b.sge(0, 64)).expect("posted");
    a.send(1, SendOp::Send, a.sge(0, 8)).expect("posted");
    // Nobody polls: the engine's thread has to move the packets.
    assert_eq!(channel.next_event().expect("an event"), 99);
    assert_eq!(a.wait_success().wr_id, 1);
    a.send(2, SendOp::Send, a.sge(0, 8)).expect("posted");
    assert_eq!(a.wait_success().wr_id, 2);
    assert_eq!(channel.users(), 1);
}

#[test]
fn keys_do_not_run_out_and_stale_ones_fail() {
    let (a, b) = pair(Plan::default());
    let addr = b.addr(0);
    let mut stale = None;
    for _ in 0..70_000 {
        // SAFETY: the buffer outlives the region, which is dropped at once.
        let mr = unsafe { b.pd.reg_mr(addr, 64, addr, ALL) }.expect("registered");
        stale.get_or_insert(mr.rkey());
    }
    a.send(1, SendOp::Write { va: addr, rkey: b.mr.rkey() }, a.sge(0, 8)).expect("posted");
    a.wait_success();
    let rkey = stale.expect("at least one");
    a.send(2, SendOp::Write { va: addr, rkey }, a.sge(0, 8)).expect("posted");
    assert_eq!(a.wait().status, WcStatus::RemAccessErr);
}

/// A CQ that is full, and QPs that complete into it, each with its receives flushed, by turns.
fn flushed(qps: usize, each: u32) -> (End, Cq, Vec<Qp>) {
    let plan = Plan::default();
    let end = End::new(&loopback().open().expect("the loopback device opens"), plan);
    let spec = CqSpec { cqe: qps as u32 * each, ..CqSpec::default() };
    let cq = end.context.create_cq(&spec).expect("a CQ");
    let spec = QpSpec {
        qp_type: QpType::Rc,
        send_cq: &cq,
        recv_cq: &cq,
        srq: None,
        caps: plan.caps,
        sq_sig_all: false,
        block_self_mcast: false,
        cookie: 0,
    };
    let qps: Vec<Qp> = (0..qps).map(|_| end.pd.create_qp(&spec).expect("a QP")).collect();
    for qp in &qps {
        to(qp, QpState::Init);
        to(qp, QpState::Err);
    }
    for round in 0..each {
        for (number, qp) in qps.iter().enumerate() {
            flush(qp, number as u64 * 1000 + u64::from(round));
        }
    }
    (end, cq, qps)
}

fn to(qp: &Qp, qp_state: QpState) {
    let mask = match qp_state {
        QpState::Init => QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS,
        _ => QpAttrMask::empty(),
    };
    qp.modify(&QpAttr { qp_state, ..QpAttr::default() }, None, mask | QpAttrMask::STATE).expect("it goes");
}

/// Posts a receive to a QP in ERR.
fn flush(qp: &Qp, wr_id: u64) {
    qp.post_recv([RecvWr { wr_id, sges: Default::default() }]).expect("there is room");
}

#[test]
fn completions_of_a_qp_that_goes_are_gone_and_the_others_stay_in_order() {
    let (_end, cq, mut qps) = flushed(3, 16);
    let first: Vec<u64> = cq.poll(4).expect("no overrun").iter().map(|wc| wc.wr_id).collect();
    assert_eq!(first, [0, 1000, 2000, 1]);
    drop(qps.remove(1));
    // There is room for what is gone.
    cq.resize(29).expect("what it holds");
    assert_eq!(cq.resize(28).expect_err("less than it holds").kind(), ErrorKind::Invalid);
    to(&qps[0], QpState::Reset);
    cq.resize(15).expect("what it holds");
    to(&qps[0], QpState::Init);
    to(&qps[0], QpState::Err);
    cq.resize(31).expect("room for 16 more");
    (0..16).for_each(|wr_id| flush(&qps[0], wr_id));
    let left: Vec<u64> = cq.poll(100).expect("no overrun").iter().map(|wc| wc.wr_id).collect();
    let expected: Vec<u64> = (2001..2016).chain(0..16).collect();
    assert_eq!(left, expected);
}

#[test]
fn a_cq_goes_with_completions_of_many_qps_that_went_before() {
    let (_end, cq, mut qps) = flushed(600, 16);
    let last = qps.pop().expect("there are some");
    drop(qps);
    let left: Vec<u64> = cq.poll(10_000).expect("no overrun").iter().map(|wc| wc.wr_id).collect();
    assert_eq!(left, (599_000..599_016).collect::<Vec<u64>>());
    drop(last);
    cq.close().expect("nobody uses it");
}
