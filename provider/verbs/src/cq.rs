//! Completion queues and completion channels.

use crate::acks::Acks;
use crate::context::ContextShared;
use crate::engine::{QpShared, SrqShared};
use crate::error::Error;
use crate::events::{AsyncEventKind, AsyncEvents};
use crate::limits::{COMP_VECTORS, MAX_CQE};
use crate::notification::{Moderation, Notification, Verdict};
use crate::records::RecordChannel;
use ferroce_core::{Completion, CqId, Nanos, Queue, Wc};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A completion channel (`ibv_create_comp_channel(3)`).
#[derive(Clone, Debug)]
pub struct CompChannel {
    shared: Arc<ChannelShared>,
}

#[derive(Debug)]
pub(crate) struct ChannelShared {
    records: RecordChannel<8>,
    cqs: AtomicUsize,
}

impl CompChannel {
    pub(crate) fn new() -> Result<CompChannel, Error> {
        Ok(CompChannel {
            shared: Arc::new(ChannelShared { records: RecordChannel::new()?, cqs: AtomicUsize::new(0) }),
        })
    }

    /// The descriptor that becomes readable with an event. Its O_NONBLOCK flag decides whether
    /// [`CompChannel::next_event`] waits.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.records.fd()
    }

    /// Takes the next event: the cookie of the CQ it is about. [`Cq::ack_events`] has to be called for it sooner or
    /// later, and until then the CQ can't be closed.
    pub fn next_event(&self) -> Result<u64, Error> {
        self.shared.records.pop().map(u64::from_ne_bytes)
    }

    /// How many CQs use it.
    pub fn users(&self) -> usize {
        self.shared.cqs.load(Ordering::Acquire)
    }
}

/// What a CQ is made with (`ibv_create_cq_ex(3)`).
#[derive(Clone, Copy, Debug, Default)]
pub struct CqSpec<'a> {
    /// Completions it holds at most.
    pub cqe: u32,
    /// What its events carry.
    pub cookie: u64,
    /// Where its events go.
    pub channel: Option<&'a CompChannel>,
    /// Which of the device's completion vectors raises its events.
    pub comp_vector: u32,
    /// Whether completions tell when they were added.
    pub stamps: bool,
    /// Whether the completions that it has no more room for take the places of the oldest ones, which are lost, instead
    /// of making it unusable (`IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`).
    pub ignore_overrun: bool,
}

/// When a completion was added to a CQ that was made with `stamps`; zeros in others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Stamps {
    /// Of the device's clock, [`Context::clock_ns`](crate::Context::clock_ns).
    pub clock_ns: u64,
    /// Nanoseconds since 1970.
    pub wallclock_ns: u64,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    shared: Arc<CqShared>,
    context: Arc<ContextShared>,
}

/// The part of a CQ that the engine knows.
#[derive(Debug)]
pub(crate) struct CqShared {
    id: CqId,
    /// What the owner calls it in events.
    cookie: u64,
    channel: Option<Arc<ChannelShared>>,
    waiting: AtomicUsize,
    queue: Mutex<CqQueue>,
    events: Acks,
    async_events: Acks,
    overrun: AtomicBool,
    ignore_overrun: bool,
    /// When the device's clock began, of a CQ that stamps its completions.
    clock: Option<Instant>,
    /// QPs and XRC SRQs that complete into it.
    users: AtomicUsize,
    context_events: Arc<AsyncEvents>,
}

#[derive(Debug)]
struct CqQueue {
    /// Completions, and what is left of those of QPs that were destroyed: taking them out at once would mean to look at
    /// all the others each time.
    entries: VecDeque<Entry>,
    /// Those of them that can be polled.
    live: usize,
    capacity: u32,
    notification: Notification,
}

/// A completion waiting to be polled, with the QP whose work queue has room again then.
#[derive(Debug)]
struct Entry {
    wc: Wc,
    stamps: Stamps,
    queue: Queue,
    retires: u32,
    qp: Arc<QpShared>,
    /// The QP's lives before this one; `None` for a completion that stays when the QP goes: that of an XRC SRQ.
    life: Option<u32>,
    /// The SRQ that has room again then.
    srq: Option<Arc<SrqShared>>,
}

