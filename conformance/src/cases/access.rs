//! Who may touch which memory: rights of regions and of QPs, ranges, keys and protection domains.

use crate::case::{Case, Outcome, Within, equal};
use crate::lab::{ALL_ACCESS, Buffer, End, Lab, Plan, Wr, pattern};
use crate::verbs::{AsyncEventKind, MrSpec};
use ferroce_core::{AccessFlags, Flush, FlushPlacement, QpState, SendOp, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for operation in Remote::ALL {
        let needed = operation.needed();
        for (name, rights, status) in [
            ("with-its-right-alone", needed | AccessFlags::LOCAL_WRITE, WcStatus::Success),
            ("with-every-other-right", EVERYTHING - needed, WcStatus::RemAccessErr),
            ("with-no-right", AccessFlags::empty(), WcStatus::RemAccessErr),
        ] {
            cases.push(Case::new(
                format!("access/region/{}/{name}", operation.name()),
                &["IBTA 10.6", "linux-rdma 7017b89b6"],
                move |lab| region_rights(lab, operation, rights, status),
            ));
        }
        for (name, access, status) in [
            ("with-its-right-alone", needed, WcStatus::Success),
            ("with-every-other-right", EVERYTHING - needed, WcStatus::RemInvReqErr),
            ("with-no-right", AccessFlags::empty(), WcStatus::RemInvReqErr),
        ] {
            cases.push(Case::new(
                format!("access/qp/{}/{name}", operation.name()),
                &["ibv_modify_qp(3)", "IBTA table 63"],
                move |lab| qp_rights(lab, operation, access, status),
            ));
        }
        for (name, place) in RANGES {
            cases.push(Case::new(
                format!("access/range/{}/{name}", operation.name()),
                &["IBTA 10.6", "linux-rdma 075b3a9b5"],
                move |lab| range(lab, operation, place),
            ));
        }
        for (name, key) in KEYS {
            cases.push(Case::new(
                format!("access/key/{}/{name}", operation.name()),
                &["IBTA 10.6", "rdma-unit-test access_test"],
                move |lab| wrong_key(lab, operation, key),
            ));
        }
    }
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("access/{name}"), rules, body));
    }
}

/// An operation on the peer's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remote {
    Write,
    Read,
    CompareSwap,
    FetchAdd,
    AtomicWrite,
    Flush,
}

/// What peers may do with every operation of this file.
const EVERYTHING: AccessFlags = ALL_ACCESS.union(AccessFlags::FLUSH_GLOBAL);

/// RC QPs that peers may do everything to.
fn open() -> Plan {
    Plan { access: EVERYTHING, ..Plan::rc() }
}

impl Remote {
    const ALL: [Remote; 6] = [
        Remote::Write,
        Remote::Read,
        Remote::CompareSwap,
        Remote::FetchAdd,
        Remote::AtomicWrite,
        Remote::Flush,
    ];

    fn name(self) -> &'static str {
        match self {
            Remote::Write => "write",
            Remote::Read => "read",
            Remote::CompareSwap => "compare-swap",
            Remote::FetchAdd => "fetch-add",
            Remote::AtomicWrite => "atomic-write",
            Remote::Flush => "flush",
        }
    }

    fn needed(self) -> AccessFlags {
        match self {
            Remote::Write | Remote::AtomicWrite => AccessFlags::REMOTE_WRITE,
            Remote::Flush => AccessFlags::FLUSH_GLOBAL,
            Remote::Read => AccessFlags::REMOTE_READ,
            Remote::CompareSwap | Remote::FetchAdd => AccessFlags::REMOTE_ATOMIC,
        }
    }

    /// Work request 1, on 8 bytes.
    fn wr(self, a: &End, va: u64, rkey: u32) -> Wr {
        let op = match self {
            Remote::Write => SendOp::Write { va, rkey },
            Remote::Read => SendOp::Read { va, rkey },
            Remote::CompareSwap => SendOp::CompareSwap { va, rkey, compare: 0, swap: 1 },
            Remote::FetchAdd => SendOp::FetchAdd { va, rkey, add: 1 },
            Remote::AtomicWrite => SendOp::AtomicWrite { va, rkey },
            Remote::Flush => {
                let flush = Flush { placement: FlushPlacement::GLOBAL, length: Some(8) };
                return Wr::new(1, SendOp::Flush { va, rkey, flush });
            }
        };
        Wr::new(1, op).sge(a.buffer.sge(0, 8))
    }
}

