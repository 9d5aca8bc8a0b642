//! Regions that are changed, that have nothing behind them, and whose memory need not be there.

use crate::case::{Case, Failure, Outcome, equal};
use crate::lab::{ALL_ACCESS, Buffer, End, Lab, Plan, Wr, pattern};
use crate::verbs::{AsyncEventKind, Errno, Mr, MrChange, MrSpec};
use ferroce_core::{AccessFlags, MwBind, MwType, QpState, SendFlags, SendOp, Sge, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("regions/{name}"), rules, body));
    }
    for (name, change) in BAD_CHANGES {
        cases.push(Case::new(format!("regions/changed/refused/{name}"), CHANGE_RULES, move |lab| {
            refused(lab, change)
        }));
    }
    for (name, access) in FLAGS {
        cases.push(Case::new(format!("regions/flags/{name}"), &["ibv_reg_mr(3)"], move |lab| {
            every_operation(lab, access)
        }));
    }
}

type Body = fn(&mut Lab) -> Outcome;

const CHANGE_RULES: &[&str] = &["ibv_rereg_mr(3)", "IBTA 10.6"];
const NULL_RULES: &[&str] = &["ibv_alloc_null_mr(3)"];

const ROWS: [(&str, &[&str], Body); 11] = [
    ("changed/memory", CHANGE_RULES, other_memory),
    ("changed/protection-domain", CHANGE_RULES, other_pd),
    ("changed/rights", CHANGE_RULES, other_rights),
    ("changed/everything-at-once", CHANGE_RULES, everything),
    ("changed/between-two-requests", CHANGE_RULES, between_requests),
    ("changed/while-a-window-is-bound", &["ibv_rereg_mr(3)", "IBTA 10.6.7.2.6"], window_bound),
    ("null/what-arrives-is-lost", NULL_RULES, arrives_nowhere),
    ("null/what-leaves-is-zero", NULL_RULES, leaves_as_zero),
    ("null/answers-of-a-read-and-an-atomic", NULL_RULES, answers_to_nowhere),
    ("null/peers-have-no-rights", NULL_RULES, |lab| null_refuses(lab, true)),
    ("null/of-another-pd", NULL_RULES, |lab| null_refuses(lab, false)),
];

/// 8 bytes of A's, written to `va`; how that ends.
fn write(lab: &mut Lab, a: &End, va: u64, rkey: u32) -> Result<WcStatus, Failure> {
    lab.write(&a.buffer, 0, &[0xff; 8]);
    lab.post(a, Wr::new(1, SendOp::Write { va, rkey }).sge(a.buffer.sge(0, 8)))?;
    Ok(lab.wait_send(a)?.status)
}

/// A refused access fails B's QP.
fn failed(lab: &mut Lab, b: &End) -> Outcome {
    lab.qp_event(b, AsyncEventKind::QpAccessErr)?;
    equal("state of the responder", lab.state(b)?, QpState::Err)
}

fn other_memory(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 64, ALL_ACCESS)?;
    let addr = lab.fabric.alloc(b.at, 4096);
    lab.fabric.rereg_mr(target.mr, &MrChange { memory: Some((addr, 4096)), ..MrChange::default() })?;
    equal("a write to the new memory", write(lab, &a, addr + 4088, target.mr.rkey)?, WcStatus::Success)?;
    equal("bytes", lab.fabric.read_memory(b.at, addr + 4088, 8), vec![0xff; 8])?;
    let status = write(lab, &a, target.addr, target.mr.rkey)?;
    equal("a write to the old memory", status, WcStatus::RemAccessErr)?;
    lab.expect_bytes(&target, 0, &[0; 64])?;
    failed(lab, &b)
}

fn other_pd(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 64, ALL_ACCESS)?;
    let pd = lab.fabric.alloc_pd(b.at)?;
    lab.fabric.rereg_mr(target.mr, &MrChange { pd: Some(pd), ..MrChange::default() })?;
    lab.fabric.rereg_mr(target.mr, &MrChange { pd: Some(b.pd), ..MrChange::default() })?;
    let status = write(lab, &a, target.addr, target.mr.rkey)?;
    equal("there and back again", status, WcStatus::Success)?;
    lab.fabric.rereg_mr(target.mr, &MrChange { pd: Some(pd), ..MrChange::default() })?;
    equal("from another domain", write(lab, &a, target.addr, target.mr.rkey)?, WcStatus::RemAccessErr)?;
    failed(lab, &b)
}

fn other_rights(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 64, AccessFlags::REMOTE_READ)?;
    let rights = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    lab.fabric.rereg_mr(target.mr, &MrChange { access: Some(rights), ..MrChange::default() })?;
    equal("with the new right", write(lab, &a, target.addr, target.mr.rkey)?, WcStatus::Success)?;
    lab.post(&a, Wr::read(2, &target, 0).sge(a.buffer.sge(8, 8)))?;
    lab.send_fails(&a, 2, WcStatus::RemAccessErr)?;
    failed(lab, &b)
}

