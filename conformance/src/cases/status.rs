//! Every completion status that a work request can end with, what it does to the QPs, and that they can be used again.

use crate::case::{Case, Outcome, Within, ensure, equal};
use crate::lab::{End, Lab, Plan, Wr};
use crate::verbs::AsyncEventKind;
use ferroce_core::{AccessFlags, QpState, SendOp, Sge, WcStatus};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for Row { name, rules, plan, run } in ROWS {
        cases.push(Case::new(format!("status/rc/{name}"), rules, move |lab| {
            let (plan_a, plan_b) = plan();
            let (a, b) = lab.pair_of(&plan_a, &plan_b)?;
            run(lab, &a, &b)?;
            reuse(lab, &a, &plan_a, &b, &plan_b).within("after RESET")
        }));
    }
    for (operation, wr) in LOCAL_OPERATIONS {
        for (fault, sge) in LOCAL_FAULTS {
            cases.push(Case::new(
                format!("status/rc/loc-prot-err/{operation}/{fault}"),
                &["IBTA 10.7.2.2", "rdma-unit-test rc_test"],
                move |lab| local_fault(lab, wr, sge),
            ));
        }
    }
}

/// A way to fail.
struct Row {
    name: &'static str,
    rules: &'static [&'static str],
    plan: fn() -> (Plan, Plan),
    run: fn(&mut Lab, &End, &End) -> Outcome,
}

fn same() -> (Plan, Plan) {
    (Plan::rc(), Plan::rc())
}

/// A requester that gives up soon.
fn hasty() -> (Plan, Plan) {
    (Plan { timeout: 8, retry_cnt: 1, ..Plan::rc() }, Plan::rc())
}

fn without_rnr_retries() -> (Plan, Plan) {
    (Plan { rnr_retry: 0, ..Plan::rc() }, Plan::rc())
}

fn without_reads() -> (Plan, Plan) {
    (Plan { max_rd_atomic: 0, ..Plan::rc() }, Plan::rc())
}

