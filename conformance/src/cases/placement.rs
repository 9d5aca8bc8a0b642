//! The memory placement extensions: FLUSH and ATOMIC_WRITE. [`super::access`] has their keys, ranges and rights, the wire
//! scripts their packets.

use crate::case::{Case, Outcome, equal};
use crate::lab::{ALL_ACCESS, Lab, Plan, Wr, pattern};
use ferroce_core::{
    AccessFlags, Flush, FlushPlacement, MwBind, MwType, SendFlags, SendOp, WcOpcode, WcStatus,
};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (name, body) in ROWS {
        cases.push(Case::new(format!("placement/{name}"), &["IBTA A19"], body));
    }
    for length in [0, 1, 4, 7, 9, 16] {
        cases.push(Case::new(
            format!("placement/atomic-write/of-{length}-bytes"),
            &["IBTA A19"],
            move |lab| other_length(lab, length),
        ));
    }
    for offset in 1..8 {
        cases.push(Case::new(
            format!("placement/atomic-write/misaligned-by-{offset}"),
            &["IBTA A19"],
            move |lab| misaligned(lab, offset),
        ));
    }
}

type Body = fn(&mut Lab) -> Outcome;

const ROWS: [(&str, Body); 7] = [
    ("flush/of-a-range", |lab| flush_after_write(lab, |va| (va, Some(5000)))),
    ("flush/of-no-bytes", |lab| flush_after_write(lab, |va| (va, Some(0)))),
    ("flush/of-a-region-whatever-the-address", |lab| flush_after_write(lab, |_| (u64::MAX, None))),
    ("flush/of-a-window", flush_of_a_window),
    ("flush/more-than-may-be-outstanding", many_flushes),
    ("atomic-write/from-a-list-and-inline", atomic_write),
    ("atomic-write/among-other-operations", among_others),
];

const GLOBAL: AccessFlags = AccessFlags::FLUSH_GLOBAL;

fn plan() -> Plan {
    Plan { access: ALL_ACCESS | GLOBAL, buffer_access: ALL_ACCESS | GLOBAL, ..Plan::rc() }
}

fn flush_op(va: u64, rkey: u32, length: Option<u32>) -> SendOp {
    SendOp::Flush { va, rkey, flush: Flush { placement: FlushPlacement::GLOBAL, length } }
}

/// When the FLUSH is complete, what was written before it is there; the WRITE needs no completion of its own.
fn flush_after_write(lab: &mut Lab, range: fn(u64) -> (u64, Option<u32>)) -> Outcome {
    let (a, b) = lab.pair(&plan())?;
    lab.write(&a.buffer, 0, &pattern(1, 5000));
    lab.post(&a, Wr::write(1, &b.buffer, 64).sge(a.buffer.sge(0, 5000)).unsignaled())?;
    let (va, length) = range(b.buffer.addr + 64);
    lab.post(&a, Wr::new(2, flush_op(va, b.buffer.mr.rkey, length)))?;
    let wc = lab.sent(&a, 2)?;
    equal("opcode and length", (wc.opcode, wc.byte_len), (WcOpcode::Flush, 0))?;
    lab.expect_bytes(&b.buffer, 64, &pattern(1, 5000))?;
    lab.no_completions(&b)
}

fn flush_of_a_window(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&plan())?;
    let region = lab.buffer(b.pd, 1024, ALL_ACCESS | GLOBAL | AccessFlags::MW_BIND)?;
    let mw = lab.fabric.alloc_mw(b.pd, MwType::Type1)?;
    let access = AccessFlags::REMOTE_WRITE | GLOBAL;
    let bind = MwBind { lkey: region.mr.lkey, addr: region.addr + 256, length: 64, access };
    let rkey = lab.fabric.bind_mw(b.qp, mw, 1, SendFlags::SIGNALED, bind)?;
    lab.sent(&b, 1)?;
    lab.post(&a, Wr::new(2, flush_op(region.addr + 256, rkey, Some(64))))?;
    lab.post(&a, Wr::new(3, flush_op(0, rkey, None)))?;
    lab.post(&a, Wr::new(4, flush_op(region.addr + 256, rkey, Some(65))))?;
    lab.sent(&a, 2)?;
    lab.sent(&a, 3)?;
    lab.send_fails(&a, 4, WcStatus::RemAccessErr)
}

