//! Deadlines, one for each connection or lookup at most.

use crate::CommId;
use ferroce_core::Nanos;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Timers {
    order: BTreeSet<(Nanos, CommId)>,
    at: BTreeMap<CommId, Nanos>,
}

impl Timers {
    /// Sets the deadline of `id` in place of the one it had.
    pub(crate) fn set(&mut self, id: CommId, deadline: Nanos) {
        self.clear(id);
        self.order.insert((deadline, id));
        self.at.insert(id, deadline);
    }

    pub(crate) fn clear(&mut self, id: CommId) {
        if let Some(deadline) = self.at.remove(&id) {
            self.order.remove(&(deadline, id));
        }
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.order.first().map(|(deadline, _)| *deadline)
    }

    /// Takes one that is due.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<CommId> {
        let &(deadline, id) = self.order.first()?;
        (deadline <= now).then(|| {
            self.clear(id);
            id
        })
    }
}
