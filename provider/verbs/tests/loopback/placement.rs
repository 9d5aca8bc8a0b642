//! The memory placement extensions.

use crate::end::{ALL, End, Plan, pair};
use ferroce::ErrorKind;
use ferroce::core::{
    AccessFlags, Flush, FlushPlacement, Payload, QpAttr, QpAttrMask, Remote, SendFlags, SendOp, SendWr,
    WcOpcode, WcStatus,
};

fn allow_flush(end: &End) {
    let access = ALL | AccessFlags::FLUSH_GLOBAL | AccessFlags::FLUSH_PERSISTENT;
    let attr = QpAttr { access, ..QpAttr::default() };
    end.qp.modify(&attr, None, QpAttrMask::ACCESS_FLAGS).expect("rights");
}

fn post(end: &End, op: SendOp, payload: Payload) {
    let wr = SendWr { wr_id: 3, op, flags: SendFlags::SIGNALED, payload, remote: Remote::Peer };
    end.qp.post_send([wr]).expect("posted");
}

#[test]
fn a_flush_is_answered_when_what_was_written_is_there() {
    let (mut a, b) = pair(Plan::default());
    allow_flush(&b);
    a.buffer[..1000].fill(4711);
    let access = ALL | AccessFlags::FLUSH_GLOBAL;
    // SAFETY: the region is dropped before the end with its buffer.
    let mr = unsafe { b.pd.reg_mr(b.addr(0), 8000, b.addr(0), access) }.expect("a region");
    a.send(1, SendOp::Write { va: b.addr(0), rkey: mr.rkey() }, a.sge(0, 8000)).expect("posted");
    let flush = Flush { placement: FlushPlacement::GLOBAL, length: None };
    post(&a, SendOp::Flush { va: 0, rkey: mr.rkey(), flush }, Payload::Sges(Default::default()));
    a.wait_success();
    assert_eq!(a.wait_success().opcode, WcOpcode::Flush);
    assert!(b.buffer[..1000].iter().all(|word| *word == 4711));
    // SAFETY: refused.
    let lasting = unsafe { b.pd.reg_mr(b.addr(0), 8, b.addr(0), access | AccessFlags::FLUSH_PERSISTENT) };
    assert_eq!(lasting.expect_err("memory that does not last").kind(), ErrorKind::Invalid);
    let flush = Flush { placement: FlushPlacement::PERSISTENT, length: Some(8) };
    post(&a, SendOp::Flush { va: b.addr(0), rkey: mr.rkey(), flush }, Payload::Sges(Default::default()));
    assert_eq!(a.wait().status, WcStatus::RemAccessErr);
}

#[test]
fn an_atomic_write_is_all_or_nothing_to_a_reader() {
    let (mut a, b) = pair(Plan::default());
    let word = std::sync::atomic::AtomicU64::new(0);
    let at = word.as_ptr() as u64;
    // SAFETY: the word outlives the region and is only accessed atomically.
    let mr = unsafe { b.pd.reg_mr(at, 8, at, ALL) }.expect("a region");
    for value in [u64::MAX, 0, 0x0102_0304_0506_0708] {
        a.buffer[0] = value;
        let list = Payload::Sges([a.sge(0, 8)].into_iter().collect());
        post(&a, SendOp::AtomicWrite { va: at, rkey: mr.rkey() }, list);
        assert_eq!(a.wait_success().opcode, WcOpcode::AtomicWrite);
        assert_eq!(word.load(std::sync::atomic::Ordering::Acquire), value);
    }
    drop(mr);
}
