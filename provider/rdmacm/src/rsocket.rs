//! rsockets: not provided. The names are there, because programs are linked against them that only use the rest; every
//! call answers EOPNOTSUPP, but for `rpoll` and `rselect`, which serve the system's own descriptors as poll(2) and
//! select(2) do.

use ferroce_abi::errno::{Errno, minus_one};
use libc::{c_int, fd_set, nfds_t, pollfd, ssize_t, timeval};

macro_rules! absent {
    ($($name:ident -> $type:ty),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> $type {
            minus_one(Err(Errno::UNSUPPORTED)) as $type
        }
    )*};
}

absent! {
    rsocket -> c_int, rbind -> c_int, rlisten -> c_int, raccept -> c_int, rconnect -> c_int, rshutdown -> c_int,
    rclose -> c_int, rrecv -> ssize_t, rrecvfrom -> ssize_t, rrecvmsg -> ssize_t, rsend -> ssize_t,
    rsendto -> ssize_t, rsendmsg -> ssize_t, rread -> ssize_t, rreadv -> ssize_t, rwrite -> ssize_t,
    rwritev -> ssize_t, rgetpeername -> c_int, rgetsockname -> c_int, rsetsockopt -> c_int, rgetsockopt -> c_int,
    rfcntl -> c_int, riomap -> i64, riounmap -> c_int, riowrite -> usize,
    repoll_create -> c_int, repoll_ctl -> c_int, repoll_wait -> c_int,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rpoll(fds: *mut pollfd, nfds: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the C contract, which is that of poll(2).
    unsafe { libc::poll(fds, nfds, timeout) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rselect(
    nfds: c_int,
    readfds: *mut fd_set,
    writefds: *mut fd_set,
    exceptfds: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the C contract, which is that of select(2).
    unsafe { libc::select(nfds, readfds, writefds, exceptfds, timeout) }
}
