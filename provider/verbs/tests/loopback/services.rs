//! Services other than RC, SRQs and multicast groups, as applications use them.

use crate::end::{ALL, End, Plan, loopback};
use ferroce::core::{
    Payload, QpAttr, QpAttrMask, QpCaps, QpState, QpType, RecvWr, Remote, SendFlags, SendOp, SendWr, Sge,
    WcFlags, WcStatus,
};
use ferroce::{
    AhAttr, AsyncEventKind, ErrorKind, Gid, PostCause, PostError, Qp, QpSpec, Srq, SrqAttr, SrqSpec, Xrcd,
    XrcdFlags,
};
use ferroce_wire::Qpn;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering};

const QKEY: u32 = 0x1111_1111;
const GRH: usize = 40;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// An end whose QP does not matter.
fn end() -> End {
    End::new(&loopback().open().expect("the loopback device opens"), Plan::default())
}

fn spec(end: &End, qp_type: QpType) -> QpSpec<'_> {
    QpSpec {
        qp_type,
        send_cq: &end.cq,
        recv_cq: &end.cq,
        srq: None,
        caps: Plan::default().caps,
        sq_sig_all: true,
        block_self_mcast: false,
        cookie: 21,
    }
}

fn ah_attr(end: &End, own: &str, peer: &str) -> AhAttr {
    let gid = Gid::from_ip(ip(own));
    let gids = end.context.device().gids();
    let (sgid_index, _) = gids.iter().find(|(_, it)| *it == gid).expect("an address of the interface");
    AhAttr {
        is_global: true,
        dgid: Gid::from_ip(ip(peer)),
        sgid_index: *sgid_index,
        flow_label: 0,
        hop_limit: 1,
        traffic_class: 0,
        sl: 0,
        port_num: 1,
    }
}

fn modify(qp: &Qp, attr: QpAttr, mask: QpAttrMask) {
    qp.modify(&attr, None, QpAttrMask::STATE | mask).expect("a legal transition");
}

