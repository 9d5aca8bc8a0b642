//! What a QP has to do with DCQCN: it owes its peer a CNP, or is held back by the peer's.

use crate::context::{Context, Sent, Shared};
use crate::counters::Counter;
use crate::dcqcn::notification::{NotificationPoint, cnp_path};
use crate::dcqcn::reaction::ReactionPoint;
use crate::{Dcqcn, Nanos, PathMtu, TransmitSink};
use std::convert::Infallible;

/// The congestion control of one QP.
#[derive(Default, Debug)]
pub(crate) struct Congestion {
    pub(crate) notification: NotificationPoint,
    /// From the first CNP until the rate is the line's again.
    reaction: Option<Box<ReactionPoint>>,
}

impl Congestion {
    /// The peer's notification point says that this QP is too fast.
    pub(crate) fn handle_cnp(&mut self, now: Nanos, settings: &Dcqcn) {
        match &mut self.reaction {
            Some(reaction) => reaction.handle_cnp(now, settings),
            None => self.reaction = Some(Box::new(ReactionPoint::new(now, settings))),
        }
    }

    /// Whether the next packet of data has to wait. If so, the QP gets another turn in time.
    pub(crate) fn is_held_back(&mut self, now: Nanos, index: u32, shared: &mut Shared) -> bool {
        let Some(reaction) = &mut self.reaction else { return false };
        let Some(until) = reaction.held_until(now, &shared.profile.dcqcn) else { return false };
        shared.pacing.set(index, until);
        true
    }

    /// A packet of data may have left.
    pub(crate) fn note_sent(&mut self, now: Nanos, sent: Sent, settings: &Dcqcn) {
        let (Sent::Packet(payload), Some(reaction)) = (sent, &mut self.reaction) else { return };
        reaction.note_sent(now, payload + FRAME_OVERHEAD, settings);
        if reaction.is_over(settings) {
            self.reaction = None;
        }
    }

    /// The rate it is held back to, in bits per second.
    pub(crate) fn rate_bps(&self) -> Option<u64> {
        self.reaction.as_ref().map(|reaction| reaction.rate_bps())
    }

    /// The time between full packets, in nanoseconds, if it is held back.
    pub(crate) fn gap_ns(&self, mtu: PathMtu) -> Option<Nanos> {
        let bits = u64::from(mtu.bytes() + FRAME_OVERHEAD) * 8;
        self.rate_bps().map(|rate_bps| bits * NS_PER_S / rate_bps.max(1))
    }

    /// Sends the CNP that is owed.
    pub(crate) fn send_cnp<S: TransmitSink>(&mut self, ctx: &mut Context<'_>, sink: &mut S) -> Sent {
        let (Some(header), Some(path)) = (self.notification.cnp(ctx.attr.dest_qpn), ctx.path()) else {
            return Sent::Nothing;
        };
        let sent = match ctx.send_on(&cnp_path(path), sink, &header, 0, |_, _| Ok::<_, Infallible>(())) {
            Ok(sent) => sent,
            Err(never) => match never {},
        };
        if let Sent::Packet(_) = sent {
            self.notification.note_sent(ctx.now, &ctx.shared.profile.dcqcn);
            ctx.count(Counter::NpCnpSent);
        }
        sent
    }
}

const NS_PER_S: Nanos = 1_000_000_000;
/// What a packet takes on an Ethernet link besides its payload: preamble, gap, Ethernet, IPv4, UDP, BTH, ICRC and FCS.
const FRAME_OVERHEAD: u32 = 8 + 12 + 14 + 20 + 8 + 12 + 4 + 4;
