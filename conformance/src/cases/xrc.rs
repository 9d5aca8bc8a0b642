//! XRC: initiators that reach every SRQ of the target's domain.

use crate::case::{Case, Failure, Outcome, Within, equal};
use crate::fabric::IpVersion;
use crate::lab::{ALL_ACCESS, B, End, Lab, Plan, Wr, pattern, recv};
use crate::needs::Need;
use crate::verbs::{AsyncEventKind, Cq, Errno, Srq, Xrcd};
use ferroce_core::{QpState, QpType, SendOp, Srqn, Wc, WcFlags, WcOpcode, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for operation in Operation::ALL {
        for version in IpVersion::ALL {
            for (size, length) in SIZES {
                let name = format!("xrc/transfer/{}/{version}/{size}", operation.name());
                let body = move |lab: &mut Lab| transfer(lab, operation, version, length);
                cases.push(Case::new(name, &["IBTA A14"], body).needs([Need::Xrc]));
            }
        }
    }
    for (name, rules, body) in ROWS {
        cases.push(Case::new(format!("xrc/{name}"), rules, body).needs([Need::Xrc]));
    }
    for (name, rules, body) in LIBRARY_ROWS {
        let needs = [Need::Xrc, Need::VerbsLibrary];
        cases.push(Case::new(format!("xrc/{name}"), rules, body).needs(needs));
    }
}

/// An initiator at A, a target at B, and B's domain with an SRQ.
struct Xrc {
    a: End,
    b: End,
    xrcd: Xrcd,
    srq: Srq,
    srqn: Srqn,
}

fn initiator() -> Plan {
    Plan::new(QpType::XrcIni)
}

impl Xrc {
    fn new(lab: &mut Lab, version: IpVersion) -> Result<Xrc, Failure> {
        let (plan_a, plan_b) =
            (Plan { version, ..initiator() }, Plan { version, ..Plan::new(QpType::XrcTgt) });
        let a = lab.end(crate::lab::A, &plan_a)?;
        let pd = lab.fabric.alloc_pd(B)?;
        let buffer = lab.buffer(pd, plan_b.buffer_len, ALL_ACCESS)?;
        let cqs: [Cq; 2] = [lab.fabric.create_cq(B, 64)?, lab.fabric.create_cq(B, 64)?];
        let xrcd = lab.fabric.open_xrcd(B)?;
        let srq = lab.srq(pd, &plan_b, Some((xrcd, cqs[1])))?;
        let b = lab.target(xrcd, pd, buffer, cqs, srq)?;
        lab.connect(&a, &plan_a, &b, &plan_b)?;
        lab.connect(&b, &plan_b, &a, &plan_a)?;
        let srqn = lab.fabric.srqn(srq);
        Ok(Xrc { a, b, xrcd, srq, srqn })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
}

const SIZES: [(&str, u32); 5] =
    [("empty", 0), ("3-bytes", 3), ("mtu", 1024), ("mtu-and-1", 1025), ("7-mtu-and-33", 7 * 1024 + 33)];

impl Operation {
    const ALL: [Operation; 5] =
        [Operation::Send, Operation::SendImm, Operation::Write, Operation::WriteImm, Operation::Read];

    fn name(self) -> &'static str {
        match self {
            Operation::Send => "send",
            Operation::SendImm => "send-imm",
            Operation::Write => "write",
            Operation::WriteImm => "write-imm",
            Operation::Read => "read",
        }
    }

    fn op(self, b: &End) -> SendOp {
        let (va, rkey) = (b.buffer.addr, b.buffer.mr.rkey);
        match self {
            Operation::Send => SendOp::Send,
            Operation::SendImm => SendOp::SendImm { imm: IMM },
            Operation::Write => SendOp::Write { va, rkey },
            Operation::WriteImm => SendOp::WriteImm { va, rkey, imm: IMM },
            Operation::Read => SendOp::Read { va, rkey },
        }
    }

