//! The backend `udp`: the crate `ferroce` over UDP sockets on the loopback interface, all in one process.
//!
//! All endpoints share the process's engine, as the QPs of any application do; each opens the device for itself.
//! Polling moves the packets, so waiting is polling until something has come.

mod end;
mod memory;
mod peer;
mod refuse;
mod sentinel;
mod verbs;

use crate::fabric::{Backend, Fabric, FabricSpec, IpVersion, OpenError, RawPacket, RawReceived, Unable};
use crate::needs::Need;
use end::UdpEnd;
use ferroce::Device;
use peer::UdpPeer;
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

    fn open(&self, spec: &FabricSpec) -> Result<Box<dyn Fabric>, OpenError> {
        let device = loopback()?;
        let open = || UdpEnd::open(&device).map_err(unusable);
        let ends = (0..spec.endpoints).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
        let peer = spec.raw_peer.then(UdpPeer::open).transpose().map_err(unusable)?;
        Ok(Box::new(UdpFabric { ends, peer, sentinel: None, start: Instant::now() }))
    }
}

/// A fabric of open devices.
struct UdpFabric {
    /// Declared before the ends whose objects it uses, so that it goes first.
    sentinel: Option<Sentinel>,
    ends: Vec<UdpEnd>,
    peer: Option<UdpPeer>,
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
            self.ends.iter().for_each(UdpEnd::assist);
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
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn raw_address(&self, version: IpVersion) -> Result<IpAddr, Unable> {
        match version {
            IpVersion::V4 if self.peer.is_some() => Ok(UdpPeer::ADDRESS.into()),
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
