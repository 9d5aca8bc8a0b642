//! Memory windows.

use crate::end::{End, Plan, pair};
use ferroce::core::{
    AccessFlags, MwBind, MwType, Payload, Remote, SendFlags, SendOp, SendWr, WcOpcode, WcStatus,
};
use ferroce::{ErrorKind, Mr, PostCause};

/// A region over an end's buffer that gives peers nothing but windows.
fn bindable(end: &End) -> Mr {
    let (addr, length) = (end.addr(0), std::mem::size_of_val(&*end.buffer) as u64);
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND;
    // SAFETY: every test drops the region before the end with its buffer.
    unsafe { end.pd.reg_mr(addr, length, addr, access) }.expect("a region")
}

fn part(end: &End, mr: &Mr, access: AccessFlags) -> MwBind {
    MwBind { lkey: mr.lkey(), addr: end.addr(100), length: 64, access }
}

fn write(a: &End, va: u64, rkey: u32) -> WcStatus {
    a.send(5, SendOp::Write { va, rkey }, a.sge(0, 8)).expect("posted");
    a.wait().status
}

fn post(end: &End, op: SendOp) {
    let payload = Payload::Sges(Default::default());
    end.qp
        .post_send([SendWr { wr_id: 3, op, flags: SendFlags::SIGNALED, payload, remote: Remote::Peer }])
        .expect("posted");
}

#[test]
fn a_type_1_window_is_bound_by_a_verb() {
    let (mut a, b) = pair(Plan::default());
    a.buffer[0] = 4711;
    let mr = bindable(&b);
    let mw = b.pd.alloc_mw(MwType::Type1).expect("a window");
    let before = mw.rkey();
    let bind = part(&b, &mr, AccessFlags::REMOTE_WRITE);
    b.qp.bind_mw(&mw, 2, SendFlags::SIGNALED, bind).expect("posted");
    assert_eq!(b.wait_success().opcode, WcOpcode::BindMw);
    assert_eq!((mw.rkey() >> 8, mw.rkey() == before), (before >> 8, false));
    assert_eq!(write(&a, b.addr(100), mw.rkey()), WcStatus::Success);
    assert_eq!(b.buffer[100], 4711);
    assert_eq!(mr.close().expect_err("a window is bound").kind(), ErrorKind::Busy);
    b.qp.bind_mw(&mw, 3, SendFlags::SIGNALED, MwBind::default()).expect("posted");
    b.wait_success();
    mr.close().expect("no window is bound");
    assert_eq!(write(&a, b.addr(100), mw.rkey()), WcStatus::RemAccessErr);
}

#[test]
fn a_type_2_window_is_bound_by_a_work_request_and_invalidated() {
    let (mut a, b) = pair(Plan::default());
    a.buffer[0] = 4711;
    let mr = bindable(&b);
    let mw = b.pd.alloc_mw(MwType::Type2).expect("a window");
    let bind = part(&b, &mr, AccessFlags::REMOTE_WRITE);
    post(&b, mw.bind_op(7, bind));
    assert_eq!(b.wait_success().opcode, WcOpcode::BindMw);
    let rkey = mw.rkey() & !0xff | 7;
    assert_eq!(write(&a, b.addr(101), rkey), WcStatus::Success);
    assert_eq!(b.buffer[101], 4711);
    post(&b, SendOp::LocalInv { rkey });
    assert_eq!(b.wait_success().opcode, WcOpcode::LocalInv);
    post(&b, mw.bind_op(8, bind));
    b.wait_success();
    let rkey = mw.rkey() & !0xff | 8;
    b.recv(1, b.sge(0, 64)).expect("posted");
    a.send(1, SendOp::SendInv { rkey }, a.sge(0, 8)).expect("posted");
    a.wait_success();
    assert_eq!(b.wait_success().invalidated_rkey, rkey);
    assert_eq!(write(&a, b.addr(101), rkey), WcStatus::RemAccessErr);
    drop(mw);
    mr.close().expect("no window is bound");
}

#[test]
fn windows_are_refused_what_they_cannot_give() {
    let (_a, b) = pair(Plan::default());
    let mr = bindable(&b);
    let [one, two] = [MwType::Type1, MwType::Type2].map(|kind| b.pd.alloc_mw(kind).expect("a window"));
    let local = part(&b, &mr, AccessFlags::LOCAL_WRITE);
    let refused = b.qp.bind_mw(&one, 1, SendFlags::SIGNALED, local).expect_err("refused");
    assert_eq!(refused.cause, PostCause::MwAccess(AccessFlags::LOCAL_WRITE));
    let read = part(&b, &mr, AccessFlags::REMOTE_READ);
    let refused = b.qp.bind_mw(&two, 1, SendFlags::SIGNALED, read).expect_err("refused");
    assert!(matches!(refused.cause, PostCause::OpNotSupported(_)));
    assert_eq!(b.pd.close().expect_err("windows are users").kind(), ErrorKind::Busy);
    // Nothing was bound, so this is the first completion.
    post(&b, two.bind_op(1, MwBind { lkey: b.mr.lkey(), ..read }));
    assert_eq!(b.wait().status, WcStatus::MwBindErr);
}

#[test]
fn a_region_that_is_dropped_takes_its_windows_along() {
    let (a, b) = pair(Plan::default());
    let mr = bindable(&b);
    let mw = b.pd.alloc_mw(MwType::Type1).expect("a window");
    b.qp.bind_mw(&mw, 2, SendFlags::SIGNALED, part(&b, &mr, AccessFlags::REMOTE_WRITE)).expect("posted");
    b.wait_success();
    drop(mr);
    assert_eq!(write(&a, b.addr(100), mw.rkey()), WcStatus::RemAccessErr);
}
