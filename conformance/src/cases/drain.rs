//! SQD: the send queue ends what it has begun, begins nothing more, and says when it is done.

use super::queries::message;
use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::lab::{A, End, Lab, Plan, Wr};
use crate::needs::Need;
use crate::verbs::AsyncEventKind;
use ferroce_core::{QpAttr, QpAttrMask, QpState, QpType, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (qp_type, need) in [(QpType::Rc, None), (QpType::Uc, Some(Need::Uc)), (QpType::Ud, Some(Need::Ud))] {
        for (name, body) in EVERY_TYPE {
            let name = format!("drain/{}/{name}", qp_type.to_string().to_lowercase());
            let body = move |lab: &mut Lab| {
                let (a, b) = lab.pair(&Plan::new(qp_type))?;
                body(lab, qp_type, &a, &b)
            };
            cases.push(Case::new(name, RULES, body).needs(need));
        }
    }
    for (name, body) in ROWS {
        cases.push(Case::new(format!("drain/{name}"), RULES, body));
    }
}

const RULES: &[&str] = &["IBTA 10.3.1", "IBTA 11.6.3", "ibv_modify_qp(3)"];

type Body = fn(&mut Lab, QpType, &End, &End) -> Outcome;

const EVERY_TYPE: [(&str, Body); 4] = [
    ("an-idle-queue-is-drained-at-once", |lab, _, a, _| {
        to_sqd(lab, a, true)?;
        lab.qp_event(a, AsyncEventKind::SqDrained)?;
        lab.no_events(A)
    }),
    ("nothing-is-said-unasked", |lab, _, a, _| {
        to_sqd(lab, a, false)?;
        lab.no_events(A)?;
        equal("draining", lab.fabric.query_qp(a.qp)?.sq_draining, false)
    }),
    ("what-is-posted-there-waits-for-rts", |lab, qp_type, a, b| {
        to_sqd(lab, a, false)?;
        post(lab, qp_type, a, b)?;
        lab.no_completions(a)?;
        lab.to_state(a, QpState::Rts)?;
        lab.sent(a, 1)?;
        lab.received(b, 1)?;
        Ok(())
    }),
    ("the-responder-goes-on", |lab, qp_type, a, b| {
        to_sqd(lab, a, false)?;
        post(lab, qp_type, b, a)?;
        lab.sent(b, 1)?;
        lab.received(a, 1)?;
        Ok(())
    }),
];

type RowBody = fn(&mut Lab) -> Outcome;

const ROWS: [(&str, RowBody); 3] = [
    ("rc/what-was-begun-ends-first", |lab| {
        let (a, b) = waiting(lab)?;
        to_sqd(lab, &a, true)?;
        lab.no_events(A).within("while a SEND waits for a receive WQE")?;
        equal("draining", lab.fabric.query_qp(a.qp)?.sq_draining, true)?;
        lab.post_recv(&b, 1, &[b.buffer.sge(0, 64)])?;
        lab.sent(&a, 1)?;
        lab.qp_event(&a, AsyncEventKind::SqDrained)?;
        equal("draining", lab.fabric.query_qp(a.qp)?.sq_draining, false)
    }),
    ("rc/back-before-it-was-drained", |lab| {
        let (a, b) = waiting(lab)?;
        to_sqd(lab, &a, true)?;
        lab.to_state(&a, QpState::Rts)?;
        equal("draining", lab.fabric.query_qp(a.qp)?.sq_draining, false)?;
        lab.post_recv(&b, 1, &[b.buffer.sge(0, 64)])?;
        lab.sent(&a, 1)?;
        lab.no_events(A)
    }),
    ("rc/an-error-while-it-drains", |lab| {
        let (a, _) = waiting(lab)?;
        to_sqd(lab, &a, true)?;
        lab.to_state(&a, QpState::Err)?;
        lab.send_fails(&a, 1, WcStatus::WrFlushErr)?;
        equal("draining", lab.fabric.query_qp(a.qp)?.sq_draining, false)?;
        lab.no_events(A)
    }),
];

/// A pair whose `a` has begun a SEND that finds no receive WQE.
fn waiting(lab: &mut Lab) -> Result<(End, End), Failure> {
    let (a, b) = lab.pair(&Plan::rc())?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)))?;
    lab.no_completions(&a)?;
    ensure(lab.state(&a)? == QpState::Rts, "it waits in RTS")?;
    Ok((a, b))
}

fn to_sqd(lab: &mut Lab, end: &End, en_sqd_async_notify: bool) -> Outcome {
    let attr = QpAttr { qp_state: QpState::Sqd, en_sqd_async_notify, ..QpAttr::default() };
    let mask = QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY;
    lab.fabric.modify_qp(end.qp, &attr, None, mask).within("modify_qp to SQD")
}

/// Posts a SEND from one to the other and a receive WQE for it, both with the number 1.
fn post(lab: &mut Lab, qp_type: QpType, from: &End, to: &End) -> Outcome {
    lab.post_recv(to, 1, &[to.buffer.sge(0, 64)])?;
    let wr = message(lab, qp_type, (from, to), 1, 8)?;
    lab.post(from, wr)
}
