//! Packets that are lost, repeated, damaged, late or out of order: RC delivers every byte once all the same, and UC
//! delivers whole messages or none.

use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::fabric::Traced;
use crate::lab::{End, Lab, Plan, Wr, pattern};
use crate::needs::Need;
use ferroce_core::{PathMtu, SendOp, Wc, WcStatus};
use ferroce_emulator::rules::{Action, Kind, PsnSpan, ScriptRule};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for operation in Operation::ALL {
        for (name, rule) in FAULTS {
            let name = format!("faults/rc/{}/{name}", operation.name());
            let body = move |lab: &mut Lab| one_fault(lab, operation, rule);
            cases.push(Case::new(name, operation.rules(), body).needs([Need::Faults]));
        }
    }
    for (name, rule) in WEATHER {
        let body = move |lab: &mut Lab| weather(lab, rule);
        let name = format!("faults/rc/weather/{name}");
        cases.push(Case::new(name, &["IBTA 9.7.6", "SoftRoCE, loss"], body).needs([Need::Faults]));
    }
    for (name, rule) in UC_FAULTS {
        let body = move |lab: &mut Lab| uc_fault(lab, rule);
        let name = format!("faults/uc/{name}");
        cases.push(Case::new(name, &["IBTA 9.8.2"], body).needs([Need::Faults, Need::Uc]));
    }
    for (name, rules, body) in ROWS {
        // A loaded machine may time out besides, which is no mistake.
        let needs = [Need::Faults, Need::Trace, Need::VirtualTime];
        cases.push(Case::new(format!("faults/rc/{name}"), rules, body).needs(needs));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    FetchAdd,
    CompareSwap,
}

impl Operation {
    const ALL: [Operation; 7] = [
        Operation::Send,
        Operation::SendImm,
        Operation::Write,
        Operation::WriteImm,
        Operation::Read,
        Operation::FetchAdd,
        Operation::CompareSwap,
    ];

    fn name(self) -> &'static str {
        match self {
            Operation::Send => "send",
            Operation::SendImm => "send-imm",
            Operation::Write => "write",
            Operation::WriteImm => "write-imm",
            Operation::Read => "read",
            Operation::FetchAdd => "fetch-add",
            Operation::CompareSwap => "compare-swap",
        }
    }

    fn rules(self) -> &'static [&'static str] {
        match self {
            Operation::Write | Operation::WriteImm => {
                &["IBTA 9.7.6", "linux-rdma, WRITE resumed at a wrong address"]
            }
            Operation::FetchAdd | Operation::CompareSwap => &["IBTA 9.4.5", "linux-rdma 5fdd281c9"],
            _ => &["IBTA 9.7.6", "SoftRoCE, loss"],
        }
    }

    fn consumes_receive(self) -> bool {
        matches!(self, Operation::Send | Operation::SendImm | Operation::WriteImm)
    }

    fn op(self, b: &End) -> SendOp {
        let (va, rkey) = (b.buffer.addr, b.buffer.mr.rkey);
        match self {
            Operation::Send => SendOp::Send,
            Operation::SendImm => SendOp::SendImm { imm: [1; 4] },
            Operation::Write => SendOp::Write { va, rkey },
            Operation::WriteImm => SendOp::WriteImm { va, rkey, imm: [1; 4] },
            Operation::Read => SendOp::Read { va, rkey },
            Operation::FetchAdd => SendOp::FetchAdd { va: va + WORD, rkey, add: 1 },
            Operation::CompareSwap => SendOp::CompareSwap { va: va + WORD, rkey, compare: 0, swap: 1 },
        }
    }
}

/// A word that only atomics touch.
const WORD: u64 = 60_000;
/// Bytes of a message: five packets, of which the last is short.
const LENGTH: u32 = 4 * 1024 + 33;
/// Messages of a case.
const MESSAGES: u64 = 4;

type MakeRule = fn() -> ScriptRule;

fn rule(action: Action) -> ScriptRule {
    ScriptRule::new(action)
}

fn request(psn: i32, action: Action) -> ScriptRule {
    ScriptRule { kind: Some(Kind::Request), psn: Some(PsnSpan::One(psn)), times: Some(1), ..rule(action) }
}

fn response(action: Action) -> ScriptRule {
    ScriptRule { kind: Some(Kind::Response), times: Some(1), ..rule(action) }
}

