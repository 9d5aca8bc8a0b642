//! The backend `udp`: the crate `ferroce` over UDP sockets on the loopback interface, all in one process.
//!
//! All endpoints share the process's engine, as the QPs of any application do; each opens the device for itself.
//! Polling moves the packets, so waiting is polling until something has come.

mod end;
mod memory;
mod namespace;
mod peer;
mod refuse;
mod relay;
mod sentinel;
mod verbs;

use crate::fabric::{
    Backend, Fabric, FabricSpec, IpVersion, OpenError, RawPacket, RawReceived, Traced, Unable,
};
use crate::needs::Need;
use crate::verbs::Endpoint;
use end::UdpEnd;
use ferroce::Device;
use ferroce_emulator::rules::ScriptRule;
use peer::UdpPeer;
use relay::Relay;
use sentinel::Sentinel;
use std::fmt::Display;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The backend.
pub struct Udp;

impl Backend for Udp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lacks_here(&self) -> Vec<(Need, String)> {
        match namespace::enter() {
            Ok(()) => Vec::new(),
            Err(reason) => vec![(Need::RawPeerIpv6, reason.clone())],
        }
    }

    fn open(&self, spec: &FabricSpec) -> Result<Box<dyn Fabric>, OpenError> {
        // Without one the cases that need it are skipped.
        let in_namespace = namespace::enter().is_ok();
        let device = loopback()?;
        let open = || UdpEnd::open(&device).map_err(unusable);
        let ends = (0..spec.endpoints).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
        let peer = spec.raw_peer.then(|| UdpPeer::open(in_namespace)).transpose().map_err(unusable)?;
        let relay =
            spec.observed.then(|| Relay::open(spec.endpoints, spec.seed)).transpose().map_err(unusable)?;
        Ok(Box::new(UdpFabric { ends, peer, relay, sentinel: None, start: Instant::now() }))
    }
}

/// A fabric of open devices.
struct UdpFabric {
    /// Declared before the ends whose objects it uses, so that it goes first.
    sentinel: Option<Sentinel>,
    ends: Vec<UdpEnd>,
    peer: Option<UdpPeer>,
    /// Between the endpoints, of a fabric that has faults and a trace.
    relay: Option<Relay>,
    start: Instant,
}

const NAME: &str = "udp";
/// How long a case may wait for one thing. It bounds a hang, and says nothing about speed.
const PATIENCE: Duration = Duration::from_secs(30);

impl UdpFabric {
    /// Lets the engine run until `done` says so; `false` when patience is over.
    fn run_until(&mut self, mut done: impl FnMut(&mut UdpFabric) -> bool) -> bool {
        let start = Instant::now();
        loop {
            if done(self) {
                return true;
            }
            if start.elapsed() > PATIENCE {
                return false;
            }
            self.assist();
        }
    }

    /// Lets the engine run for a round, and the relay. Whether a packet moved in that.
    fn assist(&mut self) -> bool {
        self.ends.iter().for_each(UdpEnd::assist);
        let UdpFabric { ends, relay, start, .. } = self;
        let owner = |qpn| ends.iter().position(|end| end.has_qp(qpn));
        relay.as_mut().is_some_and(|relay| relay.pump(*start, owner))
    }

    /// Lets everything that is in the relay, and all that follows from it, come out.
    fn settle_relay(&mut self) {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let moved = self.assist();
            sentinel::exchange(self);
            let is_busy = self.relay.as_ref().is_some_and(Relay::is_busy);
            if !moved && !self.assist() && !is_busy {
                return;
            }
        }
    }
}

impl Fabric for UdpFabric {
    fn wait(&mut self, done: &mut dyn FnMut(&mut dyn Fabric) -> bool) -> bool {
        self.run_until(|fabric| done(fabric))
    }

    /// Whatever is under way has been handled when a message between two more QPs, sent behind it, has come back
    /// through the same sockets; a reaction to it when a second one has, and so on.
    fn settle(&mut self, _: u64) {
        for _ in 0..SETTLING_ROUNDS {
            sentinel::exchange(self);
        }
        if self.relay.is_some() {
            self.settle_relay();
        }
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn add_fault(&mut self, rule: ScriptRule) -> Result<(), Unable> {
        self.relay.as_mut().ok_or(Unable(Need::Faults))?.add_fault(rule);
        Ok(())
    }

    fn take_trace(&mut self) -> Result<Vec<Traced>, Unable> {
        Ok(self.relay.as_ref().ok_or(Unable(Need::Trace))?.trace.take())
    }

    fn way_to(&self, _: Endpoint, version: IpVersion) -> Option<IpAddr> {
        (self.relay.is_some() && version == IpVersion::V4).then_some(Relay::ADDRESS.into())
    }

    fn raw_address(&self, version: IpVersion) -> Result<IpAddr, Unable> {
        match version {
            IpVersion::V4 if self.peer.is_some() => Ok(UdpPeer::ADDRESS.into()),
            IpVersion::V6 if self.peer.as_ref().is_some_and(UdpPeer::has_ipv6) => Ok(namespace::PEER.into()),
            _ => Err(Unable(version.raw_need())),
        }
    }

    fn raw_send(&mut self, packet: &RawPacket) -> Result<(), Unable> {
        self.peer.as_ref().ok_or(Unable(Need::RawPeer))?.send(packet)
    }

    fn raw_receive(&mut self) -> Option<RawReceived> {
        let peer = self.peer.as_mut()?;
        peer.receive(self.start)
    }
}

/// Messages there and back that a reaction to a reaction takes, and one more.
const SETTLING_ROUNDS: usize = 3;

fn loopback() -> Result<Device, OpenError> {
    let devices = ferroce::devices().map_err(unusable)?;
    let found = devices.into_iter().find(|device| device.interface_name() == LOOPBACK);
    found.ok_or_else(|| {
        unusable("there is no interface lo that is up and has an address: `ip link set lo up`")
    })
}

fn unusable(reason: impl Display) -> OpenError {
    OpenError { backend: NAME, reason: reason.to_string() }
}

const LOOPBACK: &str = "lo";
