//! The trace of a virtual network: what leaves its endpoints, before faults.

use crate::fabric::Traced;
use crate::verbs::Endpoint;
use ferroce_emulator::Fabric as Network;
use ferroce_emulator::rules::Seen;
use ferroce_wire::frame::Network as Headers;
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

/// A trace that a network writes and a case reads.
#[derive(Clone, Default)]
pub(super) struct Trace(Rc<RefCell<Vec<Traced>>>);

impl Trace {
    /// The trace of the first `endpoints` of a network.
    pub(super) fn of(network: &mut Network, endpoints: usize) -> Trace {
        let trace = Trace::default();
        let (seen, addresses) = (Rc::clone(&trace.0), addresses(network, endpoints));
        network.network.add_rule(move |packet: &Seen<'_>| {
            record(&mut seen.borrow_mut(), &addresses, packet);
            None
        });
        trace
    }

    /// What has been written since the last call.
    pub(super) fn take(&self) -> Vec<Traced> {
        self.0.take()
    }
}

/// The addresses of each endpoint.
fn addresses(network: &Network, endpoints: usize) -> Vec<[IpAddr; 2]> {
    let of = |index| [false, true].map(|ipv6| network.address(network.endpoint(index), ipv6));
    (0..endpoints).map(of).collect()
}

/// Writes down a packet that leaves an endpoint.
fn record(trace: &mut Vec<Traced>, addresses: &[[IpAddr; 2]], seen: &Seen<'_>) {
    let Ok(parsed) = seen.frame.parse() else { return };
    let (src, traffic_class) = source(&parsed.network());
    let Some(number) = addresses.iter().position(|own| own.contains(&src)) else { return };
    trace.push(Traced {
        at_ns: seen.now,
        from: Endpoint(number),
        traffic_class,
        payload: parsed.transport().to_vec(),
    });
}

/// Source address and traffic class of a packet.
fn source(headers: &Headers<'_>) -> (IpAddr, u8) {
    match headers {
        Headers::Ipv4(ip, _) => (ip.source().into(), ip.tos()),
        Headers::Ipv6(ip, _) => (ip.source().into(), ip.traffic_class()),
        Headers::RoceV1(grh) => (grh.sgid().into(), 0),
    }
}
