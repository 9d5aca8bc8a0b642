//! Memory windows: bound, used and taken back by work requests.

use crate::arena::Arena;
use crate::end::{ALL_ACCESS, End, PD, Setup, init, wr};
use crate::pair::Pair;
use ferroce_core::{
    AccessFlags, AsyncEvent, MwBind, MwType, PdId, QpState, QpType, RegionSpec, SendFlags, SendOp, SendWr,
    Type2, WcFlags, WcOpcode, WcStatus,
};

const READ: AccessFlags = AccessFlags::REMOTE_READ;
const WRITE: AccessFlags = AccessFlags::REMOTE_WRITE;

/// Where the windows of these tests begin.
const START: u64 = 0x100;

/// A region of B's arena that windows may be bound to; its L_Key.
fn bindable(end: &mut End) -> u32 {
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND;
    let spec = RegionSpec { pd: PD, addr: Arena::BASE, length: 0x1000, iova: Arena::BASE, access };
    end.device.register(spec).expect("a region").lkey
}

fn bind_of(lkey: u32, length: u64, access: AccessFlags) -> MwBind {
    MwBind { lkey, addr: Arena::BASE + START, length, access }
}

fn bind_wr(wr_id: u64, rkey: u32, bind: MwBind) -> SendWr {
    wr(wr_id, SendOp::BindMw { rkey, bind }, &[])
}

/// A pair whose B has a window of `mw_type` on 64 bytes, bound with `access`; also its R_Key.
fn with_window(setup: Setup, mw_type: MwType, access: AccessFlags) -> (Pair, u32) {
    let mut pair = Pair::with(Setup::of(setup.qp_type), setup);
    let lkey = bindable(&mut pair.b);
    let rkey = pair.b.device.alloc_mw(PD, mw_type).expect("a window") ^ 0x55;
    pair.b.post_send(0, bind_wr(1, rkey, bind_of(lkey, 64, access)));
    pair.run();
    assert_eq!(pair.b.completions[0].wc.opcode, WcOpcode::BindMw);
    assert_eq!(pair.b.sent(), [(1, WcStatus::Success)]);
    (pair, rkey)
}

/// A writes or reads 8 bytes at the start of B's window; how that ends.
fn touch(pair: &mut Pair, rkey: u32, is_write: bool) -> WcStatus {
    let va = Arena::BASE + START;
    let op = if is_write { SendOp::Write { va, rkey } } else { SendOp::Read { va, rkey } };
    let sge = pair.a.sge(0, 8);
    pair.a.post_send(pair.now, wr(9, op, &[sge]));
    pair.run();
    pair.a.sent()[0].1
}

/// One more QP of B's, in RTS; B posts to it until it is exchanged again.
fn exchange_qp(pair: &mut Pair) -> ferroce_wire::Qpn {
    let first = pair.b.qpn;
    let init = init(&pair.b.setup);
    pair.b.qpn = pair.b.device.create_qp(init).expect("a QP");
    pair.b.enter_init();
    pair.b.enter_rtr(pair.a.address, pair.a.qpn);
    pair.b.enter_rts();
    first
}

#[test]
fn a_peer_uses_a_window_of_either_type_within_its_rights() {
    for mw_type in [MwType::Type1, MwType::Type2] {
        let (mut pair, rkey) = with_window(Setup::default(), mw_type, WRITE);
        pair.a.memory.put(0, b"windowed");
        assert_eq!(touch(&mut pair, rkey, true), WcStatus::Success);
        assert_eq!(pair.b.memory.get(START, 8), b"windowed");
        assert_eq!(touch(&mut pair, rkey, false), WcStatus::RemAccessErr);
        assert_eq!(pair.b.asyncs.last(), Some(&AsyncEvent::QpAccessErr(pair.b.qpn)));
        assert_eq!(pair.b.state(), QpState::Err);
    }
}

#[test]
fn a_bind_waits_for_all_before_it_and_what_follows_waits_for_the_bind() {
    let mut pair = Pair::new();
    let lkey = bindable(&mut pair.b);
    let rkey = pair.b.device.alloc_mw(PD, MwType::Type2).expect("a window");
    let target = pair.a.sge(0, 64);
    pair.a.post_recv(0, 1, &[target]);
    let source = pair.b.sge(0, 16);
    let read = SendOp::Read { va: Arena::BASE + 512, rkey: pair.a.keys.rkey };
    pair.b.post_send(0, wr(1, read, &[pair.b.sge(512, 3000)]));
    pair.b.post_send(0, bind_wr(2, rkey, bind_of(lkey, 64, WRITE)));
    // The peer learns of the window by this, and so may use it at once.
    pair.b.post_send(0, wr(3, SendOp::Send, &[source]));
    pair.run();
    assert_eq!(pair.b.sent(), [1, 2, 3].map(|wr_id| (wr_id, WcStatus::Success)));
    assert_eq!(touch(&mut pair, rkey, true), WcStatus::Success);
}