/// Work request 1 ends so; a refusal leaves the target as it was, and fails the peer's QP with an event.
fn expect(lab: &mut Lab, a: &End, b: &End, target: &Buffer, status: WcStatus) -> Outcome {
    if status == WcStatus::Success {
        lab.sent(a, 1)?;
        return Ok(());
    }
    lab.send_fails(a, 1, status)?;
    lab.expect_bytes(target, 0, &vec![0; target.len]).within("memory must be untouched")?;
    let event = match status {
        WcStatus::RemAccessErr => AsyncEventKind::QpAccessErr,
        _ => AsyncEventKind::QpReqErr,
    };
    lab.qp_event(b, event)?;
    equal("state of the responder", lab.state(b)?, QpState::Err)
}

fn region_rights(lab: &mut Lab, operation: Remote, rights: AccessFlags, status: WcStatus) -> Outcome {
    let (a, b) = lab.pair(&open())?;
    let target = lab.buffer(b.pd, 64, rights)?;
    lab.write(&a.buffer, 0, &[0xff; 8]);
    lab.post(&a, operation.wr(&a, target.addr, target.mr.rkey))?;
    expect(lab, &a, &b, &target, status)
}

fn qp_rights(lab: &mut Lab, operation: Remote, access: AccessFlags, status: WcStatus) -> Outcome {
    let (a, b) = lab.pair_of(&Plan::rc(), &Plan { access, ..Plan::rc() })?;
    let target = lab.buffer(b.pd, 64, EVERYTHING)?;
    lab.write(&a.buffer, 0, &[0xff; 8]);
    lab.post(&a, operation.wr(&a, target.addr, target.mr.rkey))?;
    expect(lab, &a, &b, &target, status)
}

/// From the start of a region of 64 bytes to where 8 aligned bytes lie that are not all in it.
type Place = fn(u64) -> u64;

const RANGES: [(&str, Place); 5] = [
    ("before-the-start", |start| start - 8),
    ("past-the-end", |start| start + 64),
    ("far-away", |start| start ^ 1 << 40),
    ("at-the-top-of-the-address-space", |_| u64::MAX - 7),
    ("at-zero", |_| 0),
];

fn range(lab: &mut Lab, operation: Remote, place: Place) -> Outcome {
    let (a, b) = lab.pair(&open())?;
    let target = lab.buffer(b.pd, 64, EVERYTHING)?;
    lab.post(&a, operation.wr(&a, place(target.addr), target.mr.rkey))?;
    expect(lab, &a, &b, &target, WcStatus::RemAccessErr)
}

type MakeKey = fn(&mut Lab, &End, &Buffer) -> Result<u32, crate::case::Failure>;

/// Keys that do not lead to the target.
const KEYS: [(&str, MakeKey); 4] = [
    ("unknown", |_, _, _| Ok(0x1234_5600)),
    ("wrong-key-byte", |_, _, target| Ok(target.mr.rkey ^ 0x10)),
    ("deregistered", |lab, _, target| {
        lab.fabric.dereg_mr(target.mr)?;
        Ok(target.mr.rkey)
    }),
    ("of-another-pd", |lab, b, target| {
        let pd = lab.fabric.alloc_pd(b.at)?;
        let spec = MrSpec { addr: target.addr, length: 64, iova: target.addr, access: EVERYTHING };
        Ok(lab.fabric.reg_mr(pd, &spec)?.rkey)
    }),
];

