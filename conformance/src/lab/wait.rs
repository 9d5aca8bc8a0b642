//! Waiting for completions and events, and for nothing.

use super::{End, Lab};
use crate::case::{Failure, Outcome, equal};
use crate::verbs::{AsyncEvent, AsyncEventKind, Cq, Endpoint};
use ferroce_core::{QpState, Wc, WcStatus};

/// How long what is under way may go on in virtual time, unless a case says otherwise: many round trips, and less than
/// any timer that cases set for this not to reach.
const SETTLE_NS: u64 = 1_000_000;

impl Lab {
    /// Waits for the next completion of a CQ.
    ///
    /// # Errors
    /// None comes; the CQ was overrun.
    pub fn wait_cq(&mut self, cq: Cq, what: &str) -> Result<Wc, Failure> {
        let mut polled = Ok(Vec::new());
        self.fabric.wait(&mut |fabric| {
            polled = fabric.poll_cq(cq, 1);
            polled.as_ref().map_or(true, |wcs| !wcs.is_empty())
        });
        polled?.pop().ok_or_else(|| Failure::new(format!("no {what} completion came")))
    }

    /// Waits for the next send completion.
    ///
    /// # Errors
    /// None comes.
    pub fn wait_send(&mut self, end: &End) -> Result<Wc, Failure> {
        self.wait_cq(end.send_cq, "send")
    }

    /// Waits for the next receive completion.
    ///
    /// # Errors
    /// None comes.
    pub fn wait_recv(&mut self, end: &End) -> Result<Wc, Failure> {
        self.wait_cq(end.recv_cq, "receive")
    }

    /// Waits for the completion of a send work request that succeeds.
    ///
    /// # Errors
    /// None comes, or another.
    pub fn sent(&mut self, end: &End, wr_id: u64) -> Result<Wc, Failure> {
        let wc = self.wait_send(end)?;
        equal("send completion", (wc.wr_id, wc.status), (wr_id, WcStatus::Success))?;
        Ok(wc)
    }

    /// Waits for the completion of a receive work request that succeeds.
    ///
    /// # Errors
    /// None comes, or another.
    pub fn received(&mut self, end: &End, wr_id: u64) -> Result<Wc, Failure> {
        let wc = self.wait_recv(end)?;
        equal("receive completion", (wc.wr_id, wc.status), (wr_id, WcStatus::Success))?;
        Ok(wc)
    }

    /// Waits for the completion of a send work request that fails.
    ///
    /// # Errors
    /// None comes, or another.
    pub fn send_fails(&mut self, end: &End, wr_id: u64, status: WcStatus) -> Outcome {
        let wc = self.wait_send(end)?;
        equal("send completion", (wc.wr_id, wc.status), (wr_id, status))
    }

    /// Waits for the completion of a receive work request that fails.
    ///
    /// # Errors
    /// None comes, or another.
    pub fn recv_fails(&mut self, end: &End, wr_id: u64, status: WcStatus) -> Outcome {
        let wc = self.wait_recv(end)?;
        equal("receive completion", (wc.wr_id, wc.status), (wr_id, status))
    }

    /// Lets everything happen that is under way.
    pub fn settle(&mut self) {
        self.fabric.settle(SETTLE_NS);
    }

    /// Once all is quiet, neither CQ of `end` may hold anything.
    ///
    /// # Errors
    /// There is a completion.
    pub fn no_completions(&mut self, end: &End) -> Outcome {
        self.settle();
        for (cq, what) in [(end.send_cq, "send"), (end.recv_cq, "receive")] {
            let polled = self.fabric.poll_cq(cq, 1)?;
            if let Some(wc) = polled.first() {
                return Err(Failure::new(format!("a {what} completion that nobody expected: {wc:?}")));
            }
        }
        Ok(())
    }

    /// Waits for the next asynchronous event, which is of that kind and about that end's QP.
    ///
    /// # Errors
    /// None comes, or another.
    pub fn qp_event(&mut self, end: &End, kind: AsyncEventKind) -> Outcome {
        let event = self.wait_event(end.at)?;
        equal("asynchronous event", event, AsyncEvent { kind, number: end.qp.number })
    }

    /// Waits for the next asynchronous event.
    ///
    /// # Errors
    /// None comes.
    pub fn wait_event(&mut self, at: Endpoint) -> Result<AsyncEvent, Failure> {
        let mut event = None;
        self.fabric.wait(&mut |fabric| {
            event = fabric.take_async_event(at);
            event.is_some()
        });
        event.ok_or_else(|| Failure::new("no asynchronous event came"))
    }

    /// Once all is quiet, there may be no asynchronous event.
    ///
    /// # Errors
    /// There is one.
    pub fn no_events(&mut self, at: Endpoint) -> Outcome {
        self.settle();
        match self.fabric.take_async_event(at) {
            None => Ok(()),
            Some(event) => Err(Failure::new(format!("an event that nobody expected: {event:?}"))),
        }
    }

    /// Waits until the QP is in that state.
    ///
    /// # Errors
    /// It never is.
    pub fn wait_state(&mut self, end: &End, state: QpState) -> Outcome {
        let qp = end.qp;
        let mut last = Err(Failure::new("query_qp was not called"));
        self.fabric.wait(&mut |fabric| {
            last = fabric.query_qp(qp).map(|attr| attr.qp_state).map_err(Failure::from);
            last.as_ref().map_or(true, |now| *now == state)
        });
        equal("state of the QP", last?, state)
    }
}