#[test]
fn a_bind_that_fails_ends_the_queue_and_gives_no_access() {
    type Spoil = fn(&mut End, &mut MwBind);
    let spoils: [(Spoil, &str); 6] = [
        (|_, bind| bind.lkey ^= 1, "stale"),
        (|end, bind| bind.lkey = end.keys.lkey, "without MW_BIND"),
        (|_, bind| bind.length = 0x1000, "not inside"),
        (|_, bind| bind.addr = u64::MAX - 7, "not inside"),
        (|_, bind| bind.access = AccessFlags::LOCAL_WRITE, "cannot give"),
        (
            |end, bind| {
                let (pd, addr) = (PdId(2), Arena::BASE);
                let access = AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND;
                let spec = RegionSpec { pd, addr, length: 0x1000, iova: addr, access };
                bind.lkey = end.device.register(spec).expect("a region").lkey;
            },
            "belongs to PD 2",
        ),
    ];
    for (spoil, reason) in spoils {
        for mw_type in [MwType::Type1, MwType::Type2] {
            let mut pair = Pair::new();
            let lkey = bindable(&mut pair.b);
            let rkey = pair.b.device.alloc_mw(PD, mw_type).expect("a window");
            let mut bind = bind_of(lkey, 64, WRITE);
            spoil(&mut pair.b, &mut bind);
            // Without a completion if it succeeds; an error has one in any case.
            let silent = SendWr { flags: SendFlags::empty(), ..bind_wr(1, rkey, bind) };
            pair.b.post_send(0, silent);
            pair.b.post_send(0, bind_wr(2, rkey, bind_of(lkey, 64, WRITE)));
            pair.run();
            assert_eq!(pair.b.sent(), [(1, WcStatus::MwBindErr), (2, WcStatus::WrFlushErr)]);
            pair.b.assert_reason(reason);
            assert_eq!(pair.b.state(), QpState::Err);
        }
    }
}

#[test]
fn a_window_of_another_protection_domain_cannot_be_bound() {
    let mut pair = Pair::new();
    let lkey = bindable(&mut pair.b);
    let rkey = pair.b.device.alloc_mw(PdId(2), MwType::Type2).expect("a window");
    pair.b.post_send(0, bind_wr(1, rkey, bind_of(lkey, 64, WRITE)));
    pair.run();
    assert_eq!(pair.b.sent(), [(1, WcStatus::MwBindErr)]);
    pair.b.assert_reason("belongs to PD 2");
}

#[test]
fn a_type_2_window_of_another_qp_is_refused_and_one_of_type_1_is_not() {
    for (mw_type, status) in [(MwType::Type1, WcStatus::Success), (MwType::Type2, WcStatus::RemAccessErr)] {
        let mut pair = Pair::new();
        let lkey = bindable(&mut pair.b);
        let rkey = pair.b.device.alloc_mw(PD, mw_type).expect("a window");
        let first = exchange_qp(&mut pair);
        pair.b.post_send(0, bind_wr(1, rkey, bind_of(lkey, 64, WRITE)));
        pair.run();
        assert_eq!(pair.b.sent(), [(1, WcStatus::Success)]);
        pair.b.qpn = first;
        assert_eq!(touch(&mut pair, rkey, true), status);
    }
}

#[test]
fn destroying_a_qp_unbinds_its_type_2_windows() {
    let mut pair = Pair::new();
    let lkey = bindable(&mut pair.b);
    let rkey = pair.b.device.alloc_mw(PD, MwType::Type2).expect("a window");
    let first = exchange_qp(&mut pair);
    pair.b.post_send(0, bind_wr(1, rkey, bind_of(lkey, 64, WRITE)));
    pair.run();
    assert!(pair.b.device.deregister(lkey).is_err());
    pair.b.device.destroy_qp(pair.b.qpn).expect("the QP");
    pair.b.qpn = first;
    assert_eq!(touch(&mut pair, rkey, true), WcStatus::RemAccessErr);
    pair.b.device.deregister(lkey).expect("no window is bound to it");
}

#[test]
fn a_local_invalidate_ends_a_type_2_window_only() {
    let (mut pair, rkey) = with_window(Setup::default(), MwType::Type2, READ);
    pair.b.post_send(pair.now, wr(2, SendOp::LocalInv { rkey }, &[]));
    pair.run();
    assert_eq!(pair.b.completions[0].wc.opcode, WcOpcode::LocalInv);
    assert_eq!(pair.b.sent(), [(2, WcStatus::Success)]);
    assert_eq!(touch(&mut pair, rkey, false), WcStatus::RemAccessErr);
    pair.b.assert_reason("is not bound");

    let (mut pair, rkey) = with_window(Setup::default(), MwType::Type1, READ);
    pair.b.post_send(pair.now, wr(2, SendOp::LocalInv { rkey }, &[]));
    pair.run();
    assert_eq!(pair.b.sent(), [(2, WcStatus::LocQpOpErr)]);
    pair.b.assert_reason("type 1 memory window");
}

