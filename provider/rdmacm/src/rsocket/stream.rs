//! A connected stream: its buffers and its credits.

use super::iomap::Mappings;
use super::memory::{Buffer, LOCAL_WRITE, REMOTE_WRITE};
use super::options::Options;
use super::queue::{Kind, Queue, Write};
use super::wire::{ConnData, Message, Sge};
use crate::layout::RdmaCmId;
use ferroce_abi::errno::Errno;
use ferroce_ibverbs_layout::{IbvSge, IbvWc};
use libc::c_int;
use std::collections::VecDeque;

/// A stream on an ID.
pub(super) struct Stream {
    /// In front of the buffers, since what is first is dropped first and it uses them until then.
    queue: Queue,
    rq_size: u32,

    /// What is under way to the peer, a ring.
    sends: Buffer,
    send_at: usize,
    send_room: usize,
    /// Send WRs that data may use, and those that are kept for the rest.
    data_wrs: u32,
    control_wrs: u32,
    /// Data messages sent, and the number that may not be reached.
    sent: u16,
    sent_limit: u16,

    /// What the peer has written and nobody has read, a ring.
    receives: Buffer,
    receive_at: usize,
    /// Bytes that may be handed out to the peer anew, and from where on.
    free: usize,
    free_at: usize,
    arrived: VecDeque<u32>,
    unread: usize,
    read: u16,
    read_told: u16,

    /// Where the peer says into which of its buffers to write; behind it, what it has mapped.
    target: Buffer,
    target_entry: usize,
    /// Where to tell the peer.
    pub(super) peer: Option<Peer>,
    peer_entry: u32,

    pub(super) mappings: Mappings,
    /// Completions taken so far.
    completed: u64,
    is_readable: bool,
    is_writable: bool,
    end: Option<End>,
}

/// What is known of the peer.
#[derive(Clone, Copy)]
pub(super) struct Peer {
    sgl: Sge,
    pub(super) iomap: Sge,
    pub(super) swaps: bool,
}

/// How a stream has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// One of the two has closed it.
    Closed,
    /// It broke.
    Broken,
}

impl Stream {
    /// Makes the queue pair of an ID that has a device, and its buffers.
    ///
    /// # Safety
    /// `id` is an ID of ours that outlives this.
    pub(super) unsafe fn new(id: *mut RdmaCmId, options: &Options) -> Result<Stream, Errno> {
        // SAFETY: the caller's promise.
        let shown = unsafe { &*id };
        let (context, pd) = (shown.verbs, shown.pd);
        if context.is_null() {
            return Err(Errno(libc::ENODEV));
        }
        // SAFETY: an ID's device is open, and stays so; so does its protection domain.
        let sends = unsafe { Buffer::new(pd, options.send_buffer, LOCAL_WRITE) }?;
        // SAFETY: as above.
        let receives = unsafe { Buffer::new(pd, options.receive_buffer, LOCAL_WRITE | REMOTE_WRITE) }?;
        let target_len = SGL_SIZE * Sge::LEN + options.iomap_size as usize * Mappings::ENTRY_LEN;
        // SAFETY: as above.
        let target = unsafe { Buffer::new(pd, target_len, LOCAL_WRITE | REMOTE_WRITE) }?;
        // SAFETY: the caller's promise, and the device is open.
        let queue = unsafe { Queue::new(id, options) }?;
        let half = receives.len() / 2;
        Ok(Stream {
            queue,
            rq_size: options.rq_size,
            send_room: sends.len(),
            sends,
            send_at: 0,
            data_wrs: options.sq_size - CONTROL_WRS,
            control_wrs: CONTROL_WRS,
            sent: 0,
            sent_limit: 0,
            receives,
            receive_at: 0,
            free: half,
            free_at: half,
            arrived: VecDeque::new(),
            unread: 0,
            read: 0,
            read_told: (options.rq_size / 2) as u16,
            target,
            target_entry: 0,
            peer: None,
            peer_entry: 1,
            mappings: Mappings::new(options.iomap_size),
            completed: 0,
            is_readable: true,
            is_writable: true,
            end: None,
        })
    }

    /// What the peer has to know.
    pub(super) fn conn_data(&self) -> ConnData {
        let ((_, target_key), (_, data_key)) = (self.target.keys(), self.receives.keys());
        ConnData {
            is_big_endian: cfg!(target_endian = "big"),
            credits: self.rq_size as u16,
            iomap_size: self.mappings.ours(),
            target_sgl: Sge { addr: self.target.addr(0), key: target_key, length: SGL_SIZE as u32 },
            data_buf: Sge {
                addr: self.receives.addr(0),
                key: data_key,
                length: (self.receives.len() / 2) as u32,
            },
        }
    }

