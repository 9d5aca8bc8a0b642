//! Running a script on a fabric.

use super::header::Script;
use super::number::Key;
use super::packet::Packet;
use super::peer::Origin;
use super::step::{Completion, Content, List, SILENCE_NS, Send, Step};
use crate::case::{Failure, Outcome, Within, ensure, equal};
use crate::fabric::{IpVersion, RawPacket, RawReceived};
use crate::lab::{A, End, Lab, Peer, Plan, Wr};
use crate::verbs::{Ah, Gid};
use ferroce_core::{QpAttr, QpAttrMask, QpState, QpType, Sge, Wc, WcFlags, WcStatus};
use ferroce_wire::{Packet as WirePacket, Psn, Qpn};
use std::net::IpAddr;

/// Runs the steps, and looks at the end whether anything is left that no step expected.
pub(super) fn run(lab: &mut Lab, script: &Script, version: IpVersion) -> Outcome {
    let mut running = Running::new(lab, script, version)?;
    for (line, step) in &script.steps {
        running.step(lab, step).within(format_args!("line {line}"))?;
    }
    running.nothing_is_left(lab).within("at the end")
}

/// The QPs of a running script.
struct Running {
    qps: Vec<ScriptQp>,
    /// When the last packet was sent to them.
    injected_ns: u64,
    peer: IpAddr,
}

struct ScriptQp {
    plan: Plan,
    end: End,
    origin: Origin,
    /// The way to the peer, of a UD QP.
    ah: Option<Ah>,
}

/// The peer's QPN for the script's first QP; one less for each further one. It is a client of nobody.
const PEER_QPN: u32 = 0xab_cdef;

impl Running {
    fn new(lab: &mut Lab, script: &Script, version: IpVersion) -> Result<Running, Failure> {
        let peer = lab.fabric.raw_address(version)?;
        let mut qps: Vec<ScriptQp> = Vec::new();
        for (index, plan) in script.plans.iter().enumerate() {
            let plan = Plan { version, ..*plan };
            // All QPs of a script have the memory of the first.
            let end = match qps.first() {
                None => lab.end(A, &plan)?,
                Some(first) => {
                    let cqs = [lab.fabric.create_cq(A, plan.cqe)?, lab.fabric.create_cq(A, plan.cqe)?];
                    lab.end_with(first.end.pd, first.end.buffer, cqs, &plan)?
                }
            };
            let peer_qpn = Qpn::new(PEER_QPN - index as u32);
            let mut ah = lab.ah_attr(A, peer)?;
            ah.traffic_class = plan.traffic_class;
            lab.connect_to(&end, &plan, &Peer { ah, qpn: peer_qpn, psn: script.peer_psn })?;
            let is_ud = plan.qp_type == QpType::Ud;
            let ah = is_ud.then(|| lab.fabric.create_ah(end.pd, &ah)).transpose()?;
            let origin = Origin {
                version,
                qpn: end.qpn,
                peer_qpn,
                psn: Psn::new(plan.psn),
                peer_psn: Psn::new(script.peer_psn),
                buffer: end.buffer,
                qkey: plan.qkey,
            };
            qps.push(ScriptQp { plan, end, origin, ah });
        }
        Ok(Running { qps, injected_ns: 0, peer })
    }

    fn qp(&self, number: usize) -> Result<&ScriptQp, Failure> {
        let index = number.checked_sub(1).ok_or_else(|| Failure::new("QPs are counted from 1"))?;
        self.qps.get(index).ok_or_else(|| Failure::new(format!("there is no QP {number}")))
    }

    fn step(&mut self, lab: &mut Lab, step: &Step) -> Outcome {
        match step {
            Step::Inject(packet) => {
                let (packet, faults) = &**packet;
                let raw = self.qp(packet.qp)?.origin.build(packet, faults);
                self.injected_ns = lab.fabric.now_ns();
                Ok(lab.fabric.raw_send(&raw)?)
            }
            Step::Expect(packet, after_ns) => self.expect(lab, packet, *after_ns),
            Step::Quiet(ns) => self.quiet(lab, *ns),
            Step::Pass(ns) => {
                lab.fabric.settle(*ns);
                Ok(())
            }
            Step::Recv { qp, wr_id, list } => {
                let qp = self.qp(*qp)?;
                let sges: Vec<Sge> = list.iter().map(|list| qp.sge(list)).collect();
                lab.post_recv(&qp.end, *wr_id, &sges)
            }
            Step::Send(send) => self.send(lab, send),
            Step::Completion(completion) => self.completion(lab, completion),
            Step::Event { qp, kind } => lab.qp_event(&self.qp(*qp)?.end, *kind),
            Step::State { qp, state } => lab.wait_state(&self.qp(*qp)?.end, *state),
            Step::Modify { qp, state } => lab.to_state(&self.qp(*qp)?.end, *state),
            Step::Access { qp, access } => {
                let attr = QpAttr { access: *access, ..QpAttr::default() };
                let qp = self.qp(*qp)?.end.qp;
                Ok(lab.fabric.modify_qp(qp, &attr, None, QpAttrMask::ACCESS_FLAGS)?)
            }
            Step::Fill(place, content) => {
                let origin = self.qp(1)?.origin;
                let bytes = self.content(*content)?;
                lab.fabric.write_memory(A, origin.address(*place), &bytes);
                Ok(())
            }
            Step::Memory(place, content) => {
                let origin = self.qp(1)?.origin;
                let offset = origin.address(*place) - origin.buffer.addr;
                let bytes = self.content(*content)?;
                lab.expect_bytes(&origin.buffer, offset, &bytes)
            }
            Step::Dereg => Ok(lab.fabric.dereg_mr(self.qp(1)?.end.buffer.mr)?),
            Step::Group { qp, attach } => {
                let qp = self.qp(*qp)?;
                let group = Gid::from_ip(RawPacket::group(qp.plan.version));
                match attach {
                    true => Ok(lab.fabric.attach_mcast(qp.end.qp, group)?),
                    false => Ok(lab.fabric.detach_mcast(qp.end.qp, group)?),
                }
            }
        }
    }