#[test]
fn a_send_with_invalidate_ends_a_type_2_window() {
    let (mut pair, rkey) = with_window(Setup::default(), MwType::Type2, READ);
    let target = pair.b.sge(0, 64);
    pair.b.post_recv(pair.now, 5, &[target]);
    let source = pair.a.sge(0, 10);
    pair.a.post_send(pair.now, wr(1, SendOp::SendInv { rkey }, &[source]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
    let received = pair.b.received();
    assert_eq!((received[0].wr_id, received[0].status), (5, WcStatus::Success));
    assert_eq!((received[0].flags, received[0].invalidated_rkey), (WcFlags::WITH_INV, rkey));
    assert_eq!(touch(&mut pair, rkey, false), WcStatus::RemAccessErr);
}

#[test]
fn a_send_that_invalidates_what_it_may_not_is_class_j() {
    type Key = fn(&mut Pair, u32) -> u32;
    let keys: [(Key, MwType, &str); 5] = [
        (|_, rkey| rkey, MwType::Type1, "type 1 memory window"),
        (|_, rkey| rkey ^ 1, MwType::Type2, "stale"),
        (|pair, _| pair.b.keys.rkey, MwType::Type2, "the key of a region"),
        (
            |pair, _| pair.b.device.alloc_mw(PD, MwType::Type2).expect("a window"),
            MwType::Type2,
            "is not bound",
        ),
        (
            |pair, _| pair.b.device.alloc_mw(PdId(2), MwType::Type2).expect("a window"),
            MwType::Type2,
            "belongs to PD 2",
        ),
    ];
    for (key, mw_type, reason) in keys {
        let (mut pair, rkey) = with_window(Setup::default(), mw_type, READ);
        let target = pair.b.sge(0, 64);
        pair.b.post_recv(pair.now, 5, &[target]);
        let rkey = key(&mut pair, rkey);
        let source = pair.a.sge(0, 10);
        pair.a.post_send(pair.now, wr(1, SendOp::SendInv { rkey }, &[source]));
        pair.run();
        // The data was delivered, so the sender has its success; the fault stays on the other side.
        assert_eq!(pair.a.sent(), [(1, WcStatus::Success)], "{reason}");
        assert_eq!(pair.b.received()[0].status, WcStatus::RemInvReqErr, "{reason}");
        assert_eq!(pair.b.state(), QpState::Err);
        pair.b.assert_reason(reason);
    }
}

#[test]
fn who_else_may_invalidate_depends_on_the_kind_of_type_2_window() {
    for (type_2_windows, status) in [(Type2::A, WcStatus::LocQpOpErr), (Type2::B, WcStatus::Success)] {
        let mut setup = Setup::default();
        setup.profile.type_2_windows = type_2_windows;
        let (mut pair, rkey) = with_window(setup, MwType::Type2, READ);
        let first = exchange_qp(&mut pair);
        pair.b.post_send(pair.now, wr(2, SendOp::LocalInv { rkey }, &[]));
        pair.run();
        assert_eq!(pair.b.sent(), [(2, status)]);
        pair.b.qpn = first;
        let after = if status == WcStatus::Success { WcStatus::RemAccessErr } else { WcStatus::Success };
        assert_eq!(touch(&mut pair, rkey, false), after);
    }
}

#[test]
fn a_window_that_goes_in_the_middle_of_a_read_ends_it() {
    let (mut pair, rkey) = with_window(Setup::default(), MwType::Type2, READ);
    pair.b.post_send(pair.now, wr(2, SendOp::LocalInv { rkey }, &[]));
    pair.run();
    let lkey = bindable(&mut pair.b);
    let bind = MwBind { length: 0xf00, ..bind_of(lkey, 0, READ) };
    pair.b.post_send(pair.now, bind_wr(3, rkey, bind));
    pair.run();
    let target = pair.a.sge(0, 0xf00);
    pair.a.post_send(pair.now, wr(1, SendOp::Read { va: Arena::BASE + START, rkey }, &[target]));
    // The request has arrived and none of its responses has been sent.
    let request = pair.a.transmit(pair.now).remove(0);
    pair.b.handle_packet(pair.now, pair.a.address, &request);
    pair.b.post_send(pair.now, wr(4, SendOp::LocalInv { rkey }, &[]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::RemAccessErr)]);
    pair.b.assert_reason("is not bound");
}

#[test]
fn uc_and_xrc_initiators_bind_and_a_datagram_qp_does_not() {
    let (mut pair, rkey) = with_window(Setup::of(QpType::Uc), MwType::Type2, WRITE);
    pair.a.memory.put(0, b"over UC!");
    assert_eq!(touch(&mut pair, rkey, true), WcStatus::Success);
    assert_eq!(pair.b.memory.get(START, 8), b"over UC!");
    assert!(SendOp::BindMw { rkey, bind: MwBind::default() }.is_sent_by(QpType::XrcIni));
    for qp_type in [QpType::Ud, QpType::XrcTgt] {
        assert!(!SendOp::BindMw { rkey, bind: MwBind::default() }.is_sent_by(qp_type));
    }
}

#[test]
fn rights_of_the_qp_come_before_those_of_the_window() {
    let setup = Setup { access: ALL_ACCESS - READ, ..Setup::default() };
    let (mut pair, rkey) = with_window(setup, MwType::Type2, READ);
    assert_eq!(touch(&mut pair, rkey, false), WcStatus::RemInvReqErr);
}
