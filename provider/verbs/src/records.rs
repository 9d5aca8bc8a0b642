//! A channel of fixed-size records: the file descriptor behind a completion channel and behind a context's
//! asynchronous events.
//!
//! One record stands for one event, so that blocking reads, O_NONBLOCK, poll and edge-triggered epoll all see
//! what an application expects of the kernel's descriptors. The writer never blocks: what the full channel
//! can't take waits here and follows when the reader has made room.
//!
//! It is a pair of sockets and not a pipe, since only a socket can be read without blocking once, whatever the
//! application has made of the descriptor's O_NONBLOCK, and whoever else reads from it at the same time.

use crate::error::Error;
use crate::limits::MAX_WAITING_EVENTS;
use ferroce_port::off_stdio;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A channel of records of `N` bytes.
#[derive(Debug)]
pub(crate) struct RecordChannel<const N: usize> {
    read: OwnedFd,
    write: OwnedFd,
    waiting: Mutex<VecDeque<[u8; N]>>,
}

impl<const N: usize> RecordChannel<N> {
    /// A channel whose reading end blocks.
    pub(crate) fn new() -> Result<Self, Error> {
        let (read, write) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|errno| Error::Os { doing: "making an event channel", source: errno.into() })?;
        let (read, write) = off_stdio(read)
            .and_then(|read| Ok((read, off_stdio(write)?)))
            .map_err(|source| Error::Os { doing: "making an event channel", source })?;
        Ok(RecordChannel { read, write, waiting: Mutex::new(VecDeque::new()) })
    }

    /// The descriptor to read, poll and set flags on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Adds a record. `false` if nobody has read for so long that it had to be refused.
    pub(crate) fn push(&self, record: [u8; N]) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MAX_WAITING_EVENTS {
            return false;
        }
        waiting.push_back(record);
        self.feed(&mut waiting);
        true
    }

    /// Takes a record, waiting as the descriptor's flags say.
    pub(crate) fn pop(&self) -> Result<[u8; N], Error> {
        let mut record = [0; N];
        let len = rustix::io::read(&self.read, &mut record)
            .map_err(|errno| Error::Os { doing: "reading an event", source: errno.into() })?;
        debug_assert_eq!(len, N, "records are written whole");
        self.feed(&mut self.waiting.lock());
        Ok(record)
    }

    /// Removes the records for which `matches` holds, among those not yet read; how many. What is in the channel
    /// goes through it once, at most its capacity.
    pub(crate) fn discard(&self, matches: impl Fn(&[u8; N]) -> bool) -> usize {
        let mut waiting = self.waiting.lock();
        let mut kept = VecDeque::new();
        let mut discarded = 0;
        loop {
            let mut record = [0; N];
            match recv(&self.read, &mut record, RecvFlags::DONTWAIT) {
                Ok((_, len)) if len == N => {}
                Err(Errno::INTR) => continue,
                _ => break,
            }
            if matches(&record) { discarded += 1 } else { kept.push_back(record) }
        }
        let before = waiting.len();
        waiting.retain(|record| !matches(record));
        discarded += before - waiting.len();
        kept.append(&mut waiting);
        *waiting = kept;
        self.feed(&mut waiting);
        discarded
    }

    /// Writes as much of what waits as the channel takes.
    fn feed(&self, waiting: &mut VecDeque<[u8; N]>) {
        while let Some(record) = waiting.front() {
            match send(&self.write, record, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(_) => drop(waiting.pop_front()),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_in_order_even_past_the_channels_capacity() {
        let channel = RecordChannel::<8>::new().expect("a channel");
        for i in 0..20_000u64 {
            assert!(channel.push(i.to_ne_bytes()));
        }
        for i in 0..20_000u64 {
            assert_eq!(channel.pop().expect("a record"), i.to_ne_bytes());
        }
    }

    #[test]
    fn a_nonblocking_reader_gets_eagain() {
        let channel = RecordChannel::<8>::new().expect("a channel");
        rustix::io::ioctl_fionbio(channel.fd(), true).expect("nonblocking");
        let error = channel.pop().expect_err("nothing there");
        assert_eq!(error.kind(), crate::ErrorKind::Os(libc::EAGAIN));
    }

    #[test]
    fn a_reader_that_never_reads_bounds_what_waits() {
        let channel = RecordChannel::<16>::new().expect("a channel");
        let taken = (0..200_000).take_while(|_| channel.push([7; 16])).count();
        assert!((MAX_WAITING_EVENTS..150_000).contains(&taken), "{taken}");
    }

    #[test]
    fn discarding_keeps_the_others_in_order() {
        let channel = RecordChannel::<8>::new().expect("a channel");
        for i in 0..12_000u64 {
            channel.push(i.to_ne_bytes());
        }
        assert_eq!(channel.discard(|record| u64::from_ne_bytes(*record) % 3 != 0), 8_000);
        for i in 0..4_000u64 {
            assert_eq!(channel.pop().expect("a record"), (3 * i).to_ne_bytes());
        }
    }
}
