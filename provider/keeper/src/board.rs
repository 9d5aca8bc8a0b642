//! The board: shared memory that all clients of one keeper map, with one record per slot.
//!
//! It tells who owns a slot, carries the counters of the owner's device, and accounts for the bytes in the slot's
//! receive queue, so that senders on the same host can hold back before the receiver's socket buffer overflows.
//! The keeper writes the identity of a record, its owner the counters and `consumed`, any process `enqueued`.
//! All of it is atomics: a reader may see a record change under its eyes, and nothing worse can happen.
//!
//! ```text
//! words   0..8     header: magic, layout version, slots, counters per slot
//! then per slot    8 words  identity: owner pid, since, generation, name (2 words)
//!                  8 words  enqueued          (a cache line of its own: every sender on the host writes it)
//!                  8 words  consumed, capacity                            (written by the owner)
//!                128 words  counters
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_port::shared::{SharedError, SharedWords};
use thiserror::Error;

use crate::SLOTS;
use crate::owner::Owner;

/// Version of the layout. Raised with every change.
pub const BOARD_VERSION: u64 = 1;
/// Counters per slot; their names and order are `ferroce_core::Counter`'s.
pub const COUNTERS_PER_SLOT: usize = 128;
/// Bytes of a process name kept, as many as `/proc/PID/comm` shows.
pub const NAME_LEN: usize = 16;

/// The board, mapped.
#[derive(Debug)]
pub struct Board {
    words: SharedWords,
}

/// A board that cannot be used.
#[derive(Debug, Error)]
pub enum BoardError {
    /// The shared memory could not be made or mapped, or is none.
    #[error("the keeper's board: {0}")]
    Memory(#[from] SharedError),
    /// It starts with something else.
    #[error("the shared memory is no board of a Ferroce keeper (it starts with {found:#018x})")]
    Magic {
        /// The first word.
        found: u64,
    },
    /// It was made by another release.
    #[error(
        "the board has layout version {theirs} ({their_slots} slots of {their_counters} counters), this release of \
         Ferroce needs version {BOARD_VERSION} ({SLOTS} slots of {COUNTERS_PER_SLOT} counters): stop the programs \
         that use the other release, or use the same one everywhere"
    )]
    Layout {
        /// Its version.
        theirs: u64,
        /// Its number of slots.
        their_slots: u64,
        /// Its number of counters per slot.
        their_counters: u64,
    },
}

impl Board {
    /// Makes a new board with no owners.
    ///
    /// # Errors
    /// [`BoardError::Memory`] when the system gives no shared memory.
    pub fn create() -> Result<Board, BoardError> {
        let words = SharedWords::create("ferroce-board", WORDS)?;
        let header = [MAGIC, BOARD_VERSION, SLOTS as u64, COUNTERS_PER_SLOT as u64];
        for (word, value) in words.words().iter().zip(header) {
            word.store(value, Ordering::Relaxed);
        }
        Ok(Board { words })
    }

    /// Maps the board that another process made.
    ///
    /// # Errors
    /// [`BoardError`] when the descriptor is no board, or one of another release.
    pub fn open(fd: OwnedFd) -> Result<Board, BoardError> {
        let words = SharedWords::from_fd(fd, WORDS)?;
        let [magic, version, slots, counters] =
            std::array::from_fn(|i| words.words()[i].load(Ordering::Relaxed));
        if magic != MAGIC {
            return Err(BoardError::Magic { found: magic });
        }
        if (version, slots, counters) != (BOARD_VERSION, SLOTS as u64, COUNTERS_PER_SLOT as u64) {
            let (their_slots, their_counters) = (slots, counters);
            return Err(BoardError::Layout { theirs: version, their_slots, their_counters });
        }
        Ok(Board { words })
    }

    /// The record of `slot`, 0 being the keeper's own; `None` beyond the last.
    pub fn slot(&self, slot: usize) -> Option<SlotRecord<'_>> {
        if slot >= SLOTS {
            return None;
        }
        let start = HEADER_WORDS + slot * RECORD_WORDS;
        Some(SlotRecord { words: &self.words.words()[start..start + RECORD_WORDS] })
    }

    /// All records with their slots.
    pub fn slots(&self) -> impl Iterator<Item = (usize, SlotRecord<'_>)> {
        (0..SLOTS).filter_map(|slot| Some((slot, self.slot(slot)?)))
    }
}

