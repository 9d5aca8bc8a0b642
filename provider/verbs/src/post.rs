//! What is checked when a work request is posted, before anything is queued.

use crate::error::PostCause;
use crate::limits::MAX_MSG_SIZE;
use ferroce_core::{Flush, Payload, QpCaps, QpType, RecvWr, SendOp, SendWr, Sge};

/// Checks a send work request against its QP. Keys are checked when it is executed, as on a card.
pub(crate) fn check_send(qp_type: QpType, caps: &QpCaps, wr: &SendWr) -> Result<(), PostCause> {
    if !wr.op.is_sent_by(qp_type) {
        return Err(PostCause::OpNotSupported(wr.op.name()));
    }
    if let SendOp::BindMw { bind, .. } = &wr.op {
        let impossible = bind.impossible_access();
        if !impossible.is_empty() {
            return Err(PostCause::MwAccess(impossible));
        }
    }
    if let SendOp::Flush { flush, .. } = &wr.op {
        check_flush(flush, &wr.payload)?;
    }
    match &wr.payload {
        Payload::Inline(bytes) => {
            if !takes_inline(&wr.op) {
                return Err(PostCause::InlineNotAllowed(wr.op.name()));
            }
            check_inline(caps, bytes.len() as u64)
        }
        Payload::Sges(sges) => check_sges(sges, caps.max_send_sge),
    }
}

/// Checks the length of inline data, before it is copied.
pub fn check_inline(caps: &QpCaps, length: u64) -> Result<(), PostCause> {
    let limit = caps.max_inline_data;
    if length > u64::from(limit) { Err(PostCause::InlineTooLong { length, limit }) } else { Ok(()) }
}

/// Checks a receive work request against its QP.
pub(crate) fn check_recv(caps: &QpCaps, wr: &RecvWr) -> Result<(), PostCause> {
    check_sges(&wr.sges, caps.max_recv_sge)
}

fn check_sges(sges: &[Sge], limit: u32) -> Result<(), PostCause> {
    if sges.len() > limit as usize {
        return Err(PostCause::TooManySges { num_sge: sges.len(), limit });
    }
    let length: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
    if length > MAX_MSG_SIZE { Err(PostCause::TooLong { length, limit: MAX_MSG_SIZE }) } else { Ok(()) }
}

fn check_flush(flush: &Flush, payload: &Payload) -> Result<(), PostCause> {
    if flush.placement.is_empty() {
        return Err(PostCause::FlushNowhere);
    }
    match payload {
        Payload::Sges(sges) if sges.is_empty() => Ok(()),
        _ => Err(PostCause::FlushWithList),
    }
}

fn takes_inline(op: &SendOp) -> bool {
    !op.is_local()
        && !matches!(op, SendOp::Read { .. } | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_core::{FlushPlacement, Remote, SendFlags};
    use smallvec::{SmallVec, smallvec};

    const CAPS: QpCaps =
        QpCaps { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 2, max_recv_sge: 1, max_inline_data: 16 };

    fn wr(op: SendOp, payload: Payload) -> SendWr {
        SendWr { wr_id: 1, op, flags: SendFlags::default(), payload, remote: Remote::Peer }
    }

    fn sge(length: u32) -> Sge {
        Sge { addr: 0x1000, length, lkey: 1 }
    }

    #[test]
    fn lists_are_bounded_by_what_the_qp_was_made_for() {
        let three = Payload::Sges(smallvec![sge(1), sge(1), sge(1)]);
        let cause = check_send(QpType::Rc, &CAPS, &wr(SendOp::Send, three)).expect_err("too many");
        assert_eq!(cause, PostCause::TooManySges { num_sge: 3, limit: 2 });
        let recv = RecvWr { wr_id: 1, sges: smallvec![sge(1), sge(1)] };
        assert_eq!(check_recv(&CAPS, &recv), Err(PostCause::TooManySges { num_sge: 2, limit: 1 }));
    }

    #[test]
    fn lengths_are_summed_in_64_bits() {
        let wide = Payload::Sges(smallvec![sge(u32::MAX), sge(2)]);
        let cause = check_send(QpType::Rc, &CAPS, &wr(SendOp::Send, wide)).expect_err("too long");
        assert_eq!(cause, PostCause::TooLong { length: 0x1_0000_0001, limit: MAX_MSG_SIZE });
    }

    #[test]
    fn inline_data_is_bounded_and_not_for_reads() {
        let bytes = |n: usize| Payload::Inline(SmallVec::from_elem(7, n));
        assert_eq!(check_send(QpType::Rc, &CAPS, &wr(SendOp::Send, bytes(16))), Ok(()));
        assert_eq!(
            check_send(QpType::Rc, &CAPS, &wr(SendOp::Send, bytes(17))),
            Err(PostCause::InlineTooLong { length: 17, limit: 16 })
        );
        let read = SendOp::Read { va: 0, rkey: 0 };
        assert_eq!(
            check_send(QpType::Rc, &CAPS, &wr(read, bytes(1))),
            Err(PostCause::InlineNotAllowed("RDMA READ"))
        );
    }

    #[test]
    fn a_flush_goes_somewhere_and_has_no_list() {
        let flush = |placement| SendOp::Flush { va: 0, rkey: 0, flush: Flush { placement, length: None } };
        let global = FlushPlacement::GLOBAL;
        let check = |placement, payload| check_send(QpType::Rc, &CAPS, &wr(flush(placement), payload));
        let empty = || Payload::Sges(SmallVec::new());
        assert_eq!(check(global, empty()), Ok(()));
        assert_eq!(check(FlushPlacement::empty(), empty()), Err(PostCause::FlushNowhere));
        assert_eq!(check(global, Payload::Sges(smallvec![sge(8)])), Err(PostCause::FlushWithList));
        assert_eq!(check(global, Payload::Inline(SmallVec::new())), Err(PostCause::FlushWithList));
    }

    #[test]
    fn a_service_without_the_operation_refuses_it() {
        let read = SendOp::Read { va: 0, rkey: 0 };
        let empty = || Payload::Sges(SmallVec::new());
        assert_eq!(
            check_send(QpType::Uc, &CAPS, &wr(read, empty())),
            Err(PostCause::OpNotSupported("RDMA READ"))
        );
        assert_eq!(check_send(QpType::Rc, &CAPS, &wr(read, empty())), Ok(()));
    }
}
