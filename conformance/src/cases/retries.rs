//! How often and how soon a request is sent again, seen on the wire.

use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::fabric::Traced;
use crate::lab::{End, Lab, Plan, Wr};
use crate::needs::Need;
use ferroce_core::{QpState, WcStatus};
use ferroce_emulator::rules::{Action, Kind, ScriptRule};
use ferroce_wire::{Packet, Syndrome, rnr_timer_ns};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for retry_cnt in 0..=7 {
        // The timeouts of a dead peer grow to half a second.
        let slow = (3..7).contains(&retry_cnt).then_some(Need::VirtualTime);
        let body = move |lab: &mut Lab| dead_wire(lab, retry_cnt).map(|_| ());
        let name = format!("retries/ack/dead-wire/retry-cnt-{retry_cnt}");
        let rules = &["IBTA 9.7.6", "rxe retry_cnt 7"];
        cases.push(Case::new(name, rules, body).needs([Need::Faults, Need::Trace]).needs(slow));
    }
    let needs = [Need::Faults, Need::Trace, Need::VirtualTime];
    let name = "retries/ack/no-sooner-than-the-timeout";
    cases.push(Case::new(name, &["IBTA 9.7.6"], timeouts).needs(needs));
    for rnr_retry in 0..7 {
        let body = move |lab: &mut Lab| no_receive(lab, rnr_retry);
        let name = format!("retries/rnr/never-ready/rnr-retry-{rnr_retry}");
        cases.push(Case::new(name, RNR_RULES, body).needs([Need::Trace]));
    }
    for code in [1, 8, 12, 16, 18] {
        let body = move |lab: &mut Lab| no_sooner(lab, code);
        let name = format!("retries/rnr/no-sooner-than/code-{code}");
        cases.push(Case::new(name, RNR_RULES, body).needs([Need::Trace]));
    }
    for (name, body) in ROWS {
        cases.push(Case::new(format!("retries/{name}"), RNR_RULES, body).needs([Need::Faults, Need::Trace]));
    }
}

const RNR_RULES: &[&str] = &["IBTA 9.7.5.2.8", "linux-rdma, RNR timer"];

type Body = fn(&mut Lab) -> Outcome;

const ROWS: [(&str, Body); 3] = [
    ("rnr/seven-is-for-ever", seven_for_ever),
    ("rnr/the-ack-timer-rests", ack_timer_rests),
    ("rnr/the-rnr-nak-is-lost", rnr_nak_lost),
];

/// When an end sent its first PSN: at which moments.
fn moments(trace: &[Traced], end: &End) -> Result<Vec<u64>, Failure> {
    let mut moments = Vec::new();
    for packet in trace.iter().filter(|packet| packet.from == end.at) {
        let parsed = Packet::parse(&packet.payload)?;
        if parsed.bth().psn().value() == Plan::rc().psn {
            moments.push(packet.at_ns);
        }
    }
    Ok(moments)
}

/// When RNR NAKs were sent.
fn rnr_naks(trace: &[Traced]) -> Result<Vec<u64>, Failure> {
    let mut moments = Vec::new();
    for packet in trace {
        let aeth = Packet::parse(&packet.payload)?.aeth().map(|aeth| aeth.syndrome());
        if matches!(aeth, Some(Syndrome::RnrNak { .. })) {
            moments.push(packet.at_ns);
        }
    }
    Ok(moments)
}

