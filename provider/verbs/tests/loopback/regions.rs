//! Regions other than plain ones.

use crate::end::{ALL, End, Plan, pair};
use ferroce::core::{AccessFlags, SendOp, Sge, WcStatus};
use ferroce::{Advice, ErrorKind, MrChange};

fn write(a: &End, va: u64, rkey: u32) -> WcStatus {
    a.send(5, SendOp::Write { va, rkey }, a.sge(0, 8)).expect("posted");
    a.wait().status
}

#[test]
fn a_region_is_changed_and_keeps_its_keys() {
    let (mut a, b) = pair(Plan::default());
    a.buffer[0] = 4711;
    // SAFETY: the region is dropped before the end with its buffer.
    let mr = unsafe { b.pd.reg_mr(b.addr(0), 64, b.addr(0), ALL) }.expect("a region");
    let elsewhere = MrChange { memory: Some((b.addr(1000), 64)), ..MrChange::default() };
    // SAFETY: as above.
    unsafe { mr.rereg(&elsewhere) }.expect("changed");
    assert_eq!(write(&a, b.addr(1001), mr.rkey()), WcStatus::Success);
    assert_eq!(b.buffer[1001], 4711);
    let unmapped = MrChange { memory: Some((4096, 8)), ..MrChange::default() };
    // SAFETY: refused.
    let error = unsafe { mr.rereg(&unmapped) }.expect_err("not mapped");
    assert_eq!(error.kind(), ErrorKind::BadAddress);
    let other = b.context.alloc_pd().expect("a PD");
    let moved = MrChange { pd: Some(&other), ..MrChange::default() };
    // SAFETY: as above.
    unsafe { mr.rereg(&moved) }.expect("changed");
    assert_eq!(other.close().expect_err("the region uses it").kind(), ErrorKind::Busy);
    assert_eq!(write(&a, b.addr(1001), mr.rkey()), WcStatus::RemAccessErr);
    drop(mr);
    other.close().expect("free now");
}

#[test]
fn all_of_the_address_space_is_registered_on_demand() {
    let (mut a, b) = pair(Plan::default());
    a.buffer[0] = 4711;
    // SAFETY: nothing is promised about it, and nothing is unmapped while an atomic works on it.
    let all = unsafe { b.pd.reg_mr(0, u64::MAX, 0, ALL | AccessFlags::ON_DEMAND) }.expect("a region");
    assert_eq!(write(&a, b.addr(3), all.rkey()), WcStatus::Success);
    assert_eq!(b.buffer[3], 4711);
    let mut element = Sge { addr: b.addr(0), length: 4096, lkey: all.lkey() };
    b.pd.advise_mr(Advice::PrefetchWrite, true, &[element]).expect("present");
    element.addr = 4096;
    let error = b.pd.advise_mr(Advice::Prefetch, true, &[element]).expect_err("not mapped");
    assert_eq!(error.kind(), ErrorKind::BadAddress);
    assert_eq!(write(&a, 4096, all.rkey()), WcStatus::RemOpErr);
    // SAFETY: refused.
    let error = unsafe { b.pd.reg_mr(0, u64::MAX, 0, ALL) }.expect_err("only on demand");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_receive_into_memory_that_is_gone_fails_both_ends() {
    let (a, b) = pair(Plan::default());
    // SAFETY: nothing is promised about it.
    let all = unsafe { b.pd.reg_mr(0, u64::MAX, 0, ALL | AccessFlags::ON_DEMAND) }.expect("a region");
    b.recv(1, Sge { addr: 4096, length: 64, lkey: all.lkey() }).expect("posted");
    a.send(2, SendOp::Send, a.sge(0, 8)).expect("posted");
    assert_eq!(a.wait().status, WcStatus::RemOpErr);
    assert_eq!(b.wait().status, WcStatus::LocProtErr);
}

#[test]
fn device_memory_is_reached_by_copies_and_by_peers() {
    let (mut a, b) = pair(Plan::default());
    a.buffer[0] = u64::from_ne_bytes(*b"from afa");
    let dm = b.context.alloc_dm(1001).expect("device memory");
    dm.write(993, b"to here!").expect("inside");
    assert_eq!(dm.write(994, b"to here!").expect_err("outside").kind(), ErrorKind::BadAddress);
    let mr = b.pd.reg_dm_mr(&dm, 1, 1000, ALL | AccessFlags::ZERO_BASED).expect("a region");
    assert_eq!(write(&a, 100, mr.rkey()), WcStatus::Success);
    let mut back = [0; 8];
    dm.read(101, &mut back).expect("inside");
    assert_eq!(&back, b"from afa");
    a.send(1, SendOp::Read { va: 992, rkey: mr.rkey() }, a.sge(9, 8)).expect("posted");
    a.wait_success();
    assert_eq!(a.buffer[9].to_ne_bytes(), *b"to here!");
    assert_eq!(dm.close().expect_err("a region is in it").kind(), ErrorKind::Busy);
    drop(mr);
    dm.close().expect("free now");
}
