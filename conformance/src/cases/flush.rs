//! What becomes of work requests when a QP goes to the error state or back to RESET.

use crate::case::{Case, Outcome, equal};
use crate::lab::{End, Lab, Plan, Wr};
use crate::needs::Need;
use ferroce_core::{QpState, QpType, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let kind = qp_type.to_string().to_lowercase();
        let needs = match qp_type {
            QpType::Uc => Some(Need::Uc),
            QpType::Ud => Some(Need::Ud),
            _ => None,
        };
        for (name, rules, body) in ROWS {
            cases.push(
                Case::new(format!("flush/{kind}/{name}"), rules, move |lab| {
                    let (a, b) = lab.pair(&Plan::new(qp_type))?;
                    body(lab, &a, &b)
                })
                .needs(needs),
            );
        }
    }
    for (name, rules, body) in RC_ROWS {
        cases.push(Case::new(format!("flush/rc/{name}"), rules, move |lab| {
            let (a, b) = lab.pair(&Plan::rc())?;
            body(lab, &a, &b)
        }));
    }
}

type Body = fn(&mut Lab, &End, &End) -> Outcome;

const RULES: &[&str] = &["IBTA 10.3.1", "linux-rdma 72f5c2947"];

const ROWS: [(&str, &[&str], Body); 6] = [
    ("receives-are-flushed-in-order", RULES, |lab, a, _| {
        for id in 0..8 {
            lab.post_recv(a, id, &[a.buffer.sge(0, 64)])?;
        }
        lab.to_state(a, QpState::Err)?;
        for id in 0..8 {
            lab.recv_fails(a, id, WcStatus::WrFlushErr)?;
        }
        lab.no_completions(a)
    }),
    ("without-work-nothing-is-flushed", RULES, |lab, a, _| {
        lab.to_state(a, QpState::Err)?;
        lab.no_completions(a)?;
        lab.no_events(a.at)
    }),
    ("receives-posted-in-err-are-flushed", RULES, |lab, a, _| {
        lab.to_state(a, QpState::Err)?;
        for id in 0..3 {
            lab.post_recv(a, id, &[a.buffer.sge(0, 64)])?;
            lab.recv_fails(a, id, WcStatus::WrFlushErr)?;
        }
        Ok(())
    }),
    ("reset-empties-queues-without-completions", RULES, |lab, a, _| {
        for id in 0..8 {
            lab.post_recv(a, id, &[a.buffer.sge(0, 64)])?;
        }
        lab.to_state(a, QpState::Reset)?;
        lab.no_completions(a)
    }),
    ("reset-takes-back-flush-completions", RULES, |lab, a, _| {
        lab.post_recv(a, 1, &[a.buffer.sge(0, 64)])?;
        lab.to_state(a, QpState::Err)?;
        lab.settle();
        lab.to_state(a, QpState::Reset)?;
        lab.no_completions(a)
    }),
    ("err-to-err-changes-nothing", RULES, |lab, a, _| {
        lab.post_recv(a, 1, &[a.buffer.sge(0, 64)])?;
        lab.to_state(a, QpState::Err)?;
        lab.to_state(a, QpState::Err)?;
        lab.recv_fails(a, 1, WcStatus::WrFlushErr)?;
        lab.no_completions(a)
    }),
];

const RC_ROWS: [(&str, &[&str], Body); 5] = [
    ("sends-under-way-are-flushed-in-order", RULES, |lab, a, _| {
        // Without a receive they wait for the peer.
        for id in 0..6 {
            lab.post(a, Wr::send(id).sge(a.buffer.sge(0, 100)).unsignaled())?;
        }
        lab.to_state(a, QpState::Err)?;
        for id in 0..6 {
            lab.send_fails(a, id, WcStatus::WrFlushErr)?;
        }
        lab.no_completions(a)
    }),
    ("sends-posted-in-err-are-flushed", RULES, |lab, a, b| {
        lab.to_state(a, QpState::Err)?;
        for id in 0..3 {
            lab.post(a, Wr::write(id, &b.buffer, 0).sge(a.buffer.sge(0, 8)).unsignaled())?;
            lab.send_fails(a, id, WcStatus::WrFlushErr)?;
        }
        lab.no_completions(a)
    }),
    ("both-queues-are-flushed", RULES, |lab, a, _| {
        for id in 0..3 {
            lab.post_recv(a, id, &[a.buffer.sge(0, 64)])?;
            lab.post(a, Wr::send(10 + id).sge(a.buffer.sge(0, 100)))?;
        }
        lab.to_state(a, QpState::Err)?;
        for id in 0..3 {
            lab.recv_fails(a, id, WcStatus::WrFlushErr)?;
            lab.send_fails(a, 10 + id, WcStatus::WrFlushErr)?;
        }
        lab.no_completions(a)
    }),
    ("completed-work-is-not-flushed", RULES, |lab, a, b| {
        lab.post_recv(b, 1, &[b.buffer.sge(0, 64)])?;
        lab.post_recv(b, 2, &[b.buffer.sge(0, 64)])?;
        lab.post(a, Wr::send(3).sge(a.buffer.sge(0, 10)))?;
        lab.sent(a, 3)?;
        lab.settle();
        lab.to_state(b, QpState::Err)?;
        lab.received(b, 1)?;
        lab.recv_fails(b, 2, WcStatus::WrFlushErr)?;
        lab.no_completions(b)
    }),
    ("destroying-a-qp-takes-its-completions", &["ibv_destroy_qp(3)"], |lab, a, _| {
        for id in 0..4 {
            lab.post_recv(a, id, &[a.buffer.sge(0, 64)])?;
        }
        lab.to_state(a, QpState::Err)?;
        lab.settle();
        lab.fabric.destroy_qp(a.qp)?;
        let left = lab.fabric.poll_cq(a.recv_cq, 8)?;
        equal("completions left", left.len(), 0)
    }),
];