/// Nothing of the requester arrives: it sends once and `retry_cnt` times again. The moments at which it did.
fn dead_wire(lab: &mut Lab, retry_cnt: u8) -> Result<Vec<u64>, Failure> {
    let (a, b) = lab.pair(&Plan { timeout: 8, retry_cnt, ..Plan::rc() })?;
    lab.fabric.add_fault(ScriptRule { from: Some("a".into()), ..ScriptRule::new(Action::Drop) })?;
    lab.post(&a, Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
    lab.post(&a, Wr::write(2, &b.buffer, 0).sge(a.buffer.sge(0, 8)).unsignaled())?;
    lab.send_fails(&a, 1, WcStatus::RetryExcErr)?;
    lab.send_fails(&a, 2, WcStatus::WrFlushErr)?;
    equal("state", lab.state(&a)?, QpState::Err)?;
    lab.settle();
    let sent = moments(&lab.fabric.take_trace()?, &a)?;
    equal("how often it was sent", sent.len(), usize::from(retry_cnt) + 1)?;
    Ok(sent)
}

/// 4.096 µs · 2^8, and no sooner.
fn timeouts(lab: &mut Lab) -> Outcome {
    let sent = dead_wire(lab, 7)?;
    let sooner = sent.windows(2).any(|pair| pair[1] - pair[0] < 4_096 << 8);
    ensure(!sooner, format_args!("it was sent at {sent:?} ns"))
}

fn no_receive(lab: &mut Lab, rnr_retry: u8) -> Outcome {
    let (a, b) = lab.pair(&Plan { rnr_retry, ..Plan::rc() })?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)))?;
    lab.send_fails(&a, 1, WcStatus::RnrRetryExcErr)?;
    equal("state of the responder", lab.state(&b)?, QpState::Rts)?;
    lab.settle();
    let trace = lab.fabric.take_trace()?;
    equal("how often it was sent", moments(&trace, &a)?.len(), usize::from(rnr_retry) + 1)?;
    equal("RNR NAKs", rnr_naks(&trace)?.len(), usize::from(rnr_retry) + 1)
}

/// Each time it is sent again, the last RNR NAK is as old as its timer says.
fn waits(trace: &[Traced], a: &End, code: u8) -> Outcome {
    let (sent, naks) = (moments(trace, a)?, rnr_naks(trace)?);
    for again in sent.iter().skip(1) {
        let last = naks.iter().filter(|nak| *nak < again).max();
        let last = last.ok_or_else(|| Failure::new("it was sent again without an RNR NAK"))?;
        let waited = again - last;
        let timer = rnr_timer_ns(code);
        ensure(waited >= timer, format_args!("{waited} ns after an RNR NAK of {timer} ns"))?;
    }
    Ok(())
}

fn no_sooner(lab: &mut Lab, min_rnr_timer: u8) -> Outcome {
    let plan = Plan { min_rnr_timer, rnr_retry: 3, ..Plan::rc() };
    let (a, _) = lab.pair(&plan)?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)))?;
    lab.send_fails(&a, 1, WcStatus::RnrRetryExcErr)?;
    waits(&lab.fabric.take_trace()?, &a, min_rnr_timer)
}

fn seven_for_ever(lab: &mut Lab) -> Outcome {
    const ROUNDS: usize = 30;
    let (a, b) = lab.pair(&Plan { rnr_retry: 7, ..Plan::rc() })?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)))?;
    let mut naks = 0;
    let enough = lab.fabric.wait(&mut |fabric| {
        let trace = fabric.take_trace().unwrap_or_default();
        naks += rnr_naks(&trace).map_or(0, |naks| naks.len());
        naks >= ROUNDS
    });
    ensure(enough, format_args!("{naks} RNR NAKs, and no more"))?;
    lab.post_recv(&b, 2, &[b.buffer.sge(0, 64)])?;
    lab.sent(&a, 1)?;
    lab.received(&b, 2).map(|_| ())
}

/// An ACK timeout of 17 ms in an RNR wait of 41 ms.
fn ack_timer_rests(lab: &mut Lab) -> Outcome {
    const CODE: u8 = 24;
    let plan = Plan { timeout: 12, retry_cnt: 1, min_rnr_timer: CODE, rnr_retry: 2, ..Plan::rc() };
    let (a, _) = lab.pair(&plan)?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)))?;
    lab.send_fails(&a, 1, WcStatus::RnrRetryExcErr)?;
    waits(&lab.fabric.take_trace()?, &a, CODE)
}

/// Then the ACK timeout has it sent again, at the cost of a transport retry.
fn rnr_nak_lost(lab: &mut Lab) -> Outcome {
    let (a, b) = lab.pair(&Plan { timeout: 10, retry_cnt: 7, ..Plan::rc() })?;
    let first = ScriptRule { kind: Some(Kind::Response), times: Some(1), ..ScriptRule::new(Action::Drop) };
    lab.fabric.add_fault(first)?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)))?;
    let again = lab.fabric.wait(&mut |fabric| {
        let trace = fabric.take_trace().unwrap_or_default();
        rnr_naks(&trace).is_ok_and(|naks| !naks.is_empty())
    });
    ensure(again, "no RNR NAK came")?;
    lab.post_recv(&b, 2, &[b.buffer.sge(0, 64)])?;
    lab.sent(&a, 1)?;
    lab.received(&b, 2).within("after the lost RNR NAK").map(|_| ())
}
