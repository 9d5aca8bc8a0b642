//! `ibv_fork_init` and the functions around it.
//!
//! Registration pins nothing and marks no page, so fork(2) is safe for the parent without preparation; the child's
//! copies of the parent's objects are dead.

use libc::c_int;

#[unsafe(no_mangle)]
extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// `IBV_FORK_UNNEEDED`: what a kernel says that copies pinned pages at fork(2).
const FORK_UNNEEDED: c_int = 2;

#[unsafe(no_mangle)]
extern "C" fn ibv_is_fork_initialized() -> c_int {
    FORK_UNNEEDED
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dontfork_range() -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dofork_range() -> c_int {
    0
}
