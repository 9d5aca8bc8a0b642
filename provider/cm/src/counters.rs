//! What a connection manager counts.

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum CmCounter {
    /// Messages sent, repetitions included.
    Sent,
    /// Messages that were understood.
    Received,
    /// Messages sent again because no answer came.
    Repeated,
    /// Messages that had arrived before.
    Duplicates,
    /// Datagrams of another class, version, method or attribute.
    NotUnderstood,
    /// Messages for a communication ID that is not in use, or in use with another peer.
    Strangers,
    /// Messages that the state of their connection does not allow.
    OutOfState,
    /// Requests with nonsense in their fields.
    Malformed,
    /// Requests refused because nobody listens.
    NobodyListens,
    /// Requests refused because the listener's backlog, or a table, was full.
    NoRoom,
    /// Requests refused because the same queue pair is connected already.
    Stale,
}

/// Number of counters.
const COUNT: usize = CmCounter::Stale as usize + 1;

/// The counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CmCounters([u64; COUNT]);

impl CmCounters {
    /// The value of one.
    pub fn value(&self, counter: CmCounter) -> u64 {
        self.0[counter as usize]
    }

    pub(crate) fn count(&mut self, counter: CmCounter) {
        self.0[counter as usize] += 1;
    }
}