fn wrong_key(lab: &mut Lab, operation: Remote, key: MakeKey) -> Outcome {
    let (a, b) = lab.pair(&open())?;
    let target = lab.buffer(b.pd, 64, EVERYTHING)?;
    let rkey = key(lab, &b, &target)?;
    lab.post(&a, operation.wr(&a, target.addr, rkey))?;
    expect(lab, &a, &b, &target, WcStatus::RemAccessErr)
}

type Body = fn(&mut Lab) -> Outcome;

const ROWS: [(&str, &[&str], Body); 10] = [
    ("zero-length/write-with-any-key", ZERO_RULES, |lab| {
        zero_length(lab, |va, rkey| SendOp::Write { va, rkey })
    }),
    ("zero-length/read-with-any-key", ZERO_RULES, |lab| {
        zero_length(lab, |va, rkey| SendOp::Read { va, rkey })
    }),
    ("range/write-ends-at-the-end", &["IBTA 10.6"], ends_at_the_end),
    ("range/write-one-byte-past-the-end", &["IBTA 10.6"], one_byte_past),
    ("range/long-write-past-the-end-writes-nothing", &["IBTA 10.6"], long_write_past_the_end),
    ("range/length-wraps-the-address-space", &["linux-rdma 075b3a9b5"], length_wraps),
    ("iova/addresses-count-from-it", &["ibv_reg_mr_iova(3)"], iova),
    ("iova/zero-based", &["ibv_reg_mr_iova(3)"], zero_based),
    ("key/stale-after-its-number-is-used-again", &["linux-rdma, keys run out"], keys_do_not_come_back),
    ("key/deregistered-while-a-read-is-answered", &["linux-rdma dc08e64af"], deregistered_between_reads),
];

const ZERO_RULES: &[&str] = &["IBTA C9-88", "linux-rdma ff79dd0a5"];

fn zero_length(lab: &mut Lab, op: fn(u64, u32) -> SendOp) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    for (id, (va, rkey)) in (1..).zip([(0, 0), (u64::MAX, u32::MAX), (b.buffer.addr, 0x1234_5678)]) {
        lab.post(&a, Wr::new(id, op(va, rkey)))?;
        equal("length", lab.sent(&a, id)?.byte_len, 0)?;
    }
    equal("state of the responder", lab.state(&b)?, QpState::Rts)
}

fn ends_at_the_end(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let bytes = pattern(7, 3000);
    let target = lab.buffer(b.pd, 5000, ALL_ACCESS)?;
    lab.write(&a.buffer, 0, &bytes);
    lab.post(&a, Wr::write(1, &target, 2000).sge(a.buffer.sge(0, 3000)))?;
    lab.sent(&a, 1)?;
    lab.expect_bytes(&target, 2000, &bytes)
}

fn one_byte_past(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 100, ALL_ACCESS)?;
    lab.write(&a.buffer, 0, &[0xff; 100]);
    lab.post(&a, Wr::write(1, &target, 1).sge(a.buffer.sge(0, 100)))?;
    expect(lab, &a, &b, &target, WcStatus::RemAccessErr)
}

/// The whole message's range is checked at its first packet, so none of it is written.
fn long_write_past_the_end(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 9999, ALL_ACCESS)?;
    lab.write(&a.buffer, 0, &[0xff; 10_000]);
    lab.post(&a, Wr::write(1, &target, 0).sge(a.buffer.sge(0, 10_000)))?;
    expect(lab, &a, &b, &target, WcStatus::RemAccessErr)
}

fn length_wraps(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 4096, ALL_ACCESS)?;
    lab.write(&a.buffer, 0, &[0xff; 0x400]);
    let op = SendOp::Write { va: 0xffff_ffff_ffff_fc00, rkey: target.mr.rkey };
    lab.post(&a, Wr::new(1, op).sge(a.buffer.sge(0, 0x400)))?;
    expect(lab, &a, &b, &target, WcStatus::RemAccessErr)
}

