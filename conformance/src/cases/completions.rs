//! Completion queues: notifications, resizing, overrun, and what several QPs share.

use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::lab::{End, Lab, Plan, Wr};
use crate::needs::Need;
use crate::verbs::{AsyncEventKind, Cq, CqOverrun, Errno};
use ferroce_core::{QpState, SendFlags, SendOp, Wc, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (name, body) in NOTIFICATIONS {
        cases.push(Case::new(format!("completions/notify/{name}"), NOTIFY_RULES, move |lab| {
            let (a, b) = lab.pair(&Plan::rc())?;
            body(lab, &a, &b)
        }));
    }
    for (name, body) in RESIZES {
        cases.push(
            Case::new(format!("completions/resize/{name}"), RESIZE_RULES, move |lab| {
                let (a, b) = lab.pair(&Plan { cqe: HELD as u32, ..Plan::rc() })?;
                hold(lab, &a, &b)?;
                body(lab, a.send_cq)
            })
            .needs([Need::VerbsLibrary]),
        );
    }
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("completions/{name}"), rules, body));
    }
}

const NOTIFY_RULES: &[&str] = &["ibv_req_notify_cq(3)"];
const RESIZE_RULES: &[&str] = &["ibv_resize_cq(3)", "linux-rdma, CQ resize"];
const OVERRUN_RULES: &[&str] = &["IBTA C11-39", "IBTA table 63"];

type NotifyBody = fn(&mut Lab, &End, &End) -> Outcome;

const NOTIFICATIONS: [(&str, NotifyBody); 8] = [
    ("comes-with-the-next-completion", |lab, a, b| {
        lab.fabric.req_notify_cq(b.recv_cq, false)?;
        message(lab, a, b, 1, false)?;
        wait_event(lab, b.recv_cq)
    }),
    ("comes-once", |lab, a, b| {
        lab.fabric.req_notify_cq(b.recv_cq, false)?;
        message(lab, a, b, 1, false)?;
        wait_event(lab, b.recv_cq)?;
        message(lab, a, b, 2, false)?;
        no_event(lab, b.recv_cq)
    }),
    ("does-not-come-for-what-was-there-before", |lab, a, b| {
        message(lab, a, b, 1, false)?;
        lab.settle();
        lab.fabric.req_notify_cq(b.recv_cq, false)?;
        no_event(lab, b.recv_cq)?;
        message(lab, a, b, 2, false)?;
        wait_event(lab, b.recv_cq)
    }),
    ("solicited-only-waits-for-a-solicited-message", |lab, a, b| {
        lab.fabric.req_notify_cq(b.recv_cq, true)?;
        message(lab, a, b, 1, false)?;
        no_event(lab, b.recv_cq)?;
        message(lab, a, b, 2, true)?;
        wait_event(lab, b.recv_cq)
    }),
    ("solicited-only-comes-for-a-write-with-immediate", |lab, a, b| {
        lab.fabric.req_notify_cq(b.recv_cq, true)?;
        let (va, rkey) = (b.buffer.addr, b.buffer.mr.rkey);
        for (id, flags) in [(1, SendFlags::empty()), (2, SendFlags::SOLICITED)] {
            lab.post_recv(b, id, &[])?;
            let op = SendOp::WriteImm { va, rkey, imm: [0; 4] };
            lab.post(a, Wr::new(id, op).sge(a.buffer.sge(0, 8)).flags(flags))?;
            lab.sent(a, id)?;
            if flags.is_empty() {
                no_event(lab, b.recv_cq)?;
            }
        }
        wait_event(lab, b.recv_cq)
    }),
    ("solicited-only-comes-for-a-failure", |lab, _, b| {
        lab.fabric.req_notify_cq(b.recv_cq, true)?;
        lab.post_recv(b, 1, &[b.buffer.sge(0, 64)])?;
        lab.to_state(b, QpState::Err)?;
        wait_event(lab, b.recv_cq)
    }),
    ("any-is-not-narrowed-by-solicited-only", |lab, a, b| {
        lab.fabric.req_notify_cq(b.recv_cq, false)?;
        lab.fabric.req_notify_cq(b.recv_cq, true)?;
        message(lab, a, b, 1, false)?;
        wait_event(lab, b.recv_cq)
    }),
    ("solicited-only-is-widened-by-any", |lab, a, b| {
        lab.fabric.req_notify_cq(b.recv_cq, true)?;
        lab.fabric.req_notify_cq(b.recv_cq, false)?;
        message(lab, a, b, 1, false)?;
        wait_event(lab, b.recv_cq)
    }),
];

