//! Shared receive queues: QPs that take their receives from one queue, its limit and its size.

use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::lab::{A, B, End, Lab, Plan, Wr, pattern, recv};
use crate::needs::Need;
use crate::verbs::{AsyncEvent, AsyncEventKind, Errno, Srq, SrqSpec};
use ferroce_core::{QpCaps, QpState, QpType, SendOp, Sge, Wc, WcOpcode, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (qp_type, needs) in [(QpType::Rc, None), (QpType::Uc, Some(Need::Uc)), (QpType::Ud, Some(Need::Ud))] {
        let kind = qp_type.to_string().to_lowercase();
        let name = format!("srq/{kind}/receives");
        let body = move |lab: &mut Lab| receives(lab, qp_type);
        cases.push(Case::new(name, &["IBTA 10.2.9"], body).needs(needs).needs([Need::Srq]));
        let name = format!("srq/{kind}/last-wqe-reached/instead-of-flushing");
        let body = move |lab: &mut Lab| last_wqe(lab, qp_type);
        cases.push(Case::new(name, LAST_RULES, body).needs(needs).needs([Need::Srq]));
    }
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("srq/rc/{name}"), rules, body).needs([Need::Srq]));
    }
    for (name, rules, body) in LIBRARY_ROWS {
        let needs = [Need::Srq, Need::VerbsLibrary];
        cases.push(Case::new(format!("srq/rc/{name}"), rules, body).needs(needs));
    }
}

type Body = fn(&mut Lab) -> Outcome;

const LAST_RULES: &[&str] = &["IBTA o11-5.2.5", "linux-rdma 72f5c2947"];
const LIMIT_RULES: &[&str] = &["ibv_modify_srq(3)"];
const SIZE_RULES: &[&str] = &["ibv_modify_srq(3)", "linux-rdma, SRQ size"];

const ROWS: [(&str, &[&str], Body); 11] = [
    ("qps-take-turns", &["IBTA 10.2.9"], qps_take_turns),
    ("empty-puts-the-sender-off", &["IBTA 10.2.9", "IBTA 9.7.5.2.8"], empty_puts_off),
    ("immediate-data-takes-one-and-a-plain-write-none", &["IBTA 10.2.9", "IBTA 9.4.3"], writes),
    ("limit/reached-once", LIMIT_RULES, limit_once),
    ("limit/armed-again", LIMIT_RULES, limit_again),
    ("limit/zero-disarms", LIMIT_RULES, limit_disarmed),
    ("last-wqe-reached/not-by-reset", LAST_RULES, reset_says_nothing),
    ("last-wqe-reached/others-take-what-is-left", LAST_RULES, others_go_on),
    ("bad-list/fails-the-qp-that-took-it", &["IBTA table 63"], bad_list),
    ("bad-list/too-small", &["IBTA table 63"], too_small),
    ("keys/of-another-pd", &["IBTA 10.6"], foreign_list),
];

const LIBRARY_ROWS: [(&str, &[&str], Body); 8] = [
    ("size/is-what-was-asked-for", SIZE_RULES, size_is_known),
    ("size/full", SIZE_RULES, full),
    ("size/grows-and-shrinks", SIZE_RULES, resized),
    ("size/not-below-what-it-holds", SIZE_RULES, not_below_held),
    ("size/not-beyond-the-device", SIZE_RULES, not_beyond_device),
    ("limit/not-beyond-the-size", LIMIT_RULES, limit_beyond_size),
    ("busy/with-a-qp", &["ibv_destroy_srq(3)"], busy),
    ("post-recv-on-the-qp-is-refused", &["ibv_post_recv(3)", "rdma-unit-test srq_test"], wrong_queue),
];

/// Receivers on SRQs, senders without.
fn pair(lab: &mut Lab) -> Result<(End, End, Srq), Failure> {
    pair_of(lab, QpType::Rc)
}

