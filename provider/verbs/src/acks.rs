//! Counting events handed out and acknowledged: an object with unacknowledged events can't go away
//! (`ibv_ack_cq_events(3)`, `ibv_ack_async_event(3)`).

use parking_lot::{Condvar, Mutex};

/// Events of one object.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    unacknowledged: Mutex<u64>,
    changed: Condvar,
}

impl Acks {
    /// An event was handed to the application.
    pub(crate) fn hand_out(&self) {
        *self.unacknowledged.lock() += 1;
    }

    /// The application acknowledged `count` events. Acknowledging more than was handed out changes nothing
    /// beyond that.
    pub(crate) fn acknowledge(&self, count: u32) {
        let mut unacknowledged = self.unacknowledged.lock();
        *unacknowledged = unacknowledged.saturating_sub(u64::from(count));
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
