//! Keeps tests from crowding the machine.

use std::num::NonZero;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::available_parallelism;

/// Permission to run programs, given back when dropped.
pub struct Turn {
    share: usize,
}

/// Pairs at once. Each is two processes that poll, but they spend much of their time on starting and ending.
fn at_once() -> usize {
    available_parallelism().map_or(2, NonZero::get).max(2)
}

static RUNNING: Mutex<usize> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

impl Turn {
    /// Waits until few enough others run in this process. Test programs run one after the other anyway.
    pub fn wait() -> Turn {
        Turn::take(1)
    }

    /// Waits until nothing else runs in this process, for a test that fills the machine by itself.
    pub fn alone() -> Turn {
        Turn::take(at_once())
    }

    fn take(share: usize) -> Turn {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = CHANGED
            .wait_while(running, |running| *running + share > at_once())
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