/// One thing that happens once. Requests of SENDs and WRITEs have the relative PSNs 0 to 4, 5 to 9 …; READs and atomics
/// have fewer packets, which the later ones of these rules do not meet.
const FAULTS: [(&str, MakeRule); 15] = [
    ("first-request-lost", || request(0, Action::Drop)),
    ("middle-request-lost", || request(2, Action::Drop)),
    ("last-request-lost", || request(4, Action::Drop)),
    ("first-request-of-the-second-lost", || request(5, Action::Drop)),
    ("request-lost-twice", || ScriptRule { times: Some(2), ..request(1, Action::Drop) }),
    ("request-damaged", || request(0, Action::Corrupt { bit: Some(99) })),
    ("request-cut-short", || request(0, Action::Truncate { len: 15 })),
    ("request-repeated", || request(0, Action::Duplicate { copies: 1, after_ns: 0 })),
    ("request-repeated-late", || request(1, Action::Duplicate { copies: 2, after_ns: 100_000 })),
    ("request-late", || request(1, Action::Delay { ns: 200_000 })),
    ("response-lost", || response(Action::Drop)),
    ("responses-lost", || ScriptRule { times: Some(4), ..response(Action::Drop) }),
    ("response-damaged", || response(Action::Corrupt { bit: Some(77) })),
    ("response-repeated", || response(Action::Duplicate { copies: 2, after_ns: 50_000 })),
    ("response-late", || response(Action::Delay { ns: 200_000 })),
];

/// A loss that only the timeout finds costs 67 ms. A shorter one ends by itself on a machine that is busy.
fn patient() -> Plan {
    Plan { timeout: 14, ..Plan::rc() }
}

fn one_fault(lab: &mut Lab, operation: Operation, rule: MakeRule) -> Outcome {
    let (a, b) = lab.pair(&patient())?;
    lab.fabric.add_fault(rule())?;
    transfer(lab, &a, &b, operation)?;
    // What comes late or again changes nothing any more.
    lab.no_completions(&a)?;
    lab.no_completions(&b)
}

/// Several messages of one kind, each byte of which has to be right, each with one completion on each side.
fn transfer(lab: &mut Lab, a: &End, b: &End, operation: Operation) -> Outcome {
    let is_atomic = matches!(operation, Operation::FetchAdd | Operation::CompareSwap);
    let length = if is_atomic { 8 } else { LENGTH };
    let (source, target) = if operation == Operation::Read { (b, a) } else { (a, b) };
    let bytes = pattern(11, length as usize);
    if !is_atomic {
        lab.write(&source.buffer, 0, &bytes);
    }
    for id in 0..MESSAGES {
        if operation.consumes_receive() {
            let list = [b.buffer.sge(10_000 * id, length)];
            let is_write = operation == Operation::WriteImm;
            lab.post_recv(b, id, if is_write { &[] } else { &list })?;
        }
        lab.post(
            a,
            Wr::new(id, operation.op(b)).sge(a.buffer.sge(if is_atomic { 8 * id } else { 0 }, length)),
        )?;
    }
    for id in 0..MESSAGES {
        lab.sent(a, id)?;
        if operation.consumes_receive() {
            equal("length", lab.received(b, id)?.byte_len, length)?;
        }
    }
    match operation {
        Operation::Send | Operation::SendImm => {
            for id in 0..MESSAGES {
                lab.expect_bytes(&b.buffer, 10_000 * id, &bytes).within(format_args!("message {id}"))?;
            }
            Ok(())
        }
        Operation::FetchAdd => {
            let originals: Vec<u64> = (0..MESSAGES).map(|id| lab.word(&a.buffer, 8 * id)).collect();
            equal("values that came back", originals, (0..MESSAGES).collect())?;
            equal("value in memory", lab.word(&b.buffer, WORD), MESSAGES)
        }
        Operation::CompareSwap => {
            let originals: Vec<u64> = (0..MESSAGES).map(|id| lab.word(&a.buffer, 8 * id)).collect();
            equal("values that came back", originals, vec![0, 1, 1, 1])?;
            equal("value in memory", lab.word(&b.buffer, WORD), 1)
        }
        _ => lab.expect_bytes(&target.buffer, 0, &bytes),
    }
}