impl Entry {
    /// Whether its QP has not been reset or destroyed since.
    fn is_live(&self) -> bool {
        self.life.is_none_or(|life| life == self.qp.life())
    }

    /// It was polled: there is room in its work queue again.
    fn retire(&self) {
        if self.life.is_some() {
            self.qp.count_completion(self.queue, false);
        }
        match &self.srq {
            None => self.qp.retire(self.queue, self.retires),
            Some(srq) => srq.retire(self.retires),
        }
    }
}

impl CqQueue {
    /// Takes out the next completion that can be polled.
    fn pop(&mut self) -> Option<Entry> {
        // Each round takes one out.
        loop {
            let entry = self.entries.pop_front()?;
            if entry.is_live() {
                self.live -= 1;
                return Some(entry);
            }
        }
    }
}

/// What became of a new completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivered {
    /// It waits in the queue.
    Queued,
    /// It does, and its event is to be raised then, by [`CqShared::raise_due`].
    Held(Nanos),
    /// The queue was full: it is lost, and the CQ with it.
    Overrun,
    /// The CQ was lost before.
    Lost,
}

impl CqShared {
    /// Adds a completion and raises the event that waits for it.
    pub(crate) fn push(
        &self,
        completion: &Completion,
        qp: Arc<QpShared>,
        srq: Option<Arc<SrqShared>>,
        now: Nanos,
    ) -> Delivered {
        let mut queue = self.queue.lock();
        if self.overrun.load(Ordering::Relaxed) {
            return Delivered::Lost;
        }
        if queue.live >= queue.capacity as usize {
            if !self.ignore_overrun {
                self.overrun.store(true, Ordering::Relaxed);
                return Delivered::Overrun;
            }
            if let Some(oldest) = queue.pop() {
                oldest.retire();
            }
        }
        let life = srq.as_ref().is_none_or(|srq| !srq.is_xrc()).then(|| qp.life());
        if life.is_some() {
            qp.count_completion(completion.queue, true);
        }
        queue.entries.push_back(Entry {
            wc: completion.wc,
            stamps: self.clock.map(Stamps::now).unwrap_or_default(),
            queue: completion.queue,
            retires: completion.retires,
            qp,
            life,
            srq,
        });
        queue.live += 1;
        self.waiting.store(queue.live, Ordering::Release);
        match queue.notification.on_completion(completion.solicited, now) {
            Verdict::Nothing => Delivered::Queued,
            Verdict::Raise => {
                self.notify();
                Delivered::Queued
            }
            Verdict::Hold(due) => Delivered::Held(due),
        }
    }

    /// Raises the event that was held, if its time has come.
    pub(crate) fn raise_due(&self, now: Nanos) {
        if self.queue.lock().notification.take_due(now) {
            self.notify();
        }
    }

    fn notify(&self) {
        if let Some(channel) = &self.channel {
            self.events.raise();
            if !channel.records.push(self.cookie.to_ne_bytes()) {
                self.events.acknowledge(1);
                tracing::error!("a completion channel's events are not read: an event was dropped");
            }
        }
    }