    /// The opcode of its completion at the receiver, if it has one.
    fn received(self) -> Option<WcOpcode> {
        match self {
            Operation::Send | Operation::SendImm => Some(WcOpcode::Recv),
            Operation::WriteImm => Some(WcOpcode::RecvRdmaWithImm),
            Operation::Write | Operation::Read => None,
        }
    }
}

const IMM: [u8; 4] = [4, 3, 2, 1];

fn transfer(lab: &mut Lab, operation: Operation, version: IpVersion, length: u32) -> Outcome {
    let Xrc { a, b, srqn, .. } = Xrc::new(lab, version)?;
    let bytes = pattern(8, length as usize);
    let (source, target) = if operation == Operation::Read { (&b, &a) } else { (&a, &b) };
    lab.write(&source.buffer, 0, &bytes);
    if let Some(opcode) = operation.received() {
        let list = [b.buffer.sge(0, length)];
        lab.post_recv(&b, 2, if opcode == WcOpcode::Recv { &list } else { &[] })?;
    }
    lab.post(&a, Wr::new(1, operation.op(&b)).sge(a.buffer.sge(0, length)).to_srq(srqn))?;
    lab.sent(&a, 1)?;
    if let Some(opcode) = operation.received() {
        let wc = lab.received(&b, 2)?;
        equal("completion", (wc.opcode, wc.byte_len, wc.qpn), (opcode, length, b.qpn))?;
        let imm = wc.flags.contains(WcFlags::WITH_IMM).then_some(wc.imm);
        equal("immediate data", imm, (operation != Operation::Send).then_some(IMM))?;
    }
    lab.expect_bytes(&target.buffer, 0, &bytes)?;
    lab.expect_bytes(&target.buffer, length.into(), &[0; 64]).within("behind the message")?;
    lab.no_completions(&a)
}

type Body = fn(&mut Lab) -> Outcome;

const ROWS: [(&str, &[&str], Body); 9] = [
    ("atomics", &["IBTA A14", "IBTA 9.4.5"], atomics),
    ("every-srq-of-the-domain", &["IBTA A14"], every_srq),
    ("several-initiators-and-one-srq", &["IBTA A14"], several_initiators),
    ("keys-are-those-of-the-srqs-pd", &["IBTA A14", "linux-rdma 3644e62bb"], keys_of_the_srq),
    ("an-srq-that-does-not-exist", &["IBTA A14"], unknown_srq),
    ("an-srq-of-another-domain", &["IBTA A14", "linux-rdma 3644e62bb"], foreign_domain),
    ("empty-puts-the-sender-off", &["IBTA A14", "IBTA 9.7.5.2.8"], empty_puts_off),
    ("wrong-rkey", &["IBTA table 63"], wrong_rkey),
    ("err-flushes-nothing-of-the-srq", &["IBTA o11-5.2.5"], err_flushes_nothing),
];

const LIBRARY_ROWS: [(&str, &[&str], Body); 4] = [
    ("post/initiators-receive-nothing", POST_RULES, initiators_receive_nothing),
    ("post/targets-take-nothing", POST_RULES, targets_take_nothing),
    ("busy/domain", &["ibv_open_xrcd(3)"], busy_domain),
    ("busy/cq-of-an-srq", &["ibv_create_cq(3)"], busy_cq),
];
const POST_RULES: &[&str] = &["IBTA A14", "ibv_post_recv(3)"];

fn atomics(lab: &mut Lab) -> Outcome {
    let Xrc { a, b, srqn, .. } = Xrc::new(lab, IpVersion::V4)?;
    lab.set_word(&b.buffer, 64, 40);
    lab.post(&a, Wr::fetch_add(1, &b.buffer, 64, 2).sge(a.buffer.sge(0, 8)).to_srq(srqn))?;
    lab.sent(&a, 1)?;
    lab.post(&a, Wr::compare_swap(2, &b.buffer, 64, 42, 7).sge(a.buffer.sge(8, 8)).to_srq(srqn))?;
    lab.sent(&a, 2)?;
    let words = [lab.word(&a.buffer, 0), lab.word(&a.buffer, 8), lab.word(&b.buffer, 64)];
    equal("values that came back, and what is there", words, [40, 42, 7])
}