/// What goes on for a whole transfer.
const WEATHER: [(&str, MakeRule); 10] = [
    ("loss-of-0.1-percent", || ScriptRule { one_in: Some(1000), ..rule(Action::Drop) }),
    ("loss-of-1-percent", || ScriptRule { one_in: Some(100), ..rule(Action::Drop) }),
    ("loss-of-10-percent", || ScriptRule { one_in: Some(10), ..rule(Action::Drop) }),
    ("every-packet-twice", || rule(Action::Duplicate { copies: 1, after_ns: 0 })),
    ("every-packet-again-late", || rule(Action::Duplicate { copies: 1, after_ns: 30_000 })),
    ("reordered-by-1", || reordered(1)),
    ("reordered-by-2", || reordered(2)),
    ("reordered-by-64", || reordered(64)),
    ("ce-on-every-packet", || rule(Action::MarkCe)),
    ("damage-of-1-percent", || ScriptRule { one_in: Some(100), ..rule(Action::Corrupt { bit: None }) }),
];

fn reordered(packets: u32) -> ScriptRule {
    ScriptRule { one_in: Some(20), ..rule(Action::Reorder { packets, at_most_ns: 1_000_000 }) }
}

/// SENDs, WRITEs, READs and atomics in both directions through bad weather.
fn weather(lab: &mut Lab, rule: MakeRule) -> Outcome {
    const ROUNDS: u64 = 12;
    let plan = Plan { mtu: PathMtu::Mtu256, ..patient() };
    let (a, b) = lab.pair(&plan)?;
    lab.fabric.add_fault(rule())?;
    let bytes = pattern(12, 5000);
    for end in [&a, &b] {
        lab.write(&end.buffer, 0, &bytes);
    }
    for round in 0..ROUNDS {
        for (end, other) in [(&a, &b), (&b, &a)] {
            lab.post_recv(end, round, &[end.buffer.sge(10_000, 5000)])?;
            let to = |offset| (other.buffer.addr + offset, other.buffer.mr.rkey);
            let (va, rkey) = to(20_000);
            lab.post(end, Wr::new(0, SendOp::Write { va, rkey }).sge(end.buffer.sge(0, 5000)))?;
            let (va, rkey) = to(0);
            lab.post(end, Wr::new(1, SendOp::Read { va, rkey }).sge(end.buffer.sge(30_000, 5000)))?;
            let (va, rkey) = to(WORD);
            lab.post(end, Wr::new(2, SendOp::FetchAdd { va, rkey, add: 1 }).sge(end.buffer.sge(40_000, 8)))?;
            lab.post(end, Wr::send(3).sge(end.buffer.sge(0, 5000)))?;
        }
        for end in [&a, &b] {
            for id in 0..4 {
                lab.sent(end, id).within(format_args!("round {round}"))?;
            }
            lab.received(end, round)?;
            for place in [10_000, 20_000, 30_000] {
                lab.expect_bytes(&end.buffer, place, &bytes).within(format_args!("round {round}"))?;
            }
        }
    }
    for end in [&a, &b] {
        equal("value in memory", lab.word(&end.buffer, WORD), ROUNDS)?;
        lab.no_completions(end)?;
    }
    Ok(())
}

const UC_FAULTS: [(&str, MakeRule); 6] = [
    ("first-packet-lost", || request(5, Action::Drop)),
    ("middle-packet-lost", || request(7, Action::Drop)),
    ("last-packet-lost", || request(9, Action::Drop)),
    ("packet-damaged", || request(6, Action::Corrupt { bit: Some(99) })),
    ("packets-out-of-order", || request(6, Action::Reorder { packets: 1, at_most_ns: 1_000_000 })),
    ("packet-repeated", || request(6, Action::Duplicate { copies: 1, after_ns: 0 })),
];

/// The second of four messages meets the fault. Whatever arrives is whole, and the third and fourth do.
fn uc_fault(lab: &mut Lab, rule: MakeRule) -> Outcome {
    let (a, b) = lab.pair(&Plan::uc())?;
    lab.fabric.add_fault(rule())?;
    for id in 0..MESSAGES {
        lab.write(&a.buffer, 10_000 * id, &pattern(id, LENGTH as usize));
        lab.post_recv(&b, id, &[b.buffer.sge(10_000 * id, LENGTH)])?;
    }
    for id in 0..MESSAGES {
        lab.post(&a, Wr::send(id).sge(a.buffer.sge(10_000 * id, LENGTH)))?;
        lab.sent(&a, id)?;
        lab.settle();
    }
    let wcs: Vec<Wc> = lab.fabric.poll_cq(b.recv_cq, 8)?;
    ensure(wcs.len() >= 3, format_args!("only {} messages arrived", wcs.len()))?;
    let arrived: &[u64] = if wcs.len() == 3 { &[0, 2, 3] } else { &[0, 1, 2, 3] };
    for (place, (wc, message)) in (0..).zip(wcs.iter().zip(arrived)) {
        equal("receive completion", (wc.wr_id, wc.status), (place, WcStatus::Success))?;
        equal("length", wc.byte_len, LENGTH)?;
        lab.expect_bytes(&b.buffer, 10_000 * place, &pattern(*message, LENGTH as usize))?;
    }
    equal("state of the receiver", lab.state(&b)?, ferroce_core::QpState::Rts)
}

