//! What changes or goes away while messages are under way.

use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::lab::{End, Lab, Plan, Wr, pattern};
use crate::needs::Need;
use crate::verbs::{AsyncEventKind, Errno};
use ferroce_core::{PathMtu, QpAttr, QpAttrMask, QpState, QpType, SendOp, Wc, WcOpcode, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("underway/{name}"), rules, body));
    }
    for (name, op) in NOT_ON_UC {
        let rules = &["IBTA 10.7.2.2", "linux-rdma 86d6290f3"];
        let name = format!("underway/not-on-uc/{name}");
        cases.push(Case::new(name, rules, move |lab| not_on_uc(lab, op)).needs([Need::Uc]));
    }
}

type Body = fn(&mut Lab) -> Outcome;

const MTU_RULES: &[&str] = &["Mooncake and NCCL, path MTU", "IBTA table 63"];

const ROWS: [(&str, &[&str], Body); 10] = [
    ("read-resources-change-in-sqd", &["linux-rdma 7d9333f03", "IBTA 10.3.1"], resources_change),
    ("read-resources-stay-in-rts", &["linux-rdma 7d9333f03", "ibv_modify_qp(3)"], resources_stay),
    ("more-reads-than-the-peer-takes", &["IBTA table 63", "IBTA 9.4.4"], too_many_reads),
    ("err-in-a-stream-of-messages", &["linux-rdma 1bef896b4", "IBTA 10.3.1"], err_in_a_stream),
    (
        "destroyed-while-it-retransmits",
        &["linux-rdma 26f000797", "ibv_destroy_qp(3)"],
        destroyed_retransmitting,
    ),
    (
        "destroyed-while-it-answers-a-read",
        &["linux-rdma 26f000797", "ConnectX error study"],
        destroyed_answering,
    ),
    ("reset-while-it-answers-a-read", &["IBTA 10.3.1", "ConnectX error study"], reset_answering),
    ("path-mtu/a-longer-packet-than-the-peer-takes", MTU_RULES, mtu_mismatch),
    ("path-mtu/a-short-message-passes", MTU_RULES, mtu_mismatch_short),
    ("send-cq/a-write-is-readable-when-it-completes", &["IBTA 10.8.3"], write_then_read),
];

/// SQD is the state in which the resources for READs and atomics may change (rxe freed them under its responder).
fn resources_change(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let bytes = pattern(4, 60_000);
    lab.write(&b.buffer, 0, &bytes);
    lab.post(&a, Wr::read(1, &b.buffer, 0).sge(a.buffer.sge(0, 60_000)))?;
    lab.to_state(&b, QpState::Sqd)?;
    for max_dest_rd_atomic in [1, 16, 2, 4] {
        let attr = QpAttr { qp_state: QpState::Sqd, max_dest_rd_atomic, ..QpAttr::default() };
        let mask = QpAttrMask::STATE | QpAttrMask::MAX_DEST_RD_ATOMIC;
        lab.fabric.modify_qp(b.qp, &attr, None, mask).within(format_args!("to {max_dest_rd_atomic}"))?;
    }
    lab.sent(&a, 1)?;
    lab.expect_bytes(&a.buffer, 0, &bytes)?;
    lab.to_state(&b, QpState::Rts)?;
    lab.post(&a, Wr::fetch_add(2, &b.buffer, 0, 0).sge(a.buffer.sge(0, 8)))?;
    lab.sent(&a, 2).map(|_| ())
}

fn resources_stay(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    lab.post(&a, Wr::read(1, &b.buffer, 0).sge(a.buffer.sge(0, 60_000)))?;
    let attr = QpAttr { qp_state: QpState::Rts, max_dest_rd_atomic: 1, ..QpAttr::default() };
    let mask = QpAttrMask::STATE | QpAttrMask::MAX_DEST_RD_ATOMIC;
    let refused = lab.fabric.modify_qp(b.qp, &attr, None, mask).err();
    let refused = refused.ok_or_else(|| Failure::new("they were changed in RTS"))?;
    equal("errno", refused.errno, Errno::EINVAL)?;
    lab.sent(&a, 1)?;
    equal("resources", lab.fabric.query_qp(b.qp)?.max_dest_rd_atomic, 4)
}