fn every_srq(lab: &mut Lab) -> Outcome {
    let Xrc { a, b, xrcd, srq, .. } = Xrc::new(lab, IpVersion::V4)?;
    // The second one completes elsewhere.
    let cq = lab.fabric.create_cq(B, 16)?;
    let other = lab.srq(b.pd, &initiator(), Some((xrcd, cq)))?;
    for (id, srq, cq) in [(1, other, cq), (2, srq, b.recv_cq), (3, other, cq)] {
        let list = vec![recv(id, &[b.buffer.sge(0, 64)])];
        lab.fabric.post_srq_recv(srq, list)?;
        let srqn = lab.fabric.srqn(srq);
        lab.post(&a, Wr::send(id).sge(a.buffer.sge(0, 8)).to_srq(srqn))?;
        lab.sent(&a, id)?;
        let wc = lab.wait_cq(cq, "receive")?;
        let named = |wc: &Wc| (wc.wr_id, wc.status, wc.qpn);
        equal("receive completion", named(&wc), (id, WcStatus::Success, b.qpn))?;
    }
    Ok(())
}

fn several_initiators(lab: &mut Lab) -> Outcome {
    let Xrc { a, b, xrcd, srq, srqn } = Xrc::new(lab, IpVersion::V4)?;
    let (plan, target_plan) = (initiator(), Plan::new(QpType::XrcTgt));
    let c = lab.end_with(a.pd, a.buffer, [a.send_cq, a.recv_cq], &plan)?;
    let d = lab.target(xrcd, b.pd, b.buffer, [b.send_cq, b.recv_cq], srq)?;
    lab.connect(&c, &plan, &d, &target_plan)?;
    lab.connect(&d, &target_plan, &c, &plan)?;
    for id in 0..6 {
        let (from, to) = if id % 2 == 0 { (&a, &b) } else { (&c, &d) };
        lab.post_recv(&b, id, &[b.buffer.sge(0, 64)])?;
        lab.post(from, Wr::send(id).sge(a.buffer.sge(0, 8)).to_srq(srqn))?;
        lab.sent(from, id)?;
        equal("target", lab.received(&b, id)?.qpn, to.qpn)?;
    }
    Ok(())
}

fn keys_of_the_srq(lab: &mut Lab) -> Outcome {
    let Xrc { a, b, xrcd, srqn, .. } = Xrc::new(lab, IpVersion::V4)?;
    // Another SRQ of the domain has another PD, whose regions only requests that name it can reach.
    let pd = lab.fabric.alloc_pd(B)?;
    let memory = lab.buffer(pd, 64, ALL_ACCESS)?;
    let other = lab.srq(pd, &initiator(), Some((xrcd, b.recv_cq)))?;
    let other_srqn = lab.fabric.srqn(other);
    lab.post(&a, Wr::write(1, &memory, 0).sge(a.buffer.sge(0, 8)).to_srq(other_srqn))?;
    lab.sent(&a, 1)?;
    lab.post(&a, Wr::write(2, &b.buffer, 0).sge(a.buffer.sge(0, 8)).to_srq(srqn))?;
    lab.sent(&a, 2)?;
    lab.post(&a, Wr::write(3, &memory, 0).sge(a.buffer.sge(0, 8)).to_srq(srqn))?;
    lab.send_fails(&a, 3, WcStatus::RemAccessErr)
}

fn unknown_srq(lab: &mut Lab) -> Outcome {
    let Xrc { a, b, .. } = Xrc::new(lab, IpVersion::V4)?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)).to_srq(Srqn::new(0x00ff_fffe)))?;
    lab.send_fails(&a, 1, WcStatus::RemInvReqErr)?;
    lab.wait_state(&b, QpState::Err)?;
    lab.no_completions(&b)
}

fn foreign_domain(lab: &mut Lab) -> Outcome {
    let Xrc { a, b, .. } = Xrc::new(lab, IpVersion::V4)?;
    let xrcd = lab.fabric.open_xrcd(B)?;
    let foreign = lab.srq(b.pd, &initiator(), Some((xrcd, b.recv_cq)))?;
    lab.fabric.post_srq_recv(foreign, vec![recv(7, &[b.buffer.sge(0, 64)])])?;
    let srqn = lab.fabric.srqn(foreign);
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)).to_srq(srqn))?;
    lab.send_fails(&a, 1, WcStatus::RemAccessErr)?;
    lab.no_completions(&b)
}