impl AsFd for Board {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.words.as_fd()
    }
}

/// One slot's record.
#[derive(Clone, Copy, Debug)]
pub struct SlotRecord<'a> {
    words: &'a [AtomicU64],
}

impl<'a> SlotRecord<'a> {
    /// The owner's process id; 0 when the slot is free.
    pub fn owner(self) -> u32 {
        // Acquire: whoever sees an owner sees the rest of its record (`grant` stores the owner last).
        self.words[OWNER].load(Ordering::Acquire) as u32
    }

    /// When the slot was granted, in nanoseconds since 1970.
    pub fn since_ns(self) -> u64 {
        self.words[SINCE].load(Ordering::Relaxed)
    }

    /// Number of this grant of the slot; the first is 1.
    pub fn generation(self) -> u64 {
        self.words[GENERATION].load(Ordering::Relaxed)
    }

    /// The owner's name as in `/proc/PID/comm`.
    pub fn name(self) -> String {
        let mut bytes = [0; NAME_LEN];
        for (room, word) in bytes.chunks_exact_mut(8).zip(&self.words[NAME..]) {
            room.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(NAME_LEN);
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    /// A sender on this host is about to send `bytes` to the slot's socket. Returns the total with them.
    pub fn add_enqueued(self, bytes: u64) -> u64 {
        self.words[ENQUEUED].fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes)
    }

    /// Bytes ever announced by senders on this host; wraps.
    pub fn enqueued(self) -> u64 {
        self.words[ENQUEUED].load(Ordering::Relaxed)
    }

    /// The owner has taken so many of the announced bytes off its socket in all, or knows them lost. For the owner only.
    pub fn set_consumed(self, total: u64) {
        self.words[CONSUMED].store(total, Ordering::Relaxed);
    }

    /// What [`SlotRecord::set_consumed`] said last; wraps.
    pub fn consumed(self) -> u64 {
        self.words[CONSUMED].load(Ordering::Relaxed)
    }

    /// Bytes announced and not yet taken off the socket. 0 when the owner is ahead, which happens because remote
    /// senders announce nothing.
    pub fn backlog(self) -> u64 {
        let backlog = self.enqueued().wrapping_sub(self.consumed());
        if backlog > u64::MAX / 2 { 0 } else { backlog }
    }

    /// The bytes that the owner's socket buffer has room for. For the owner only.
    pub fn set_capacity(self, bytes: u64) {
        self.words[CAPACITY].store(bytes, Ordering::Relaxed);
    }

    /// What [`SlotRecord::set_capacity`] said; 0 when the owner has not said yet.
    pub fn capacity(self) -> u64 {
        self.words[CAPACITY].load(Ordering::Relaxed)
    }

    /// The owner's counters.
    pub fn counters(self) -> &'a [AtomicU64] {
        &self.words[COUNTERS..]
    }

    /// Gives the record to a new owner, with everything of an earlier one gone. For the keeper only.
    pub(crate) fn grant(self, owner: &Owner) {
        self.clear();
        self.words[GENERATION].fetch_add(1, Ordering::Relaxed);
        self.name_owner(owner);
    }

    /// Writes who owns the record and leaves the rest. For the keeper only.
    pub(crate) fn name_owner(self, owner: &Owner) {
        self.words[SINCE].store(owner.since_ns, Ordering::Relaxed);
        let mut bytes = [0; NAME_LEN];
        let len = owner.name.len().min(NAME_LEN);
        bytes[..len].copy_from_slice(&owner.name.as_bytes()[..len]);
        for (word, chunk) in self.words[NAME..].iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
        self.words[OWNER].store(owner.pid.into(), Ordering::Release);
    }

