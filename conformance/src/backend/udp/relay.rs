//! Faults and a trace between endpoints: a socket on one more address of the loopback interface, to which they send
//! instead of to one another, and behind it the emulator's virtual network. What comes out of that goes on to the QP.
//!
//! The relay changes the addresses of packets, so it checks and makes ICRCs: what was damaged on the way has a wrong one
//! afterwards too. It stands still while nobody waits, and time in its network is real time.

use super::peer;
use crate::backend::sim::icrc_context;
use crate::backend::trace::Trace;
use crate::fabric::IpVersion;
use ferroce_core::Path;
use ferroce_emulator::rules::{Script, ScriptRule};
use ferroce_emulator::{Fabric as Network, FabricConfig};
use ferroce_wire::icrc;
use ferroce_wire::{ICRC_LEN, Packet, Qpn, ROCE_UDP_PORT};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Instant;

/// A relay between endpoints.
pub(super) struct Relay {
    socket: UdpSocket,
    /// As many bare hosts as there are endpoints.
    network: Network,
    pub(super) trace: Trace,
}

impl Relay {
    /// Where endpoints send to.
    pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 47, 91, 4);

    pub(super) fn open(endpoints: usize, seed: u64) -> Result<Relay, String> {
        let socket = peer::bind(Self::ADDRESS.into(), ROCE_UDP_PORT)
            .map_err(|error| format!("cannot bind {}:{ROCE_UDP_PORT} for faults: {error}", Self::ADDRESS))?;
        let config =
            FabricConfig { seed, endpoints: 0, bare_endpoints: endpoints, ..FabricConfig::default() };
        let mut network = Network::new(&config);
        let trace = Trace::of(&mut network, endpoints);
        Ok(Relay { socket, network, trace })
    }

    pub(super) fn add_fault(&mut self, rule: ScriptRule) {
        self.network.network.add_script(&Script { rule: vec![rule] });
    }

    /// Whether a packet is under way in it.
    pub(super) fn is_busy(&self) -> bool {
        self.network.network.next_event().is_some()
    }

    /// Takes what has come, and lets out what is due. `owner` says which endpoint has a QP. Whether anything moved.
    pub(super) fn pump(&mut self, start: Instant, owner: impl Fn(Qpn) -> Option<usize>) -> bool {
        let mut moved = false;
        let mut bytes = [0; peer::MAX_DATAGRAM];
        // An error is EWOULDBLOCK: nothing is there.
        while let Ok(len) = self.socket.recv(&mut bytes) {
            moved = true;
            self.network.network.run_until(start.elapsed().as_nanos() as u64);
            if let Some(to) = qpn_of(&bytes[..len]).and_then(&owner) {
                self.enter(to, &bytes[..len]);
            }
        }
        self.network.network.run_until(start.elapsed().as_nanos() as u64);
        for host in 0..HOSTS {
            moved |= self.leave(host);
        }
        moved
    }

    /// A packet for endpoint `to` enters the network at the other one.
    fn enter(&mut self, to: usize, payload: &[u8]) {
        let [from, to] = [HOSTS - 1 - to, to].map(|number| self.network.endpoint(number));
        let path = Path {
            src: self.network.address(from, false),
            dst: self.network.address(to, false),
            interface: 0,
            // The socket does not say.
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            source_port: ROCE_UDP_PORT,
            receiver: None,
        };
        self.network.network.send_datagram(from, &path, payload, true);
    }

    /// What has come out of the network for an endpoint goes to its QP.
    fn leave(&mut self, to: usize) -> bool {
        let (host, here) = (self.network.endpoint(to), peer::here(IpVersion::V4));
        let mut moved = false;
        while let Some(datagram) = self.network.network.poll_datagram(host) {
            moved = true;
            let is_sealed = icrc::verify(&icrc_context(&datagram.meta), &datagram.payload).is_ok();
            let mut payload = datagram.payload.to_vec();
            if payload.len() >= ICRC_LEN {
                icrc::seal(&peer::icrc_context(Self::ADDRESS.into(), here, ROCE_UDP_PORT), &mut payload);
            }
            if let (false, Some(last)) = (is_sealed, payload.last_mut()) {
                *last ^= 0x5a;
            }
            // What the kernel does not take is lost, as on any wire.
            let _ = peer::send_from(&self.socket, here, datagram.meta.traffic_class, &payload);
        }
        moved
    }
}

/// Endpoints that a relay is between.
const HOSTS: usize = 2;

fn qpn_of(payload: &[u8]) -> Option<Qpn> {
    Packet::parse(payload).ok().map(|packet| packet.bth().dest_qpn())
}
