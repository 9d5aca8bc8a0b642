//! Lists, atomics, and the order of completions.

use crate::case::{Case, Outcome, Within, equal};
use crate::lab::{Lab, Plan, Wr, pattern};
use crate::needs::Need;
use crate::verbs::SendWr;
use ferroce_core::{QpType, Sge, WcOpcode};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("operations/rc/{name}"), rules, body));
    }
    for (name, lengths) in LISTS {
        for qp_type in [QpType::Rc, QpType::Uc] {
            let needs = (qp_type == QpType::Uc).then_some(Need::Uc);
            let kind = qp_type.to_string().to_lowercase();
            cases.push(
                Case::new(
                    format!("operations/{kind}/send-gathers-and-scatters/{name}"),
                    LIST_RULES,
                    move |lab| send_lists(lab, qp_type, lengths),
                )
                .needs(needs),
            );
        }
        cases.push(Case::new(format!("operations/rc/write-gathers/{name}"), LIST_RULES, move |lab| {
            write_list(lab, lengths)
        }));
        cases.push(Case::new(format!("operations/rc/read-scatters/{name}"), LIST_RULES, move |lab| {
            read_list(lab, lengths)
        }));
    }
    for (name, before, compare, swap, after) in SWAPS {
        cases.push(Case::new(format!("operations/rc/compare-swap/{name}"), ATOMIC_RULES, move |lab| {
            atomic(
                lab,
                before,
                after,
                |buffer| Wr::compare_swap(1, buffer, WORD, compare, swap),
                WcOpcode::CompSwap,
            )
        }));
    }
    for (name, before, add, after) in ADDS {
        cases.push(Case::new(format!("operations/rc/fetch-add/{name}"), ATOMIC_RULES, move |lab| {
            atomic(lab, before, after, |buffer| Wr::fetch_add(1, buffer, WORD, add), WcOpcode::FetchAdd)
        }));
    }
}

type Body = fn(&mut Lab) -> Outcome;

const ROWS: [(&str, &[&str], Body); 5] = [
    ("completions-keep-the-order-of-the-queue", &["IBTA 10.8.3"], completions_keep_order),
    ("unsignaled-requests-make-no-completion", &["IBTA 10.7.3.1"], unsignaled_make_none),
    ("sq-sig-all-makes-every-request-signaled", &["IBTA 10.7.3.1"], all_signaled),
    ("both-directions-at-once", &["IBTA 9.7.2"], both_directions),
    ("atomics-of-two-peers-are-one-after-the-other", &["IBTA 9.4.5"], two_peers_add),
];

const LIST_RULES: &[&str] = &["IBTA 10.7.3", "rdma-core, builder API"];
/// Lengths of the elements of a list.
const LISTS: [(&str, &[u32]); 5] = [
    ("3-5-7-bytes", &[3, 5, 7]),
    ("an-empty-one-between", &[100, 0, 1]),
    ("edges-inside-packets", &[1000, 2000, 77, 1]),
    ("edges-at-packets", &[1024, 1024, 2048]),
    ("all-empty", &[0, 0]),
];

const ATOMIC_RULES: &[&str] = &["IBTA 9.4.5"];
const SWAPS: [(&str, u64, u64, u64, u64); 4] = [
    ("equal", 7, 7, 9, 9),
    ("not-equal", 7, 8, 9, 7),
    ("differs-in-the-top-byte", 1 << 63, 0, 5, 1 << 63),
    ("all-ones", u64::MAX, u64::MAX, 0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef),
];
const ADDS: [(&str, u64, u64, u64); 4] = [
    ("one", 41, 1, 42),
    ("zero", 41, 0, 41),
    ("across-32-bits", 0xffff_ffff, 1, 0x1_0000_0000),
    ("wraps", u64::MAX, 2, 1),
];

/// Where the word of an atomic lies.
const WORD: u64 = 64;
/// Where its first value goes.
const ORIGINAL: u64 = 256;

/// Elements of these lengths, from the end of the buffer to its start, so that their order matters.
fn list(buffer: &crate::lab::Buffer, lengths: &[u32]) -> Vec<Sge> {
    (0u64..).zip(lengths).map(|(index, length)| buffer.sge(40_000 - index * 8_000, *length)).collect()
}

fn total(lengths: &[u32]) -> usize {
    lengths.iter().sum::<u32>() as usize
}

/// Writes the sequence over the elements of a list.
fn fill(lab: &mut Lab, end: &crate::lab::End, sges: &[Sge], bytes: &[u8]) {
    let mut left = bytes;
    for sge in sges {
        let (now, later) = left.split_at(sge.length as usize);
        lab.write(&end.buffer, sge.addr - end.buffer.addr, now);
        left = later;
    }
}

/// What the elements of a list hold, one after the other.
fn gathered(lab: &mut Lab, end: &crate::lab::End, sges: &[Sge]) -> Vec<u8> {
    sges.iter()
        .flat_map(|sge| lab.read(&end.buffer, sge.addr - end.buffer.addr, sge.length as usize))
        .collect()
}

fn with_list(wr: Wr, sges: &[Sge]) -> Wr {
    sges.iter().fold(wr, |wr, sge| wr.sge(*sge))
}

fn send_lists(lab: &mut Lab, qp_type: QpType, lengths: &[u32]) -> Outcome {
    let (a, b) = lab.pair(&Plan::new(qp_type))?;
    let bytes = pattern(3, total(lengths));
    let source = list(&a.buffer, lengths);
    fill(lab, &a, &source, &bytes);
    // The receiver's elements have other edges.
    let mut mirrored: Vec<u32> = lengths.to_vec();
    mirrored.reverse();
    let target = list(&b.buffer, &mirrored);
    lab.post_recv(&b, 2, &target)?;
    lab.post(&a, with_list(Wr::send(1), &source))?;
    lab.sent(&a, 1)?;
    equal("length", lab.received(&b, 2)?.byte_len as usize, bytes.len())?;
    equal("bytes in the receiver's list", gathered(lab, &b, &target) == bytes, true)
}