/// A UD QP in RTS.
fn datagram_qp(end: &End, change: impl FnOnce(&mut QpSpec<'_>)) -> Qp {
    let mut spec = spec(end, QpType::Ud);
    change(&mut spec);
    let qp = end.pd.create_qp(&spec).expect("a UD QP");
    let to = |qp_state| QpAttr { qp_state, qkey: QKEY, ..QpAttr::default() };
    modify(&qp, to(QpState::Init), QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY);
    modify(&qp, to(QpState::Rtr), QpAttrMask::empty());
    modify(&qp, to(QpState::Rts), QpAttrMask::SQ_PSN);
    qp
}

/// A connected QP in RTS, whose peer is `peer`.
fn connect(end: &End, qp: &Qp, peer: Qpn) {
    let qp_type = qp.init().qp_type;
    let init = QpAttr { qp_state: QpState::Init, access: ALL, ..QpAttr::default() };
    modify(qp, init, QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS);
    let responder = match qp_type {
        QpType::Uc | QpType::XrcIni => QpAttrMask::empty(),
        _ => QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER,
    };
    let requester = QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY | QpAttrMask::MAX_QP_RD_ATOMIC;
    let requester = match qp_type {
        QpType::Uc => QpAttrMask::empty(),
        QpType::XrcTgt => QpAttrMask::TIMEOUT,
        _ => QpAttrMask::TIMEOUT | requester,
    };
    let rtr = QpAttr {
        qp_state: QpState::Rtr,
        path_mtu: Plan::default().mtu,
        dest_qpn: peer,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 1,
        ..QpAttr::default()
    };
    let mask = QpAttrMask::AV | QpAttrMask::PATH_MTU | QpAttrMask::DEST_QPN | QpAttrMask::RQ_PSN | responder;
    let ah = ah_attr(end, "127.0.0.1", "127.0.0.1");
    qp.modify(&rtr, Some(&ah), QpAttrMask::STATE | mask).expect("INIT to RTR");
    let rts = QpAttr {
        qp_state: QpState::Rts,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        max_rd_atomic: 4,
        ..QpAttr::default()
    };
    modify(qp, rts, QpAttrMask::SQ_PSN | requester);
}

fn send_wr(wr_id: u64, op: SendOp, sge: Sge, remote: Remote) -> SendWr {
    let payload = Payload::Sges([sge].into_iter().collect());
    SendWr { wr_id, op, flags: SendFlags::SIGNALED, payload, remote }
}

fn recv_wr(wr_id: u64, sge: Sge) -> RecvWr {
    RecvWr { wr_id, sges: [sge].into_iter().collect() }
}

fn byte(end: &End, index: usize, offset: usize) -> u8 {
    // SAFETY: the buffer is longer than what the tests look at; the engine writes it as other threads write atomics.
    let byte = unsafe { AtomicU8::from_ptr((end.addr(index) as *mut u8).wrapping_add(offset)) };
    byte.load(Ordering::SeqCst)
}

#[test]
fn datagrams_arrive_with_their_sender_and_header_over_both_ip_versions() {
    for address in ["127.0.0.1", "::1"] {
        let mut a = end();
        let b = end();
        a.buffer[0] = u64::from_ne_bytes(*b"datagram");
        let (from, to) = (datagram_qp(&a, |_| {}), datagram_qp(&b, |_| {}));
        to.post_recv([recv_wr(5, b.sge(0, 100))]).expect("posted");
        let ah = a.pd.create_ah(&ah_attr(&a, address, address)).expect("an address handle");
        let remote = ah.remote(from.qpn(), to.qpn(), QKEY);
        drop(ah);
        from.post_send([send_wr(1, SendOp::SendImm { imm: [1, 2, 3, 4] }, a.sge(0, 8), remote)])
            .expect("posted");
        assert_eq!(a.wait_success().wr_id, 1);
        let wc = b.wait_success();
        assert_eq!((wc.wr_id, wc.byte_len, wc.src_qp, wc.qpn), (5, GRH as u32 + 8, from.qpn(), to.qpn()));
        assert_eq!((wc.flags, wc.imm), (WcFlags::GRH | WcFlags::WITH_IMM, [1, 2, 3, 4]));
        let payload: Vec<u8> = (GRH..GRH + 8).map(|offset| byte(&b, 0, offset)).collect();
        assert_eq!(payload, b"datagram");
        // W-21: the version stands where the version's header begins.
        let (version, at) = if ip(address).is_ipv4() { (4, 20) } else { (6, 0) };
        assert_eq!(byte(&b, 0, at) >> 4, version);
    }
}

#[test]
fn address_handles_that_lead_nowhere_are_refused() {
    let a = end();
    let good = ah_attr(&a, "127.0.0.1", "127.0.0.1");
    let kind = |attr: AhAttr| a.pd.create_ah(&attr).expect_err("leads nowhere").kind();
    assert_eq!(kind(AhAttr { is_global: false, ..good }), ErrorKind::Invalid);
    assert_eq!(kind(AhAttr { dgid: Gid::default(), ..good }), ErrorKind::Invalid);
    assert_eq!(kind(AhAttr { dgid: Gid::from_ip(ip("::1")), ..good }), ErrorKind::Invalid);
    assert_eq!(kind(AhAttr { sgid_index: 15, ..good }), ErrorKind::Absent);
    assert_eq!(kind(AhAttr { sgid_index: 99, ..good }), ErrorKind::Invalid);
    assert_eq!(kind(AhAttr { port_num: 2, ..good }), ErrorKind::Invalid);
}

#[test]
fn a_group_reaches_its_members_and_the_sender_itself() {
    let a = end();
    // Everybody on this host who is in the group hears it: other runs of this test, too.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let group = format!("239.255.{high}.{low}");
    let gid = Gid::from_ip(ip(&group));
    let (sender, other) = (datagram_qp(&a, |_| {}), datagram_qp(&a, |_| {}));
    let deaf = datagram_qp(&a, |spec| spec.block_self_mcast = true);
    for qp in [&sender, &other, &deaf] {
        qp.attach_mcast(gid).expect("joins");
        qp.attach_mcast(gid).expect("twice is as good as once");
        for wr_id in 0..4 {
            qp.post_recv([recv_wr(wr_id, a.sge(64, 100))]).expect("posted");
        }
    }
    let ah = a.pd.create_ah(&ah_attr(&a, "127.0.0.1", &group)).expect("an address handle");
    let hear = |qp: &Qp| {
        let remote = ah.remote(qp.qpn(), Qpn::MULTICAST, QKEY);
        qp.post_send([send_wr(9, SendOp::Send, a.sge(0, 8), remote)]).expect("posted");
        let mut heard: Vec<Qpn> = Vec::new();
        let members = if qp.qpn() == deaf.qpn() { 2 } else { 3 };
        while heard.len() < members {
            let wc = a.wait_success();
            heard.extend((wc.wr_id < 9).then_some(wc.qpn));
        }
        heard.sort();
        heard
    };
    let mut all = [sender.qpn(), other.qpn(), deaf.qpn()];
    all.sort();
    assert_eq!(hear(&sender), all);
    let mut others = [sender.qpn(), other.qpn()];
    others.sort();
    assert_eq!(hear(&deaf), others);
    assert_eq!(sender.close().expect_err("attached").kind(), ErrorKind::Busy);
    for qp in [&sender, &other, &deaf] {
        qp.detach_mcast(gid).expect("it was attached");
        assert_eq!(qp.detach_mcast(gid).expect_err("not any more").kind(), ErrorKind::Invalid);
        qp.close().expect("closes");
    }
    assert_eq!(a.qp.attach_mcast(gid).expect_err("an RC QP").kind(), ErrorKind::Invalid);
    let unicast = Gid::from_ip(ip("127.0.0.1"));
    let ud = datagram_qp(&a, |_| {});
    assert_eq!(ud.attach_mcast(unicast).expect_err("no group").kind(), ErrorKind::Invalid);
}

fn srq(end: &End, max_wr: u32) -> Srq {
    let spec = SrqSpec { max_wr, max_sge: 2, xrc: None, cookie: 31 };
    end.pd.create_srq(&spec).expect("an SRQ")
}

#[test]
fn an_srq_serves_several_qps_and_has_room_again_when_completions_are_polled() {
    let (a, b) = (end(), end());
    let srq = srq(&b, 4);
    let make = |end: &End, srq| end.pd.create_qp(&QpSpec { srq, ..spec(end, QpType::Rc) }).expect("a QP");
    let pairs = [0, 1].map(|_| (make(&a, None), make(&b, Some(&srq))));
    for (from, to) in &pairs {
        connect(&a, from, to.qpn());
        connect(&b, to, from.qpn());
    }
    for wr_id in 0..4 {
        srq.post_recv([recv_wr(wr_id, b.sge(0, 64))]).expect("posted");
    }
    let full = srq.post_recv([recv_wr(4, b.sge(0, 64))]).expect_err("full");
    assert!(matches!(full, PostError { index: 0, cause: PostCause::QueueFull { limit: 4 } }));
    for n in 0..4 {
        pairs[n % 2]
            .0
            .post_send([send_wr(n as u64, SendOp::Send, a.sge(0, 8), Remote::Peer)])
            .expect("posted");
        a.wait_success();
    }
    srq.post_recv([recv_wr(4, b.sge(0, 64))]).expect_err("the receives were not polled");
    for n in 0..4 {
        let wc = b.wait_success();
        assert_eq!((wc.wr_id, wc.qpn), (n, pairs[n as usize % 2].1.qpn()));
    }
    srq.post_recv([recv_wr(4, b.sge(0, 64))]).expect("room again");
    assert_eq!(srq.close().expect_err("QPs use it").kind(), ErrorKind::Busy);
    let own = pairs[0].1.post_recv([recv_wr(1, b.sge(0, 8))]).expect_err("no queue of its own");
    assert_eq!(own.cause, PostCause::NoReceiveQueue);
    let too_long = RecvWr { wr_id: 1, sges: vec![b.sge(0, 8); 3].into() };
    assert!(matches!(srq.post_recv([too_long]), Err(PostError { cause: PostCause::TooManySges { .. }, .. })));
    drop(pairs);
    srq.close().expect("closes");
}

#[test]
fn an_srq_has_room_again_when_completions_go_with_their_qp() {
    let (a, b) = (end(), end());
    let srq = srq(&b, 4);
    let make = |end: &End, srq| end.pd.create_qp(&QpSpec { srq, ..spec(end, QpType::Rc) }).expect("a QP");
    let (from, to) = (make(&a, None), make(&b, Some(&srq)));
    connect(&a, &from, to.qpn());
    connect(&b, &to, from.qpn());
    for wr_id in 0..4 {
        srq.post_recv([recv_wr(wr_id, b.sge(0, 64))]).expect("posted");
    }
    for wr_id in 0..3 {
        from.post_send([send_wr(wr_id, SendOp::Send, a.sge(0, 8), Remote::Peer)]).expect("posted");
        a.wait_success();
    }
    assert_eq!(b.wait_success().wr_id, 0);
    drop(to);
    (0..3).for_each(|wr_id| srq.post_recv([recv_wr(wr_id, b.sge(0, 64))]).expect("room again"));
    srq.post_recv([recv_wr(3, b.sge(0, 64))]).expect_err("one is left from before");
    assert_eq!(b.cq.poll(10).expect("no overrun").len(), 0);
}

/// Handed case D13.
#[test]
fn an_srq_is_as_large_as_it_says() {
    let b = end();
    let srq = srq(&b, 4);
    let attr = |max_wr, limit| SrqAttr { max_wr, max_sge: 2, limit };
    assert_eq!(srq.query().expect("attributes"), attr(4, 0));
    for wr_id in 0..3 {
        srq.post_recv([recv_wr(wr_id, b.sge(0, 64))]).expect("posted");
    }
    for (max_wr, limit) in [(Some(2), None), (Some(0), None), (Some(1 << 20), None), (None, Some(5))] {
        assert_eq!(srq.modify(max_wr, limit).expect_err("impossible").kind(), ErrorKind::Invalid);
    }
    assert_eq!(srq.query().expect("attributes"), attr(4, 0));
    srq.modify(Some(8), Some(7)).expect("grows");
    assert_eq!(srq.query().expect("attributes"), attr(8, 7));
    for wr_id in 3..8 {
        srq.post_recv([recv_wr(wr_id, b.sge(0, 64))]).expect("posted");
    }
    srq.post_recv([recv_wr(8, b.sge(0, 64))]).expect_err("full");
    srq.modify(Some(100), None).expect("grows");
    srq.post_recv([recv_wr(8, b.sge(0, 64))]).expect("room");
    for (max_wr, max_sge) in [(0, 1), (1 << 20, 1), (1, 1000)] {
        let spec = SrqSpec { max_wr, max_sge, xrc: None, cookie: 1 };
        assert_eq!(b.pd.create_srq(&spec).expect_err("impossible").kind(), ErrorKind::Invalid);
    }
}

#[test]
fn an_srq_tells_of_its_limit_and_a_qp_of_its_last_wqe() {
    let (a, b) = (end(), end());
    let srq = srq(&b, 8);
    let from = a.pd.create_qp(&spec(&a, QpType::Rc)).expect("a QP");
    let to = b.pd.create_qp(&QpSpec { srq: Some(&srq), ..spec(&b, QpType::Rc) }).expect("a QP");
    connect(&a, &from, to.qpn());
    connect(&b, &to, from.qpn());
    for wr_id in 0..3 {
        srq.post_recv([recv_wr(wr_id, b.sge(0, 64))]).expect("posted");
    }
    srq.modify(None, Some(3)).expect("armed");
    from.post_send([send_wr(1, SendOp::Send, a.sge(0, 8), Remote::Peer)]).expect("posted");
    b.wait_success();
    let event = b.context.next_async_event().expect("an event");
    assert_eq!((event.element, event.kind), (31, AsyncEventKind::SrqLimitReached));
    assert_eq!(srq.query().expect("attributes").limit, 0);
    modify(&to, QpAttr { qp_state: QpState::Err, ..QpAttr::default() }, QpAttrMask::empty());
    let event = b.context.next_async_event().expect("an event");
    assert_eq!((event.element, event.kind), (21, AsyncEventKind::QpLastWqeReached));
    to.ack_async_event();
    drop(to);
    srq.ack_async_event();
    srq.close().expect("closes");
}

fn target(end: &End, xrcd: &Xrcd, cookie: u64) -> Qp {
    let target = xrcd.create_target(cookie).expect("a target");
    assert_eq!(end.context.device().name(), loopback().name());
    target
}

#[test]
fn an_initiator_reaches_every_srq_of_the_targets_domain() {
    let (a, b) = (end(), end());
    let xrcd = b.context.open_xrcd(None, XrcdFlags::default()).expect("a domain");
    let make = |cookie| {
        let spec = SrqSpec { max_wr: 4, max_sge: 1, xrc: Some((&xrcd, &b.cq)), cookie };
        b.pd.create_srq(&spec).expect("an SRQ")
    };
    let srqs = [make(1), make(2)];
    assert_ne!(srqs[0].srqn(), srqs[1].srqn());
    let to = target(&b, &xrcd, 5);
    let from = a.pd.create_qp(&spec(&a, QpType::XrcIni)).expect("an initiator");
    connect(&a, &from, to.qpn());
    connect(&b, &to, from.qpn());
    for (wr_id, srq) in (0..).zip(&srqs) {
        srq.post_recv([recv_wr(wr_id, b.sge(0, 64))]).expect("posted");
    }
    for (wr_id, srq) in [(1, &srqs[1]), (0, &srqs[0])] {
        let remote = Remote::Srq(srq.srqn());
        from.post_send([send_wr(wr_id, SendOp::Send, a.sge(0, 8), remote)]).expect("posted");
        a.wait_success();
        let wc = b.wait_success();
        assert_eq!((wc.wr_id, wc.qpn), (wr_id, to.qpn()));
    }
    for qp in [&from, &to] {
        let error = qp.post_recv([recv_wr(1, b.sge(0, 8))]).expect_err("no queue of its own");
        assert_eq!(error.cause, PostCause::NoReceiveQueue);
    }
    let error = to.post_send([send_wr(1, SendOp::Send, a.sge(0, 8), Remote::Peer)]).expect_err("a target");
    assert_eq!(error.cause.kind(), ErrorKind::Invalid);
    assert_eq!(xrcd.close().expect_err("it has SRQs and a target").kind(), ErrorKind::Busy);
    assert_eq!(b.cq.close().expect_err("the SRQs complete there").kind(), ErrorKind::Busy);
    from.post_send([send_wr(3, SendOp::Send, a.sge(0, 8), Remote::Srq(ferroce::core::Srqn::new(0xff_ffff)))])
        .expect("posted");
    assert_eq!(a.wait().status, WcStatus::RemInvReqErr);
    drop(to);
    drop(srqs);
    xrcd.close().expect("closes");
}

#[test]
fn a_target_lives_as_long_as_its_last_handle() {
    let (a, b) = (end(), end());
    let file = tempfile::tempfile().expect("a file");
    let flags = |create, exclusive| XrcdFlags { create, exclusive };
    let open = |flags| b.context.open_xrcd(Some(file.as_fd()), flags);
    assert_eq!(open(flags(false, false)).expect_err("nobody has it").kind(), ErrorKind::Os(libc::EAGAIN));
    let first = open(flags(true, true)).expect("a domain");
    assert_eq!(open(flags(true, true)).expect_err("it is there").kind(), ErrorKind::Invalid);
    let second = open(flags(false, false)).expect("the same domain");
    let other = b.context.open_xrcd(None, XrcdFlags::default()).expect("another domain");
    let made = target(&b, &first, 5);
    assert_eq!(other.open_target(made.qpn(), 6).expect_err("not of it").kind(), ErrorKind::Invalid);
    let opened = second.open_target(made.qpn(), 7).expect("a handle");
    let srq_spec = SrqSpec { max_wr: 4, max_sge: 1, xrc: Some((&second, &b.cq)), cookie: 1 };
    let srq = b.pd.create_srq(&srq_spec).expect("an SRQ");
    let from = a.pd.create_qp(&spec(&a, QpType::XrcIni)).expect("an initiator");
    connect(&a, &from, made.qpn());
    connect(&b, &opened, from.qpn());
    made.close().expect("closes");
    drop(made);
    first.close().expect("closes");
    srq.post_recv([recv_wr(1, b.sge(0, 64))]).expect("posted");
    let remote = Remote::Srq(srq.srqn());
    from.post_send([send_wr(1, SendOp::Send, a.sge(0, 8), remote)]).expect("posted");
    a.wait_success();
    assert_eq!(b.wait_success().wr_id, 1);
    let qpn = opened.qpn();
    modify(&opened, QpAttr { qp_state: QpState::Err, ..QpAttr::default() }, QpAttrMask::empty());
    let event = b.context.next_async_event().expect("an event");
    assert_eq!((event.element, event.kind), (7, AsyncEventKind::QpLastWqeReached));
    opened.ack_async_event();
    opened.close().expect("closes");
    assert_eq!(second.open_target(qpn, 8).expect_err("gone").kind(), ErrorKind::Invalid);
}

#[test]
fn uc_messages_arrive() {
    let (a, b) = (end(), end());
    let make = |end: &End| end.pd.create_qp(&spec(end, QpType::Uc)).expect("a QP");
    let (from, to) = (make(&a), make(&b));
    connect(&a, &from, to.qpn());
    connect(&b, &to, from.qpn());
    to.post_recv([recv_wr(1, b.sge(0, 8000))]).expect("posted");
    from.post_send([send_wr(1, SendOp::Send, a.sge(0, 5000), Remote::Peer)]).expect("posted");
    a.wait_success();
    assert_eq!(b.wait_success().byte_len, 5000);
    let read = SendOp::Read { va: b.addr(0), rkey: b.mr.rkey() };
    let error = from.post_send([send_wr(2, read, a.sge(0, 8), Remote::Peer)]).expect_err("UC has no READ");
    assert_eq!(error.cause.kind(), ErrorKind::Invalid);
}

#[test]
fn a_qp_on_an_srq_reports_no_receive_queue() {
    let b = end();
    let srq = srq(&b, 4);
    let caps = QpCaps { max_recv_wr: 1 << 20, max_recv_sge: 7, ..Plan::default().caps };
    // ibv_create_qp(3): the sizes of a receive queue are not looked at.
    let qp = b.pd.create_qp(&QpSpec { srq: Some(&srq), caps, ..spec(&b, QpType::Rc) }).expect("a QP");
    assert_eq!((qp.init().caps.max_recv_wr, qp.init().caps.max_recv_sge), (0, 0));
}