fn pair_of(lab: &mut Lab, qp_type: QpType) -> Result<(End, End, Srq), Failure> {
    let plan = Plan::new(qp_type);
    let (a, b) = lab.pair_of(&plan, &Plan { on_srq: true, ..plan })?;
    let srq = b.srq.ok_or_else(|| Failure::new("the receiver has no SRQ"))?;
    Ok((a, b, srq))
}

/// One more pair of connected QPs, over the same memory, CQs and SRQ.
fn beside(lab: &mut Lab, a: &End, b: &End) -> Result<(End, End), Failure> {
    let plan = Plan::rc();
    let c = lab.end_with(a.pd, a.buffer, [a.send_cq, a.recv_cq], &plan)?;
    let d = lab.end_on(b.pd, b.buffer, [b.send_cq, b.recv_cq], b.srq, &plan)?;
    lab.connect(&c, &plan, &d, &plan)?;
    lab.connect(&d, &plan, &c, &plan)?;
    Ok((c, d))
}

/// What stands in front of a datagram's payload.
const GRH: u64 = 40;

fn send(lab: &mut Lab, a: &End, b: &End, id: u64, length: u32) -> Outcome {
    let wr = Wr::send(id).sge(a.buffer.sge(0, length));
    let wr = match lab.fabric.query_qp(a.qp)?.dest_qpn == b.qpn {
        true => wr,
        false => {
            let to = lab.address(b.at, crate::fabric::IpVersion::V4)?;
            let attr = lab.ah_attr(a.at, to)?;
            wr.to(lab.fabric.create_ah(a.pd, &attr)?, b.qpn, Plan::ud().qkey)
        }
    };
    lab.post(a, wr)
}

fn receives(lab: &mut Lab, qp_type: QpType) -> Outcome {
    let (a, b, _) = pair_of(lab, qp_type)?;
    let front = if qp_type == QpType::Ud { GRH } else { 0 };
    lab.write(&a.buffer, 0, &pattern(2, 900));
    for id in 0..3 {
        lab.post_recv(&b, id, &[b.buffer.sge(2000 * id, 1000)])?;
    }
    for id in 0..3 {
        send(lab, &a, &b, 10 + id, 900)?;
        lab.sent(&a, 10 + id)?;
        let wc = lab.received(&b, id)?;
        let named = |wc: &Wc| (wc.opcode, wc.byte_len, wc.qpn);
        equal("completion", named(&wc), (WcOpcode::Recv, 900 + front as u32, b.qpn))?;
        lab.expect_bytes(&b.buffer, 2000 * id + front, &pattern(2, 900))?;
    }
    lab.no_completions(&b)
}

/// Going to ERR flushes nothing of an SRQ; an event says that the QP takes no more.
fn last_wqe(lab: &mut Lab, qp_type: QpType) -> Outcome {
    let (_, b, _) = pair_of(lab, qp_type)?;
    for id in 0..3 {
        lab.post_recv(&b, id, &[b.buffer.sge(0, 100)])?;
    }
    lab.to_state(&b, QpState::Err)?;
    lab.qp_event(&b, AsyncEventKind::QpLastWqeReached)?;
    lab.no_events(b.at)?;
    lab.no_completions(&b)
}

fn qps_take_turns(lab: &mut Lab) -> Outcome {
    let (a, b, _) = pair(lab)?;
    let (c, d) = beside(lab, &a, &b)?;
    for id in 0..6 {
        lab.post_recv(&b, id, &[b.buffer.sge(1000 * id, 1000)])?;
    }
    for id in 0..6 {
        let (from, to) = if id % 3 == 0 { (&c, &d) } else { (&a, &b) };
        lab.post(from, Wr::send(id).sge(from.buffer.sge(0, 500)))?;
        lab.sent(from, id)?;
        let wc = lab.received(&b, id)?;
        equal("whose completion it is", wc.qpn, to.qpn)?;
    }
    Ok(())
}

fn empty_puts_off(lab: &mut Lab) -> Outcome {
    let (a, b, _) = pair(lab)?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 3000)))?;
    lab.settle();
    lab.post_recv(&b, 2, &[b.buffer.sge(0, 3000)])?;
    lab.sent(&a, 1)?;
    lab.received(&b, 2).map(|_| ())
}

