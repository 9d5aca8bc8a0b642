//! Shared receive queues: receive WQEs that any of several QPs takes.

use crate::fault::ResponderFault;
use crate::output::Output;
use crate::receive_queue::{Home, Receive, ReceiveQueue};
use crate::{AsyncEvent, CqId, PdId, Queue, RecvWr, XrcdId};
use std::collections::VecDeque;
use std::fmt;
use thiserror::Error;

/// Number of an SRQ, 24 bits (`ibv_get_srq_num(3)`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Srqn(u32);

/// What an SRQ is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqInit {
    /// Protection domain of the memory that its WQEs name; of an XRC SRQ, that of R_Keys in requests to it too.
    pub pd: PdId,
    /// What makes it an XRC SRQ, which receives for targets and not for QPs that are made with it.
    pub xrc: Option<XrcSrq>,
}

/// What an XRC SRQ has besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XrcSrq {
    /// Its domain.
    pub xrcd: XrcdId,
    /// Where its WQEs complete.
    pub cq: CqId,
}

/// All SRQs of a device, by number.
#[derive(Debug)]
pub(crate) struct Srqs {
    slots: Vec<Slot>,
    /// Indexes of the slots given up, longest ago first.
    vacant: VecDeque<u32>,
}

/// A place in the table. It stays when its SRQ goes.
#[derive(Debug)]
struct Slot {
    /// Changes with each SRQ, so that the number of one that is gone leads nowhere.
    generation: u8,
    srq: Option<Srq>,
}

#[derive(Debug)]
struct Srq {
    init: SrqInit,
    queue: ReceiveQueue,
    /// Below this many WQEs an event is raised; 0 when it is not armed.
    limit: u32,
    /// QPs that were made with it.
    users: u32,
    /// Its CQ has overrun.
    dead: bool,
}

impl Srqn {
    /// The number with the low 24 bits of `value`.
    pub const fn new(value: u32) -> Srqn {
        Srqn(value & SRQN_MASK)
    }

    /// The number.
    pub const fn value(self) -> u32 {
        self.0
    }

    const fn of(index: u32, generation: u8) -> Srqn {
        Srqn((generation as u32) << INDEX_BITS | index)
    }

    const fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    const fn generation(self) -> u8 {
        (self.0 >> INDEX_BITS) as u8
    }
}

impl fmt::Display for Srqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

impl Srqs {
    /// An empty table.
    pub(crate) fn new() -> Srqs {
        Srqs { slots: Vec::new(), vacant: VecDeque::new() }
    }

    pub(crate) fn create(&mut self, init: SrqInit) -> Result<Srqn, CreateSrqError> {
        let full = self.slots.len() >= MAX_SRQS as usize;
        let index = if full || self.vacant.len() >= REUSE_DISTANCE {
            self.vacant.pop_front().ok_or(CreateSrqError::TooManySrqs { max: MAX_SRQS })?
        } else {
            self.slots.push(Slot { generation: 0, srq: None });
            self.slots.len() as u32 - 1
        };
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.srq = Some(Srq { init, queue: ReceiveQueue::default(), limit: 0, users: 0, dead: false });
        Ok(Srqn::of(index, slot.generation))
    }

    /// Destroys an SRQ with all WQEs in it, without completions.
    pub(crate) fn destroy(&mut self, srqn: Srqn) -> Result<(), DestroySrqError> {
        let srq = self.get(srqn)?;
        if srq.users > 0 {
            return Err(DestroySrqError::InUse { srqn, qps: srq.users });
        }
        self.slots[srqn.index()].srq = None;
        self.vacant.push_back(srqn.index() as u32);
        Ok(())
    }

    pub(crate) fn post(&mut self, srqn: Srqn, wr: RecvWr) -> Result<(), UnknownSrq> {
        self.get_mut(srqn)?.queue.post(wr);
        Ok(())
    }

    /// Arms the limit, or disarms it with 0.
    pub(crate) fn arm(&mut self, srqn: Srqn, limit: u32) -> Result<(), UnknownSrq> {
        self.get_mut(srqn)?.limit = limit;
        Ok(())
    }

    /// The limit; 0 once it was reached.
    pub(crate) fn limit(&self, srqn: Srqn) -> Result<u32, UnknownSrq> {
        Ok(self.get(srqn)?.limit)
    }

    /// A QP is made with it. `false` if it is an XRC SRQ, which no QP can be made with.
    pub(crate) fn add_user(&mut self, srqn: Srqn) -> Result<bool, UnknownSrq> {
        let srq = self.get_mut(srqn)?;
        let usable = srq.init.xrc.is_none();
        srq.users += u32::from(usable);
        Ok(usable)
    }

