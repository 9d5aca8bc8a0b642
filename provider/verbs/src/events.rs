//! Asynchronous events of a context (`ibv_get_async_event(3)`).

use crate::acks::Acks;
use crate::error::Error;
use crate::records::RecordChannel;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What an asynchronous event says; the values are those of `enum ibv_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are ibv_get_async_event(3)'s own")]
pub enum AsyncEventKind {
    CqErr = 0,
    QpFatal = 1,
    QpReqErr = 2,
    QpAccessErr = 3,
    CommEst = 4,
    SqDrained = 5,
    PathMig = 6,
    PathMigErr = 7,
    DeviceFatal = 8,
    PortActive = 9,
    PortErr = 10,
    LidChange = 11,
    PkeyChange = 12,
    SmChange = 13,
    SrqErr = 14,
    SrqLimitReached = 15,
    QpLastWqeReached = 16,
    ClientReregister = 17,
    GidChange = 18,
}

impl AsyncEventKind {
    /// Every kind, in the order of the values.
    pub const ALL: [AsyncEventKind; 19] = [
        AsyncEventKind::CqErr,
        AsyncEventKind::QpFatal,
        AsyncEventKind::QpReqErr,
        AsyncEventKind::QpAccessErr,
        AsyncEventKind::CommEst,
        AsyncEventKind::SqDrained,
        AsyncEventKind::PathMig,
        AsyncEventKind::PathMigErr,
        AsyncEventKind::DeviceFatal,
        AsyncEventKind::PortActive,
        AsyncEventKind::PortErr,
        AsyncEventKind::LidChange,
        AsyncEventKind::PkeyChange,
        AsyncEventKind::SmChange,
        AsyncEventKind::SrqErr,
        AsyncEventKind::SrqLimitReached,
        AsyncEventKind::QpLastWqeReached,
        AsyncEventKind::ClientReregister,
        AsyncEventKind::GidChange,
    ];
}

/// An asynchronous event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncEventRecord {
    /// The cookie of the object it is about (the QP's, the CQ's), or the port number.
    pub element: u64,
    /// What happened.
    pub kind: AsyncEventKind,
}

/// The events of a context on their way to the application: records of 16 bytes {element u64, type u32, 0}.
#[derive(Debug)]
pub(crate) struct AsyncEvents {
    records: RecordChannel<16>,
}

impl AsyncEvents {
    pub(crate) fn new() -> Result<AsyncEvents, Error> {
        Ok(AsyncEvents { records: RecordChannel::new()? })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.records.fd()
    }

    /// Tells the application what happened to the object that counts in `acks`.
    pub(crate) fn raise(&self, acks: &Acks, element: u64, kind: AsyncEventKind) {
        acks.raise();
        if !self.push(AsyncEventRecord { element, kind }) {
            acks.acknowledge(1);
        }
    }

    /// Tells the application what happened to the port, or to the device. Nothing waits for the acknowledgement.
    pub(crate) fn raise_of_port(&self, kind: AsyncEventKind) {
        self.push(AsyncEventRecord { element: PORT, kind });
    }

    /// Adds an event; `false` if nobody reads them and it had to be dropped.
    fn push(&self, event: AsyncEventRecord) -> bool {
        let mut record = [0; 16];
        record[..8].copy_from_slice(&event.element.to_ne_bytes());
        record[8..12].copy_from_slice(&(event.kind as u32).to_ne_bytes());
        let taken = self.records.push(record);
        if !taken {
            tracing::error!(kind = ?event.kind, "asynchronous events are not read: an event was dropped");
        }
        taken
    }

    pub(crate) fn pop(&self) -> Result<AsyncEventRecord, Error> {
        let record = self.records.pop()?;
        let [e0, e1, e2, e3, e4, e5, e6, e7, kind, ..] = record;
        Ok(AsyncEventRecord {
            element: u64::from_ne_bytes([e0, e1, e2, e3, e4, e5, e6, e7]),
            kind: AsyncEventKind::ALL
                .into_iter()
                .find(|known| (*known as u32).to_ne_bytes()[0] == kind)
                .unwrap_or(AsyncEventKind::DeviceFatal),
        })
    }

    /// Forgets unread events about an object that goes away.
    pub(crate) fn discard(&self, acks: &Acks, element: u64) {
        let unread = self.records.discard(|record| record[..8] == element.to_ne_bytes());
        acks.acknowledge(unread as u64);
    }
}

/// The only port.
const PORT: u64 = 1;

/// Whom the asynchronous events about an object go to.
#[derive(Debug)]
pub(crate) struct Listener {
    /// What the owner calls the object.
    cookie: u64,
    acks: Acks,
    events: Arc<AsyncEvents>,
}

impl Listener {
    pub(crate) fn new(cookie: u64, events: Arc<AsyncEvents>) -> Listener {
        Listener { cookie, acks: Acks::default(), events }
    }

    /// Tells it what happened.
    pub(crate) fn raise(&self, kind: AsyncEventKind) {
        self.events.raise(&self.acks, self.cookie, kind);
    }

    /// It acknowledged an event.
    pub(crate) fn acknowledge(&self) {
        self.acks.acknowledge(1);
    }

    /// Nothing more happens to the object: forgets the events that were not read, and waits for the others to be
    /// acknowledged.
    pub(crate) fn close(&self) {
        self.events.discard(&self.acks, self.cookie);
        self.acks.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_at_their_values() {
        for (value, kind) in AsyncEventKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, value);
        }
    }

    #[test]
    fn events_come_back_as_they_were_and_those_of_a_gone_object_do_not() {
        let events = AsyncEvents::new().expect("a channel");
        let (gone, staying) = (Acks::default(), Acks::default());
        events.raise(&gone, 7, AsyncEventKind::QpAccessErr);
        events.raise(&staying, 8, AsyncEventKind::CommEst);
        events.raise(&gone, 7, AsyncEventKind::QpFatal);
        events.discard(&gone, 7);
        gone.wait();
        let left = AsyncEventRecord { element: 8, kind: AsyncEventKind::CommEst };
        assert_eq!(events.pop().expect("an event"), left);
    }
}
