//! What query_qp tells besides what modify_qp set (`ibv_query_qp(3)`).

use crate::case::{Case, Failure, Outcome, Within, equal};
use crate::fabric::IpVersion;
use crate::lab::{A, B, End, Lab, Plan, Wr};
use crate::needs::Need;
use crate::verbs::AsyncEventKind;
use ferroce_core::{QpState, QpType, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (qp_type, need) in [(QpType::Rc, None), (QpType::Uc, Some(Need::Uc)), (QpType::Ud, Some(Need::Ud))] {
        let low = qp_type.to_string().to_lowercase();
        let psns = move |lab: &mut Lab| next_psns(lab, qp_type);
        cases.push(Case::new(format!("queries/{low}/next-psns"), PSN_RULES, psns).needs(need));
        let states = move |lab: &mut Lab| state_after_a_failure(lab, qp_type);
        cases
            .push(Case::new(format!("queries/{low}/state-after-a-failure"), STATE_RULES, states).needs(need));
    }
    cases.push(Case::new("queries/rc/communication-established", EVENT_RULES, established));
    cases.push(Case::new("queries/rc/no-event-of-own-doing", EVENT_RULES, own_doing));
}

const PSN_RULES: &[&str] = &["ibv_query_qp(3)", "ConnectX and rxe, query_qp"];
const STATE_RULES: &[&str] = &["ibv_query_qp(3)", "linux-rdma 40668c0ec"];
const EVENT_RULES: &[&str] = &["IBTA 11.6.3"];

/// A SEND of that many bytes from one end of a pair of that type to the other.
pub(super) fn message(
    lab: &mut Lab,
    qp_type: QpType,
    (from, to): (&End, &End),
    id: u64,
    length: u32,
) -> Result<Wr, Failure> {
    let wr = Wr::send(id).sge(from.buffer.sge(0, length));
    if qp_type != QpType::Ud {
        return Ok(wr);
    }
    let address = lab.address(to.at, IpVersion::V4)?;
    let attr = lab.ah_attr(from.at, address)?;
    let ah = lab.fabric.create_ah(from.pd, &attr)?;
    Ok(wr.to(ah, to.qpn, Plan::ud().qkey))
}

/// The PSNs of both directions are where the QP stands, and not where it began.
fn next_psns(lab: &mut Lab, qp_type: QpType) -> Outcome {
    let plan = Plan { psn: 0xff_ffff, ..Plan::new(qp_type) };
    let (a, b) = lab.pair(&plan)?;
    let query = |lab: &mut Lab, end: &End| -> Result<_, Failure> {
        let attr = lab.fabric.query_qp(end.qp)?;
        Ok((attr.sq_psn.value(), attr.rq_psn.value()))
    };
    // A datagram has no place in a sequence, so datagram QPs expect no PSN.
    let is_ud = qp_type == QpType::Ud;
    let packets = if is_ud { 1 } else { 3 };
    let expected = |psn| if is_ud { 0 } else { psn };
    equal("PSNs at first", query(lab, &a)?, (0xff_ffff, expected(0xff_ffff)))?;
    lab.post_recv(&b, 1, &[b.buffer.sge(0, 4096)])?;
    let wr = message(lab, qp_type, (&a, &b), 1, packets * 1024 - 10)?;
    lab.post(&a, wr)?;
    lab.sent(&a, 1)?;
    lab.received(&b, 1)?;
    let after = packets - 1;
    equal("PSNs of the sender", query(lab, &a)?, (after, expected(0xff_ffff)))?;
    equal("PSNs of the receiver", query(lab, &b)?, (0xff_ffff, expected(after)))?;
    lab.to_state(&a, QpState::Reset)?;
    equal("PSNs after RESET", query(lab, &a)?, (0, 0))
}

/// A state that nobody asked for is in both fields.
fn state_after_a_failure(lab: &mut Lab, qp_type: QpType) -> Outcome {
    let (a, b) = lab.pair(&Plan::new(qp_type))?;
    let mut sge = a.buffer.sge(0, 8);
    sge.lkey ^= 1;
    let wr = message(lab, qp_type, (&a, &b), 1, 8)?.sge(sge);
    lab.post(&a, wr)?;
    lab.send_fails(&a, 1, WcStatus::LocProtErr)?;
    let expected = if qp_type == QpType::Rc { QpState::Err } else { QpState::Sqe };
    lab.wait_state(&a, expected)?;
    let attr = lab.fabric.query_qp(a.qp)?;
    equal("states", (attr.qp_state, attr.cur_qp_state), (expected, expected))?;
    equal("draining", attr.sq_draining, false)
}

/// The first packet to a QP in RTR is news, the next is not.
fn established(lab: &mut Lab) -> Outcome {
    let plan = Plan::rc();
    let (a, b) = (lab.end(A, &plan)?, lab.end(B, &plan)?);
    lab.connect(&a, &plan, &b, &plan)?;
    let peer = lab.peer(&b, &plan, &a, &plan)?;
    for state in [QpState::Init, QpState::Rtr] {
        lab.enter(&b, &plan, &peer, state)?;
    }
    for id in 1..=2 {
        lab.post_recv(&b, id, &[b.buffer.sge(0, 64)])?;
        lab.post(&a, Wr::send(id).sge(a.buffer.sge(0, 8)))?;
        lab.sent(&a, id)?;
    }
    lab.qp_event(&b, AsyncEventKind::CommEst)?;
    lab.no_events(B)?;
    // Who is established already has nothing to tell.
    lab.no_events(A)
}

/// What a program does to its QP by itself is no event.
fn own_doing(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    lab.post_recv(&a, 1, &[a.buffer.sge(0, 64)])?;
    for state in [QpState::Err, QpState::Reset] {
        lab.to_state(&a, state).within(format_args!("to {state}"))?;
        lab.no_events(A)?;
    }
    lab.to_state(&b, QpState::Err)?;
    lab.no_events(B)
}