fn everything(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let other = lab.fabric.alloc_pd(b.at)?;
    let target = lab.buffer(other, 64, AccessFlags::empty())?;
    let addr = lab.fabric.alloc(b.at, 128);
    let change = MrChange { pd: Some(b.pd), memory: Some((addr, 128)), access: Some(ALL_ACCESS) };
    lab.fabric.rereg_mr(target.mr, &change)?;
    equal("status", write(lab, &a, addr + 120, target.mr.rkey)?, WcStatus::Success)?;
    equal("bytes", lab.fabric.read_memory(b.at, addr + 120, 8), vec![0xff; 8])
}

/// The keys stay, so a queue of requests goes on in the new memory.
fn between_requests(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 8192, ALL_ACCESS)?;
    lab.write(&target, 0, &pattern(1, 8192));
    lab.post(&a, Wr::read(1, &target, 0).sge(a.buffer.sge(0, 8192)))?;
    lab.sent(&a, 1)?;
    lab.expect_bytes(&a.buffer, 0, &pattern(1, 8192))?;
    let addr = lab.fabric.alloc(b.at, 8192);
    lab.fabric.write_memory(b.at, addr, &pattern(2, 8192));
    lab.fabric.rereg_mr(target.mr, &MrChange { memory: Some((addr, 8192)), ..MrChange::default() })?;
    let op = SendOp::Read { va: addr, rkey: target.mr.rkey };
    lab.post(&a, Wr::new(2, op).sge(a.buffer.sge(0, 8192)))?;
    lab.sent(&a, 2)?;
    lab.expect_bytes(&a.buffer, 0, &pattern(2, 8192))
}

fn window_bound(lab: &mut Lab) -> Outcome {
    let (_, b) = lab.pair(&Plan::rc())?;
    let region = lab.buffer(b.pd, 64, ALL_ACCESS | AccessFlags::MW_BIND)?;
    let mw = lab.fabric.alloc_mw(b.pd, MwType::Type1)?;
    let access = AccessFlags::REMOTE_READ;
    let bind = MwBind { lkey: region.mr.lkey, addr: region.addr, length: 64, access };
    lab.fabric.bind_mw(b.qp, mw, 1, SendFlags::SIGNALED, bind)?;
    lab.sent(&b, 1)?;
    let change = MrChange { access: Some(ALL_ACCESS), ..MrChange::default() };
    let errno = lab.fabric.rereg_mr(region.mr, &change).map_err(|refused| refused.errno);
    equal("rereg_mr", errno, Err(Errno::EBUSY))
}

type BadChange = fn(&mut Lab, &End) -> Result<MrChange, Failure>;

const BAD_CHANGES: [(&str, BadChange); 4] = [
    ("remote-write-without-local-write", |_, _| {
        Ok(MrChange { access: Some(AccessFlags::REMOTE_WRITE), ..MrChange::default() })
    }),
    ("memory-past-the-end-of-the-address-space", |_, _| {
        Ok(MrChange { memory: Some((u64::MAX - 7, 64)), ..MrChange::default() })
    }),
    ("unknown-rights", |_, _| {
        Ok(MrChange { access: Some(AccessFlags::from_bits_retain(1 << 15)), ..MrChange::default() })
    }),
    ("one-of-several", |lab, b| {
        let pd = lab.fabric.alloc_pd(b.at)?;
        Ok(MrChange { pd: Some(pd), access: Some(AccessFlags::REMOTE_ATOMIC), ..MrChange::default() })
    }),
];

/// The region is as it was.
fn refused(lab: &mut Lab, change: BadChange) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 64, ALL_ACCESS)?;
    let change = change(lab, &b)?;
    let errno = lab.fabric.rereg_mr(target.mr, &change).map_err(|refused| refused.errno);
    let is_refused = matches!(errno, Err(Errno::EINVAL | Errno::EFAULT));
    equal("it is refused", (is_refused, errno), (true, errno))?;
    equal("status", write(lab, &a, target.addr + 56, target.mr.rkey)?, WcStatus::Success)?;
    lab.expect_bytes(&target, 56, &[0xff; 8])
}

fn nowhere(null: Mr, length: u32) -> Sge {
    Sge { addr: 0x1234_5678, length, lkey: null.lkey }
}

