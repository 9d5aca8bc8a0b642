//! Every operation moves the right bytes, whatever the MTU, the size and the IP version.

use crate::case::{Case, Outcome, Within, equal};
use crate::fabric::IpVersion;
use crate::lab::{End, Lab, Plan, Wr, pattern};
use crate::needs::Need;
use ferroce_core::{PathMtu, QpType, SendOp, WcFlags, WcOpcode};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (qp_type, operations) in
        [(QpType::Rc, &Operation::ALL[..]), (QpType::Uc, &Operation::ALL[..Operation::READ])]
    {
        for operation in operations {
            for version in IpVersion::ALL {
                for mtu in PathMtu::ALL {
                    for (size, length) in sizes(mtu) {
                        let row = Row { qp_type, operation: *operation, version, mtu, length };
                        cases.push(row.case(size));
                    }
                }
            }
        }
    }
}

/// What is moved, and how.
#[derive(Clone, Copy)]
struct Row {
    qp_type: QpType,
    operation: Operation,
    version: IpVersion,
    mtu: PathMtu,
    length: u32,
}

/// An operation that moves bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
}

impl Operation {
    const ALL: [Operation; 5] =
        [Operation::Send, Operation::SendImm, Operation::Write, Operation::WriteImm, Operation::Read];
    /// How many stand before READ.
    const READ: usize = 4;

    fn name(self) -> &'static str {
        match self {
            Operation::Send => "send",
            Operation::SendImm => "send-imm",
            Operation::Write => "write",
            Operation::WriteImm => "write-imm",
            Operation::Read => "read",
        }
    }

    fn rules(self) -> &'static [&'static str] {
        match self {
            Operation::Send => &["IBTA 9.4.1", "IBTA 9.7.2", "SoftRoCE issue 30"],
            Operation::SendImm => &["IBTA 9.4.1", "IBTA 9.3"],
            Operation::Write => &["IBTA 9.4.3", "IBTA 9.7.2", "SoftRoCE issue 30"],
            Operation::WriteImm => &["IBTA 9.4.3", "IBTA 9.3"],
            Operation::Read => &["IBTA 9.4.4", "SoftRoCE issue 30"],
        }
    }
}

/// Lengths around the MTU, with their names.
fn sizes(mtu: PathMtu) -> [(&'static str, u32); 9] {
    let mtu = mtu.bytes();
    [
        ("empty", 0),
        ("1-byte", 1),
        ("3-bytes", 3),
        ("mtu-less-1", mtu - 1),
        ("mtu", mtu),
        ("mtu-and-1", mtu + 1),
        ("2-mtu-less-1", 2 * mtu - 1),
        ("2-mtu-and-1", 2 * mtu + 1),
        ("7-mtu-and-33", 7 * mtu + 33),
    ]
}

impl Row {
    fn case(self, size: &str) -> Case {
        let name = format!(
            "transfer/{}/{}/{}/mtu-{}/{size}",
            self.qp_type.to_string().to_lowercase(),
            self.operation.name(),
            self.version,
            self.mtu.bytes()
        );
        let case = Case::new(name, self.operation.rules(), move |lab| self.run(lab));
        if self.qp_type == QpType::Uc { case.needs([Need::Uc]) } else { case }
    }

    fn run(self, lab: &mut Lab) -> Outcome {
        let plan = Plan { mtu: self.mtu, version: self.version, ..Plan::new(self.qp_type) };
        let (a, b) = lab.pair(&plan)?;
        let bytes = pattern(u64::from(self.length), self.length as usize);
        // What lies behind the message must stay.
        let fence = pattern(1, FENCE);
        let (source, target) = if self.operation == Operation::Read { (&b, &a) } else { (&a, &b) };
        lab.write(&source.buffer, OFFSET, &bytes);
        lab.write(&target.buffer, OFFSET + u64::from(self.length), &fence);
        self.transfer(lab, &a, &b)?;
        lab.expect_bytes(&target.buffer, OFFSET, &bytes)?;
        lab.expect_bytes(&target.buffer, OFFSET + u64::from(self.length), &fence)
            .within("behind the message")?;
        lab.no_completions(&a)?;
        lab.no_completions(&b)
    }

    fn transfer(self, lab: &mut Lab, a: &End, b: &End) -> Outcome {
        let Row { operation, length, .. } = self;
        let wr = match operation {
            Operation::Send => Wr::send(SENT),
            Operation::SendImm => Wr::new(SENT, SendOp::SendImm { imm: IMM }),
            Operation::Write => Wr::write(SENT, &b.buffer, OFFSET),
            Operation::WriteImm => {
                let (va, rkey) = (b.buffer.addr + OFFSET, b.buffer.mr.rkey);
                Wr::new(SENT, SendOp::WriteImm { va, rkey, imm: IMM })
            }
            Operation::Read => Wr::read(SENT, &b.buffer, OFFSET),
        };
        match operation {
            Operation::Send | Operation::SendImm => {
                lab.post_recv(b, RECEIVED, &[b.buffer.sge(OFFSET, length)])?;
            }
            Operation::WriteImm => lab.post_recv(b, RECEIVED, &[])?,
            Operation::Write | Operation::Read => {}
        }
        lab.post(a, wr.sge(a.buffer.sge(OFFSET, length)))?;
        let wc = lab.sent(a, SENT)?;
        match operation {
            Operation::Send => expect_receive(lab, b, WcOpcode::Recv, length, None),
            Operation::SendImm => expect_receive(lab, b, WcOpcode::Recv, length, Some(IMM)),
            Operation::WriteImm => expect_receive(lab, b, WcOpcode::RecvRdmaWithImm, length, Some(IMM)),
            Operation::Read => {
                equal("completion of the READ", (wc.opcode, wc.byte_len), (WcOpcode::RdmaRead, length))
            }
            Operation::Write => {
                equal("opcode", wc.opcode, WcOpcode::RdmaWrite)?;
                // On UC the completion says only that it was sent.
                lab.settle();
                Ok(())
            }
        }
    }
}

fn expect_receive(lab: &mut Lab, end: &End, opcode: WcOpcode, length: u32, imm: Option<[u8; 4]>) -> Outcome {
    let wc = lab.received(end, RECEIVED)?;
    equal("receive completion", (wc.opcode, wc.byte_len), (opcode, length))?;
    equal("immediate", wc.flags.contains(WcFlags::WITH_IMM).then_some(wc.imm), imm)
}

/// Where messages lie; not aligned to anything.
const OFFSET: u64 = 5;
/// Bytes behind a message that are looked at.
const FENCE: usize = 64;
const IMM: [u8; 4] = [0xde, 0xad, 0xbe, 0xef];
const SENT: u64 = 1;
const RECEIVED: u64 = 2;
