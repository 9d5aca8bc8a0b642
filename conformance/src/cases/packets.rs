//! The packets that messages are made of, as they leave.

use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::lab::{End, Lab, Plan, Wr, pattern};
use crate::needs::Need;
use ferroce_core::{QpType, SendFlags, SendOp};
use ferroce_wire::{DEFAULT_PKEY, Packet};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for qp_type in [QpType::Rc, QpType::Uc] {
        for operation in Operation::ALL {
            for (size, packets, last) in SIZES {
                let kind = qp_type.to_string().to_lowercase();
                let name = format!("packets/{kind}/{}/{size}", operation.name());
                let body = move |lab: &mut Lab| message(lab, qp_type, operation, packets, last);
                let uc = (qp_type == QpType::Uc).then_some(Need::Uc);
                cases.push(Case::new(name, RULES, body).needs([Need::Trace]).needs(uc));
            }
        }
    }
}

const RULES: &[&str] = &["IBTA 9.7.2", "IBTA 9.2", "linux-rdma a70c679c0"];
const MTU: u32 = 1024;

/// Packets, and bytes in the last one.
const SIZES: [(&str, u32, u32); 6] = [
    ("empty", 1, 0),
    ("1-byte", 1, 1),
    ("mtu", 1, MTU),
    ("mtu-and-3", 2, 3),
    ("3-mtu", 3, MTU),
    ("40-mtu-and-2", 41, 2),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Send,
    SendImm,
    SendInvalidate,
    Write,
    WriteImm,
}

impl Operation {
    const ALL: [Operation; 5] = [
        Operation::Send,
        Operation::SendImm,
        Operation::SendInvalidate,
        Operation::Write,
        Operation::WriteImm,
    ];

    fn name(self) -> &'static str {
        match self {
            Operation::Send => "send",
            Operation::SendImm => "send-imm",
            Operation::SendInvalidate => "send-invalidate",
            Operation::Write => "write",
            Operation::WriteImm => "write-imm",
        }
    }

    fn op(self, b: &End) -> SendOp {
        let (va, rkey) = (b.buffer.addr, b.buffer.mr.rkey);
        match self {
            Operation::Send => SendOp::Send,
            Operation::SendImm => SendOp::SendImm { imm: [1, 2, 3, 4] },
            Operation::SendInvalidate => SendOp::SendInv { rkey: 0x1234_5678 },
            Operation::Write => SendOp::Write { va, rkey },
            Operation::WriteImm => SendOp::WriteImm { va, rkey, imm: [1, 2, 3, 4] },
        }
    }

    fn stem(self) -> &'static str {
        if matches!(self, Operation::Write | Operation::WriteImm) { "WRITE" } else { "SEND" }
    }

    /// What the opcode of the last packet says besides.
    fn suffix(self) -> &'static str {
        match self {
            Operation::Send | Operation::Write => "",
            Operation::SendImm | Operation::WriteImm => "_IMM",
            Operation::SendInvalidate => "_INV",
        }
    }

    fn takes_receive(self) -> bool {
        self != Operation::Write
    }
}

fn message(lab: &mut Lab, qp_type: QpType, operation: Operation, packets: u32, last: u32) -> Outcome {
    let plan = Plan::new(qp_type);
    let (a, b) = lab.pair(&plan)?;
    let length = (packets - 1) * MTU + last;
    let bytes = pattern(5, length as usize);
    lab.write(&a.buffer, 0, &bytes);
    lab.post_recv(&b, 2, &[b.buffer.sge(0, length)])?;
    let wr = Wr::new(1, operation.op(&b)).sge(a.buffer.sge(0, length)).flags(SendFlags::SOLICITED);
    if qp_type == QpType::Uc && operation == Operation::SendInvalidate {
        // UC has no SEND with invalidate: it is refused or fails, and nothing leaves.
        if lab.fabric.post_send(a.qp, vec![wr.into()]).is_ok() {
            lab.send_fails(&a, 1, ferroce_core::WcStatus::LocQpOpErr)?;
        }
        lab.settle();
        return equal("packets", lab.fabric.take_trace()?.len(), 0);
    }
    lab.post(&a, wr)?;
    lab.sent(&a, 1)?;
    lab.settle();
    let trace = lab.fabric.take_trace()?;
    let own: Vec<&[u8]> =
        trace.iter().filter(|packet| packet.from == a.at).map(|packet| packet.payload.as_slice()).collect();
    equal("packets", own.len() as u32, packets)?;
    for (number, payload) in (0..packets).zip(&own) {
        let place = number as usize * MTU as usize;
        let expected = &bytes[place..bytes.len().min(place + MTU as usize)];
        let packet = Packet::parse(payload)?;
        let end = number + 1 == packets;
        check(&packet, &opcode(qp_type, operation, number, packets), expected)
            .and_then(|()| flags(&packet, qp_type, operation, end))
            .within(format_args!("packet {number}"))?;
        let psn = packet.bth().psn().distance_from(ferroce_wire::Psn::new(plan.psn));
        equal("relative PSN", psn, number as i32)?;
        equal("destination", packet.bth().dest_qpn(), b.qpn)?;
    }
    Ok(())
}

fn opcode(qp_type: QpType, operation: Operation, number: u32, packets: u32) -> String {
    let place = match (number, packets) {
        (0, 1) => "ONLY",
        (0, _) => "FIRST",
        (last, packets) if last + 1 == packets => "LAST",
        _ => "MIDDLE",
    };
    let suffix = if number + 1 == packets { operation.suffix() } else { "" };
    format!("{qp_type}_{}_{place}{suffix}", operation.stem())
}

fn check(packet: &Packet<'_>, opcode: &str, payload: &[u8]) -> Outcome {
    equal("opcode", packet.opcode().name(), opcode)?;
    ensure(packet.payload() == payload, "the payload has other bytes")?;
    equal("pad count", usize::from(packet.pad_count()), payload.len().wrapping_neg() & 3)?;
    equal("P_Key", packet.bth().pkey(), DEFAULT_PKEY)
}

fn flags(packet: &Packet<'_>, qp_type: QpType, operation: Operation, end: bool) -> Result<(), Failure> {
    let bth = packet.bth();
    ensure(bth.mig_req(), "MigReq is 0")?;
    // WRITEs without immediate data wake nobody.
    equal("SE", bth.solicited(), end && operation.takes_receive())?;
    match qp_type {
        QpType::Uc => ensure(!bth.ack_req(), "AckReq on UC"),
        _ => ensure(!end || bth.ack_req(), "no AckReq on the last packet"),
    }
}
