//! Who listens on what.

use crate::limits::{MAX_BACKLOG, MAX_LISTENERS};
use crate::{CmCallError, ListenAddr};
use ferroce_wire::cm::ServiceId;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenerId(pub u32);

/// The listeners, each with its backlog.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    by_id: BTreeMap<ListenerId, Listener>,
    /// The listeners of a service, few of them: one for each address at most.
    by_service: BTreeMap<ServiceId, Vec<ListenerId>>,
    next: u32,
}

#[derive(Debug)]
struct Listener {
    addr: ListenAddr,
    backlog: u32,
    /// Requests that the application has not taken yet.
    waiting: u32,
}

impl Listeners {
    /// Adds one; a backlog of 0, or beyond the limit, is the limit.
    pub(crate) fn add(&mut self, addr: ListenAddr, backlog: u32) -> Result<ListenerId, CmCallError> {
        if self.by_id.len() >= MAX_LISTENERS {
            return Err(CmCallError::TooManyListeners);
        }
        let others = self.by_service.entry(addr.service).or_default();
        if others.iter().any(|id| self.by_id[id].addr.scope == addr.scope) {
            return Err(CmCallError::InUse(addr));
        }
        let id = loop {
            let id = ListenerId(self.next);
            self.next = self.next.wrapping_add(1);
            // Ends: there are fewer listeners than numbers.
            if !self.by_id.contains_key(&id) {
                break id;
            }
        };
        others.push(id);
        let backlog = if (1..=MAX_BACKLOG).contains(&backlog) { backlog } else { MAX_BACKLOG };
        self.by_id.insert(id, Listener { addr, backlog, waiting: 0 });
        Ok(id)
    }

    pub(crate) fn remove(&mut self, id: ListenerId) {
        let Some(listener) = self.by_id.remove(&id) else { return };
        if let Some(others) = self.by_service.get_mut(&listener.addr.service) {
            others.retain(|other| *other != id);
            if others.is_empty() {
                self.by_service.remove(&listener.addr.service);
            }
        }
    }

    /// The listener that fits best.
    pub(crate) fn find(&self, service: ServiceId, destination: IpAddr) -> Option<ListenerId> {
        let candidates = self.by_service.get(&service)?.iter();
        let fits = candidates.filter_map(|id| Some((self.by_id[id].addr.fit(service, destination)?, *id)));
        fits.max().map(|(_, id)| id)
    }

    /// Takes a place in the backlog, if there is one.
    pub(crate) fn enter(&mut self, id: ListenerId) -> bool {
        match self.by_id.get_mut(&id) {
            Some(listener) if listener.waiting < listener.backlog => {
                listener.waiting += 1;
                true
            }
            _ => false,
        }
    }

    /// Gives the place back.
    pub(crate) fn leave(&mut self, id: ListenerId) {
        if let Some(listener) = self.by_id.get_mut(&id) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListenScope;

    const SERVICE: ServiceId = ServiceId(7);

    fn addr(scope: ListenScope) -> ListenAddr {
        ListenAddr { service: SERVICE, scope }
    }

    #[test]
    fn the_closest_listener_is_found() {
        let mut listeners = Listeners::default();
        let host: IpAddr = [10, 0, 0, 1].into();
        let exact = listeners.add(addr(ListenScope::Address(host)), 1).unwrap();
        let any = listeners.add(addr(ListenScope::Any), 1).unwrap();
        assert_eq!(listeners.find(SERVICE, host), Some(exact));
        assert_eq!(listeners.find(SERVICE, [10, 0, 0, 2].into()), Some(any));
        assert_eq!(listeners.find(ServiceId(8), host), None);
        listeners.remove(exact);
        assert_eq!(listeners.find(SERVICE, host), Some(any));
        assert!(matches!(listeners.add(addr(ListenScope::Any), 1), Err(CmCallError::InUse(_))));
    }

    #[test]
    fn a_backlog_has_as_many_places_as_asked_for() {
        let mut listeners = Listeners::default();
        let id = listeners.add(addr(ListenScope::Any), 2).unwrap();
        assert_eq!([(); 3].map(|()| listeners.enter(id)), [true, true, false]);
        listeners.leave(id);
        assert!(listeners.enter(id) && !listeners.enter(id));
        let default = listeners.add(addr(ListenScope::AnyV6), 0).unwrap();
        assert_eq!((0..2 * MAX_BACKLOG).filter(|_| listeners.enter(default)).count(), MAX_BACKLOG as usize);
    }
}