    /// What the peer has said.
    pub(super) fn meet(&mut self, data: &ConnData) {
        let iomap_at = data.target_sgl.addr.wrapping_add(u64::from(data.target_sgl.length) * Sge::LEN as u64);
        self.peer = Some(Peer {
            sgl: data.target_sgl,
            iomap: Sge { addr: iomap_at, key: data.target_sgl.key, length: data.iomap_size },
            swaps: data.is_big_endian != cfg!(target_endian = "big"),
        });
        self.peer_entry = 1 % data.target_sgl.length;
        self.target.put(0, &data.data_buf.to_bytes(false));
        self.sent_limit = data.credits;
    }

    /// The descriptor that is readable when [`Stream::arm`] was called and something came after it.
    pub(super) fn fd(&self) -> c_int {
        self.queue.fd()
    }

    /// Asks for an event with the next completion.
    pub(super) fn arm(&mut self) {
        self.queue.arm();
    }

    /// Takes the events that there are.
    pub(super) fn take_events(&mut self) {
        self.queue.take_events();
    }

    /// Takes the completions that there are, and gives the peer the credits that it should have.
    pub(super) fn process(&mut self) {
        let mut wcs = [IbvWc::default(); BATCH];
        // Ends: no more can complete than was posted, which is posted below.
        for _ in 0..ROUNDS {
            let count = self.queue.poll(&mut wcs);
            if count == 0 {
                break;
            }
            for wc in &wcs[..count] {
                self.complete(wc);
            }
        }
        if self.end.is_none() && self.peer.is_some() && self.has_credits_to_give() && self.control_wrs > 0 {
            self.give_credits();
        }
    }

    /// How many completions it has taken.
    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    fn complete(&mut self, wc: &IbvWc) {
        self.completed += 1;
        let is_success = wc.status == 0;
        match Kind::of(wc.wr_id) {
            Kind::Receive if is_success => {
                self.take(Message::from_imm(wc.imm_data.to_ne_bytes()));
                if self.end.is_none() && self.queue.post_receive().is_err() {
                    self.finish(End::Broken);
                }
            }
            Kind::Receive => {}
            Kind::Data(length) => {
                self.data_wrs += 1;
                self.send_room += length;
            }
            Kind::Control => self.control_wrs += 1,
        }
        if !is_success {
            self.finish(End::Broken);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Data(length) => {
                self.unread += length as usize;
                if self.unread > self.receives.len() {
                    tracing::info!(
                        length,
                        "the peer of an rsocket says that it sent more than there is room for"
                    );
                    self.unread -= length as usize;
                    return self.finish(End::Broken);
                }
                self.arrived.push_back(length);
            }
            Message::Credits(number) => self.sent_limit = number,
            // The peer counts it among the messages that take a credit.
            Message::Mapped(_) => self.read = self.read.wrapping_add(1),
            Message::Disconnect => self.finish(End::Closed),
            Message::Shutdown if self.is_writable => self.is_readable = false,
            Message::Shutdown => self.finish(End::Closed),
            Message::Other => {}
        }
    }

    /// It has ended; the first end counts.
    pub(super) fn finish(&mut self, end: End) {
        self.end.get_or_insert(end);
        (self.is_readable, self.is_writable) = (false, false);
    }

    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether there is something to read, or never will be.
    pub(super) fn has_data(&self) -> bool {
        self.unread > 0 || !self.is_readable
    }

    pub(super) fn unread(&self) -> usize {
        self.unread
    }

    pub(super) fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether something can be written now.
    pub(super) fn can_send(&self) -> bool {
        self.can_write() && self.send_entry().length > 0
    }

    /// Whether a message can be sent that takes a credit.
    fn has_credit(&self) -> bool {
        self.can_write() && self.sent != self.sent_limit
    }

    fn can_write(&self) -> bool {
        self.is_writable && self.data_wrs > 0 && self.send_room > 0
    }

    /// Whether all that was sent has arrived.
    pub(super) fn is_drained(&self) -> bool {
        self.end.is_some() || (self.send_room == self.sends.len() && self.control_wrs == CONTROL_WRS)
    }

