//! What a program asks of the system about itself.

use std::io;
use std::marker::PhantomData;

use libc::sigset_t;

use crate::sys::process;

/// The effective user id, by which the kernel counts sockets and Unix peers.
pub fn effective_uid() -> u32 {
    process::geteuid()
}

/// Leaves the session and the terminal of the parent (setsid(2)).
///
/// # Errors
/// `PermissionDenied` for the leader of a process group.
pub fn start_session() -> io::Result<()> {
    process::setsid()
}

/// Marks all descriptors but the standard three close-on-exec, so that a program executed from here inherits none of
/// those that somebody forgot to mark.
///
/// # Errors
/// On Linux before 5.11, which has no such call.
pub fn mark_all_close_on_exec() -> io::Result<()> {
    process::mark_close_on_exec(3)
}

/// Raises the limit of open files as far as is permitted, and returns it. It also bounds the descriptors that a user
/// may have under way in Unix sockets (unix(7), ETOOMANYREFS).
///
/// # Errors
/// The system's, when it does not permit even that.
pub fn raise_open_file_limit() -> io::Result<u64> {
    process::raise_limit(libc::RLIMIT_NOFILE)
}

/// Keeps signals away from the calling thread until it is dropped, and for good from the threads that are started
/// meanwhile, since a thread inherits its starter's mask (pthread_sigmask(3)).
///
/// Signals that the kernel raises for a fault of the thread itself still come: blocked, they would end the process even
/// where the application handles them.
#[derive(Debug)]
pub struct SignalsBlocked {
    before: sigset_t,
    /// The mask is the thread's.
    _same_thread: PhantomData<*const ()>,
}

impl SignalsBlocked {
    /// Begins.
    ///
    /// # Errors
    /// The system's; there is no known cause.
    pub fn begin() -> io::Result<SignalsBlocked> {
        let before = process::set_signal_mask(&process::all_signals_but(&FAULTS))?;
        Ok(SignalsBlocked { before, _same_thread: PhantomData })
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // Setting a mask that was set before cannot fail.
        let _ = process::set_signal_mask(&self.before);
    }
}

/// Signals that a thread brings upon itself.
const FAULTS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_effective_uid_owns_new_files() {
        let file = std::fs::metadata("/proc/self/task").unwrap();
        assert_eq!(effective_uid(), file.uid());
    }

    #[test]
    fn the_open_file_limit_becomes_the_hard_one() {
        let limit = raise_open_file_limit().unwrap();
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let fields: Vec<_> = line.split_whitespace().collect();
        assert_eq!((fields[3], fields[4]), (limit.to_string().as_str(), limit.to_string().as_str()));
    }

    /// The signals that the calling thread blocks, as a mask with bit n - 1 for signal n.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn threads_started_meanwhile_get_no_signals_but_for_their_own_faults() {
        let before = blocked();
        let guard = SignalsBlocked::begin().unwrap();
        let inherited = std::thread::spawn(blocked).join().unwrap();
        drop(guard);
        assert_eq!(blocked(), before);
        let bit = |signal: libc::c_int| 1u64 << (signal - 1);
        for signal in [libc::SIGTERM, libc::SIGALRM, libc::SIGUSR1, libc::SIGCHLD, libc::SIGPROF] {
            assert_ne!(inherited & bit(signal), 0, "signal {signal}");
        }
        for signal in FAULTS {
            assert_eq!(inherited & bit(signal), 0, "signal {signal}");
        }
    }
}