fn iova(lab: &mut Lab) -> Outcome {
    const IOVA: u64 = 0x5000_0000_1000;
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 100, ALL_ACCESS)?;
    let spec = MrSpec { addr: target.addr, length: 100, iova: IOVA, access: ALL_ACCESS };
    let mr = lab.fabric.reg_mr(b.pd, &spec)?;
    lab.write(&a.buffer, 0, &pattern(2, 10));
    let op = SendOp::Write { va: IOVA + 20, rkey: mr.rkey };
    lab.post(&a, Wr::new(1, op).sge(a.buffer.sge(0, 10)))?;
    lab.sent(&a, 1)?;
    lab.expect_bytes(&target, 20, &pattern(2, 10))
}

fn zero_based(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 100, ALL_ACCESS)?;
    let access = ALL_ACCESS | AccessFlags::ZERO_BASED;
    let spec = MrSpec { addr: target.addr, length: 100, iova: target.addr, access };
    let mr = lab.fabric.reg_mr(b.pd, &spec)?;
    lab.write(&a.buffer, 0, &pattern(2, 10));
    let op = SendOp::Write { va: 90, rkey: mr.rkey };
    lab.post(&a, Wr::new(1, op).sge(a.buffer.sge(0, 10)))?;
    lab.sent(&a, 1)?;
    lab.expect_bytes(&target, 90, &pattern(2, 10))?;
    let op = SendOp::Write { va: 91, rkey: mr.rkey };
    lab.post(&a, Wr::new(2, op).sge(a.buffer.sge(0, 10)))?;
    lab.send_fails(&a, 2, WcStatus::RemAccessErr)
}

fn keys_do_not_come_back(lab: &mut Lab) -> Outcome {
    const REGISTRATIONS: usize = 70_000;
    let (a, b) = lab.pair(&Plan::rc())?;
    let spec = MrSpec { addr: b.buffer.addr, length: 64, iova: b.buffer.addr, access: ALL_ACCESS };
    let mut stale = None;
    for _ in 0..REGISTRATIONS {
        let mr = lab.fabric.reg_mr(b.pd, &spec)?;
        lab.fabric.dereg_mr(mr)?;
        stale.get_or_insert(mr.rkey);
    }
    lab.post(&a, Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
    lab.sent(&a, 1).within("the living key")?;
    let op = SendOp::Write { va: b.buffer.addr, rkey: stale.unwrap_or(0) };
    lab.post(&a, Wr::new(2, op).sge(a.buffer.sge(0, 8)))?;
    lab.send_fails(&a, 2, WcStatus::RemAccessErr).within("the key of the first")
}

/// READs of a region that goes away between them: the first succeeds, the second is refused, nobody hangs.
fn deregistered_between_reads(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let target = lab.buffer(b.pd, 32_000, ALL_ACCESS)?;
    lab.post(&a, Wr::read(1, &target, 0).sge(a.buffer.sge(0, 32_000)))?;
    lab.sent(&a, 1)?;
    lab.post(&a, Wr::read(2, &target, 0).sge(a.buffer.sge(0, 32_000)))?;
    lab.fabric.dereg_mr(target.mr)?;
    // It may be over before the region goes.
    let wc = lab.wait_send(&a)?;
    let ended = matches!(wc.status, WcStatus::Success | WcStatus::RemAccessErr);
    equal("the READ ends in one of two ways", (wc.wr_id, ended), (2, true))?;
    lab.post(&a, Wr::read(3, &target, 0).sge(a.buffer.sge(0, 8)))?;
    let status = if wc.status == WcStatus::Success { WcStatus::RemAccessErr } else { WcStatus::WrFlushErr };
    lab.send_fails(&a, 3, status)
}
