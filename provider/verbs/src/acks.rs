//! Counting events raised and acknowledged: an object with unacknowledged events can't go away
//! (`ibv_ack_cq_events(3)`, `ibv_ack_async_event(3)`).
//!
//! An event counts from the moment it is put into its channel, as the kernel counts, and not from when it is read: else
//! the object could go away between the read and whatever the reader does next.

use parking_lot::{Condvar, Mutex};

/// Events of one object.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    unacknowledged: Mutex<u64>,
    changed: Condvar,
}

impl Acks {
    /// An event is about to be put into a channel.
    pub(crate) fn raise(&self) {
        *self.unacknowledged.lock() += 1;
    }

    /// The application acknowledged `count` events, or so many will never be read. Acknowledging more than was raised
    /// changes nothing beyond that.
    pub(crate) fn acknowledge(&self, count: u64) {
        let mut unacknowledged = self.unacknowledged.lock();
        *unacknowledged = unacknowledged.saturating_sub(count);
        self.changed.notify_all();
    }

    /// Waits until all are acknowledged.
    pub(crate) fn wait(&self) {
        let mut unacknowledged = self.unacknowledged.lock();
        while *unacknowledged > 0 {
            self.changed.wait(&mut unacknowledged);
        }
    }
}