    /// A QP or an XRC SRQ starts (or stops) using it.
    pub(crate) fn count_user(&self, starts: bool) {
        if starts {
            self.users.fetch_add(1, Ordering::AcqRel);
        } else {
            self.users.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Tells the application that the CQ was overrun.
    pub(crate) fn report_overrun(&self) {
        tracing::error!(
            capacity = self.queue.lock().capacity,
            "a CQ was overrun: more completions than it was made for"
        );
        self.context_events.raise(&self.async_events, self.cookie, AsyncEventKind::CqErr);
    }

    /// Whether anything waits to be polled.
    fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Removes the completions of a QP that is destroyed, as a card does: `take_count` says how many there are, under
    /// the lock. The QP's life has ended before, so they are not live any more.
    pub(crate) fn forget(&self, take_count: impl FnOnce() -> usize) {
        let mut queue = self.queue.lock();
        queue.live -= take_count();
        self.waiting.store(queue.live, Ordering::Release);
        // Each look at all of them takes out more than half, so that all looks together cost no more than all entries.
        if queue.entries.len() > 2 * queue.live + SPARE_ENTRIES {
            queue.entries.retain(Entry::is_live);
        }
    }

    /// Takes up to `max` completions.
    fn take(&self, max: usize, sink: &mut impl FnMut(&Wc, Stamps)) -> usize {
        let mut queue = self.queue.lock();
        let mut taken = 0;
        while taken < max {
            let Some(entry) = queue.pop() else { break };
            entry.retire();
            sink(&entry.wc, entry.stamps);
            taken += 1;
        }
        if queue.entries.is_empty() && queue.entries.capacity() > SPARE_ENTRIES {
            queue.entries.shrink_to(SPARE_ENTRIES);
        }
        self.waiting.store(queue.live, Ordering::Release);
        taken
    }
}

impl Stamps {
    /// The present, on a device whose clock began at `start`.
    fn now(start: Instant) -> Stamps {
        let wallclock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Stamps { clock_ns: start.elapsed().as_nanos() as u64, wallclock_ns: wallclock.as_nanos() as u64 }
    }
}

/// Room an empty CQ keeps, so that a burst does not cost memory for ever.
const SPARE_ENTRIES: usize = 4096;

impl Cq {
    pub(crate) fn new(context: Arc<ContextShared>, spec: &CqSpec<'_>) -> Result<Cq, Error> {
        let (cqe, comp_vector) = (spec.cqe, spec.comp_vector);
        let limit = u64::from(MAX_CQE);
        if cqe == 0 || cqe > MAX_CQE {
            return Err(Error::OutOfRange { what: "cqe", asked: u64::from(cqe), limit });
        }
        if comp_vector >= COMP_VECTORS {
            let limit = u64::from(COMP_VECTORS - 1);
            return Err(Error::OutOfRange { what: "comp_vector", asked: u64::from(comp_vector), limit });
        }
        let channel = spec.channel.map(|channel| Arc::clone(&channel.shared));
        let clock = spec.stamps.then(|| context.engine.clock());
        let notification = Notification::default();
        let shared = context.engine.add_cq(|id| CqShared {
            id,
            cookie: spec.cookie,
            channel,
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(CqQueue { entries: VecDeque::new(), live: 0, capacity: cqe, notification }),
            events: Acks::default(),
            async_events: Acks::default(),
            overrun: AtomicBool::new(false),
            ignore_overrun: spec.ignore_overrun,
            clock,
            users: AtomicUsize::new(0),
            context_events: Arc::clone(&context.events),
        })?;
        if let Some(channel) = &shared.channel {
            channel.cqs.fetch_add(1, Ordering::AcqRel);
        }
        Ok(Cq { shared, context })
    }

    /// The engine's part.
    pub(crate) fn shared(&self) -> &Arc<CqShared> {
        &self.shared
    }

    /// Whether it was made from `context`.
    pub(crate) fn is_of(&self, context: &Arc<ContextShared>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    /// The transport's name for it.
    pub(crate) fn id(&self) -> CqId {
        self.shared.id
    }

    /// Takes up to `max` completions, handing each to `sink`; how many there were. An empty CQ lets the engine
    /// run for one bounded round first, so polling is what moves the traffic.
    ///
    /// # Errors
    /// The CQ was overrun (IBTA C11-39): completions are lost, and its QPs are in error. Or it is a forked parent's.
    pub fn poll_with(&self, max: usize, mut sink: impl FnMut(&Wc)) -> Result<usize, PollError> {
        self.poll_stamped_with(max, |wc, _| sink(wc))
    }

    /// Like [`Cq::poll_with`], and tells when each was added.
    ///
    /// # Errors
    /// Those of [`Cq::poll_with`].
    pub fn poll_stamped_with(
        &self,
        max: usize,
        mut sink: impl FnMut(&Wc, Stamps),
    ) -> Result<usize, PollError> {
        if self.context.is_dead() {
            return Err(PollError::Forked);
        }
        if self.shared.is_empty() {
            self.context.engine.assist(|| self.shared.is_empty());
        }
        let taken = if self.shared.is_empty() { 0 } else { self.shared.take(max, &mut sink) };
        let is_lost = taken == 0 && self.shared.overrun.load(Ordering::Relaxed);
        if is_lost { Err(PollError::Overrun) } else { Ok(taken) }
    }

    /// Takes up to `max` completions.
    ///
    /// # Errors
    /// Those of [`Cq::poll_with`].
    pub fn poll(&self, max: usize) -> Result<Vec<Wc>, PollError> {
        let mut wcs = Vec::new();
        self.poll_with(max, |wc| wcs.push(*wc))?;
        Ok(wcs)
    }

    /// Asks for one event on the channel, for the next completion (or the next solicited one, or error) that
    /// is added from now on (`ibv_req_notify_cq(3)`).
    pub fn req_notify(&self, solicited_only: bool) -> Result<(), Error> {
        if self.context.is_dead() {
            return Err(Error::Forked);
        }
        self.shared.queue.lock().notification.arm(solicited_only);
        self.context.engine.will_block();
        Ok(())
    }

    /// How many completions it holds at most.
    pub fn capacity(&self) -> u32 {
        self.shared.queue.lock().capacity
    }

    /// Changes how many completions it holds at most; those waiting stay, in order (`ibv_resize_cq(3)`).
    pub fn resize(&self, cqe: u32) -> Result<(), Error> {
        self.context.check_alive()?;
        if cqe == 0 || cqe > MAX_CQE {
            return Err(Error::OutOfRange { what: "cqe", asked: u64::from(cqe), limit: u64::from(MAX_CQE) });
        }
        let mut queue = self.shared.queue.lock();
        let held = queue.live as u32;
        if cqe < held {
            return Err(Error::CqTooSmall { asked: cqe, held });
        }
        queue.capacity = cqe;
        Ok(())
    }

    /// Changes how its events are moderated (`ibv_modify_cq(3)`). One that is held is raised.
    pub fn moderate(&self, moderation: Moderation) -> Result<(), Error> {
        self.context.check_alive()?;
        if self.shared.queue.lock().notification.moderate(moderation) {
            self.shared.notify();
        }
        Ok(())
    }

    /// Acknowledges `count` events taken from the channel.
    pub fn ack_events(&self, count: u32) {
        self.shared.events.acknowledge(u64::from(count));
    }

    /// Acknowledges an asynchronous event.
    pub fn ack_async_event(&self) {
        self.shared.async_events.acknowledge(1);
    }

    /// Makes it ready to be dropped, after all events taken from its channel have been acknowledged. Fails
    /// while a QP uses it (`ibv_destroy_cq(3)`: EBUSY).
    pub fn close(&self) -> Result<(), Error> {
        self.context.check_alive()?;
        let users = self.shared.users.load(Ordering::Acquire);
        if users > 0 {
            return Err(Error::InUse { what: "CQ", users });
        }
        self.shared.queue.lock().notification.disarm();
        if let Some(channel) = &self.shared.channel {
            let cookie = self.shared.cookie.to_ne_bytes();
            let unread = channel.records.discard(|record| *record == cookie);
            self.shared.events.acknowledge(unread as u64);
        }
        self.context.events.discard(&self.shared.async_events, self.shared.cookie);
        self.shared.events.wait();
        self.shared.async_events.wait();
        Ok(())
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        self.context.engine.remove_cq(self.shared.id);
        if !self.context.is_dead() {
            let mut queue = self.shared.queue.lock();
            queue.notification.disarm();
            // What is left of QPs that were destroyed names them, and they name the CQ.
            let left = std::mem::take(&mut queue.entries);
            drop(queue);
            drop(left);
        }
        if let Some(channel) = &self.shared.channel {
            channel.cqs.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Why a CQ can't be polled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PollError {
    /// More completions came than it was made for.
    #[error("the CQ was overrun and is unusable: make it with more entries, or poll it more often")]
    Overrun,
    /// It was made before a `fork`. The parent's completions are the parent's, and it may hold the CQ's lock.
    #[error("the device was opened before fork(2) and is dead in the child")]
    Forked,
}
