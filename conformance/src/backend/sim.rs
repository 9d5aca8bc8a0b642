//! The backend `sim`: the transport's core behind virtual cards and links, in virtual time.
//!
//! Everything runs in the calling thread, and the same case gives the same packets at the same nanoseconds. What the
//! core leaves to its owner and a case wants all the same is in [`cq`]: completion queues.

mod cq;
mod raw;
mod verbs;

pub(in crate::backend) use raw::icrc_context;

use super::trace::Trace;
use crate::fabric::{
    Backend, Fabric, FabricSpec, IpVersion, OpenError, RawPacket, RawReceived, Traced, Unable,
};
use crate::needs::Need;
use crate::verbs::{AsyncEvent, AsyncEventKind, Endpoint, SrqSpec};
use cq::SimCq;
use ferroce_core::{AddressVector, AsyncEvent as CoreEvent, CqId, Event, PdId, RegionKeys, Srqn};
use ferroce_emulator::rules::{Script, ScriptRule};
use ferroce_emulator::{Fabric as Network, FabricConfig, HostId, SwitchConfig};
use ferroce_wire::Qpn;
use std::collections::VecDeque;
use std::net::IpAddr;

/// The backend.
pub struct Sim;

impl Backend for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn open(&self, spec: &FabricSpec) -> Result<Box<dyn Fabric>, OpenError> {
        Ok(Box::new(SimFabric::new(spec)))
    }
}

/// A fabric of virtual cards.
struct SimFabric {
    network: Network,
    hosts: Vec<SimHost>,
    /// The raw peer.
    raw: Option<HostId>,
    trace: Trace,
}

/// What an endpoint has made. A handle's number is an index, and a place stays empty when its object goes.
#[derive(Default)]
struct SimHost {
    pds: usize,
    mrs: Vec<Option<RegionKeys>>,
    /// The R_Key of each window's last bind.
    mws: Vec<u32>,
    cqs: Vec<Option<SimCq>>,
    qps: Vec<Option<Qpn>>,
    srqs: Vec<Option<(Srqn, SrqSpec)>>,
    xrcds: usize,
    ahs: Vec<(PdId, AddressVector)>,
    events: VecDeque<AsyncEvent>,
}

/// Virtual time that a case may wait: longer than all retries of any case take.
const PATIENCE_NS: u64 = 1_000_000_000_000;
/// Events that may happen while a case waits.
const MAX_EVENTS: u64 = 20_000_000;

impl SimFabric {
    fn new(spec: &FabricSpec) -> SimFabric {
        let bare = usize::from(spec.raw_peer);
        let switch = (spec.endpoints + bare > 2).then(SwitchConfig::default);
        let mut network = Network::new(&FabricConfig {
            seed: spec.seed,
            endpoints: spec.endpoints,
            bare_endpoints: bare,
            switch,
            ..FabricConfig::default()
        });
        let trace = Trace::of(&mut network, spec.endpoints);
        SimFabric {
            raw: spec.raw_peer.then(|| network.endpoint(spec.endpoints)),
            hosts: (0..spec.endpoints).map(|_| SimHost::default()).collect(),
            network,
            trace,
        }
    }

    fn host(&self, at: Endpoint) -> HostId {
        self.network.endpoint(at.0)
    }

    /// Puts completions into their CQs, and keeps events, until nothing is left to fetch.
    fn deliver(&mut self) {
        for number in 0..self.hosts.len() {
            self.deliver_to(Endpoint(number));
        }
    }

    fn deliver_to(&mut self, at: Endpoint) {
        let host = self.host(at);
        // An overrun flushes QPs, which makes more completions; each CQ overruns once.
        while let Some(completion) = self.network.network.poll_completion(host) {
            let CqId(number) = completion.cq;
            let Some(Some(cq)) = self.hosts[at.0].cqs.get_mut(number as usize) else { continue };
            if cq.push(&completion) {
                self.network.network.call(host, |device, now, _| device.cq_overrun(now, completion.cq));
                let event = AsyncEvent { kind: AsyncEventKind::CqErr, number: number as usize };
                self.hosts[at.0].events.push_back(event);
            }
        }
        while let Some(event) = self.network.network.poll_event(host) {
            let Event::Async(event) = event else { continue };
            let kind = kind_of(&event);
            let host = &mut self.hosts[at.0];
            let number = match (event.qpn(), event.srqn()) {
                (Some(qpn), _) => host.qps.iter().position(|own| *own == Some(qpn)),
                (_, Some(srqn)) => {
                    host.srqs.iter().position(|own| own.is_some_and(|(number, _)| number == srqn))
                }
                (None, None) => None,
            };
            if let Some(number) = number {
                host.events.push_back(AsyncEvent { kind, number });
            }
        }
    }

    /// Lets the next thing happen, if it is due by `limit`.
    fn step(&mut self, limit: u64) -> bool {
        let happened = self.network.network.step(limit);
        self.deliver();
        happened
    }
}

impl Fabric for SimFabric {
    fn wait(&mut self, done: &mut dyn FnMut(&mut dyn Fabric) -> bool) -> bool {
        let limit = self.now_ns() + PATIENCE_NS;
        let last = self.network.network.events() + MAX_EVENTS;
        loop {
            if done(self) {
                return true;
            }
            if self.network.network.events() >= last || !self.step(limit) {
                return false;
            }
        }
    }

    fn settle(&mut self, ns: u64) {
        let until = self.now_ns() + ns;
        while self.step(until) {}
        self.network.network.run_until(until);
    }

    fn now_ns(&self) -> u64 {
        self.network.network.now()
    }

    fn add_fault(&mut self, rule: ScriptRule) -> Result<(), Unable> {
        self.network.network.add_script(&Script { rule: vec![rule] });
        Ok(())
    }

    fn take_trace(&mut self) -> Result<Vec<Traced>, Unable> {
        Ok(self.trace.take())
    }

    fn raw_address(&self, version: IpVersion) -> Result<IpAddr, Unable> {
        let raw = self.raw.ok_or(Unable(Need::RawPeer))?;
        Ok(self.network.address(raw, version == IpVersion::V6))
    }

    fn raw_send(&mut self, packet: &RawPacket) -> Result<(), Unable> {
        let raw = self.raw.ok_or(Unable(Need::RawPeer))?;
        let target = self.network.endpoint(0);
        raw::send(&mut self.network, raw, target, packet)?;
        self.deliver();
        Ok(())
    }

    fn raw_receive(&mut self) -> Option<RawReceived> {
        raw::receive(&mut self.network, self.raw?)
    }
}

fn kind_of(event: &CoreEvent) -> AsyncEventKind {
    match event {
        CoreEvent::CommEst(_) => AsyncEventKind::CommEst,
        CoreEvent::SqDrained(_) => AsyncEventKind::SqDrained,
        CoreEvent::QpFatal(_) => AsyncEventKind::QpFatal,
        CoreEvent::QpReqErr(_) => AsyncEventKind::QpReqErr,
        CoreEvent::QpAccessErr(_) => AsyncEventKind::QpAccessErr,
        CoreEvent::QpLastWqeReached(_) => AsyncEventKind::QpLastWqeReached,
        CoreEvent::SrqLimitReached(_) => AsyncEventKind::SrqLimitReached,
        CoreEvent::SrqErr(_) => AsyncEventKind::SrqErr,
    }
}
