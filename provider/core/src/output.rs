//! What the transport has to say: completions and events, waiting to be polled.

use crate::{AsyncEvent, Completion, Event, Srqn};
use ferroce_wire::Qpn;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Display;

/// Completions and events in the order they happened.
///
/// Completions are bounded by the work requests posted and asynchronous events by the QPs' states; reasons have
/// a limit of their own, since a peer can cause as many as it likes.
#[derive(Default, Debug)]
pub(crate) struct Output {
    completions: VecDeque<Completion>,
    asyncs: VecDeque<AsyncEvent>,
    reasons: VecDeque<(Qpn, Cow<'static, str>)>,
}

impl Output {
    pub(crate) fn complete(&mut self, completion: Completion) {
        self.completions.push_back(completion);
    }

    pub(crate) fn raise(&mut self, event: AsyncEvent) {
        self.asyncs.push_back(event);
    }

    /// Keeps the sentence for a person; the oldest goes when there are too many.
    pub(crate) fn explain(&mut self, qpn: Qpn, reason: &dyn Display) {
        if self.reasons.len() == MAX_REASONS {
            self.reasons.pop_front();
        }
        self.reasons.push_back((qpn, Cow::Owned(reason.to_string())));
    }

    pub(crate) fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// The next event; a reason comes before the asynchronous events it explains.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        if let Some((qpn, text)) = self.reasons.pop_front() {
            return Some(Event::Reason { qpn, text });
        }
        self.asyncs.pop_front().map(Event::Async)
    }

    /// Forgets what the QP has to say, since it is being destroyed.
    pub(crate) fn forget(&mut self, qpn: Qpn) {
        self.completions.retain(|completion| completion.wc.qpn != qpn);
        self.reasons.retain(|(about, _)| *about != qpn);
        self.asyncs.retain(|event| event.qpn() != Some(qpn));
    }

    /// Forgets the events of an SRQ that is being destroyed.
    pub(crate) fn forget_srq(&mut self, srqn: Srqn) {
        self.asyncs.retain(|event| event.srqn() != Some(srqn));
    }
}

/// Reasons kept for whoever polls events.
pub(crate) const MAX_REASONS: usize = 256;