/// A SEND from `a` to `b` that completes there; nothing takes its completions.
fn message(lab: &mut Lab, a: &End, b: &End, id: u64, solicited: bool) -> Outcome {
    let mut flags = SendFlags::empty();
    flags.set(SendFlags::SOLICITED, solicited);
    lab.post_recv(b, id, &[b.buffer.sge(0, 64)])?;
    lab.post(a, Wr::send(id).sge(a.buffer.sge(0, 8)).flags(flags))?;
    lab.sent(a, id)?;
    Ok(())
}

fn wait_event(lab: &mut Lab, cq: Cq) -> Outcome {
    let came = lab.fabric.wait(&mut |fabric| fabric.take_cq_event(cq));
    ensure(came, "no event came")
}

fn no_event(lab: &mut Lab, cq: Cq) -> Outcome {
    lab.settle();
    ensure(!lab.fabric.take_cq_event(cq), "an event that nobody asked for")
}

type ResizeBody = fn(&mut Lab, Cq) -> Outcome;

/// Completions that lie in the CQ when it is resized; it holds just as many.
const HELD: u64 = 3;

const RESIZES: [(&str, ResizeBody); 5] = [
    ("larger", |lab, cq| {
        lab.fabric.resize_cq(cq, 16)?;
        held_are_there(lab, cq)
    }),
    ("larger-and-back", |lab, cq| {
        lab.fabric.resize_cq(cq, 16)?;
        lab.fabric.resize_cq(cq, HELD as u32)?;
        held_are_there(lab, cq)
    }),
    ("below-what-it-holds-is-refused", |lab, cq| {
        resize_refused(lab, cq, HELD as u32 - 1)?;
        held_are_there(lab, cq)
    }),
    ("to-nothing-is-refused", |lab, cq| {
        resize_refused(lab, cq, 0)?;
        held_are_there(lab, cq)
    }),
    ("beyond-the-device-is-refused", |lab, cq| {
        let max = lab.fabric.query_device(cq.at).max_cqe;
        resize_refused(lab, cq, max.checked_add(1).ok_or_else(|| Failure::new("there is no limit"))?)?;
        held_are_there(lab, cq)
    }),
];

