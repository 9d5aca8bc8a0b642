//! Who owns a slot.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The owner as written into a slot's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Process id.
    pub(crate) pid: u32,
    /// The process's name as in `/proc/PID/comm`; empty where that cannot be read.
    pub(crate) name: String,
    /// When it became the owner, in nanoseconds since 1970.
    pub(crate) since_ns: u64,
}

impl Owner {
    /// The process `pid`, from now on.
    pub(crate) fn from_now(pid: u32) -> Owner {
        let name = fs::read_to_string(process(pid).join("comm")).unwrap_or_default();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Owner { pid, name: name.trim_end().to_owned(), since_ns }
    }
}

/// Whether a process of that id runs. Says no of a process in a PID namespace that we do not see.
pub(crate) fn is_alive(pid: u32) -> bool {
    process(pid).exists()
}

fn process(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}