    fn content(&self, content: Content) -> Result<Vec<u8>, Failure> {
        Ok(match content {
            Content::Data(run) => run.bytes(),
            Content::Zero(len) => vec![0; len],
            Content::Word(word) => word.to_ne_bytes().to_vec(),
            Content::Header => return Err(Failure::new("only `wc recv … from-peer` looks at headers")),
        })
    }

    fn expect(&mut self, lab: &mut Lab, expected: &Packet, after_ns: Option<u64>) -> Outcome {
        let origin = self.qp(expected.qp)?.origin;
        let received = receive(lab).ok_or_else(|| {
            Failure::new(format!("{} was expected and no packet came", expected.opcode.name()))
        })?;
        origin.check(expected, &received)?;
        let passed = received.at_ns.saturating_sub(self.injected_ns);
        match after_ns {
            Some(least) if passed < least => Err(Failure::new(format!(
                "it came after {passed} ns, but no sooner than {least} ns is right"
            ))),
            _ => Ok(()),
        }
    }

    fn quiet(&self, lab: &mut Lab, ns: u64) -> Outcome {
        lab.fabric.settle(ns);
        match lab.fabric.raw_receive() {
            None => Ok(()),
            Some(received) => {
                let text = match WirePacket::parse(&received.payload) {
                    Ok(packet) => self.qp(1)?.origin.describe(&packet),
                    Err(error) => error.to_string(),
                };
                Err(Failure::new(format!("a packet came that nobody expected: {text}")))
            }
        }
    }

    fn send(&self, lab: &mut Lab, send: &Send) -> Outcome {
        let qp = self.qp(send.qp)?;
        let mut wr = Wr::new(send.wr_id, send.op).flags(send.flags);
        if let Some(list) = &send.list {
            wr = wr.sge(qp.sge(list));
        }
        if let Some(ah) = qp.ah {
            wr = wr.to(ah, qp.origin.peer_qpn, send.qkey.unwrap_or(qp.plan.qkey));
        }
        lab.post(&qp.end, wr)
    }

    fn completion(&self, lab: &mut Lab, expected: &Completion) -> Outcome {
        let qp = self.qp(expected.qp)?;
        let wc = if expected.is_send { lab.wait_send(&qp.end)? } else { lab.wait_recv(&qp.end)? };
        equal("completion", (wc.wr_id, wc.status), (expected.wr_id, expected.status))?;
        if wc.status != WcStatus::Success {
            return Ok(());
        }
        equal("QPN", wc.qpn, qp.end.qpn)?;
        if let Some(opcode) = expected.opcode {
            equal("opcode", wc.opcode, opcode)?;
        }
        if let Some(len) = expected.len {
            equal("length", wc.byte_len, len)?;
        }
        let imm = wc.flags.contains(WcFlags::WITH_IMM).then(|| u32::from_be_bytes(wc.imm));
        equal("immediate", imm, expected.imm)?;
        if expected.from_peer { self.check_sender(lab, qp, &wc) } else { Ok(()) }
    }

    /// A datagram's completion names its sender, and its IP header lies where the receive WQE begins, which is the
    /// start of the buffer (IBTA A17).
    fn check_sender(&self, lab: &mut Lab, qp: &ScriptQp, wc: &Wc) -> Outcome {
        equal("source QPN", wc.src_qp, qp.origin.peer_qpn)?;
        ensure(wc.flags.contains(WcFlags::GRH), "the completion has no GRH flag")?;
        let area = lab.read(&qp.end.buffer, 0, GRH_LEN);
        let source = match self.peer {
            IpAddr::V4(peer) => {
                equal("version and IHL at byte 20", area[20], 0x45)?;
                area[32..36] == peer.octets()
            }
            IpAddr::V6(peer) => {
                equal("version at byte 0", area[0] >> 4, 6)?;
                area[8..24] == peer.octets()
            }
        };
        ensure(source, format_args!("the header's source address is not {}: {area:02x?}", self.peer))
    }

    fn nothing_is_left(&self, lab: &mut Lab) -> Outcome {
        self.quiet(lab, SILENCE_NS)?;
        for qp in &self.qps {
            lab.no_completions(&qp.end)?;
            if qp.plan.qp_type != QpType::Ud {
                // What is still under way would otherwise make noise when the fabric is closed.
                lab.to_state(&qp.end, QpState::Reset)?;
            }
        }
        lab.no_events(A)
    }
}

impl ScriptQp {
    fn sge(&self, list: &List) -> Sge {
        let lkey = match list.key {
            Key::Good => self.end.buffer.mr.lkey,
            other => self.origin.key(other),
        };
        Sge { addr: self.origin.address(list.place), length: list.len, lkey }
    }
}

/// The next packet for the peer.
fn receive(lab: &mut Lab) -> Option<RawReceived> {
    let mut received = None;
    lab.fabric.wait(&mut |fabric| {
        received = fabric.raw_receive();
        received.is_some()
    });
    received
}

/// Bytes in front of a datagram in its receive WQE.
const GRH_LEN: usize = 40;
