//! Inline data: copied when it is posted, up to the QP's limit.

use crate::case::{Case, Failure, Outcome, equal};
use crate::lab::{End, Lab, Plan, Wr, pattern};
use crate::needs::Need;
use crate::verbs::Errno;
use ferroce_core::{QpType, SendOp};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let needs = (qp_type == QpType::Uc).then_some(Need::Uc);
        for operation in [Operation::Send, Operation::SendImm, Operation::Write] {
            for (size, length) in SIZES {
                let kind = qp_type.to_string().to_lowercase();
                let name = format!("inline/{kind}/{}/{size}", operation.name());
                let body = move |lab: &mut Lab| arrives(lab, qp_type, operation, length);
                cases.push(Case::new(name, RULES, body).needs(needs));
            }
        }
    }
    for (name, wr) in REFUSALS {
        let name = format!("inline/refused/{name}");
        cases.push(Case::new(name, RULES, move |lab| refused(lab, wr)).needs([Need::VerbsLibrary]));
    }
}

const RULES: &[&str] = &["ibv_post_send(3)", "rdma-core, inline lists"];

/// The limit of a [`Plan`].
const LIMIT: usize = 64;
const SIZES: [(&str, usize); 4] = [("nothing", 0), ("1-byte", 1), ("3-5-7-bytes", 15), ("the-limit", LIMIT)];

#[derive(Clone, Copy)]
enum Operation {
    Send,
    SendImm,
    Write,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Send => "send",
            Operation::SendImm => "send-imm",
            Operation::Write => "write",
        }
    }

    fn wr(self, b: &End) -> Wr {
        match self {
            Operation::Send => Wr::send(1),
            Operation::SendImm => Wr::new(1, SendOp::SendImm { imm: [1, 2, 3, 4] }),
            Operation::Write => Wr::write(1, &b.buffer, 0),
        }
    }
}

fn arrives(lab: &mut Lab, qp_type: QpType, operation: Operation, length: usize) -> Outcome {
    let (a, b) = lab.pair(&Plan::new(qp_type))?;
    let bytes = pattern(6, length);
    lab.post_recv(&b, 2, &[b.buffer.sge(0, 100)])?;
    lab.post(&a, operation.wr(&b).inline(&bytes))?;
    lab.sent(&a, 1)?;
    lab.settle();
    lab.expect_bytes(&b.buffer, 0, &bytes)?;
    lab.expect_bytes(&b.buffer, length as u64, &[0; 36])
}

type MakeWr = fn(&End) -> Wr;

const REFUSALS: [(&str, MakeWr); 3] = [
    ("one-byte-too-many", |_| Wr::send(1).inline(&[0; LIMIT + 1])),
    ("a-write-of-one-byte-too-many", |b| Wr::write(1, &b.buffer, 0).inline(&[0; LIMIT + 1])),
    ("a-read-has-no-data-to-send", |b| Wr::read(1, &b.buffer, 0).inline(&[0; 8])),
];

fn refused(lab: &mut Lab, wr: MakeWr) -> Outcome {
    let (a, b) = lab.pair(&Plan::rc())?;
    let refused = lab.fabric.post_send(a.qp, vec![wr(&b).into()]);
    let refused = refused.err().ok_or_else(|| Failure::new("it was posted"))?;
    equal("refusal", (refused.index, refused.refused.errno), (0, Errno::EINVAL))?;
    lab.no_completions(&a)?;
    // The QP is as before.
    lab.post(&a, Wr::write(2, &b.buffer, 0).inline(&[7; LIMIT]))?;
    lab.sent(&a, 2)?;
    lab.expect_bytes(&b.buffer, 0, &[7; LIMIT])
}
