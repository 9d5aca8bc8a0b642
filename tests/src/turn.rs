//! Keeps tests from crowding the machine.

use std::sync::{Condvar, Mutex, PoisonError};

/// Permission to run programs, given back when dropped.
pub struct Turn {
    share: usize,
}

/// Pairs at once: each is two processes that poll, and a small machine has two cores.
const AT_ONCE: usize = 2;

static RUNNING: Mutex<usize> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

impl Turn {
    /// Waits until at most one other pair runs in this process. Test programs run one after the other anyway.
    pub fn wait() -> Turn {
        Turn::take(1)
    }

    /// Waits until nothing else runs in this process, for a test that fills the machine by itself.
    pub fn alone() -> Turn {
        Turn::take(AT_ONCE)
    }

    fn take(share: usize) -> Turn {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = CHANGED
            .wait_while(running, |running| *running + share > AT_ONCE)
            .unwrap_or_else(PoisonError::into_inner);
        *running += share;
        Turn { share }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= self.share;
        CHANGED.notify_all();
    }
}
