//! The port spaces of the RDMA CM, which all processes share: who has bound what, and who listens.
//!
//! The rules are the kernel's (`cma.c`): two bindings of a port are in each other's way where their addresses overlap,
//! unless both share and neither listens; to listen is to bind once more without sharing.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ferroce_wire::cm::{PortSpace, ServiceId};

use crate::KeeperError;
use crate::binding::Binding;

/// Who has bound what.
#[derive(Debug)]
pub(crate) struct Ports {
    /// By port space and port.
    bound: BTreeMap<(u16, u16), Vec<Bound>>,
    /// The places of each owner's bindings.
    of_owner: BTreeMap<(u16, u32), (u16, u16)>,
    /// Where the search for a free port goes on.
    next: u16,
    /// The ports on which somebody who is still there listened lately, and when that ended; the latest first.
    left: VecDeque<(u16, Instant)>,
}

#[derive(Debug)]
struct Bound {
    owner: u16,
    token: u32,
    binding: Binding,
    listens: bool,
}

impl Ports {
    /// Nobody has bound anything. `seed` says where free ports are looked for first.
    pub(crate) fn new(seed: u16) -> Ports {
        let next = EPHEMERAL.start() + seed % EPHEMERAL_COUNT;
        Ports { bound: BTreeMap::new(), of_owner: BTreeMap::new(), next, left: VecDeque::new() }
    }

    /// Binds; the port.
    pub(crate) fn bind(&mut self, owner: u16, token: u32, binding: Binding) -> Result<u16, KeeperError> {
        if self.of_owner.contains_key(&(owner, token)) {
            return Err(KeeperError::Refused { text: format!("{token} names a binding already") });
        }
        if self.of_owner.len() >= MAX_BINDINGS {
            return Err(KeeperError::Refused { text: format!("{MAX_BINDINGS} ports are bound: close some") });
        }
        let port = match binding.port {
            0 => self.free_port(binding.space).ok_or(KeeperError::NoPortLeft)?,
            port => port,
        };
        let binding = Binding { port, ..binding };
        if self
            .others(owner, token, &binding)
            .any(|other| !(other.binding.shares && binding.shares) || other.listens)
        {
            return Err(KeeperError::AddressInUse { text: binding.to_string() });
        }
        let key = (binding.space as u16, port);
        self.bound.entry(key).or_default().push(Bound { owner, token, binding, listens: false });
        self.of_owner.insert((owner, token), key);
        Ok(port)
    }

    /// Listens on what is bound.
    pub(crate) fn listen(&mut self, owner: u16, token: u32) -> Result<(), KeeperError> {
        let unknown = || KeeperError::Refused { text: format!("nothing is bound as {token}") };
        let key = *self.of_owner.get(&(owner, token)).ok_or_else(unknown)?;
        let entries = self.bound.get(&key).ok_or_else(unknown)?;
        let own =
            entries.iter().find(|entry| (entry.owner, entry.token) == (owner, token)).ok_or_else(unknown)?;
        let binding = own.binding;
        if self.others(owner, token, &binding).next().is_some() {
            return Err(KeeperError::AddressInUse { text: binding.to_string() });
        }
        let own = self.bound.get_mut(&key).into_iter().flatten();
        for entry in own.filter(|entry| (entry.owner, entry.token) == (owner, token)) {
            entry.listens = true;
        }
        Ok(())
    }

    /// Gives a binding up.
    pub(crate) fn release(&mut self, owner: u16, token: u32) {
        let key = self.of_owner.get(&(owner, token));
        let mut entries = key.and_then(|key| self.bound.get(key)).into_iter().flatten();
        if let Some(own) = entries.find(|entry| (entry.owner, entry.token) == (owner, token) && entry.listens)
        {
            let port = own.binding.port;
            self.left.truncate(LEFT_MAX - 1);
            self.left.push_front((port, Instant::now()));
        }
        self.remove(owner, token);
    }

    fn remove(&mut self, owner: u16, token: u32) {
        let Some(key) = self.of_owner.remove(&(owner, token)) else { return };
        if let Some(entries) = self.bound.get_mut(&key) {
            entries.retain(|entry| (entry.owner, entry.token) != (owner, token));
            if entries.is_empty() {
                self.bound.remove(&key);
            }
        }
    }

    /// Gives up all bindings of an owner that is gone.
    pub(crate) fn release_all(&mut self, owner: u16) {
        let tokens: Vec<u32> =
            self.of_owner.range((owner, 0)..=(owner, u32::MAX)).map(|((_, token), _)| *token).collect();
        for token in tokens {
            self.remove(owner, token);
        }
    }

    /// Who listens on `service` at `destination`.
    pub(crate) fn listener(&self, service: ServiceId, destination: IpAddr) -> Option<u16> {
        let (space, port) = service.port()?;
        let entries = self.bound.get(&(space as u16, port))?.iter().filter(|entry| entry.listens);
        let fits = entries.filter_map(|entry| Some((entry.binding.scope.fit(destination)?, entry.owner)));
        fits.max().map(|(_, owner)| owner)
    }

