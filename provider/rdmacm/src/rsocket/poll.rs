//! Waiting for sockets and for the system's own descriptors.

use super::socket::Socket;
use super::table;
use crate::device::last_error;
use ferroce_abi::errno::Errno;
use libc::{c_int, fd_set, pollfd, timeval};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// As poll(2), with sockets among the descriptors; a negative timeout, in milliseconds, is for ever.
pub(super) fn poll(fds: &mut [pollfd], timeout_ms: c_int) -> Result<c_int, Errno> {
    let deadline = u64::try_from(timeout_ms).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
    let sockets: Vec<Option<Arc<Socket>>> = fds.iter().map(|fd| table::find(fd.fd).ok()).collect();
    loop {
        let mut ready = look(fds, &sockets, false);
        if ready == 0 {
            ready = look(fds, &sockets, true);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left_ms = left.map_or(c_int::MAX, |left| left.as_micros().div_ceil(1000) as c_int);
        // The system's own are asked in any case.
        let patience = if ready > 0 { 0 } else { left_ms.min(LOOK_AGAIN_MS) };
        ready += wait_for_all(fds, &sockets, patience)?;
        if ready > 0 || left_ms == 0 {
            return Ok(ready);
        }
    }
}

/// Looks at the sockets: how many are ready. With `arms`, their descriptors will tell of what comes after the look.
fn look(fds: &mut [pollfd], sockets: &[Option<Arc<Socket>>], arms: bool) -> c_int {
    let mut ready = 0;
    for (fd, socket) in fds.iter_mut().zip(sockets) {
        let Some(socket) = socket else { continue };
        fd.revents = socket.with(|inner| {
            if arms {
                inner.arm();
            }
            inner.ready(fd.events)
        });
        ready += c_int::from(fd.revents != 0);
    }
    ready
}

/// Waits at all descriptors: how many of the system's own are ready.
fn wait_for_all(
    fds: &mut [pollfd],
    sockets: &[Option<Arc<Socket>>],
    timeout_ms: c_int,
) -> Result<c_int, Errno> {
    let mut watched: Vec<pollfd> = Vec::with_capacity(2 * fds.len());
    for (fd, socket) in fds.iter().zip(sockets) {
        match socket {
            None => watched.push(*fd),
            Some(socket) => {
                let its = socket.with(|inner| inner.fds());
                watched.extend(its.map(|fd| pollfd { fd, events: libc::POLLIN, revents: 0 }));
            }
        }
    }
    // SAFETY: an array of ours.
    if unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, timeout_ms) } < 0 {
        return Err(last_error());
    }
    let mut results = watched.iter().map(|fd| fd.revents);
    let mut ready = 0;
    for (fd, socket) in fds.iter_mut().zip(sockets) {
        let first = results.next().unwrap_or(0);
        match socket {
            None => {
                fd.revents = first;
                ready += c_int::from(first != 0);
            }
            Some(socket) => {
                let second = results.next().unwrap_or(0);
                if second != 0 {
                    socket.look();
                }
            }
        }
    }
    Ok(ready)
}

/// As select(2).
///
/// # Safety
/// The C contract: null, or sets of descriptors; null, or a time.
pub(super) unsafe fn select(
    nfds: c_int,
    sets: [*mut fd_set; 3],
    timeout: *const timeval,
) -> Result<c_int, Errno> {
    let masks = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    let mut fds = Vec::new();
    for fd in 0..nfds.clamp(0, libc::FD_SETSIZE as c_int) {
        // SAFETY: the C contract; the descriptor is within a set.
        let is_in = |set: *mut fd_set| !set.is_null() && unsafe { libc::FD_ISSET(fd, set) };
        let wanted = sets.into_iter().zip(masks).filter(|(set, _)| is_in(*set));
        let events = wanted.fold(0, |events, (_, mask)| events | mask);
        if events != 0 {
            fds.push(pollfd { fd, events, revents: 0 });
        }
    }
    // SAFETY: the C contract.
    let timeout_ms = unsafe { timeout.as_ref() }.map_or(-1, |time| {
        let ms = time.tv_sec.saturating_mul(1000).saturating_add(time.tv_usec / 1000);
        c_int::try_from(ms).unwrap_or(c_int::MAX)
    });
    poll(&mut fds, timeout_ms)?;
    let mut count = 0;
    for fd in fds {
        // What ends can be read without waiting, and written.
        let over = libc::POLLHUP | libc::POLLERR;
        for (set, mask) in sets.into_iter().zip(masks) {
            if set.is_null() || fd.events & mask == 0 {
                continue;
            }
            let meaning = if mask == libc::POLLPRI { mask } else { mask | over };
            if fd.revents & meaning != 0 {
                count += 1;
            } else {
                // SAFETY: the C contract; the descriptor is within the set.
                unsafe { libc::FD_CLR(fd.fd, set) };
            }
        }
    }
    Ok(count)
}

/// Another thread may take the event that would end a wait; so sockets are looked at again now and then.
const LOOK_AGAIN_MS: c_int = 100;
