//! Completion queues of the simulated hosts: what the core leaves to its owner, as small as it can be.

use crate::verbs::CqOverrun;
use ferroce_core::{Completion, Wc};
use std::collections::VecDeque;

/// A completion queue.
pub(super) struct SimCq {
    entries: VecDeque<Wc>,
    capacity: usize,
    overrun: bool,
    /// What the next event waits for: any completion, or a solicited one.
    armed: Option<Armed>,
    has_event: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Armed {
    Any,
    SolicitedOnly,
}

impl SimCq {
    pub(super) fn new(capacity: u32) -> SimCq {
        SimCq {
            entries: VecDeque::new(),
            capacity: capacity as usize,
            overrun: false,
            armed: None,
            has_event: false,
        }
    }

    /// Adds a completion; whether it overruns the queue, which happens once.
    pub(super) fn push(&mut self, completion: &Completion) -> bool {
        if self.overrun {
            return false;
        }
        if self.entries.len() >= self.capacity {
            self.overrun = true;
            return true;
        }
        self.entries.push_back(completion.wc);
        let fires = match self.armed {
            None => false,
            Some(Armed::Any) => true,
            Some(Armed::SolicitedOnly) => completion.solicited,
        };
        if fires {
            self.armed = None;
            self.has_event = true;
        }
        false
    }

    pub(super) fn poll(&mut self, max: usize) -> Result<Vec<Wc>, CqOverrun> {
        let count = self.entries.len().min(max);
        if count == 0 && self.overrun {
            return Err(CqOverrun);
        }
        Ok(self.entries.drain(..count).collect())
    }

    pub(super) fn arm(&mut self, armed: Armed) {
        // A request for any completion is not narrowed by a later one (ibv_req_notify_cq(3)).
        if self.armed != Some(Armed::Any) {
            self.armed = Some(armed);
        }
    }

    pub(super) fn take_event(&mut self) -> bool {
        std::mem::take(&mut self.has_event)
    }

    /// A QP is gone, or back in RESET: its completions go with it.
    pub(super) fn forget(&mut self, qpn: ferroce_wire::Qpn) {
        self.entries.retain(|wc| wc.qpn != qpn);
    }
}
