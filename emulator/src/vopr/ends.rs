//! The queues of both ends of a connection, as they should be.

use super::Fault;
use super::ledger::Place;
use super::plan::{self, Connect, Op, Service};
use super::windows::Window;
use ferroce_core::{CqId, PdId, QpState, Queue, Srqn};
use ferroce_wire::Qpn;
use std::collections::VecDeque;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) plan: Connect,
    /// First PSNs, which change when it is made anew.
    pub(super) psns: [u32; 2],
    /// Something was posted that a responder must refuse: an end may go to ERR by itself.
    pub(super) is_tainted: bool,
    /// A region of one of its hosts was deregistered.
    pub(super) lost_memory: bool,
    /// An end is not there, or does not answer: whatever is asked of it runs out of retries.
    pub(super) is_gone: bool,
    /// Packets may be lost where the model does not see it.
    pub(super) is_troubled: bool,
    /// A message was posted when the peer had no receive WQE for it.
    pub(super) was_starved: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) name: plan::End,
    pub(super) host: usize,
    pub(super) qpn: Qpn,
    pub(super) pd: PdId,
    pub(super) service: Service,
    pub(super) sig_all: bool,
    pub(super) send_cq: CqId,
    pub(super) recv_cq: CqId,
    /// Neither destroyed nor dead with its process.
    pub(super) exists: bool,
    /// As it was seen last.
    pub(super) state: QpState,
    /// Why it is in ERR or SQE.
    pub(super) cause: Option<String>,
    /// Of the outstanding ones, those that were done without a completion when its queue was looked at last; `None` on a
    /// service whose queue cannot be seen.
    pub(super) silent: Option<usize>,
    /// Everything posted to the send queue since it was connected.
    pub(super) messages: Vec<Message>,
    /// The first of them that has not been completed.
    pub(super) completed: usize,
    /// Those before this one have reached the peer, or (on UC) will not any more.
    pub(super) delivered: usize,
    /// Where it takes receive WQEs from; an initiator takes none.
    pub(super) pool: Option<usize>,
    /// QP_LAST_WQE_REACHED has come since it went to ERR.
    pub(super) is_last_wqe_said: bool,
    /// The word of the peer's memory that its atomics change.
    pub(super) word: Option<Word>,
    /// Work requests under way when it went to SQD, or at the last look since: no more may begin.
    pub(super) sqd_begun: Option<usize>,
    /// SQ_DRAINED is due.
    pub(super) is_draining: bool,
    /// Memory windows that it bound for its peer.
    pub(super) windows: Vec<Window>,
    /// Messages among those posted, and among those completed, that sent nothing: the peer's MSN leaves them out.
    pub(super) local: [usize; 2],
}

/// A receive queue: a QP's own, or an SRQ.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) host: usize,
    pub(super) kind: PoolKind,
    /// Whose keys its work requests have.
    pub(super) pd: PdId,
    /// Work requests that are not complete, oldest first.
    pub(super) posted: VecDeque<Posted>,
    /// Ends that take from it, or did.
    pub(super) users: Vec<usize>,
    pub(super) exists: bool,
    /// The limit that is armed; 0 for none.
    pub(super) limit: u8,
    /// Bytes of the shortest work request there ever was.
    pub(super) shortest: u32,
}

/// What a pool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PoolKind {
    /// The receive queue of one QP.
    Own,
    /// An SRQ, with its number in plans.
    Srq(u8, Srqn),
    /// An XRC SRQ, with its number in plans and its CQ.
    Xrc(u8, Srqn, CqId),
}

impl Pool {
    /// The SRQ's number on the card.
    pub(super) fn srqn(&self) -> Option<Srqn> {
        match self.kind {
            PoolKind::Own => None,
            PoolKind::Srq(_, srqn) | PoolKind::Xrc(_, srqn, _) => Some(srqn),
        }
    }

    /// What completions from it name.
    pub(super) fn queue(&self) -> Queue {
        self.srqn().map_or(Queue::Recv, Queue::Srq)
    }
}

/// A send work request.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) wr_id: u64,
    pub(super) op: Op,
    pub(super) len: u32,
    pub(super) imm: [u8; 4],
    pub(super) signaled: bool,
    pub(super) fence: bool,
    pub(super) solicited: bool,
    /// The number its bytes follow from.
    pub(super) content: u64,
    /// Its own memory; inline data has none.
    pub(super) local: Option<Place>,
    /// The peer's, where it names any.
    pub(super) remote: Option<Place>,
    /// What an atomic finds.
    pub(super) original: u64,
    /// The R_Key of the memory window that it is about.
    pub(super) key: u32,
    /// What is wrong with it; it must show.
    pub(super) flaw: plan::Flaw,
    /// Which process of the peer's host it was meant for.
    pub(super) epoch: u32,
    /// It never left as a whole, so it cannot arrive.
    pub(super) is_void: bool,
    /// A receive completion at the peer said that it is there.
    pub(super) is_received: bool,
}

impl Message {
    /// Whether it takes a receive WQE when it arrives, which it may.
    pub(super) fn needs_receive(&self) -> bool {
        self.op.consumes_receive() && !self.is_void
    }
}

/// A receive work request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) wr_id: u64,
    pub(super) place: Place,
    pub(super) bad_lkey: bool,
}

/// A word that the atomics of one end change, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) place: Place,
    /// Its value before the first of them and after each.
    pub(super) values: Vec<u64>,
}

impl End {
    /// Send work requests that are not complete.
    pub(super) fn outstanding(&self) -> usize {
        self.messages.len() - self.completed
    }

    /// Whether the first `count` of them asked for no completion.
    pub(super) fn are_silent(&self, count: usize) -> bool {
        let asked = |message: &Message| message.signaled || self.sig_all;
        !self.messages[self.completed..self.completed + count].iter().any(asked)
    }

    /// Whether all of them may be done without a word. Once its queue was seen, they must have been done then: an
    /// error makes a completion of every one that is not.
    pub(super) fn is_all_silent(&self) -> bool {
        let outstanding = self.outstanding();
        let is_seen = self.silent.is_none_or(|silent| silent == outstanding);
        outstanding == 0 || (self.are_silent(outstanding) && is_seen)
    }

    /// Whether it takes send work requests.
    pub(super) fn takes_sends(&self) -> bool {
        self.exists && matches!(self.state, QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err)
    }

    /// Whether requests reach it.
    pub(super) fn answers(&self) -> bool {
        self.exists && matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe)
    }

    /// Messages for which the peer will need a receive WQE.
    pub(super) fn undelivered(&self) -> usize {
        self.messages[self.delivered..].iter().filter(|message| message.needs_receive()).count()
    }

    /// Nothing of what was posted will complete any more. What is on its way may still reach the peer, so the
    /// messages stay.
    pub(super) fn abandon(&mut self) {
        self.completed = self.messages.len();
        self.local[1] = self.local[0];
        self.doubt_windows();
        self.silent = None;
        self.is_last_wqe_said = false;
        self.is_draining = false;
    }

    /// It is connected anew, and nothing of the old connection matters.
    pub(super) fn begin_anew(&mut self) {
        self.abandon();
        self.messages.clear();
        self.completed = 0;
        self.local = [0, 0];
        self.windows.clear();
        self.delivered = 0;
        self.word = None;
        self.cause = None;
    }

    /// A fault with the end's name in front.
    pub(super) fn fault(&self, rule: &'static str, text: impl std::fmt::Display) -> Fault {
        Fault::new(rule, format!("{} ({} {}): {text}", self.name, self.qpn, self.state))
    }
}