    /// The buffer of the peer's that is written next.
    fn send_entry(&self) -> Sge {
        if self.sent == self.sent_limit {
            return Sge::default();
        }
        Sge::from_bytes(self.target.bytes(self.target_entry * Sge::LEN))
    }

    /// Sends as much as there is room for now: how many bytes that was.
    ///
    /// # Safety
    /// `from` is `length` readable bytes.
    pub(super) unsafe fn send(&mut self, from: *const u8, length: usize) -> Result<usize, Errno> {
        let mut done = 0;
        while done < length && self.can_send() {
            let mut entry = self.send_entry();
            let chunk = (length - done).min(MAX_TRANSFER).min(self.send_room).min(entry.length as usize);
            let (addr, key) = (entry.addr, entry.key);
            let imm = Message::Data(chunk as u32).to_imm();
            // SAFETY: within the caller's bytes.
            unsafe { self.write(from.wrapping_add(done), chunk, Some(imm), addr, key) }?;
            self.sent = self.sent.wrapping_add(1);
            entry.addr = entry.addr.wrapping_add(chunk as u64);
            entry.length -= chunk as u32;
            self.target.put(self.target_entry * Sge::LEN, &entry.to_bytes(false));
            if entry.length == 0 {
                self.target_entry = (self.target_entry + 1) % SGL_SIZE;
            }
            done += chunk;
        }
        Ok(done)
    }

    /// Writes into a buffer that the peer has mapped at `offset`; how many bytes that was.
    ///
    /// # Safety
    /// `from` is `length` readable bytes.
    pub(super) unsafe fn write_mapped(
        &mut self,
        from: *const u8,
        length: usize,
        offset: u64,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        while done < length && self.can_write() {
            let at = offset.wrapping_add(done as u64);
            let Some((addr, key, room)) = self.mapped_at(at) else {
                return if done > 0 { Ok(done) } else { Err(Errno(libc::EFAULT)) };
            };
            let chunk = (length - done).min(MAX_TRANSFER).min(self.send_room).min(room as usize);
            // SAFETY: within the caller's bytes.
            unsafe { self.write(from.wrapping_add(done), chunk, None, addr, key) }?;
            done += chunk;
        }
        Ok(done)
    }

    /// Address, key and remaining length of what the peer has mapped at `offset`.
    fn mapped_at(&self, offset: u64) -> Option<(u64, u32, u32)> {
        let entries = (self.target.len() - SGL_SIZE * Sge::LEN) / Mappings::ENTRY_LEN;
        (0..entries).find_map(|index| {
            let place = SGL_SIZE * Sge::LEN + index * Mappings::ENTRY_LEN;
            let start = u64::from_ne_bytes(self.target.bytes(place));
            let sge = Sge::from_bytes(self.target.bytes(place + size_of::<u64>()));
            let into = offset.checked_sub(start).filter(|into| *into < u64::from(sge.length))?;
            Some((sge.addr.wrapping_add(into), sge.key, sge.length - into as u32))
        })
    }

    /// Tells the peer of what was mapped since the last time, as far as there is room.
    pub(super) fn tell_mappings(&mut self) -> Result<(), Errno> {
        let Some(peer) = self.peer else { return Ok(()) };
        while self.mappings.has_news() && self.has_credit() && self.send_room >= Mappings::ENTRY_LEN {
            let Some((index, entry)) = self.mappings.next_news(peer.swaps) else { break };
            let addr = peer.iomap.addr.wrapping_add(u64::from(index) * Mappings::ENTRY_LEN as u64);
            let imm = Message::Mapped(index).to_imm();
            // SAFETY: bytes of ours.
            unsafe { self.write(entry.as_ptr(), entry.len(), Some(imm), addr, peer.iomap.key) }?;
            self.sent = self.sent.wrapping_add(1);
        }
        Ok(())
    }

    /// Writes to the peer out of the ring, into which the bytes are copied; there is room for them.
    ///
    /// # Safety
    /// `from` is `length` readable bytes.
    unsafe fn write(
        &mut self,
        from: *const u8,
        length: usize,
        imm: Option<[u8; 4]>,
        addr: u64,
        key: u32,
    ) -> Result<(), Errno> {
        let (lkey, _) = self.sends.keys();
        let first = length.min(self.sends.len() - self.send_at);
        // SAFETY: the caller's promise.
        unsafe { self.sends.fill(self.send_at, from, first) };
        // SAFETY: the caller's promise.
        unsafe { self.sends.fill(0, from.wrapping_add(first), length - first) };
        let piece =
            |at: usize, length: usize| IbvSge { addr: self.sends.addr(at), length: length as u32, lkey };
        let mut sges = [piece(self.send_at, first), piece(0, length - first)];
        let count = if length > first { 2 } else { 1 };
        self.queue.write(&Write { kind: Kind::Data(length), imm, addr, key }, &mut sges[..count])?;
        self.send_at = (self.send_at + length) % self.sends.len();
        self.send_room -= length;
        self.data_wrs -= 1;
        Ok(())
    }

