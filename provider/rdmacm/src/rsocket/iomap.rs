//! Buffers of the application that the peer may write to (`riomap`).

use super::memory::Registration;
use super::wire::Sge;
use ferroce_abi::errno::Errno;
use libc::c_void;
use std::collections::VecDeque;

/// What is mapped for the peer.
pub(super) struct Mappings {
    /// Entries of our own list, for the peer's buffers.
    ours: u32,
    entries: Vec<Option<Mapping>>,
    /// Entries that the peer has not been told.
    news: VecDeque<u32>,
    /// Buffers that the peer does not get to know.
    local: Vec<Mapping>,
}

struct Mapping {
    offset: u64,
    sge: Sge,
    registration: Registration,
}

impl Mappings {
    /// Length of an entry of the list in bytes: the offset, and the buffer.
    pub(super) const ENTRY_LEN: usize = size_of::<u64>() + Sge::LEN;

    pub(super) fn new(ours: u32) -> Mappings {
        Mappings { ours, entries: Vec::new(), news: VecDeque::new(), local: Vec::new() }
    }

    /// Entries of our own list.
    pub(super) fn ours(&self) -> u32 {
        self.ours
    }

    /// Maps a buffer, for the peer whose list has `room` entries unless it is `None`.
    ///
    /// # Errors
    /// ENOMEM: the peer's list is full.
    pub(super) fn add(
        &mut self,
        registration: Registration,
        addr: u64,
        length: u32,
        offset: u64,
        room: Option<u32>,
    ) -> Result<(), Errno> {
        let (_, key) = registration.keys();
        let mapping = Mapping { offset, sge: Sge { addr, key, length }, registration };
        let Some(room) = room else {
            self.local.push(mapping);
            return Ok(());
        };
        let free = self.entries.iter().position(Option::is_none).unwrap_or(self.entries.len());
        if free >= room as usize {
            return Err(Errno(libc::ENOMEM));
        }
        if free == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[free] = Some(mapping);
        self.news.push_back(free as u32);
        Ok(())
    }

    /// Takes a mapping back.
    ///
    /// # Errors
    /// EINVAL: there is none.
    pub(super) fn remove(&mut self, addr: *const c_void, length: usize) -> Result<(), Errno> {
        let is_it = |mapping: &Mapping| mapping.registration.is_at(addr, length);
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.as_ref().is_some_and(is_it)) {
            *entry = None;
            return Ok(());
        }
        let at = self.local.iter().position(is_it).ok_or(Errno::INVALID)?;
        self.local.swap_remove(at);
        Ok(())
    }

    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The next entry to tell the peer, as it lies in the peer's memory.
    pub(super) fn next_news(&mut self, swaps: bool) -> Option<(u32, [u8; Self::ENTRY_LEN])> {
        loop {
            let index = self.news.pop_front()?;
            // One that was taken back meanwhile is no news.
            let Some(mapping) = self.entries.get(index as usize).and_then(Option::as_ref) else { continue };
            let offset = if swaps { mapping.offset.swap_bytes() } else { mapping.offset };
            let mut entry = [0; Self::ENTRY_LEN];
            entry[..size_of::<u64>()].copy_from_slice(&offset.to_ne_bytes());
            entry[size_of::<u64>()..].copy_from_slice(&mapping.sge.to_bytes(swaps));
            return Some((index, entry));
        }
    }
}