const ROWS: [Row; 18] = [
    Row {
        name: "loc-len-err/atomic-into-4-bytes",
        rules: &["IBTA 10.7.2.2", "rdma-unit-test rc_test"],
        plan: same,
        run: |lab, a, b| {
            lab.post(a, Wr::fetch_add(1, &b.buffer, 0, 1).sge(a.buffer.sge(0, 4)))?;
            fails_here(lab, a, b, WcStatus::LocLenErr)
        },
    },
    Row {
        name: "loc-len-err/atomic-into-16-bytes",
        rules: &["IBTA 10.7.2.2", "rdma-unit-test rc_test"],
        plan: same,
        run: |lab, a, b| {
            lab.post(a, Wr::compare_swap(1, &b.buffer, 0, 0, 1).sge(a.buffer.sge(0, 16)))?;
            fails_here(lab, a, b, WcStatus::LocLenErr)
        },
    },
    Row {
        name: "loc-qp-op-err/read-with-max-rd-atomic-0",
        rules: &["IBTA 10.7.2.2"],
        plan: without_reads,
        run: |lab, a, b| {
            lab.post(a, Wr::read(1, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
            fails_here(lab, a, b, WcStatus::LocQpOpErr)
        },
    },
    Row {
        name: "loc-qp-op-err/atomic-with-max-rd-atomic-0",
        rules: &["IBTA 10.7.2.2"],
        plan: without_reads,
        run: |lab, a, b| {
            lab.post(a, Wr::fetch_add(1, &b.buffer, 0, 1).sge(a.buffer.sge(0, 8)))?;
            fails_here(lab, a, b, WcStatus::LocQpOpErr)
        },
    },
    Row {
        name: "loc-qp-op-err/local-invalidate-of-a-registered-region",
        rules: &["linux-rdma f962208aa"],
        plan: same,
        run: |lab, a, b| {
            lab.post(a, Wr::new(1, SendOp::LocalInv { rkey: a.buffer.mr.rkey }))?;
            fails_here(lab, a, b, WcStatus::LocQpOpErr)
        },
    },
    Row {
        name: "rem-inv-req-err/unaligned-atomic",
        rules: &["IBTA 9.4.5", "IBTA table 63"],
        plan: same,
        run: |lab, a, b| {
            lab.post(a, Wr::fetch_add(1, &b.buffer, 4, 1).sge(a.buffer.sge(0, 8)))?;
            fails_there(lab, a, b, WcStatus::RemInvReqErr, AsyncEventKind::QpReqErr)
        },
    },
    Row {
        name: "rem-inv-req-err/send-into-a-small-buffer",
        rules: &["IBTA table 63", "rdma-unit-test rc_test"],
        plan: same,
        run: |lab, a, b| {
            lab.post_recv(b, 7, &[b.buffer.sge(0, 99)])?;
            lab.post(a, Wr::send(1).sge(a.buffer.sge(0, 100)))?;
            lab.send_fails(a, 1, WcStatus::RemInvReqErr)?;
            lab.recv_fails(b, 7, WcStatus::LocLenErr)?;
            both_in_err(lab, a, b)
        },
    },
    Row {
        name: "rem-inv-req-err/long-send-into-a-small-buffer",
        rules: &["IBTA table 63", "rdma-unit-test rc_test"],
        plan: same,
        run: |lab, a, b| {
            lab.post_recv(b, 7, &[b.buffer.sge(0, 5000)])?;
            lab.post(a, Wr::send(1).sge(a.buffer.sge(0, 5001)))?;
            lab.send_fails(a, 1, WcStatus::RemInvReqErr)?;
            lab.recv_fails(b, 7, WcStatus::LocLenErr)?;
            both_in_err(lab, a, b)
        },
    },
    Row {
        name: "rem-access-err/wrong-rkey",
        rules: &["IBTA table 63", "IBTA C9-222.1.1", "linux-rdma f8e55660b"],
        plan: same,
        run: |lab, a, b| {
            let (va, rkey) = (b.buffer.addr, b.buffer.mr.rkey ^ 1);
            lab.post(a, Wr::new(1, SendOp::Write { va, rkey }).sge(a.buffer.sge(0, 8)))?;
            fails_there(lab, a, b, WcStatus::RemAccessErr, AsyncEventKind::QpAccessErr)
        },
    },
    Row {
        name: "rem-access-err/write-with-immediate",
        rules: &["IBTA table 63", "rdma-unit-test rc_test"],
        plan: same,
        run: |lab, a, b| {
            lab.post_recv(b, 7, &[])?;
            let (va, rkey) = (b.buffer.addr, b.buffer.mr.rkey ^ 1);
            let op = SendOp::WriteImm { va, rkey, imm: [1; 4] };
            lab.post(a, Wr::new(1, op).sge(a.buffer.sge(0, 8)))?;
            lab.send_fails(a, 1, WcStatus::RemAccessErr)?;
            lab.recv_fails(b, 7, WcStatus::LocAccessErr)?;
            both_in_err(lab, a, b)
        },
    },
    Row {
        name: "rem-access-err/read-with-both-keys-wrong",
        rules: &["rdma-unit-test rc_test"],
        plan: same,
        run: |lab, a, b| {
            let op = SendOp::Read { va: b.buffer.addr, rkey: b.buffer.mr.rkey ^ 1 };
            let sge = Sge { lkey: a.buffer.mr.lkey ^ 1, ..a.buffer.sge(0, 8) };
            lab.post(a, Wr::new(1, op).sge(sge))?;
            fails_there(lab, a, b, WcStatus::RemAccessErr, AsyncEventKind::QpAccessErr)
        },
    },
    Row {
        name: "loc-prot-err/write-with-both-keys-wrong",
        rules: &["IBTA 10.7.2.2", "rdma-unit-test rc_test"],
        plan: same,
        run: |lab, a, b| {
            let op = SendOp::Write { va: b.buffer.addr, rkey: b.buffer.mr.rkey ^ 1 };
            let sge = Sge { lkey: a.buffer.mr.lkey ^ 1, ..a.buffer.sge(0, 8) };
            lab.post(a, Wr::new(1, op).sge(sge))?;
            fails_here(lab, a, b, WcStatus::LocProtErr)
        },
    },
    Row {
        name: "rem-op-err/receive-with-a-wrong-lkey",
        rules: &["IBTA table 63", "rdma-unit-test rc_test"],
        plan: same,
        run: |lab, a, b| {
            lab.post_recv(b, 7, &[Sge { lkey: b.buffer.mr.lkey ^ 1, ..b.buffer.sge(0, 100) }])?;
            lab.post(a, Wr::send(1).sge(a.buffer.sge(0, 100)))?;
            lab.send_fails(a, 1, WcStatus::RemOpErr)?;
            lab.recv_fails(b, 7, WcStatus::LocProtErr)?;
            both_in_err(lab, a, b)
        },
    },
    Row {
        name: "rem-op-err/receive-past-its-region",
        rules: &["IBTA table 63", "rdma-unit-test rc_test"],
        plan: same,
        run: |lab, a, b| {
            let past = b.buffer.len as u64 - 50;
            lab.post_recv(b, 7, &[b.buffer.sge(past, 100)])?;
            lab.post(a, Wr::send(1).sge(a.buffer.sge(0, 100)))?;
            lab.send_fails(a, 1, WcStatus::RemOpErr)?;
            lab.recv_fails(b, 7, WcStatus::LocProtErr)?;
            both_in_err(lab, a, b)
        },
    },
    Row {
        name: "retry-exc-err/peer-in-err",
        rules: &["IBTA 9.7.6", "ConnectX error study"],
        plan: hasty,
        run: |lab, a, b| {
            lab.to_state(b, QpState::Err)?;
            lab.post(a, Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
            lab.send_fails(a, 1, WcStatus::RetryExcErr)?;
            equal("state", lab.state(a)?, QpState::Err)
        },
    },
    Row {
        name: "retry-exc-err/peer-in-reset",
        rules: &["IBTA 9.7.6", "ConnectX error study"],
        plan: hasty,
        run: |lab, a, b| {
            lab.to_state(b, QpState::Reset)?;
            lab.post(a, Wr::read(1, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
            lab.send_fails(a, 1, WcStatus::RetryExcErr)?;
            equal("state", lab.state(a)?, QpState::Err)
        },
    },
    Row {
        name: "rnr-retry-exc-err/no-retries",
        rules: &["IBTA 9.7.5.2.8"],
        plan: without_rnr_retries,
        run: |lab, a, b| {
            lab.post(a, Wr::send(1).sge(a.buffer.sge(0, 8)))?;
            lab.send_fails(a, 1, WcStatus::RnrRetryExcErr)?;
            // The responder did nothing wrong.
            equal("state of the responder", lab.state(b)?, QpState::Rts)?;
            equal("state of the requester", lab.state(a)?, QpState::Err)
        },
    },
    Row {
        name: "wr-flush-err/everything-behind-a-failure",
        rules: &["IBTA 10.7.2.2", "linux-rdma, no completion after an error"],
        plan: same,
        run: |lab, a, b| {
            lab.post(a, Wr::write(1, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
            let op = SendOp::Write { va: b.buffer.addr, rkey: b.buffer.mr.rkey ^ 0x80 };
            for id in 2..10 {
                lab.post(a, Wr::new(id, op).sge(a.buffer.sge(0, 8)).unsignaled())?;
            }
            lab.sent(a, 1)?;
            lab.send_fails(a, 2, WcStatus::RemAccessErr)?;
            for id in 3..10 {
                lab.send_fails(a, id, WcStatus::WrFlushErr)?;
            }
            // And whatever is posted then.
            lab.post(a, Wr::write(10, &b.buffer, 0).sge(a.buffer.sge(0, 8)))?;
            lab.send_fails(a, 10, WcStatus::WrFlushErr)
        },
    },
];

/// Work request 1 fails by itself: the peer sees nothing of it.
fn fails_here(lab: &mut Lab, a: &End, b: &End, status: WcStatus) -> Outcome {
    lab.send_fails(a, 1, status)?;
    equal("state of the requester", lab.state(a)?, QpState::Err)?;
    lab.no_completions(b)?;
    lab.no_events(b.at)?;
    equal("state of the peer", lab.state(b)?, QpState::Rts)
}

/// Work request 1 fails by the peer's word, whose QP fails with an event.
fn fails_there(lab: &mut Lab, a: &End, b: &End, status: WcStatus, event: AsyncEventKind) -> Outcome {
    lab.send_fails(a, 1, status)?;
    lab.qp_event(b, event)?;
    both_in_err(lab, a, b)
}

fn both_in_err(lab: &mut Lab, a: &End, b: &End) -> Outcome {
    equal("state of the requester", lab.state(a)?, QpState::Err)?;
    equal("state of the responder", lab.state(b)?, QpState::Err)
}

/// RESET, the way to RTS, and a transfer.
fn reuse(lab: &mut Lab, a: &End, plan_a: &Plan, b: &End, plan_b: &Plan) -> Outcome {
    for end in [a, b] {
        lab.to_state(end, QpState::Reset)?;
    }
    lab.connect(a, plan_a, b, plan_b)?;
    lab.connect(b, plan_b, a, plan_a)?;
    lab.post_recv(b, 100, &[b.buffer.sge(0, 2000)])?;
    lab.post(a, Wr::send(101).sge(a.buffer.sge(0, 2000)))?;
    lab.sent(a, 101)?;
    lab.received(b, 100)?;
    lab.no_completions(a)
}

type MakeWr = fn(&End) -> Wr;

/// What uses its own list's memory.
const LOCAL_OPERATIONS: [(&str, MakeWr); 4] = [
    ("send", |_| Wr::send(1)),
    ("write", |b| Wr::write(1, &b.buffer, 0)),
    ("read", |b| Wr::read(1, &b.buffer, 0)),
    ("fetch-add", |b| Wr::fetch_add(1, &b.buffer, 0, 1)),
];

type MakeSge = fn(&mut Lab, &End) -> Result<Sge, crate::case::Failure>;

/// Elements that cannot be used.
const LOCAL_FAULTS: [(&str, MakeSge); 6] = [
    ("unknown-key", |_, a| Ok(Sge { lkey: 0xdead_be00, ..a.buffer.sge(0, 8) })),
    ("wrong-key-byte", |_, a| Ok(Sge { lkey: a.buffer.mr.lkey ^ 0x55, ..a.buffer.sge(0, 8) })),
    ("deregistered", |lab, a| {
        let gone = lab.buffer(a.pd, 64, AccessFlags::LOCAL_WRITE)?;
        lab.fabric.dereg_mr(gone.mr)?;
        Ok(gone.sge(0, 8))
    }),
    ("of-another-pd", |lab, a| {
        let pd = lab.fabric.alloc_pd(a.at)?;
        Ok(lab.buffer(pd, 64, AccessFlags::LOCAL_WRITE)?.sge(0, 8))
    }),
    ("before-its-region", |_, a| {
        let sge = a.buffer.sge(0, 8);
        Ok(Sge { addr: sge.addr - 1, ..sge })
    }),
    ("past-its-region", |_, a| Ok(a.buffer.sge(a.buffer.len as u64 - 7, 8))),
];

fn local_fault(lab: &mut Lab, wr: MakeWr, sge: MakeSge) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    lab.post_recv(&b, 7, &[b.buffer.sge(0, 64)])?;
    let sge = sge(lab, &a)?;
    lab.post(&a, wr(&b).sge(sge))?;
    lab.send_fails(&a, 1, WcStatus::LocProtErr)?;
    equal("state", lab.state(&a)?, QpState::Err)?;
    lab.no_completions(&b)?;
    ensure(lab.state(&b)? == QpState::Rts, "the peer's QP must not notice")
}
