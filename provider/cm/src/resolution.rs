//! Looking up datagram services (SIDR), both sides.

use crate::connection::Pending;
use crate::limits::MAX_RESOLUTIONS;
use crate::params::{MAX_RETRIES, RESPONSE_TIMEOUT, duration_ns};
use crate::passive::destination;
use crate::{
    Answer, Cm, CmCallError, CmCounter, CommId, Datagram, Event, ListenerId, Lookup, LookupParams, Route,
};
use ferroce_core::Nanos;
use ferroce_wire::cm::{self, ServiceId, SidrRep, SidrReq, SidrStatus};
use ferroce_wire::mad::Mad;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Lookups, ours and those of peers.
#[derive(Debug, Default)]
pub(crate) struct Resolutions {
    by_id: BTreeMap<CommId, Resolution>,
    /// Lookups of peers by the peer and its number for them.
    by_peer: BTreeMap<(IpAddr, u32), CommId>,
}

#[derive(Debug)]
enum Resolution {
    /// We asked.
    Asked { route: Route, pending: Pending },
    /// A peer asked.
    ToAnswer(Question),
    /// A peer asked and was answered; it may ask again.
    Answered { question: Question, mad: Box<Mad> },
}

#[derive(Clone, Copy, Debug)]
struct Question {
    route: Route,
    transaction: u64,
    request_id: u32,
    service: ServiceId,
    waits_at: Option<ListenerId>,
}

impl Resolutions {
    pub(crate) fn contains(&self, id: CommId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// It leaves the backlog of that listener.
    pub(crate) fn taken(&mut self, id: CommId) -> Option<ListenerId> {
        match self.by_id.get_mut(&id)? {
            Resolution::ToAnswer(question) => question.waits_at.take(),
            _ => None,
        }
    }

    fn remove(&mut self, id: CommId) {
        if let Some(Resolution::ToAnswer(question) | Resolution::Answered { question, .. }) =
            self.by_id.remove(&id)
        {
            self.by_peer.remove(&(question.route.peer, question.request_id));
        }
    }
}

impl Cm {
    /// Looks a datagram service up (SIDR_REQ). [`Event::Found`] or [`Event::Unreachable`] follows.
    ///
    /// # Errors
    /// More private data than there is room for; too many lookups.
    pub fn resolve(&mut self, now: Nanos, params: &LookupParams) -> Result<CommId, CmCallError> {
        let req = SidrReq::default()
            .with_pkey(params.pkey)
            .with_service_id(params.service)
            .with_private_data(&params.private_data)?;
        let is_full = self.resolutions.by_id.len() >= MAX_RESOLUTIONS;
        let id = Some(()).filter(|()| !is_full).and_then(|()| self.new_id());
        let id = id.ok_or(CmCallError::TooManyLookups)?;
        let mad = cm::encode(u64::from(id.0), &req.with_request_id(id.0));
        let pending = Pending { mad: Box::new(mad), left: MAX_RETRIES };
        self.resolutions.by_id.insert(id, Resolution::Asked { route: params.route, pending });
        self.timers.set(id, now + duration_ns(RESPONSE_TIMEOUT));
        self.send(params.route, mad);
        Ok(id)
    }

    /// Answers a lookup (SIDR_REP).
    ///
    /// # Errors
    /// It is no lookup of a peer, or answered; more private data than there is room for.
    pub fn answer(&mut self, now: Nanos, id: CommId, answer: &Answer) -> Result<(), CmCallError> {
        self.taken(id);
        let Some(Resolution::ToAnswer(question)) = self.resolutions.by_id.get(&id) else {
            return Err(CmCallError::Unknown(id));
        };
        let question = *question;
        let rep = SidrRep::default().with_request_id(question.request_id).with_service_id(question.service);
        let rep = match answer {
            Answer::Served { qpn, qkey, private_data } => rep
                .with_status(SidrStatus::Valid)
                .with_qpn(*qpn)
                .with_qkey(*qkey)
                .with_private_data(private_data)?,
            Answer::Rejected { private_data } => {
                rep.with_status(SidrStatus::Rejected).with_private_data(private_data)?
            }
        };
        let mad = cm::encode(question.transaction, &rep);
        self.resolutions.by_id.insert(id, Resolution::Answered { question, mad: Box::new(mad) });
        self.timers.set(id, now + ANSWER_KEPT * duration_ns(RESPONSE_TIMEOUT));
        self.send(question.route, mad);
        Ok(())
    }