fn arrives_nowhere(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let null = lab.fabric.alloc_null_mr(b.pd)?;
    let message = pattern(3, 5000);
    lab.write(&a.buffer, 0, &message);
    // The middle is not wanted.
    lab.post_recv(&b, 4, &[b.buffer.sge(0, 100), nowhere(null, 4000), b.buffer.sge(100, 900)])?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 5000)))?;
    lab.sent(&a, 1)?;
    equal("length", lab.received(&b, 4)?.byte_len, 5000)?;
    lab.expect_bytes(&b.buffer, 0, &[&message[..100], &message[4100..], &[0; 64]].concat())
}

fn leaves_as_zero(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let null = lab.fabric.alloc_null_mr(a.pd)?;
    lab.write(&a.buffer, 0, &[7; 10]);
    lab.write(&b.buffer, 0, &[0xee; 3000]);
    let wr =
        Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, 5)).sge(nowhere(null, 2000)).sge(a.buffer.sge(5, 5));
    lab.post(&a, wr)?;
    lab.sent(&a, 1)?;
    lab.expect_bytes(&b.buffer, 0, &[&[7; 5][..], &[0; 2000], &[7; 5], &[0xee; 990]].concat())
}

fn answers_to_nowhere(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let null = lab.fabric.alloc_null_mr(a.pd)?;
    lab.write(&b.buffer, 0, &pattern(4, 3000));
    lab.post(&a, Wr::read(1, &b.buffer, 0).sge(nowhere(null, 2900)).sge(a.buffer.sge(0, 100)))?;
    lab.post(&a, Wr::fetch_add(2, &b.buffer, 4096, 9).sge(nowhere(null, 8)))?;
    equal("length", lab.sent(&a, 1)?.byte_len, 3000)?;
    lab.sent(&a, 2)?;
    lab.expect_bytes(&a.buffer, 0, &pattern(4, 3000)[2900..])?;
    equal("the word", lab.word(&b.buffer, 4096), 9)
}

fn null_refuses(lab: &mut Lab, remote: bool) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    if remote {
        let null = lab.fabric.alloc_null_mr(b.pd)?;
        equal("status", write(lab, &a, 0x1000, null.rkey)?, WcStatus::RemAccessErr)?;
        return failed(lab, &b);
    }
    let other = lab.fabric.alloc_pd(a.at)?;
    let null = lab.fabric.alloc_null_mr(other)?;
    lab.post(&a, Wr::write(1, &b.buffer, 0).sge(nowhere(null, 8)))?;
    lab.send_fails(&a, 1, WcStatus::LocProtErr)?;
    lab.expect_bytes(&b.buffer, 0, &[0; 8])
}

/// Flags with which every operation works as without.
const FLAGS: [(&str, AccessFlags); 4] = [
    ("on-demand", AccessFlags::ON_DEMAND),
    ("relaxed-ordering", AccessFlags::RELAXED_ORDERING),
    ("hugetlb", AccessFlags::HUGETLB),
    ("mw-bind", AccessFlags::MW_BIND),
];

/// SEND, WRITE, READ and an atomic between regions that are registered so, longer than a packet.
fn every_operation(lab: &mut Lab, access: AccessFlags) -> Outcome {
    const LENGTH: u32 = 3000;
    let (a, b) = lab.pair(&Plan::rc())?;
    let made = |lab: &mut Lab, end: &End| -> Result<Buffer, Failure> {
        let addr = lab.fabric.alloc(end.at, 1 << 14);
        let spec = MrSpec { addr, length: 1 << 14, iova: addr, access: ALL_ACCESS | access };
        Ok(Buffer { at: end.at, addr, len: 1 << 14, mr: lab.fabric.reg_mr(end.pd, &spec)? })
    };
    let (here, there) = (made(lab, &a)?, made(lab, &b)?);
    lab.write(&here, 0, &pattern(5, LENGTH as usize));
    lab.post_recv(&b, 9, &[there.sge(0, LENGTH)])?;
    lab.post(&a, Wr::send(1).sge(here.sge(0, LENGTH)))?;
    lab.post(&a, Wr::write(2, &there, 4096).sge(here.sge(0, LENGTH)))?;
    lab.post(&a, Wr::fetch_add(3, &there, 8192, 5).sge(here.sge(8192, 8)))?;
    lab.post(&a, Wr::compare_swap(4, &there, 8192, 5, 6).sge(here.sge(8200, 8)))?;
    lab.post(&a, Wr::read(5, &there, 4096).sge(here.sge(4096, LENGTH)))?;
    for wr_id in 1..=5 {
        lab.sent(&a, wr_id)?;
    }
    lab.received(&b, 9)?;
    lab.expect_bytes(&there, 0, &pattern(5, LENGTH as usize))?;
    lab.expect_bytes(&there, 4096, &pattern(5, LENGTH as usize))?;
    lab.expect_bytes(&here, 4096, &pattern(5, LENGTH as usize))?;
    equal("words", (lab.word(&there, 8192), lab.word(&here, 8200)), (6, 5))
}