fn writes(lab: &mut Lab) -> Outcome {
    let (a, b, _) = pair(lab)?;
    lab.post_recv(&b, 7, &[])?;
    lab.post(&a, Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, 2000)))?;
    lab.sent(&a, 1)?;
    lab.no_completions(&b)?;
    let op = SendOp::WriteImm { va: b.buffer.addr, rkey: b.buffer.mr.rkey, imm: [1; 4] };
    lab.post(&a, Wr::new(2, op).sge(a.buffer.sge(0, 2000)))?;
    lab.sent(&a, 2)?;
    let wc = lab.received(&b, 7)?;
    equal("completion", (wc.opcode, wc.byte_len), (WcOpcode::RecvRdmaWithImm, 2000))
}

/// Takes one work request out of the SRQ.
fn take(lab: &mut Lab, a: &End, b: &End, id: u64) -> Outcome {
    lab.post(a, Wr::send(id).sge(a.buffer.sge(0, 8)))?;
    lab.sent(a, id)?;
    lab.received(b, id).map(|_| ())
}

fn fill(lab: &mut Lab, b: &End, ids: std::ops::Range<u64>) -> Outcome {
    for id in ids {
        lab.post_recv(b, id, &[b.buffer.sge(0, 64)])?;
    }
    Ok(())
}

fn limit_event(lab: &mut Lab, srq: Srq) -> Outcome {
    let event = lab.wait_event(srq.at)?;
    equal("event", event, AsyncEvent { kind: AsyncEventKind::SrqLimitReached, number: srq.number })?;
    equal("limit afterwards", lab.fabric.query_srq(srq)?.srq_limit, 0)
}

fn limit_once(lab: &mut Lab) -> Outcome {
    let (a, b, srq) = pair(lab)?;
    fill(lab, &b, 0..5)?;
    lab.fabric.modify_srq(srq, None, Some(3))?;
    equal("limit", lab.fabric.query_srq(srq)?.srq_limit, 3)?;
    for id in 0..2 {
        take(lab, &a, &b, id)?;
    }
    // Three are left, which is no fewer than the limit.
    lab.no_events(B)?;
    take(lab, &a, &b, 2)?;
    limit_event(lab, srq)?;
    take(lab, &a, &b, 3)?;
    lab.no_events(B)
}

fn limit_again(lab: &mut Lab) -> Outcome {
    let (a, b, srq) = pair(lab)?;
    for round in 0..3u64 {
        fill(lab, &b, 2 * round..2 * round + 2).within(format_args!("round {round}"))?;
        lab.fabric.modify_srq(srq, None, Some(2))?;
        take(lab, &a, &b, 2 * round)?;
        limit_event(lab, srq)?;
        take(lab, &a, &b, 2 * round + 1)?;
    }
    lab.no_events(B)
}

fn limit_disarmed(lab: &mut Lab) -> Outcome {
    let (a, b, srq) = pair(lab)?;
    fill(lab, &b, 0..3)?;
    lab.fabric.modify_srq(srq, None, Some(2))?;
    lab.fabric.modify_srq(srq, None, Some(0))?;
    for id in 0..3 {
        take(lab, &a, &b, id)?;
    }
    lab.no_events(B)
}

fn reset_says_nothing(lab: &mut Lab) -> Outcome {
    let (_, b, _) = pair(lab)?;
    fill(lab, &b, 0..3)?;
    lab.to_state(&b, QpState::Reset)?;
    lab.no_events(B)?;
    lab.no_completions(&b)
}

fn others_go_on(lab: &mut Lab) -> Outcome {
    let (a, b, _) = pair(lab)?;
    let (c, d) = beside(lab, &a, &b)?;
    fill(lab, &b, 0..2)?;
    lab.to_state(&b, QpState::Err)?;
    lab.qp_event(&b, AsyncEventKind::QpLastWqeReached)?;
    for id in 0..2 {
        lab.post(&c, Wr::send(id).sge(a.buffer.sge(0, 8)))?;
        lab.sent(&c, id)?;
        equal("whose completion it is", lab.received(&b, id)?.qpn, d.qpn)?;
    }
    Ok(())
}

