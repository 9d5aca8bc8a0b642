//! What becomes of the device in a forked child: it is dead there, and says so.
//!
//! The engine's thread does not survive a fork, and a lock may have been held by a thread that is gone, so a
//! child can't use its parent's objects. It also must not keep the parent's slot alive, nor the port taken when all
//! others have left: the descriptors that stand for the process towards the keeper are closed in the child at once. A
//! child may open a device of its own.

use ferroce_keeper::MAX_SLOTS;
use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Descriptors closed in a child, at most: what a lease has, and the engine's duplicates of some of it.
const MAX_FDS: usize = MAX_SLOTS as usize + 8;

/// As [`MAX_FDS`], of the connection manager: its two connections to the keeper.
const MAX_CM_FDS: usize = 2;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static CLOSE_IN_CHILD: [AtomicI32; MAX_FDS] = [const { AtomicI32::new(-1) }; MAX_FDS];
static CLOSE_CM_IN_CHILD: [AtomicI32; MAX_CM_FDS] = [const { AtomicI32::new(-1) }; MAX_CM_FDS];

/// How many forks lie between the first process that opened a device and this one. What was made in another
/// generation is dead.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Starts watching for forks; later calls do nothing.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler is a plain function that only stores to atomics and calls close(2), both of
        // which are allowed in the child of a multi-threaded process.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
        if failed != 0 {
            tracing::warn!(
                "pthread_atfork failed ({failed}): a forked child will not notice that its devices are dead"
            );
        }
    });
}

/// Names the engine's descriptors to close in a child; replaces those named before.
pub(crate) fn close_in_child(fds: &[RawFd]) {
    debug_assert!(fds.len() <= MAX_FDS);
    name(&CLOSE_IN_CHILD, fds);
}

/// As [`close_in_child`], for the connection manager's.
pub(crate) fn close_cm_in_child(fds: &[RawFd]) {
    debug_assert!(fds.len() <= MAX_CM_FDS);
    name(&CLOSE_CM_IN_CHILD, fds);
}

fn name(slots: &[AtomicI32], fds: &[RawFd]) {
    for (i, slot) in slots.iter().enumerate() {
        slot.store(fds.get(i).copied().unwrap_or(-1), Ordering::Release);
    }
}

/// Runs in the child, before `fork` returns there.
extern "C" fn after_fork_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for slot in CLOSE_IN_CHILD.iter().chain(&CLOSE_CM_IN_CHILD) {
        let fd = slot.swap(-1, Ordering::AcqRel);
        if fd >= 0 {
            // SAFETY: the descriptor belongs to an engine or connection manager of the generation before, which is never used again
            // in this process: every entry point compares generations first, and its drop forgets its
            // descriptors.
            unsafe { libc::close(fd) };
        }
    }
}
