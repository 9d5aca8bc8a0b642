//! What a listener listens on.

use ferroce_wire::cm::{PortSpace, ServiceId};
use std::net::IpAddr;

/// A service and the addresses at which it is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenAddr {
    /// The service.
    pub service: ServiceId,
    /// Where.
    pub scope: ListenScope,
}

/// At which addresses of this host a service is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenScope {
    /// At all of them.
    Any,
    /// At all IPv4 addresses.
    AnyV4,
    /// At all IPv6 addresses (`RDMA_OPTION_ID_AFONLY`).
    AnyV6,
    /// At this one.
    Address(IpAddr),
}

impl ListenScope {
    /// The scope of a socket address's IP; `v6_only` is what the application set with `RDMA_OPTION_ID_AFONLY`.
    pub fn of(ip: IpAddr, v6_only: bool) -> ListenScope {
        match ip {
            IpAddr::V4(v4) if v4.is_unspecified() => ListenScope::AnyV4,
            IpAddr::V6(v6) if v6.is_unspecified() && v6_only => ListenScope::AnyV6,
            IpAddr::V6(v6) if v6.is_unspecified() => ListenScope::Any,
            ip => ListenScope::Address(ip),
        }
    }

    /// How well it fits a request to `destination`: the larger the closer, `None` not at all.
    pub fn fit(self, destination: IpAddr) -> Option<u8> {
        match self {
            ListenScope::Address(ip) => (ip == destination).then_some(3),
            ListenScope::AnyV4 => destination.is_ipv4().then_some(2),
            ListenScope::AnyV6 => destination.is_ipv6().then_some(2),
            ListenScope::Any => Some(1),
        }
    }

    /// Whether some destination is in both.
    pub fn overlaps(self, other: ListenScope) -> bool {
        match (self, other) {
            (ListenScope::Any, _) | (_, ListenScope::Any) => true,
            (ListenScope::Address(ip), wild) | (wild, ListenScope::Address(ip)) => wild.fit(ip).is_some(),
            (one, other) => one == other,
        }
    }
}

impl ListenAddr {
    /// How well it fits a request for `service` at `destination`, as [`ListenScope::fit`].
    pub fn fit(&self, service: ServiceId, destination: IpAddr) -> Option<u8> {
        (self.service == service).then(|| self.scope.fit(destination)).flatten()
    }

    /// Whether the private data of requests for `service` begin with the RDMA CM's header.
    pub fn has_ip_header(service: ServiceId) -> bool {
        matches!(
            service.port(),
            Some((PortSpace::Tcp | PortSpace::Udp | PortSpace::Ipoib | PortSpace::Ib, _))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_fits_better_than_a_wildcard() {
        let exact = ListenScope::of(ip("10.0.0.1"), false);
        let any_v4 = ListenScope::of(ip("0.0.0.0"), false);
        let any = ListenScope::of(ip("::"), false);
        let fits: Vec<_> = [exact, any_v4, any].map(|scope| scope.fit(ip("10.0.0.1"))).into();
        assert!(fits.windows(2).all(|pair| pair[0] > pair[1]), "{fits:?}");
        assert_eq!(exact.fit(ip("10.0.0.2")), None);
        assert_eq!(any_v4.fit(ip("fd00::1")), None);
        assert_eq!(ListenScope::of(ip("::"), true).fit(ip("10.0.0.1")), None);
    }

    #[test]
    fn scopes_with_a_common_destination_overlap() {
        let v4 = ListenScope::Address(ip("10.0.0.1"));
        assert!(v4.overlaps(ListenScope::AnyV4) && ListenScope::AnyV4.overlaps(v4));
        assert!(ListenScope::Any.overlaps(v4) && ListenScope::Any.overlaps(ListenScope::AnyV6));
        assert!(!ListenScope::AnyV6.overlaps(v4) && !ListenScope::AnyV6.overlaps(ListenScope::AnyV4));
        assert!(!v4.overlaps(ListenScope::Address(ip("10.0.0.2"))));
    }
}