    /// Whether somebody who is still there gave up listening on the service's port less than `span` ago. Programs that
    /// serve one connection after another, and listen anew for each, are between two of them then; the next may be in
    /// another port space.
    pub(crate) fn was_served(&self, service: ServiceId, span: Duration) -> bool {
        let Some((_, port)) = service.port() else { return false };
        let mut lately = self.left.iter().take_while(|(_, at)| at.elapsed() < span);
        lately.any(|(left, _)| *left == port)
    }

    /// The bindings of the same port whose addresses overlap.
    fn others<'a>(&'a self, owner: u16, token: u32, binding: &'a Binding) -> impl Iterator<Item = &'a Bound> {
        let entries = self.bound.get(&(binding.space as u16, binding.port)).into_iter().flatten();
        entries.filter(move |entry| {
            (entry.owner, entry.token) != (owner, token) && entry.binding.scope.overlaps(binding.scope)
        })
    }

    /// A port that nobody has bound.
    fn free_port(&mut self, space: PortSpace) -> Option<u16> {
        for _ in 0..EPHEMERAL_COUNT {
            let port = self.next;
            self.next = if port == *EPHEMERAL.end() { *EPHEMERAL.start() } else { port + 1 };
            if !self.bound.contains_key(&(space as u16, port)) {
                return Some(port);
            }
        }
        None
    }
}

/// Linux's range for ports that nobody names (`net.ipv4.ip_local_port_range`).
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;
const EPHEMERAL_COUNT: u16 = *EPHEMERAL.end() - *EPHEMERAL.start() + 1;
/// Ports of which it is known that somebody listened on them lately.
const LEFT_MAX: usize = 256;
/// Bindings there can be, of all processes.
const MAX_BINDINGS: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use ferroce_cm::ListenScope;

    use super::*;

    fn tcp(port: u16, scope: ListenScope, shares: bool) -> Binding {
        Binding { space: PortSpace::Tcp, port, scope, shares }
    }

    const HOST: ListenScope = ListenScope::Address(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));

    fn is_in_use(result: Result<u16, KeeperError>) -> bool {
        matches!(result, Err(KeeperError::AddressInUse { .. }))
    }

    #[test]
    fn overlapping_addresses_of_a_port_are_in_use() {
        let mut ports = Ports::new(0);
        assert_eq!(ports.bind(1, 1, tcp(7174, HOST, false)).unwrap(), 7174);
        for scope in [HOST, ListenScope::AnyV4, ListenScope::Any] {
            assert!(is_in_use(ports.bind(2, 1, tcp(7174, scope, false))), "{scope:?}");
        }
        ports.bind(2, 1, tcp(7174, ListenScope::AnyV6, false)).unwrap();
        let udp = Binding { space: PortSpace::Udp, ..tcp(7174, HOST, false) };
        ports.bind(2, 2, udp).unwrap();
        ports.release(1, 1);
        ports.bind(2, 3, tcp(7174, HOST, false)).unwrap();
    }

    #[test]
    fn ports_may_be_shared_by_those_who_all_want_to_until_one_listens() {
        let mut ports = Ports::new(0);
        ports.bind(1, 1, tcp(7174, HOST, true)).unwrap();
        assert!(is_in_use(ports.bind(2, 1, tcp(7174, HOST, false))));
        ports.bind(2, 1, tcp(7174, HOST, true)).unwrap();
        assert!(matches!(ports.listen(1, 1), Err(KeeperError::AddressInUse { .. })));
        ports.release(2, 1);
        ports.listen(1, 1).unwrap();
        assert!(is_in_use(ports.bind(2, 1, tcp(7174, HOST, true))));
    }

    #[test]
    fn who_names_no_port_gets_one_that_is_free() {
        let mut ports = Ports::new(u16::MAX);
        let mut seen = std::collections::HashSet::new();
        for token in 0..u32::from(EPHEMERAL_COUNT) {
            let port = ports.bind(1, token, tcp(0, ListenScope::Any, false)).unwrap();
            assert!(EPHEMERAL.contains(&port) && seen.insert(port));
        }
        assert!(matches!(ports.bind(2, 0, tcp(0, HOST, false)), Err(KeeperError::NoPortLeft)));
        ports.release(1, 5);
        ports.bind(2, 0, tcp(0, HOST, false)).unwrap();
    }

    #[test]
    fn a_request_goes_to_the_closest_listener_and_to_none_of_a_process_that_is_gone() {
        let mut ports = Ports::new(0);
        let service = ServiceId::of_port(PortSpace::Tcp, 7174);
        let destination = [10, 0, 0, 1].into();
        ports.bind(1, 1, tcp(7174, HOST, false)).unwrap();
        assert_eq!(ports.listener(service, destination), None);
        ports.listen(1, 1).unwrap();
        assert_eq!(ports.listener(service, destination), Some(1));
        assert_eq!(ports.listener(service, [10, 0, 0, 2].into()), None);
        ports.release_all(1);
        assert_eq!(ports.listener(service, destination), None);
    }
}