    /// Nobody wants to hear of it any more; an answer that was given stays for a peer that asks again.
    pub(crate) fn forget_resolution(&mut self, id: CommId) {
        match self.resolutions.by_id.get(&id) {
            Some(Resolution::ToAnswer(question)) => {
                let question = *question;
                self.resolutions.remove(id);
                self.refuse(&question, SidrStatus::Rejected);
            }
            Some(Resolution::Asked { .. }) => {
                self.timers.clear(id);
                self.resolutions.remove(id);
            }
            Some(Resolution::Answered { .. }) | None => {}
        }
    }

    pub(crate) fn handle_sidr_req(&mut self, route: &Route, transaction: u64, req: &SidrReq) {
        let (request_id, service) = (req.request_id(), req.service_id());
        if let Some(id) = self.resolutions.by_peer.get(&(route.peer, request_id)).copied() {
            self.count(CmCounter::Duplicates);
            if let Some(Resolution::Answered { question, mad }) = self.resolutions.by_id.get(&id) {
                let (route, mad) = (question.route, **mad);
                self.send(route, mad);
            }
            return;
        }
        let question = Question { route: *route, transaction, request_id, service, waits_at: None };
        let Ok(destination) = destination(service, req.private_data(), route.local) else {
            self.count(CmCounter::Malformed);
            return self.refuse(&question, SidrStatus::Rejected);
        };
        let Some(listener) = self.listeners.find(service, destination) else {
            self.count(CmCounter::NobodyListens);
            return self.refuse(&question, SidrStatus::ServiceNotSupported);
        };
        let has_room = self.resolutions.by_id.len() < MAX_RESOLUTIONS;
        let id = Some(()).filter(|()| has_room).and_then(|()| self.new_id());
        // A lookup is repeated: without room it is left to its next try.
        let Some(id) = id.filter(|_| self.listeners.enter(listener)) else {
            return self.count(CmCounter::NoRoom);
        };
        let question = Question { waits_at: Some(listener), ..question };
        self.resolutions.by_id.insert(id, Resolution::ToAnswer(question));
        self.resolutions.by_peer.insert((route.peer, request_id), id);
        let lookup =
            Lookup { route: *route, service, pkey: req.pkey(), private_data: req.private_data().to_vec() };
        self.raise_unasked(Event::Lookup { listener, id, lookup: Box::new(lookup) });
    }

    pub(crate) fn handle_sidr_rep(&mut self, route: &Route, rep: &SidrRep) {
        let id = CommId(rep.request_id());
        match self.resolutions.by_id.get(&id) {
            Some(Resolution::Asked { route: ours, .. }) if ours.peer == route.peer => {}
            _ => return self.count(CmCounter::Strangers),
        }
        self.forget_resolution(id);
        let datagram = Datagram {
            status: rep.status(),
            qpn: rep.qpn(),
            qkey: rep.qkey(),
            private_data: rep.private_data().to_vec(),
        };
        self.raise_unasked(Event::Found { id, datagram: Box::new(datagram) });
    }

    pub(crate) fn handle_resolution_timeout(&mut self, now: Nanos, id: CommId) {
        match self.resolutions.by_id.get_mut(&id) {
            Some(Resolution::Asked { route, pending }) if pending.left > 0 => {
                pending.left -= 1;
                let (route, mad) = (*route, *pending.mad);
                self.timers.set(id, now + duration_ns(RESPONSE_TIMEOUT));
                self.count(CmCounter::Repeated);
                self.send(route, mad);
            }
            Some(Resolution::Asked { .. }) => {
                self.resolutions.remove(id);
                self.raise_unasked(Event::Unreachable { id });
            }
            Some(Resolution::Answered { .. }) => self.resolutions.remove(id),
            Some(Resolution::ToAnswer(_)) | None => {}
        }
    }

    fn refuse(&mut self, question: &Question, status: SidrStatus) {
        let rep = SidrRep::default()
            .with_request_id(question.request_id)
            .with_service_id(question.service)
            .with_status(status);
        self.send(question.route, cm::encode(question.transaction, &rep));
    }
}

/// Answers are kept for so many times what a peer waits before it asks again.
const ANSWER_KEPT: u64 = 2;