/// A work request that cannot be used ends the QP that took it, and nobody else's.
fn bad_list(lab: &mut Lab) -> Outcome {
    let (a, b, _) = pair(lab)?;
    let (c, d) = beside(lab, &a, &b)?;
    lab.post_recv(&b, 0, &[Sge { lkey: b.buffer.mr.lkey ^ 1, ..b.buffer.sge(0, 64) }])?;
    lab.post_recv(&b, 1, &[b.buffer.sge(0, 64)])?;
    lab.post(&a, Wr::send(5).sge(a.buffer.sge(0, 8)))?;
    lab.send_fails(&a, 5, WcStatus::RemOpErr)?;
    lab.recv_fails(&b, 0, WcStatus::LocProtErr)?;
    lab.qp_event(&b, AsyncEventKind::QpLastWqeReached)?;
    lab.post(&c, Wr::send(6).sge(a.buffer.sge(0, 8)))?;
    lab.sent(&c, 6)?;
    equal("whose completion it is", lab.received(&b, 1)?.qpn, d.qpn)?;
    equal("state of the other QP", lab.state(&d)?, QpState::Rts)
}

fn too_small(lab: &mut Lab) -> Outcome {
    let (a, b, _) = pair(lab)?;
    lab.post_recv(&b, 0, &[b.buffer.sge(0, 7)])?;
    lab.post(&a, Wr::send(5).sge(a.buffer.sge(0, 8)))?;
    lab.send_fails(&a, 5, WcStatus::RemInvReqErr)?;
    lab.recv_fails(&b, 0, WcStatus::LocLenErr)?;
    lab.qp_event(&b, AsyncEventKind::QpLastWqeReached)
}

/// The keys of its lists are those of the SRQ's PD, whatever the QP's.
fn foreign_list(lab: &mut Lab) -> Outcome {
    let (a, b, _) = pair(lab)?;
    let pd = lab.fabric.alloc_pd(B)?;
    let foreign = lab.buffer(pd, 64, crate::lab::ALL_ACCESS)?;
    lab.post_recv(&b, 0, &[foreign.sge(0, 64)])?;
    lab.post(&a, Wr::send(5).sge(a.buffer.sge(0, 8)))?;
    lab.send_fails(&a, 5, WcStatus::RemOpErr)?;
    lab.recv_fails(&b, 0, WcStatus::LocProtErr)?;
    lab.expect_bytes(&foreign, 0, &[0; 64])
}

/// An SRQ by itself.
fn alone(lab: &mut Lab, max_wr: u32) -> Result<(Srq, crate::lab::Buffer), Failure> {
    let pd = lab.fabric.alloc_pd(A)?;
    let buffer = lab.buffer(pd, 64, crate::lab::ALL_ACCESS)?;
    let srq = lab.fabric.create_srq(pd, &SrqSpec { max_wr, max_sge: 2, xrc: None })?;
    Ok((srq, buffer))
}

fn size_is_known(lab: &mut Lab) -> Outcome {
    let (srq, _) = alone(lab, 10)?;
    let attr = lab.fabric.query_srq(srq)?;
    ensure(attr.max_wr >= 10 && attr.max_sge >= 2, format_args!("{attr:?}"))?;
    equal("limit", attr.srq_limit, 0)
}

/// Posts one after the other until it is full, which has to be where its size says.
fn post_until_full(lab: &mut Lab, srq: Srq, buffer: &crate::lab::Buffer, held: u32) -> Outcome {
    let size = lab.fabric.query_srq(srq)?.max_wr;
    let list = (held..=size).map(|id| recv(id.into(), &[buffer.sge(0, 8)])).collect();
    let refused = lab.fabric.post_srq_recv(srq, list).err();
    let refused = refused.ok_or_else(|| Failure::new("more were posted than it holds"))?;
    let expected = ((size - held) as usize, Errno::ENOMEM);
    equal("refusal", (refused.index, refused.refused.errno), expected)
}