fn write_list(lab: &mut Lab, lengths: &[u32]) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let bytes = pattern(4, total(lengths));
    let source = list(&a.buffer, lengths);
    fill(lab, &a, &source, &bytes);
    lab.post(&a, with_list(Wr::write(1, &b.buffer, 11), &source))?;
    lab.sent(&a, 1)?;
    lab.expect_bytes(&b.buffer, 11, &bytes)
}

fn read_list(lab: &mut Lab, lengths: &[u32]) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let bytes = pattern(5, total(lengths));
    lab.write(&b.buffer, 11, &bytes);
    let target = list(&a.buffer, lengths);
    lab.post(&a, with_list(Wr::read(1, &b.buffer, 11), &target))?;
    equal("length", lab.sent(&a, 1)?.byte_len as usize, bytes.len())?;
    equal("bytes in the list", gathered(lab, &a, &target) == bytes, true)
}

fn atomic(
    lab: &mut Lab,
    before: u64,
    after: u64,
    wr: impl Fn(&crate::lab::Buffer) -> Wr,
    opcode: WcOpcode,
) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    lab.set_word(&b.buffer, WORD, before);
    lab.post(&a, wr(&b.buffer).sge(a.buffer.sge(ORIGINAL, 8)))?;
    let wc = lab.sent(&a, 1)?;
    equal("completion", (wc.opcode, wc.byte_len), (opcode, 8))?;
    equal("value that comes back", lab.word(&a.buffer, ORIGINAL), before)?;
    equal("value in memory", lab.word(&b.buffer, WORD), after)
}

fn completions_keep_order(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let kinds: [fn(u64, &crate::lab::End, &crate::lab::End) -> Wr; 4] = [
        |id, a, b| Wr::read(id, &b.buffer, 0).sge(a.buffer.sge(0, 3000)),
        |id, a, b| Wr::write(id, &b.buffer, 30_000).sge(a.buffer.sge(0, 1)),
        |id, a, b| Wr::fetch_add(id, &b.buffer, WORD, 1).sge(a.buffer.sge(ORIGINAL, 8)),
        |id, a, _| Wr::send(id).sge(a.buffer.sge(0, 2000)),
    ];
    let wrs: Vec<SendWr> = (0..40).map(|id| kinds[id as usize % kinds.len()](id, &a, &b).into()).collect();
    for id in 0..10 {
        lab.post_recv(&b, id, &[b.buffer.sge(40_000, 2000)])?;
    }
    lab.fabric.post_send(a.qp, wrs)?;
    for id in 0..40 {
        lab.sent(&a, id)?;
    }
    for id in 0..10 {
        lab.received(&b, id)?;
    }
    Ok(())
}

fn unsignaled_make_none(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    for id in 0..5 {
        lab.post(&a, Wr::write(id, &b.buffer, 0).sge(a.buffer.sge(0, 8)).unsignaled())?;
    }
    lab.post(&a, Wr::write(5, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
    lab.sent(&a, 5)?;
    lab.no_completions(&a)
}

fn all_signaled(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan { sq_sig_all: true, ..Plan::rc() })?;
    for id in 0..3 {
        lab.post(&a, Wr::write(id, &b.buffer, 0).sge(a.buffer.sge(0, 8)).unsignaled())?;
        lab.sent(&a, id)?;
    }
    Ok(())
}

fn both_directions(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let bytes = [pattern(8, 30_000), pattern(9, 30_000)];
    for (end, bytes) in [&a, &b].into_iter().zip(&bytes) {
        lab.write(&end.buffer, 0, bytes);
        lab.post_recv(end, 2, &[end.buffer.sge(30_000, 30_000)])?;
    }
    for end in [&a, &b] {
        lab.post(end, Wr::send(1).sge(end.buffer.sge(0, 30_000)))?;
    }
    for (end, bytes) in [&b, &a].into_iter().zip(&bytes) {
        lab.received(end, 2)?;
        lab.sent(end, 1)?;
        lab.expect_bytes(&end.buffer, 30_000, bytes).within(format_args!("endpoint {}", end.at.0))?;
    }
    Ok(())
}

fn two_peers_add(lab: &mut Lab) -> Outcome {
    let plan = Plan::rc();
    let (a, b) = lab.pair(&plan)?;
    // Two more QPs, over the same memory.
    let c = lab.end_with(a.pd, a.buffer, [a.send_cq, a.recv_cq], &plan)?;
    let d = lab.end_with(b.pd, b.buffer, [b.send_cq, b.recv_cq], &plan)?;
    lab.connect(&c, &plan, &d, &plan)?;
    lab.connect(&d, &plan, &c, &plan)?;
    let mut originals = Vec::new();
    for id in 0..10u64 {
        for (which, end) in [(0, &a), (1, &c)] {
            let slot = 512 + 8 * (2 * id + which);
            lab.post(end, Wr::fetch_add(id, &b.buffer, WORD, 1).sge(a.buffer.sge(slot, 8)))?;
            originals.push(slot);
        }
    }
    for _ in 0..20 {
        lab.wait_send(&a)?;
    }
    let mut values: Vec<u64> = originals.into_iter().map(|slot| lab.word(&a.buffer, slot)).collect();
    values.sort_unstable();
    equal("values that came back", values, (0..20).collect())?;
    equal("value in memory", lab.word(&b.buffer, WORD), 20)
}
