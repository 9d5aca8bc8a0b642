//! Where events wait for the application.

use super::agent::Agent;
use super::event::CmEvent;
use crate::error::Error;
use crate::records::RecordChannel;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A channel for the events of IDs (`rdma_create_event_channel(3)`). Its descriptor is readable when an event waits, for
/// poll, edge-triggered epoll and O_NONBLOCK as the kernel's would be. Clones are the same channel.
#[derive(Clone, Debug)]
pub struct CmEventChannel {
    pub(super) shared: Arc<ChannelShared>,
    pub(super) agent: Arc<Agent>,
}

/// A channel: for each event a record that names its ID, and the event itself.
#[derive(Debug)]
pub(super) struct ChannelShared {
    records: RecordChannel<8>,
    events: Mutex<VecDeque<(u64, CmEvent)>>,
}

impl CmEventChannel {
    /// A channel of its own. The first one in a process joins the host's connection management.
    ///
    /// # Errors
    /// No keeper can be had; no descriptors.
    pub fn new() -> Result<CmEventChannel, Error> {
        let agent = Agent::shared()?;
        let shared = ChannelShared { records: RecordChannel::new()?, events: Mutex::default() };
        Ok(CmEventChannel { shared: Arc::new(shared), agent })
    }

    /// The descriptor to poll and to set O_NONBLOCK on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.records.fd()
    }

    /// Takes the next event, waiting as the descriptor's O_NONBLOCK says.
    ///
    /// # Errors
    /// EAGAIN: none waits. EINTR: a signal came.
    pub fn next_event(&self) -> Result<CmEvent, Error> {
        loop {
            let token = u64::from_ne_bytes(self.shared.records.pop()?);
            let Some(mut event) = self.shared.take(token) else { continue };
            // An ID that was destroyed meanwhile has no events any more.
            if let Some(cookie) = self.agent.note_taken(token, &event) {
                event.cookie = cookie;
                return Ok(event);
            }
        }
    }
}

impl ChannelShared {
    /// Adds an event about the ID `token`.
    pub(super) fn push(&self, token: u64, event: CmEvent) {
        let mut events = self.events.lock();
        if self.records.push(token.to_ne_bytes()) {
            events.push_back((token, event));
        } else {
            tracing::error!(kind = ?event.kind, "connection events are not read: an event was dropped");
        }
    }

    /// Removes the events about the ID `token`, in order.
    pub(super) fn discard(&self, token: u64) -> Vec<CmEvent> {
        let mut events = self.events.lock();
        self.records.discard(|record| u64::from_ne_bytes(*record) == token);
        let (gone, kept): (VecDeque<_>, VecDeque<_>) = events.drain(..).partition(|(of, _)| *of == token);
        *events = kept;
        gone.into_iter().map(|(_, event)| event).collect()
    }

    fn take(&self, token: u64) -> Option<CmEvent> {
        let mut events = self.events.lock();
        let at = events.iter().position(|(of, _)| *of == token)?;
        events.remove(at).map(|(_, event)| event)
    }
}