    /// A QP that was made with it is destroyed.
    pub(crate) fn remove_user(&mut self, srqn: Srqn) {
        if let Ok(srq) = self.get_mut(srqn) {
            srq.users = srq.users.saturating_sub(1);
        }
    }

    /// Checks that a request to a target of `xrcd` may name this SRQ; the protection domain of its R_Keys.
    ///
    /// The annex is not public; that an unknown number is an invalid request and another domain's a broken right is
    /// how the rest of the specification divides them.
    pub(crate) fn check_xrc(&self, srqn: Srqn, xrcd: XrcdId) -> Result<PdId, ResponderFault> {
        let srq = self.get(srqn).map_err(|_| ResponderFault::NoXrcSrq { srqn })?;
        match srq.init.xrc {
            None => Err(ResponderFault::NoXrcSrq { srqn }),
            Some(xrc) if xrc.xrcd != xrcd => Err(ResponderFault::OtherXrcd { srqn }),
            Some(_) if srq.dead => Err(ResponderFault::DeadSrq { srqn }),
            Some(_) => Ok(srq.init.pd),
        }
    }

    /// A CQ has overrun: the XRC SRQs that complete to it are dead.
    pub(crate) fn cq_overrun(&mut self, cq: CqId, output: &mut Output) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let Some(srq) = &mut slot.srq else { continue };
            if !srq.dead && srq.init.xrc.is_some_and(|xrc| xrc.cq == cq) {
                srq.dead = true;
                output.raise(AsyncEvent::SrqErr(Srqn::of(index as u32, slot.generation)));
            }
        }
    }

    /// Bytes that the next WQE has room for.
    pub(crate) fn next_room(&self, srqn: Srqn) -> Option<u64> {
        self.get(srqn).ok()?.queue.room()
    }

    /// Takes the next WQE, for a message to a QP that completes to `cq`.
    pub(crate) fn take(&mut self, srqn: Srqn, cq: CqId, output: &mut Output) -> Option<Receive> {
        let srq = self.get_mut(srqn).ok()?;
        let wr = srq.queue.pop()?;
        // P-26: once, and then it has to be armed again.
        if (srq.queue.len() as u64) < u64::from(srq.limit) {
            srq.limit = 0;
            output.raise(AsyncEvent::SrqLimitReached(srqn));
        }
        let cq = srq.init.xrc.map_or(cq, |xrc| xrc.cq);
        Some(Receive { wr, home: Home { pd: srq.init.pd, cq, queue: Queue::Srq(srqn) } })
    }

    /// Takes a WQE back that a QP has taken and not used.
    pub(crate) fn put_back(&mut self, srqn: Srqn, wr: RecvWr) {
        if let Ok(srq) = self.get_mut(srqn) {
            srq.queue.put_back(wr);
        }
    }

    fn get(&self, srqn: Srqn) -> Result<&Srq, UnknownSrq> {
        let slot = self.slots.get(srqn.index()).filter(|slot| slot.generation == srqn.generation());
        slot.and_then(|slot| slot.srq.as_ref()).ok_or(UnknownSrq { srqn })
    }

    fn get_mut(&mut self, srqn: Srqn) -> Result<&mut Srq, UnknownSrq> {
        let slot = self.slots.get_mut(srqn.index()).filter(|slot| slot.generation == srqn.generation());
        slot.and_then(|slot| slot.srq.as_mut()).ok_or(UnknownSrq { srqn })
    }
}

/// There is no such SRQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("there is no SRQ {srqn}")]
pub struct UnknownSrq {
    /// The number asked for.
    pub srqn: Srqn,
}

/// Why an SRQ was not created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CreateSrqError {
    /// All numbers are in use.
    #[error("all {max} SRQs of the device are in use: destroy some first")]
    TooManySrqs {
        /// How many there are.
        max: u32,
    },
}

/// Why an SRQ was not destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DestroySrqError {
    /// No such SRQ.
    #[error(transparent)]
    Unknown(#[from] UnknownSrq),
    /// QPs take from it.
    #[error("{qps} QPs use SRQ {srqn}: destroy them first")]
    InUse {
        /// The SRQ.
        srqn: Srqn,
        /// How many QPs.
        qps: u32,
    },
}

/// Most SRQs of a device (`max_srq`).
pub const MAX_SRQS: u32 = 1 << INDEX_BITS;

/// Slots that are vacant before the one vacated first is used again, so that a number does not come back soon.
const REUSE_DISTANCE: usize = 256;

/// Low bits of a number that are the index of its slot.
const INDEX_BITS: u32 = 16;

const SRQN_MASK: u32 = 0xff_ffff;