    /// Reads what has arrived; how many bytes that was. With `peeks` it stays there.
    ///
    /// # Safety
    /// `to` is room for `length` bytes.
    pub(super) unsafe fn receive(&mut self, to: *mut u8, length: usize, peeks: bool) -> usize {
        let count = length.min(self.unread);
        let first = count.min(self.receives.len() - self.receive_at);
        // SAFETY: the caller's promise.
        unsafe { self.receives.read(self.receive_at, to, first) };
        // SAFETY: the caller's promise.
        unsafe { self.receives.read(0, to.wrapping_add(first), count - first) };
        if !peeks {
            self.consume(count);
        }
        count
    }

    fn consume(&mut self, count: usize) {
        self.receive_at = (self.receive_at + count) % self.receives.len();
        self.unread -= count;
        self.free += count;
        let mut left = count as u32;
        // Bounded by the messages there are.
        while let Some(message) = self.arrived.front_mut() {
            if left < *message {
                *message -= left;
                break;
            }
            left -= *message;
            self.arrived.pop_front();
            self.read = self.read.wrapping_add(1);
        }
    }

    fn has_credits_to_give(&self) -> bool {
        self.free >= self.receives.len() / 2 || (self.read.wrapping_sub(self.read_told) as i16) >= 0
    }

    fn give_credits(&mut self) {
        let Some(peer) = self.peer else { return };
        self.read_told = self.read.wrapping_add((self.rq_size / 2) as u16);
        let imm = Message::Credits(self.read.wrapping_add(self.rq_size as u16)).to_imm();
        let half = self.receives.len() / 2;
        if self.free >= half {
            let (_, key) = self.receives.keys();
            let sge = Sge { addr: self.receives.addr(self.free_at), key, length: half as u32 };
            let bytes = sge.to_bytes(peer.swaps);
            let place = peer.sgl.addr.wrapping_add(u64::from(self.peer_entry) * Sge::LEN as u64);
            self.free -= half;
            self.free_at = (self.free_at + half) % (2 * half);
            self.peer_entry = (self.peer_entry + 1) % peer.sgl.length;
            let addr = bytes.as_ptr().expose_provenance() as u64;
            let mut sges = [IbvSge { addr, length: Sge::LEN as u32, lkey: 0 }];
            self.tell(imm, (place, peer.sgl.key), &mut sges);
        } else {
            self.tell(imm, (0, 0), &mut []);
        }
    }

    /// Tells the peer something for which a send WR is kept.
    fn tell(&mut self, imm: [u8; 4], (addr, key): (u64, u32), sges: &mut [IbvSge]) {
        match self.queue.write(&Write { kind: Kind::Control, imm: Some(imm), addr, key }, sges) {
            Ok(()) => self.control_wrs -= 1,
            Err(_) => self.finish(End::Broken),
        }
    }

    /// Says that no more data come; `false` when there is no room for that now.
    pub(super) fn close_direction(&mut self, message: Message) -> bool {
        if self.end.is_some() {
            return true;
        }
        if self.control_wrs == 0 {
            return false;
        }
        self.tell(message.to_imm(), (0, 0), &mut []);
        true
    }

    /// Which directions are open: to read, to write.
    pub(super) fn directions(&self) -> (bool, bool) {
        (self.is_readable, self.is_writable)
    }

    pub(super) fn set_directions(&mut self, is_readable: bool, is_writable: bool) {
        (self.is_readable, self.is_writable) = (is_readable, is_writable);
    }
}

/// Entries of the list of receive buffers: the two halves of one.
const SGL_SIZE: usize = 2;
/// Send WRs that are kept for what is no data.
pub(super) const CONTROL_WRS: u32 = 4;
/// Bytes of one message at most.
const MAX_TRANSFER: usize = 65_536;
/// Completions taken at once.
const BATCH: usize = 16;
/// Times that many are taken before others get their turn.
const ROUNDS: usize = 64;
