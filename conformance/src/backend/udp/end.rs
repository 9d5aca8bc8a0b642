//! One endpoint: an open device and what was made from it.

use super::memory::Memory;
use super::refuse::unknown;
use crate::verbs::{AsyncEvent, AsyncEventKind, Refused};
use ferroce::{Ah, CompChannel, Context, Cq, CqSpec, Device, Error, Mw, Pd, Qp, Srq, Xrcd};
use ferroce_wire::Qpn;
use rustix::io::ioctl_fionbio;
use std::os::fd::AsFd;

/// An open device and its objects. A handle's number is an index, and a place stays empty when its object goes.
///
/// Objects are dropped in the order of the fields: users before what they use.
#[derive(Debug)]
pub(super) struct UdpEnd {
    pub(super) qps: Vec<Option<Qp>>,
    pub(super) srqs: Vec<Option<Srq>>,
    pub(super) xrcds: Vec<Option<Xrcd>>,
    pub(super) cqs: Vec<Option<EndCq>>,
    pub(super) mws: Vec<Option<Mw>>,
    pub(super) memory: Memory,
    pub(super) ahs: Vec<Ah>,
    pub(super) pds: Vec<Option<Pd>>,
    /// Nothing completes into it; polling it lets the engine run.
    idle: Cq,
    pub(super) context: Context,
}

/// A CQ and the channel of its own.
#[derive(Debug)]
pub(super) struct EndCq {
    pub(super) cq: Cq,
    pub(super) channel: CompChannel,
}

/// What distinguishes the cookies of QPs and SRQs from those of CQs.
const QP_COOKIE: u64 = 1 << 32;
const SRQ_COOKIE: u64 = 2 << 32;

impl UdpEnd {
    pub(super) fn open(device: &Device) -> Result<UdpEnd, Error> {
        let context = device.open()?;
        dont_wait(context.async_fd())?;
        let idle = context.create_cq(&CqSpec { cqe: 1, cookie: u64::MAX, ..CqSpec::default() })?;
        Ok(UdpEnd {
            qps: Vec::new(),
            srqs: Vec::new(),
            xrcds: Vec::new(),
            cqs: Vec::new(),
            mws: Vec::new(),
            memory: Memory::default(),
            ahs: Vec::new(),
            pds: Vec::new(),
            idle,
            context,
        })
    }

    /// Lets the engine run for one round.
    pub(super) fn assist(&self) {
        // Nothing can overrun it.
        let _ = self.idle.poll(1);
    }

    pub(super) fn add_cq(&mut self, cqe: u32) -> Result<usize, Error> {
        let channel = self.context.create_comp_channel()?;
        dont_wait(channel.fd())?;
        let number = self.cqs.len();
        let cq = self.context.create_cq(&CqSpec {
            cqe,
            cookie: number as u64,
            channel: Some(&channel),
            ..CqSpec::default()
        })?;
        self.cqs.push(Some(EndCq { cq, channel }));
        Ok(number)
    }

    /// What the next QP's events carry.
    pub(super) fn next_qp_cookie(&self) -> u64 {
        QP_COOKIE | self.qps.len() as u64
    }

    /// What the next SRQ's events carry.
    pub(super) fn next_srq_cookie(&self) -> u64 {
        SRQ_COOKIE | self.srqs.len() as u64
    }

    pub(super) fn srq(&self, number: usize) -> Result<&Srq, Refused> {
        self.srqs.get(number).and_then(Option::as_ref).ok_or_else(|| unknown("SRQ"))
    }

    pub(super) fn xrcd(&self, number: usize) -> Result<&Xrcd, Refused> {
        self.xrcds.get(number).and_then(Option::as_ref).ok_or_else(|| unknown("XRC domain"))
    }

    pub(super) fn pd(&self, number: usize) -> Result<&Pd, Refused> {
        self.pds.get(number).and_then(Option::as_ref).ok_or_else(|| unknown("PD"))
    }

    pub(super) fn ah(&self, number: usize) -> Result<&Ah, Refused> {
        self.ahs.get(number).ok_or_else(|| unknown("address handle"))
    }

    pub(super) fn mw(&self, number: usize) -> Result<&Mw, Refused> {
        self.mws.get(number).and_then(Option::as_ref).ok_or_else(|| unknown("memory window"))
    }

    pub(super) fn cq(&self, number: usize) -> Result<&EndCq, Refused> {
        self.cqs.get(number).and_then(Option::as_ref).ok_or_else(|| unknown("CQ"))
    }

    /// Whether it has the QP of that number.
    pub(super) fn has_qp(&self, qpn: Qpn) -> bool {
        self.qps.iter().flatten().any(|qp| qp.qpn() == qpn)
    }

    pub(super) fn qp(&self, number: usize) -> Result<&Qp, Refused> {
        self.qps.get(number).and_then(Option::as_ref).ok_or_else(|| unknown("QP"))
    }

    /// Takes and acknowledges an asynchronous event.
    pub(super) fn take_async_event(&self) -> Option<AsyncEvent> {
        // An error is EAGAIN: there is none.
        let record = self.context.next_async_event().ok()?;
        let number = (record.element & !(QP_COOKIE | SRQ_COOKIE)) as usize;
        // An object that is gone took its events along.
        let _ = match record.kind {
            AsyncEventKind::CqErr => self.cq(number).map(|cq| cq.cq.ack_async_event()),
            AsyncEventKind::SrqErr | AsyncEventKind::SrqLimitReached => {
                self.srq(number).map(Srq::ack_async_event)
            }
            _ => self.qp(number).map(Qp::ack_async_event),
        };
        Some(AsyncEvent { kind: record.kind, number })
    }
}

impl EndCq {
    /// Takes and acknowledges an event of the channel.
    pub(super) fn take_event(&self) -> bool {
        let taken = self.channel.next_event().is_ok();
        if taken {
            self.cq.ack_events(1);
        }
        taken
    }
}

fn dont_wait(fd: impl AsFd) -> Result<(), Error> {
    ioctl_fionbio(fd, true)
        .map_err(|errno| Error::Os { doing: "making an event channel non-blocking", source: errno.into() })
}