/// Leaves [`HELD`] completions in the send CQ of `a`.
fn hold(lab: &mut Lab, a: &End, b: &End) -> Outcome {
    for id in 0..HELD {
        lab.post(a, Wr::write(id, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
    }
    lab.settle();
    Ok(())
}

fn held_are_there(lab: &mut Lab, cq: Cq) -> Outcome {
    for id in 0..HELD {
        equal("completion that was held", lab.wait_cq(cq, "held")?.wr_id, id)?;
    }
    Ok(())
}

fn resize_refused(lab: &mut Lab, cq: Cq, cqe: u32) -> Outcome {
    let refused = lab.fabric.resize_cq(cq, cqe);
    let refused = refused.err().ok_or_else(|| Failure::new(format!("resized to {cqe}")))?;
    equal("errno", refused.errno, Errno::EINVAL)
}

type Body = fn(&mut Lab) -> Outcome;

const ROWS: [(&str, &[&str], Body); 6] = [
    ("overrun/the-qp-fails-with-events", OVERRUN_RULES, overrun_fails),
    ("overrun/what-was-there-is-not-lost", OVERRUN_RULES, overrun_keeps),
    ("overrun/a-full-cq-is-no-overrun", OVERRUN_RULES, full_is_fine),
    ("overrun/other-qps-go-on", &["IBTA C11-39", "Husky"], overrun_disturbs_nobody),
    ("poll/takes-no-more-than-asked-for", &["ibv_poll_cq(3)"], polls_in_parts),
    ("shared/completions-name-their-qp", &["ibv_poll_cq(3)"], shared_by_qps),
];

/// More completions than the send CQ of `a` holds.
fn overrun(lab: &mut Lab) -> Result<(End, End), Failure> {
    let (a, b) = lab.pair(&Plan { cqe: HELD as u32, ..Plan::rc() })?;
    for id in 0..=HELD {
        lab.post(&a, Wr::write(id, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
    }
    Ok((a, b))
}

fn overrun_fails(lab: &mut Lab) -> Outcome {
    let (a, _) = overrun(lab)?;
    let mut kinds = vec![lab.wait_event(a.at)?.kind, lab.wait_event(a.at)?.kind];
    kinds.sort_by_key(|kind| *kind != AsyncEventKind::CqErr);
    equal("events", kinds, vec![AsyncEventKind::CqErr, AsyncEventKind::QpFatal])?;
    lab.wait_state(&a, QpState::Err)
}

fn overrun_keeps(lab: &mut Lab) -> Outcome {
    let (a, _) = overrun(lab)?;
    lab.wait_state(&a, QpState::Err)?;
    held_are_there(lab, a.send_cq)?;
    equal("polling it then", lab.fabric.poll_cq(a.send_cq, 1), Err(CqOverrun))
}

fn full_is_fine(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan { cqe: HELD as u32, ..Plan::rc() })?;
    for round in 0..4 {
        hold(lab, &a, &b).within(format_args!("round {round}"))?;
        held_are_there(lab, a.send_cq)?;
    }
    lab.no_events(a.at)
}

fn overrun_disturbs_nobody(lab: &mut Lab) -> Outcome {
    let (a, b) = overrun(lab)?;
    lab.wait_state(&a, QpState::Err)?;
    let plan = Plan::rc();
    let [cq_a, cq_b] = [lab.fabric.create_cq(a.at, 16)?, lab.fabric.create_cq(b.at, 16)?];
    let c = lab.end_with(a.pd, a.buffer, [cq_a, cq_a], &plan)?;
    let d = lab.end_with(b.pd, b.buffer, [cq_b, cq_b], &plan)?;
    lab.connect(&c, &plan, &d, &plan)?;
    lab.connect(&d, &plan, &c, &plan)?;
    message(lab, &c, &d, 7, false)?;
    lab.received(&d, 7)?;
    Ok(())
}

fn polls_in_parts(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    for id in 0..5 {
        lab.post(&a, Wr::write(id, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
    }
    lab.settle();
    let mut ids = Vec::new();
    for (max, expected) in [(0, 0), (2, 2), (2, 2), (2, 1), (2, 0)] {
        let polled = lab.fabric.poll_cq(a.send_cq, max)?;
        equal("how many were taken", polled.len(), expected)?;
        ids.extend(polled.iter().map(|wc| wc.wr_id));
    }
    equal("completions", ids, vec![0, 1, 2, 3, 4])
}

fn shared_by_qps(lab: &mut Lab) -> Outcome {
    let plan = Plan::rc();
    let (a, b) = lab.pair(&plan)?;
    let c = lab.end_with(a.pd, a.buffer, [a.send_cq, a.send_cq], &plan)?;
    let d = lab.end_with(b.pd, b.buffer, [b.recv_cq, b.recv_cq], &plan)?;
    lab.connect(&c, &plan, &d, &plan)?;
    lab.connect(&d, &plan, &c, &plan)?;
    for id in 0..4 {
        let (from, to) = if id % 2 == 0 { (&a, &b) } else { (&c, &d) };
        lab.post_recv(to, id, &[to.buffer.sge(0, 64)])?;
        lab.post(from, Wr::send(id).sge(from.buffer.sge(0, 8)))?;
        let sent = lab.wait_cq(a.send_cq, "send")?;
        let named = |wc: &Wc| (wc.wr_id, wc.qpn, wc.status);
        equal("send completion", named(&sent), (id, from.qpn, WcStatus::Success))?;
        let received = lab.wait_cq(b.recv_cq, "receive")?;
        equal("receive completion", named(&received), (id, to.qpn, WcStatus::Success))?;
    }
    Ok(())
}