/// A requester that was told of more resources than the responder has: a READ too many is refused, and what was answered
/// before is right. (rxe recycles the oldest, and answers all.)
fn too_many_reads(lab: &mut Lab) -> Outcome {
    const READS: u64 = 8;
    const LENGTH: u32 = 7_000;
    let greedy = Plan { max_rd_atomic: 16, ..Plan::rc() };
    let (a, b) = lab.pair_of(&greedy, &Plan { max_dest_rd_atomic: 1, ..Plan::rc() })?;
    let bytes = pattern(6, LENGTH as usize);
    lab.write(&b.buffer, 0, &bytes);
    let place = |id: u64| id * u64::from(LENGTH);
    for id in 0..READS {
        lab.post(&a, Wr::read(id, &b.buffer, 0).sge(a.buffer.sge(place(id), LENGTH)))?;
    }
    let mut refused = false;
    for id in 0..READS {
        let wc = lab.wait_send(&a)?;
        let expected = match (refused, wc.status) {
            (true, _) => WcStatus::WrFlushErr,
            (false, WcStatus::Success) => WcStatus::Success,
            (false, _) => WcStatus::RemInvReqErr,
        };
        equal("completion", (wc.wr_id, wc.status), (id, expected))?;
        refused |= wc.status != WcStatus::Success;
        if !refused {
            lab.expect_bytes(&a.buffer, place(id), &bytes).within(format_args!("READ {id}"))?;
        }
    }
    let state = if refused { QpState::Err } else { QpState::Rts };
    equal("state of the responder", lab.state(&b)?, state)
}

/// Each receive completes once, with success or flushed, in order, whenever the state changes (rxe completed one of them
/// a thousand times).
fn err_in_a_stream(lab: &mut Lab) -> Outcome {
    const MESSAGES: u64 = 60;
    const BEFORE: usize = 20;
    let (a, b) = lab.pair(&Plan::rc())?;
    for id in 0..MESSAGES {
        lab.post_recv(&b, id, &[b.buffer.sge(0, 2000)])?;
        lab.post(&a, Wr::send(id).sge(a.buffer.sge(0, 2000)))?;
    }
    let mut wcs: Vec<Wc> = Vec::new();
    for _ in 0..BEFORE {
        wcs.push(lab.wait_recv(&b)?);
    }
    lab.to_state(&b, QpState::Err)?;
    for _ in BEFORE..MESSAGES as usize {
        wcs.push(lab.wait_recv(&b)?);
    }
    let flushed = wcs.iter().position(|wc| wc.status == WcStatus::WrFlushErr).unwrap_or(wcs.len());
    ensure(flushed >= BEFORE, "a receive that had completed was flushed")?;
    for (index, wc) in wcs.iter().enumerate() {
        let status = if index < flushed { WcStatus::Success } else { WcStatus::WrFlushErr };
        equal("receive completion", (wc.wr_id, wc.status), (index as u64, status))?;
    }
    // The sender has no ACK timeout, so its QP is told too.
    lab.to_state(&a, QpState::Err)?;
    lab.settle();
    let polled = lab.fabric.poll_cq(b.recv_cq, 1)?;
    equal("receive completions left", polled.len(), 0)
}