fn full(lab: &mut Lab) -> Outcome {
    let (srq, buffer) = alone(lab, 4)?;
    post_until_full(lab, srq, &buffer, 0)
}

fn resized(lab: &mut Lab) -> Outcome {
    let (srq, buffer) = alone(lab, 4)?;
    let held = lab.fabric.query_srq(srq)?.max_wr;
    post_until_full(lab, srq, &buffer, 0)?;
    lab.fabric.modify_srq(srq, Some(held + 5), None)?;
    ensure(lab.fabric.query_srq(srq)?.max_wr >= held + 5, "it did not grow")?;
    post_until_full(lab, srq, &buffer, held)
}

fn refused_size(lab: &mut Lab, srq: Srq, max_wr: u32) -> Outcome {
    let before = lab.fabric.query_srq(srq)?;
    let refused = lab.fabric.modify_srq(srq, Some(max_wr), None).err();
    let refused = refused.ok_or_else(|| Failure::new(format!("its size became {max_wr}")))?;
    equal("errno", refused.errno, Errno::EINVAL)?;
    equal("SRQ", lab.fabric.query_srq(srq)?, before)
}

fn not_below_held(lab: &mut Lab) -> Outcome {
    let (srq, buffer) = alone(lab, 4)?;
    let list = (0..3).map(|id| recv(id, &[buffer.sge(0, 8)])).collect();
    lab.fabric.post_srq_recv(srq, list)?;
    refused_size(lab, srq, 2)?;
    refused_size(lab, srq, 0)
}

fn not_beyond_device(lab: &mut Lab) -> Outcome {
    let (srq, _) = alone(lab, 4)?;
    let max = lab.fabric.query_device(A).max_srq_wr;
    refused_size(lab, srq, max + 1)?;
    let pd = lab.fabric.alloc_pd(A)?;
    for max_wr in [0, max + 1] {
        let refused = lab.fabric.create_srq(pd, &SrqSpec { max_wr, max_sge: 1, xrc: None }).err();
        equal("errno", refused.map(|refused| refused.errno), Some(Errno::EINVAL))?;
    }
    Ok(())
}

fn limit_beyond_size(lab: &mut Lab) -> Outcome {
    let (srq, _) = alone(lab, 4)?;
    let attr = lab.fabric.query_srq(srq)?;
    let refused = lab.fabric.modify_srq(srq, None, Some(attr.max_wr + 1)).err();
    equal("errno", refused.map(|refused| refused.errno), Some(Errno::EINVAL))?;
    // All or nothing: the size stays too.
    let refused = lab.fabric.modify_srq(srq, Some(2), Some(3)).err();
    equal("errno of both", refused.map(|refused| refused.errno), Some(Errno::EINVAL))?;
    equal("SRQ", lab.fabric.query_srq(srq)?, attr)
}

fn busy(lab: &mut Lab) -> Outcome {
    let (_, b, srq) = pair(lab)?;
    let refused = lab.fabric.destroy_srq(srq).err();
    equal("errno", refused.map(|refused| refused.errno), Some(Errno::EBUSY))?;
    let refused = lab.fabric.dealloc_pd(b.pd).err();
    equal("errno of its PD", refused.map(|refused| refused.errno), Some(Errno::EBUSY))?;
    lab.fabric.destroy_qp(b.qp)?;
    lab.fabric.destroy_srq(srq).within("without its QP")
}

fn wrong_queue(lab: &mut Lab) -> Outcome {
    let caps = QpCaps { max_recv_wr: 8, ..Plan::rc().caps };
    let plan = Plan { on_srq: true, caps, ..Plan::rc() };
    let (_, b) = lab.pair(&plan)?;
    let refused = lab.fabric.post_recv(b.qp, vec![recv(1, &[b.buffer.sge(0, 8)])]).err();
    let refused = refused.ok_or_else(|| Failure::new("it was posted"))?;
    equal("refusal", (refused.index, refused.refused.errno), (0, Errno::EINVAL))
}