    /// Nobody owns the record any more. The generation stays. For the keeper only.
    pub(crate) fn clear(self) {
        self.words[OWNER].store(0, Ordering::Release);
        for at in [SINCE, NAME, NAME + 1, CAPACITY] {
            self.words[at].store(0, Ordering::Relaxed);
        }
        // Not both to zero: a sender may be adding at this moment, and what it adds must not outlive the queue.
        self.set_consumed(self.enqueued());
        for counter in self.counters() {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// "FerBoard" read as bytes on a little-endian host.
const MAGIC: u64 = u64::from_le_bytes(*b"FerBoard");
const HEADER_WORDS: usize = LINE;
const RECORD_WORDS: usize = COUNTERS + COUNTERS_PER_SLOT;
const WORDS: usize = HEADER_WORDS + SLOTS * RECORD_WORDS;

/// Words in a cache line.
const LINE: usize = 8;
const OWNER: usize = 0;
const SINCE: usize = 1;
const GENERATION: usize = 2;
const NAME: usize = 3;
const ENQUEUED: usize = LINE;
const CONSUMED: usize = 2 * LINE;
const CAPACITY: usize = 2 * LINE + 1;
const COUNTERS: usize = 3 * LINE;

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(pid: u32, name: &str) -> Owner {
        Owner { pid, name: name.to_owned(), since_ns: 5 }
    }

    fn same(board: &Board) -> OwnedFd {
        board.as_fd().try_clone_to_owned().unwrap()
    }

    #[test]
    fn two_processes_see_one_record() {
        let board = Board::create().unwrap();
        let other = Board::open(same(&board)).unwrap();
        board.slot(255).unwrap().grant(&owner(77, "ib_write_bw"));
        other.slot(255).unwrap().counters()[127].store(9, Ordering::Relaxed);
        let record = board.slot(255).unwrap();
        assert_eq!((record.owner(), record.name().as_str(), record.generation()), (77, "ib_write_bw", 1));
        assert_eq!(record.since_ns(), 5);
        assert_eq!(record.counters()[127].load(Ordering::Relaxed), 9);
        assert!(board.slot(256).is_none());
    }

    #[test]
    fn records_do_not_overlap() {
        let board = Board::create().unwrap();
        for (slot, record) in board.slots() {
            for word in record.words {
                assert_eq!(word.swap(slot as u64 + 1, Ordering::Relaxed), 0);
            }
        }
        Board::open(same(&board)).expect("the header is as it was");
    }

    #[test]
    fn a_new_owner_finds_nothing_of_the_last_one() {
        let board = Board::create().unwrap();
        let record = board.slot(1).unwrap();
        record.grant(&owner(77, "ib_write_bw"));
        record.counters()[3].store(1, Ordering::Relaxed);
        record.set_capacity(4096);
        record.add_enqueued(1000);
        assert_eq!(record.backlog(), 1000);
        record.clear();
        assert_eq!((record.owner(), record.name().as_str(), record.capacity()), (0, "", 0));
        record.grant(&owner(78, "a name longer than sixteen"));
        assert_eq!((record.backlog(), record.generation()), (0, 2));
        assert_eq!(record.name(), "a name longer th");
        assert_eq!(record.counters()[3].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_owner_ahead_of_the_senders_has_no_backlog() {
        let board = Board::create().unwrap();
        let record = board.slot(1).unwrap();
        record.set_consumed(10);
        assert_eq!(record.backlog(), 0);
        assert_eq!(record.add_enqueued(u64::MAX), u64::MAX);
        assert_eq!(record.backlog(), 0);
        record.set_consumed(u64::MAX - 1);
        assert_eq!(record.add_enqueued(3), 2);
        assert_eq!(record.backlog(), 4);
    }

    #[test]
    fn memory_that_is_no_board_of_this_release_is_refused() {
        let blank = SharedWords::create("blank", WORDS).unwrap();
        let fd = blank.as_fd().try_clone_to_owned().unwrap();
        assert!(matches!(Board::open(fd), Err(BoardError::Magic { found: 0 })));

        let board = Board::create().unwrap();
        board.words.words()[1].store(2, Ordering::Relaxed);
        let error = Board::open(same(&board)).unwrap_err();
        assert!(error.to_string().contains("layout version 2"), "{error}");

        let short = SharedWords::create("short", 10).unwrap();
        let fd = short.as_fd().try_clone_to_owned().unwrap();
        assert!(matches!(Board::open(fd), Err(BoardError::Memory(_))));
    }
}
