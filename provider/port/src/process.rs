//! What a program asks of the system about itself when it leaves its parent behind.

use std::io;

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
}