/// A peer that never answers, and a QP that goes while its timer runs: nothing of it is heard again.
fn destroyed_retransmitting(lab: &mut Lab) -> Outcome {
    const ROUNDS: u64 = 8;
    let plan = Plan { timeout: 1, retry_cnt: 7, ..Plan::rc() };
    let (a, b) = lab.pair(&Plan::rc())?;
    for round in 0..ROUNDS {
        let [c, d] = [&a, &b].map(|end| (end.pd, end.buffer, [end.send_cq, end.recv_cq]));
        let c = lab.end_with(c.0, c.1, c.2, &plan)?;
        let d = lab.end_with(d.0, d.1, d.2, &plan)?;
        lab.connect(&c, &plan, &d, &plan)?;
        // `d` stays in RESET: it says nothing.
        lab.post(&c, Wr::write(round, &b.buffer, 0).sge(a.buffer.sge(0, 5000)).unsignaled())?;
        lab.fabric.settle(round * 2_000);
        lab.fabric.destroy_qp(c.qp).within(format_args!("round {round}"))?;
        lab.fabric.destroy_qp(d.qp)?;
    }
    lab.no_completions(&a)?;
    lab.no_events(a.at)?;
    lab.post(&a, Wr::write(99, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
    lab.sent(&a, 99).map(|_| ())
}

fn under_way(lab: &mut Lab) -> Result<(End, End), Failure> {
    let plan = Plan { timeout: 8, retry_cnt: 1, ..Plan::rc() };
    let (a, b) = lab.pair(&plan)?;
    lab.post(&a, Wr::read(1, &b.buffer, 0).sge(a.buffer.sge(0, 60_000)))?;
    Ok((a, b))
}

/// It may be over before the responder goes.
fn ends_by_silence(lab: &mut Lab, a: &End) -> Outcome {
    let wc = lab.wait_send(a)?;
    let known = matches!(wc.status, WcStatus::Success | WcStatus::RetryExcErr);
    ensure(wc.wr_id == 1 && known, format_args!("the READ ended with {wc:?}"))?;
    lab.no_completions(a)
}

fn destroyed_answering(lab: &mut Lab) -> Outcome {
    let (a, b) = under_way(lab)?;
    lab.fabric.destroy_qp(b.qp)?;
    ends_by_silence(lab, &a)
}

fn reset_answering(lab: &mut Lab) -> Outcome {
    let (a, b) = under_way(lab)?;
    lab.to_state(&b, QpState::Reset)?;
    ends_by_silence(lab, &a)?;
    lab.no_completions(&b)
}

fn mtus() -> (Plan, Plan) {
    (Plan { mtu: PathMtu::Mtu4096, ..Plan::rc() }, Plan { mtu: PathMtu::Mtu1024, ..Plan::rc() })
}

fn mtu_mismatch(lab: &mut Lab) -> Outcome {
    let (long, short) = mtus();
    let (a, b) = lab.pair_of(&long, &short)?;
    lab.post(&a, Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, 4096)))?;
    lab.send_fails(&a, 1, WcStatus::RemInvReqErr)?;
    lab.qp_event(&b, AsyncEventKind::QpReqErr)?;
    lab.expect_bytes(&b.buffer, 0, &[0; 64])?;
    equal("state of the responder", lab.state(&b)?, QpState::Err)
}

fn mtu_mismatch_short(lab: &mut Lab) -> Outcome {
    let (long, short) = mtus();
    let (a, b) = lab.pair_of(&long, &short)?;
    lab.write(&a.buffer, 0, &pattern(3, 512));
    lab.post(&a, Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, 512)))?;
    lab.sent(&a, 1)?;
    lab.expect_bytes(&b.buffer, 0, &pattern(3, 512))
}

fn write_then_read(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    for round in 0..10u64 {
        let bytes = pattern(round, 3000);
        lab.write(&a.buffer, 0, &bytes);
        lab.post(&a, Wr::write(2 * round, &b.buffer, 100).sge(a.buffer.sge(0, 3000)))?;
        lab.post(&a, Wr::read(2 * round + 1, &b.buffer, 100).sge(a.buffer.sge(8000, 3000)))?;
        lab.sent(&a, 2 * round)?;
        equal("opcode", lab.sent(&a, 2 * round + 1)?.opcode, WcOpcode::RdmaRead)?;
        lab.expect_bytes(&a.buffer, 8000, &bytes)?;
    }
    Ok(())
}

type MakeOp = fn(&End) -> SendOp;

/// What UC does not have.
const NOT_ON_UC: [(&str, MakeOp); 3] = [
    ("read", |b| SendOp::Read { va: b.buffer.addr, rkey: b.buffer.mr.rkey }),
    ("fetch-add", |b| SendOp::FetchAdd { va: b.buffer.addr, rkey: b.buffer.mr.rkey, add: 1 }),
    ("compare-swap", |b| {
        let (va, rkey) = (b.buffer.addr, b.buffer.mr.rkey);
        SendOp::CompareSwap { va, rkey, compare: 0, swap: 1 }
    }),
];

fn not_on_uc(lab: &mut Lab, op: MakeOp) -> Outcome {
    let (a, b) = lab.pair(&Plan::new(QpType::Uc))?;
    match lab.fabric.post_send(a.qp, vec![Wr::new(1, op(&b)).sge(a.buffer.sge(0, 8)).into()]) {
        Err(refused) => equal("errno", refused.refused.errno, Errno::EINVAL)?,
        Ok(()) => lab.send_fails(&a, 1, WcStatus::LocQpOpErr)?,
    }
    lab.expect_bytes(&b.buffer, 0, &[0; 8])
}
