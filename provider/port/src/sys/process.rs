//! Calls about the process itself, and waiting.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_int, c_uint, pollfd, sigset_t, timespec};

/// ppoll(2) without a signal mask.
pub(crate) fn ppoll(fds: &mut [pollfd], timeout: Option<&timespec>) -> io::Result<usize> {
    let timeout = timeout.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the slice's pointer and length describe writable pollfds; `timeout` is null or a timespec that outlives
    // the call; a null mask leaves the signal mask alone.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout, ptr::null()) };
    usize::try_from(ready).map_err(|_| io::Error::last_os_error())
}

pub(crate) fn geteuid() -> u32 {
    // SAFETY: no arguments, cannot fail (geteuid(2)).
    unsafe { libc::geteuid() }
}

pub(crate) fn setsid() -> io::Result<()> {
    // SAFETY: no arguments; fails only for a process group leader.
    if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// close_range(2) with `CLOSE_RANGE_CLOEXEC`: marks, closes nothing.
pub(crate) fn mark_close_on_exec(first: c_uint) -> io::Result<()> {
    // Through syscall(2), because the C library's wrapper is younger (glibc 2.34) than the flag (Linux 5.11).
    // SAFETY: no pointers are passed; a descriptor that gets close-on-exec stays open in this process.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, first, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as c_uint)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Raises the soft limit of `resource` to its hard limit; returns the new soft limit.
pub(crate) fn raise_limit(resource: libc::__rlimit_resource_t) -> io::Result<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: `limit` has room for the answer and outlives the call.
    if unsafe { libc::getrlimit(resource, limit.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has filled it in.
    let mut limit = unsafe { limit.assume_init() };
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` outlives the call, which only reads it.
    if unsafe { libc::setrlimit(resource, &raw const limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit.rlim_cur)
}

/// Sets the signal mask of the calling thread; returns the one before.
pub(crate) fn set_signal_mask(mask: &sigset_t) -> io::Result<sigset_t> {
    let mut before = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: `mask` outlives the call, which only reads it, and `before` has room for the answer.
    let error = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, ptr::from_ref(mask), before.as_mut_ptr()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: the call succeeded, so it has filled it in.
    Ok(unsafe { before.assume_init() })
}

/// All signals but `others`.
pub(crate) fn all_signals_but(others: &[c_int]) -> sigset_t {
    let mut set = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: `set` has room for the answer; with a valid pointer the call cannot fail (sigsetops(3)).
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: the call has filled it in.
    let mut set = unsafe { set.assume_init() };
    for &signal in others {
        // SAFETY: `set` is initialised; a number that is no signal changes nothing.
        unsafe { libc::sigdelset(&raw mut set, signal) };
    }
    set
}