type Body = fn(&mut Lab) -> Outcome;

const ROWS: [(&str, &[&str], Body); 3] = [
    ("go-back-n/from-the-lost-packet-on", &["Lumina"], goes_back_to_the_loss),
    ("go-back-n/a-read-is-asked-for-from-where-it-broke-off", &["Lumina"], read_resumed),
    ("go-back-n/a-loss-gets-one-nak", &["Lumina", "IBTA 9.7.5"], one_nak),
];

/// Opcode and PSN behind the first one, of what an end sent.
fn sent_by(trace: &[Traced], end: &End, first: u32) -> Result<Vec<(ferroce_wire::Opcode, i32)>, Failure> {
    let own = trace.iter().filter(|packet| packet.from == end.at);
    own.map(|packet| {
        let parsed = ferroce_wire::Packet::parse(&packet.payload)?;
        let psn = parsed.bth().psn().distance_from(ferroce_wire::Psn::new(first));
        Ok((parsed.opcode(), psn))
    })
    .collect()
}

/// A WRITE of five packets whose third is lost: the first two go once, the others go again.
fn goes_back_to_the_loss(lab: &mut Lab) -> Outcome {
    let plan = patient();
    let (a, b) = lab.pair(&plan)?;
    lab.fabric.add_fault(request(2, Action::Drop))?;
    lab.post(&a, Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, LENGTH)))?;
    lab.sent(&a, 1)?;
    let trace = lab.fabric.take_trace()?;
    let psns: Vec<i32> = sent_by(&trace, &a, plan.psn)?.into_iter().map(|(_, psn)| psn).collect();
    let times = |wanted| psns.iter().filter(|psn| **psn == wanted).count();
    equal("how often the first two were sent", [times(0), times(1)], [1, 1])?;
    ensure((2..5).all(|psn| times(psn) >= 2), format_args!("PSNs that were sent: {psns:?}"))?;
    ensure(psns.ends_with(&[2, 3, 4]), format_args!("PSNs that were sent: {psns:?}"))
}

fn read_resumed(lab: &mut Lab) -> Outcome {
    let plan = patient();
    let (a, b) = lab.pair(&plan)?;
    let third = ScriptRule {
        kind: Some(Kind::Response),
        psn: Some(PsnSpan::One(2)),
        times: Some(1),
        ..rule(Action::Drop)
    };
    lab.fabric.add_fault(third)?;
    lab.write(&b.buffer, 0, &pattern(3, LENGTH as usize));
    lab.post(&a, Wr::read(1, &b.buffer, 0).sge(a.buffer.sge(0, LENGTH)))?;
    lab.sent(&a, 1)?;
    lab.expect_bytes(&a.buffer, 0, &pattern(3, LENGTH as usize))?;
    let trace = lab.fabric.take_trace()?;
    let request = ferroce_wire::Opcode::RC_READ_REQUEST;
    equal("READ requests", sent_by(&trace, &a, plan.psn)?, vec![(request, 0), (request, 2)])
}

fn one_nak(lab: &mut Lab) -> Outcome {
    let plan = Plan { mtu: PathMtu::Mtu256, ..patient() };
    let (a, b) = lab.pair(&plan)?;
    lab.fabric.add_fault(request(3, Action::Drop))?;
    lab.post(&a, Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, 16_000)))?;
    lab.sent(&a, 1)?;
    let mut naks = 0;
    for packet in lab.fabric.take_trace()? {
        let parsed = ferroce_wire::Packet::parse(&packet.payload)?;
        naks += usize::from(parsed.aeth().is_some_and(|aeth| aeth.syndrome() == SEQUENCE_NAK));
    }
    equal("NAKs for the gap", naks, 1)
}

const SEQUENCE_NAK: ferroce_wire::Syndrome =
    ferroce_wire::Syndrome::Nak(ferroce_wire::NakCode::PsnSequenceError);
