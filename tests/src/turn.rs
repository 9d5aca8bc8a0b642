//! Keeps tests from crowding the machine.

use std::sync::{Condvar, Mutex, PoisonError};

/// Permission to run a pair of programs, given back when dropped.
pub struct Turn {
    _private: (),
}

/// Pairs at once: each is two processes that poll, and a small machine has two cores.
const AT_ONCE: usize = 2;

static RUNNING: Mutex<usize> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

impl Turn {
    /// Waits until fewer than two others run in this process. Test programs run one after the other anyway.
    pub fn wait() -> Turn {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = CHANGED
            .wait_while(running, |running| *running >= AT_ONCE)
            .unwrap_or_else(PoisonError::into_inner);
        *running += 1;
        Turn { _private: () }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        CHANGED.notify_one();
    }
}