/// They count among READs and atomics, and wait for their turn like those.
fn many_flushes(lab: &mut Lab) -> Outcome {
    let few = Plan { max_rd_atomic: 2, max_dest_rd_atomic: 2, ..plan() };
    let (a, b) = lab.pair(&few)?;
    for wr_id in 0..20 {
        let rkey = b.buffer.mr.rkey;
        let wr = match wr_id % 3 {
            0 => Wr::new(wr_id, flush_op(b.buffer.addr, rkey, Some(64))),
            1 => Wr::new(wr_id, SendOp::AtomicWrite { va: b.buffer.addr, rkey }).sge(a.buffer.sge(0, 8)),
            _ => Wr::read(wr_id, &b.buffer, 0).sge(a.buffer.sge(64, 3000)),
        };
        lab.post(&a, wr)?;
    }
    for wr_id in 0..20 {
        lab.sent(&a, wr_id)?;
    }
    Ok(())
}

fn atomic_write(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let (va, rkey) = (b.buffer.addr, b.buffer.mr.rkey);
    lab.write(&a.buffer, 0, &pattern(2, 8));
    lab.post(&a, Wr::new(1, SendOp::AtomicWrite { va: va + 8, rkey }).sge(a.buffer.sge(0, 8)))?;
    let wc = lab.sent(&a, 1)?;
    equal("opcode", wc.opcode, WcOpcode::AtomicWrite)?;
    // Two halves from two places.
    let halves = Wr::new(2, SendOp::AtomicWrite { va: va + 24, rkey });
    lab.post(&a, halves.sge(a.buffer.sge(4, 4)).sge(a.buffer.sge(0, 4)))?;
    lab.sent(&a, 2)?;
    lab.post(&a, Wr::new(3, SendOp::AtomicWrite { va: va + 40, rkey }).inline(&pattern(3, 8)))?;
    lab.sent(&a, 3)?;
    let (whole, inline) = (pattern(2, 8), pattern(3, 8));
    let swapped = [&whole[4..], &whole[..4]].concat();
    let zero = [0; 8];
    lab.expect_bytes(&b.buffer, 0, &[&zero[..], &whole, &zero, &swapped, &zero, &inline, &zero].concat())
}

/// In the order of the queue, with what is before and behind it.
fn among_others(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    lab.set_word(&a.buffer, 0, 40);
    let write = SendOp::AtomicWrite { va: b.buffer.addr, rkey: b.buffer.mr.rkey };
    lab.post(&a, Wr::new(1, write).sge(a.buffer.sge(0, 8)))?;
    lab.post(&a, Wr::fetch_add(2, &b.buffer, 0, 2).sge(a.buffer.sge(8, 8)))?;
    lab.post(&a, Wr::read(3, &b.buffer, 0).sge(a.buffer.sge(16, 8)))?;
    // Without the fence the READ may see it.
    lab.post(&a, Wr::new(4, write).sge(a.buffer.sge(0, 8)).flags(SendFlags::FENCE))?;
    for wr_id in 1..=4 {
        lab.sent(&a, wr_id)?;
    }
    let words = [0, 8, 16].map(|offset| lab.word(&a.buffer, offset));
    equal("words", (words, lab.word(&b.buffer, 0)), ([40, 40, 42], 40))
}

fn other_length(lab: &mut Lab, length: u32) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    lab.write(&a.buffer, 0, &[0xff; 16]);
    let op = SendOp::AtomicWrite { va: b.buffer.addr, rkey: b.buffer.mr.rkey };
    lab.post(&a, Wr::new(1, op).sge(a.buffer.sge(0, length)))?;
    lab.send_fails(&a, 1, WcStatus::LocLenErr)?;
    lab.expect_bytes(&b.buffer, 0, &[0; 32])
}

fn misaligned(lab: &mut Lab, offset: u64) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    lab.write(&a.buffer, 0, &[0xff; 16]);
    let op = SendOp::AtomicWrite { va: b.buffer.addr + offset, rkey: b.buffer.mr.rkey };
    lab.post(&a, Wr::new(1, op).sge(a.buffer.sge(0, 8)))?;
    lab.send_fails(&a, 1, WcStatus::RemInvReqErr)?;
    lab.expect_bytes(&b.buffer, 0, &[0; 32])
}
