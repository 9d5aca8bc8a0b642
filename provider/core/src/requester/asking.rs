//! Which requests ask for an acknowledgement (AckReq, Q-5).
//!
//! Every acknowledgement costs both ends a packet, so in a stream of messages only some ask: one in each interval, and each
//! whose completion the application wants. But nothing may be left that nobody asks about: the last message before
//! a pause, or before one that may not leave soon, always does.

use super::Requester;
use super::ack_timeout::ack_timeout_ns;
use crate::context::Context;
use crate::gather::check_readable;
use crate::request::check_length;
use crate::send_queue::Wqe;
use crate::{Payload, QpState, SendFlags, SendOp};

impl Requester {
    /// Whether the packet to be sent next asks; `ends`: it is the last of its message.
    pub(super) fn asks(&self, ctx: &Context<'_>, wqe: &Wqe, ends: bool) -> bool {
        self.is_due(ctx) || (ends && (wqe.is_signaled(ctx) || !self.is_followed(ctx)))
    }

    /// Several times in a window, so that a full window always has some in it that were asked for.
    fn is_due(&self, ctx: &Context<'_>) -> bool {
        let mut interval = (self.window.size() / ASKS_PER_WINDOW).min(ctx.shared.profile.ack_req_interval);
        // Packets far apart: an answer has to come before the timeout takes a pause for a loss.
        if let (Some(gap_ns), Some(timeout_ns)) = (ctx.gap_ns, ack_timeout_ns(ctx.attr.timeout, 0)) {
            let in_time = timeout_ns / ASKS_PER_TIMEOUT / gap_ns.max(1);
            interval = interval.min(in_time.try_into().unwrap_or(u32::MAX));
        }
        let interval = interval.max(1);
        self.since_ack_req + 1 >= interval
    }

    /// Whether another message leaves right behind that of the cursor, so that it can ask for both.
    fn is_followed(&self, ctx: &Context<'_>) -> bool {
        // When an answer is missing each message asks for its own.
        if ctx.attr.qp_state != QpState::Rts || self.timeouts_in_a_row > 0 {
            return false;
        }
        let Some(next) = self.queue.get(self.cursor + 1) else { return false };
        // Others may have to wait for this message's completion (LOCAL_INV, BIND_MW) or for that of READs.
        let is_plain = matches!(
            next.wr.op,
            SendOp::Send
                | SendOp::SendImm { .. }
                | SendOp::SendInv { .. }
                | SendOp::Write { .. }
                | SendOp::WriteImm { .. }
        );
        // A message that fails here does so when it is the oldest, so this one has to be acknowledged.
        is_plain
            && !next.wr.flags.contains(SendFlags::FENCE)
            && check_length(ctx, next).is_ok()
            && match &next.wr.payload {
                Payload::Inline(_) => true,
                Payload::Sges(sges) => check_readable(ctx.local(sges)).is_ok(),
            }
    }
}

/// How often an acknowledgement is asked for in the time of the local ACK timeout, by a QP that is held back.
const ASKS_PER_TIMEOUT: u64 = 4;
/// How often in a window an acknowledgement is asked for.
const ASKS_PER_WINDOW: u32 = 4;