fn empty_puts_off(lab: &mut Lab) -> Outcome {
    let Xrc { a, b, srqn, .. } = Xrc::new(lab, IpVersion::V4)?;
    lab.post(&a, Wr::send(1).sge(a.buffer.sge(0, 8)).to_srq(srqn))?;
    lab.settle();
    lab.post_recv(&b, 2, &[b.buffer.sge(0, 64)])?;
    lab.sent(&a, 1)?;
    lab.received(&b, 2).map(|_| ())
}

fn wrong_rkey(lab: &mut Lab) -> Outcome {
    let Xrc { a, b, srqn, .. } = Xrc::new(lab, IpVersion::V4)?;
    let op = SendOp::Write { va: b.buffer.addr, rkey: b.buffer.mr.rkey ^ 1 };
    lab.post(&a, Wr::new(1, op).sge(a.buffer.sge(0, 8)).to_srq(srqn))?;
    lab.send_fails(&a, 1, WcStatus::RemAccessErr)?;
    lab.qp_event(&b, AsyncEventKind::QpAccessErr)?;
    lab.expect_bytes(&b.buffer, 0, &[0; 8])
}

fn err_flushes_nothing(lab: &mut Lab) -> Outcome {
    let Xrc { b, .. } = Xrc::new(lab, IpVersion::V4)?;
    lab.post_recv(&b, 2, &[b.buffer.sge(0, 64)])?;
    lab.to_state(&b, QpState::Err)?;
    lab.qp_event(&b, AsyncEventKind::QpLastWqeReached)?;
    lab.no_completions(&b)
}

fn refused(result: Result<(), crate::verbs::PostRefused>) -> Outcome {
    let refused = result.err().ok_or_else(|| Failure::new("it was posted"))?;
    equal("refusal", (refused.index, refused.refused.errno), (0, Errno::EINVAL))
}

fn initiators_receive_nothing(lab: &mut Lab) -> Outcome {
    let Xrc { a, .. } = Xrc::new(lab, IpVersion::V4)?;
    refused(lab.fabric.post_recv(a.qp, vec![recv(1, &[a.buffer.sge(0, 8)])]))
}

fn targets_take_nothing(lab: &mut Lab) -> Outcome {
    let Xrc { b, .. } = Xrc::new(lab, IpVersion::V4)?;
    refused(lab.fabric.post_recv(b.qp, vec![recv(1, &[b.buffer.sge(0, 8)])]))?;
    refused(lab.fabric.post_send(b.qp, vec![Wr::send(1).sge(b.buffer.sge(0, 8)).into()]))
}

fn busy_domain(lab: &mut Lab) -> Outcome {
    let Xrc { b, xrcd, srq, .. } = Xrc::new(lab, IpVersion::V4)?;
    let errno = |lab: &mut Lab| lab.fabric.close_xrcd(xrcd).err().map(|refused| refused.errno);
    equal("errno with a target and an SRQ", errno(lab), Some(Errno::EBUSY))?;
    lab.fabric.destroy_qp(b.qp)?;
    equal("errno with an SRQ", errno(lab), Some(Errno::EBUSY))?;
    lab.fabric.destroy_srq(srq)?;
    equal("errno", errno(lab), None)
}

fn busy_cq(lab: &mut Lab) -> Outcome {
    let Xrc { b, srq, .. } = Xrc::new(lab, IpVersion::V4)?;
    lab.fabric.destroy_qp(b.qp)?;
    let refused = lab.fabric.destroy_cq(b.recv_cq).err();
    equal("errno", refused.map(|refused| refused.errno), Some(Errno::EBUSY))?;
    lab.fabric.destroy_srq(srq)?;
    lab.fabric.destroy_cq(b.recv_cq).within("without its SRQ")
}
