//! Extended reliable connection (IBTA annex A14): an initiator (XRC_INI) sends as RC does, and names with each request an
//! SRQ behind the target (XRC_TGT), which receives for all SRQs of its domain.
//!
//! What is XRC's own: which SRQ a request is for, and which protection domain its keys are looked up in. All else is
//! RC's.

use crate::context::Context;
use crate::fault::{RequesterFault, ResponderFault};
use crate::send_queue::Wqe;
use crate::{PdId, QpType, Remote, Srqn};
use ferroce_wire::{Opcode, Packet};

/// The caller's name for an XRC domain (`ibv_open_xrcd(3)`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct XrcdId(pub u32);

/// Whom a request is for, inside the responder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// The protection domain of its R_Keys.
    pub(crate) pd: PdId,
    /// The SRQ that it takes a receive WQE from, if not from the QP's own queue.
    pub(crate) srq: Option<Srqn>,
}

impl Target {
    /// Of a request to any QP: on XRC the SRQ that it names, which must be of the QP's domain, decides (W-56).
    #[inline]
    pub(crate) fn of(ctx: &Context<'_>, packet: &Packet<'_>) -> Result<Target, ResponderFault> {
        match ctx.init.xrcd {
            None => Ok(Target { pd: ctx.init.pd, srq: ctx.init.srq }),
            Some(xrcd) => {
                // Of the opcodes that come here each has an XRCETH.
                let srqn = Srqn::new(packet.xrceth().map_or(0, |xrceth| xrceth.srqn()));
                Ok(Target { pd: ctx.shared.srqs.check_xrc(srqn, xrcd)?, srq: Some(srqn) })
            }
        }
    }
}

/// Whether a QP of `qp_type` takes packets with `opcode`: an initiator takes answers only, a target requests only (W-57).
pub(crate) fn takes(qp_type: QpType, opcode: Opcode) -> bool {
    match qp_type {
        QpType::XrcIni => opcode.is_response(),
        QpType::XrcTgt => opcode.is_request(),
        _ => true,
    }
}

/// Checks a send WQE of a reliable QP: on XRC it names an SRQ if it is sent at all, and a target sends nothing.
#[inline]
pub(crate) fn check_send(ctx: &Context<'_>, wqe: &Wqe) -> Result<(), RequesterFault> {
    match (ctx.init.qp_type, &wqe.wr.remote, &wqe.wr.op) {
        (QpType::XrcTgt, _, op) => {
            Err(RequesterFault::NotInService { op: op.name(), qp_type: ctx.init.qp_type })
        }
        (QpType::XrcIni, Remote::Srq(_), _) => Ok(()),
        (QpType::XrcIni, _, op) if op.is_local() => Ok(()),
        (QpType::XrcIni, ..) => Err(RequesterFault::NoSrq),
        _ => Ok(()),
    }
}
