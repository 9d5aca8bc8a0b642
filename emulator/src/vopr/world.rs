//! A run: the network, the model beside it, and the loop that lets time pass and looks.

use super::ends::{Connection, End, Pool};
use super::ledger::Ledger;
use super::plan::{self, Plan, Shape};
use super::prey::Prey;
use super::wire::{NO_FAULTS, Watcher, Wire};
use super::{Fault, Report, Tally};
use crate::fabric::{Fabric, FabricConfig};
use crate::network::HostId;
use crate::nic::NicConfig;
use crate::switch::SwitchConfig;
use bytes::Bytes;
use ferroce_core::{Counter, Dcqcn, Event, Nanos, Profile, QpState, Reacts};
use ferroce_wire::Qpn;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

/// A run.
pub(super) struct World {
    pub(super) fabric: Fabric,
    pub(super) hosts: Vec<HostModel>,
    pub(super) connections: BTreeMap<u32, Connection>,
    /// Both ends of each connection, in the order in which they were made.
    pub(super) ends: Vec<End>,
    /// Receive queues and SRQs.
    pub(super) pools: Vec<Pool>,
    /// Ends that exist, by host and QPN.
    pub(super) by_qpn: BTreeMap<(usize, Qpn), usize>,
    pub(super) wire: Rc<RefCell<Wire>>,
    pub(super) seed: u64,
    /// Numbers of work requests and contents.
    pub(super) next_number: u64,
    /// Nothing has happened yet that could make a card send a packet twice.
    pub(super) is_calm: bool,
    pub(super) tally: Tally,
    /// QPs whose peer is the host without a card.
    pub(super) prey: Vec<Prey>,
    /// The last packets that came to that host.
    pub(super) overheard: VecDeque<Bytes>,
    reasons: VecDeque<String>,
}

/// A host as the model sees it.
pub(super) struct HostModel {
    pub(super) id: HostId,
    pub(super) addresses: [IpAddr; 2],
    pub(super) ledger: Ledger,
    /// Processes that died on it.
    pub(super) epoch: u32,
    pub(super) is_up: bool,
    /// A region was deregistered.
    pub(super) lost_memory: bool,
}

impl World {
    pub(super) fn new(plan: &Plan, capture: bool) -> World {
        let hosts = usize::from(plan.shape.hosts.clamp(1, MAX_HOSTS));
        let mut fabric = Fabric::new(&config(plan.seed, hosts, &plan.shape));
        let noise = fabric.network.node_name(fabric.endpoint(hosts)).to_string();
        let wire = Rc::new(RefCell::new(Wire::new(noise)));
        fabric.network.add_rule(Watcher(Rc::clone(&wire)));
        if capture {
            fabric.network.start_capture();
        }
        let hosts = (0..hosts)
            .map(|index| {
                let id = fabric.endpoint(index);
                fabric.network.record_accesses(id);
                let addresses = [false, true].map(|ipv6| fabric.address(id, ipv6));
                HostModel {
                    id,
                    addresses,
                    ledger: Ledger::default(),
                    epoch: 0,
                    is_up: true,
                    lost_memory: false,
                }
            })
            .collect();
        World {
            fabric,
            hosts,
            connections: BTreeMap::new(),
            ends: Vec::new(),
            pools: Vec::new(),
            by_qpn: BTreeMap::new(),
            wire,
            seed: plan.seed,
            next_number: 0,
            is_calm: true,
            tally: Tally { runs: 1, ..Tally::default() },
            prey: Vec::new(),
            overheard: VecDeque::new(),
            reasons: VecDeque::new(),
        }
    }

    /// All of it: the steps, the healing, the end.
    pub(super) fn run(&mut self, plan: &Plan) -> Result<(), Fault> {
        for step in &plan.steps {
            self.apply(step)?;
            self.look()?;
        }
        self.heal()?;
        self.come_to_rest()?;
        self.tear_down()
    }

    /// Lets time pass.
    pub(super) fn wait(&mut self, ns: Nanos) -> Result<(), Fault> {
        let until = self.fabric.network.now() + ns;
        while self.fabric.network.step(until) {
            self.look()?;
        }
        self.fabric.network.run_until(until);
        Ok(())
    }

    /// Judges everything that has happened since it was called last.
    pub(super) fn look(&mut self) -> Result<(), Fault> {
        if self.fabric.network.events() > MAX_EVENTS {
            let text = format!("{MAX_EVENTS} events, and it is {} ns only", self.fabric.network.now());
            return Err(Fault::new("liveness", text));
        }
        if let Some(fault) = self.wire.borrow_mut().fault.take() {
            return Err(fault);
        }
        for host in 0..self.hosts.len() {
            let HostModel { id, ledger, .. } = &mut self.hosts[host];
            for access in self.fabric.network.memory(*id).take_accesses() {
                ledger.check(&access)?;
            }
            while let Some(completion) = self.fabric.network.poll_completion(self.hosts[host].id) {
                self.completed(host, &completion)?;
            }
            while let Some(event) = self.fabric.network.poll_event(self.hosts[host].id) {
                match event {
                    Event::Async(event) => self.event(host, event)?,
                    Event::Reason { qpn, text } => self.reason(host, qpn, &text),
                }
            }
        }
        self.overhear();
        self.check_prey()?;
        self.check_states()?;
        self.check_numbers()
    }

    fn reason(&mut self, host: usize, qpn: Qpn, text: &str) {
        let at = self.fabric.network.now();
        let host = self.fabric.network.node_name(self.hosts[host].id);
        self.reasons.push_back(format!("{at} ns, {host} {qpn}: {text}"));
        if self.reasons.len() > MAX_REASONS {
            self.reasons.pop_front();
        }
    }

    /// All faults end: the wire carries everything, QPs that were drained go on, and nobody waits for a receive WQE.
    fn heal(&mut self) -> Result<(), Fault> {
        self.wire.borrow_mut().faults = NO_FAULTS;
        for host in 0..self.hosts.len() {
            self.set_link(host, true);
        }
        for index in 0..self.ends.len() {
            if self.ends[index].exists && matches!(self.ends[index].state, QpState::Sqd | QpState::Sqe) {
                self.modify(index, plan::Modify::Resume)?;
                self.look()?;
            }
        }
        self.feed()
    }

    /// Everything comes to an end in bounded time.
    fn come_to_rest(&mut self) -> Result<(), Fault> {
        let limit = self.fabric.network.now() + self.patience();
        while self.fabric.network.step(limit) {
            self.look()?;
        }
        if let Some(next) = self.fabric.network.next_event() {
            let text = format!("not at rest at {limit} ns; the next event is at {next} ns");
            return Err(Fault::new("liveness", text));
        }
        for end in &self.ends {
            if end.exists && !end.is_all_silent() {
                let text = format!(
                    "{} send work requests outstanding, and not all of them are done",
                    end.outstanding()
                );
                return Err(end.fault("liveness", text));
            }
        }
        self.check_calm()
    }

    /// The longest that anything may take without faults: a few times the longest row of retries.
    fn patience(&self) -> Nanos {
        let connections = self.connections.values().map(|it| (it.plan.timeout, it.plan.retry_cnt));
        let rows = connections.chain(self.prey_patience()).map(|(timeout, retries)| {
            // From the third on in a row, timeouts last twice as long as code 16 says at least.
            let timeout = ferroce_wire::ack_timeout_ns(timeout.max(16)).unwrap_or(0);
            2 * timeout * (u64::from(retries) + 2)
        });
        3 * rows.max().unwrap_or(0) + BASE_PATIENCE_NS
    }

    /// In a run without faults and without anything wrong, and with room in the switch, no card needed to repeat itself.
    fn check_calm(&self) -> Result<(), Fault> {
        if !self.is_calm || self.wire.borrow().hit > 0 || self.switch_drops() > 0 {
            return Ok(());
        }
        let starved = self.connections.values().any(|connection| connection.was_starved);
        for host in &self.hosts {
            for counter in [
                Counter::LocalAckTimeoutErr,
                Counter::PacketSeqErr,
                Counter::ImpliedNakSeqErr,
                Counter::OutOfSequence,
                Counter::DropGhostAck,
                Counter::DropIcrc,
                Counter::DropMalformed,
                Counter::RetransmittedPackets,
                Counter::DuplicateRequest,
            ] {
                let count = self.fabric.counter(host.id, counter);
                // RNR NAKs make a card repeat, and what was on its way then comes out of sequence.
                if count > 0 && !starved {
                    let text = format!("no fault, and {} is {count}", counter.name());
                    return Err(Fault::new("calm", text));
                }
            }
        }
        Ok(())
    }

    /// All QPs go to ERR, which flushes what is left; then everything is destroyed.
    fn tear_down(&mut self) -> Result<(), Fault> {
        self.check_words()?;
        for index in 0..self.ends.len() {
            if self.ends[index].exists && !matches!(self.ends[index].state, QpState::Reset | QpState::Err) {
                self.modify(index, plan::Modify::Error)?;
                self.look()?;
            }
        }
        for index in 0..self.ends.len() {
            if self.ends[index].exists {
                self.modify(index, plan::Modify::Destroy)?;
            }
        }
        self.free_prey()?;
        for pool in &self.pools {
            if let (Some(srqn), true) = (pool.srqn(), pool.exists) {
                let id = self.hosts[pool.host].id;
                let destroyed = self.fabric.network.call(id, |device, _, _| device.destroy_srq(srqn));
                destroyed.map_err(|error| Fault::new("state", format!("an SRQ could not go: {error}")))?;
            }
        }
        for host in &mut self.hosts {
            for lkey in host.ledger.registered() {
                let result = self.fabric.network.deregister(host.id, lkey);
                result.map_err(|error| Fault::new("memory", format!("a region could not go: {error}")))?;
            }
        }
        self.look()?;
        self.wait(BASE_PATIENCE_NS)?;
        match self.fabric.network.next_event() {
            None => Ok(()),
            Some(at) => Err(Fault::new("liveness", format!("an event at {at} ns, and nothing is left"))),
        }
    }

    /// The other end of an end's connection.
    pub(super) fn peer(&self, index: usize) -> usize {
        index ^ 1
    }

    /// The connection of an end.
    pub(super) fn connection(&self, index: usize) -> &Connection {
        &self.connections[&self.ends[index].name.connection]
    }

    pub(super) fn connection_mut(&mut self, index: usize) -> &mut Connection {
        let number = self.ends[index].name.connection;
        self.connections.get_mut(&number).expect("an end has a connection")
    }

    /// The index of an end that a step names.
    pub(super) fn find(&self, end: plan::End) -> Option<usize> {
        self.ends.iter().position(|known| known.name == end)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(super) fn report(mut self, fault: Option<Fault>) -> Report {
        let wire = self.wire.borrow();
        self.tally.events = self.fabric.network.events();
        self.tally.frames = wire.frames;
        self.tally.hit = wire.hit;
        Report {
            fault,
            now: self.fabric.network.now(),
            digest: wire.digest,
            tally: self.tally,
            capture: self.fabric.network.take_capture(),
            reasons: self.reasons.into(),
        }
    }
}

fn config(seed: u64, endpoints: usize, shape: &Shape) -> FabricConfig {
    let [window_packets, first_window_packets] = shape.window_packets;
    let reacts = if shape.dcqcn { Reacts::Always } else { Reacts::Never };
    let profile = Profile {
        window_packets,
        first_window_packets,
        selective_repeat: true,
        dcqcn: Dcqcn { reacts, ..Dcqcn::default() },
        ..Profile::default()
    };
    FabricConfig {
        seed,
        endpoints,
        bare_endpoints: 1,
        nic: NicConfig { profile, queue_bytes: shape.nic_queue_bytes, ..NicConfig::default() },
        link: shape.link,
        switch: Some(SwitchConfig {
            queue_bytes: shape.queue_bytes,
            ecn: shape.ecn,
            pfc: shape.pfc,
            ..SwitchConfig::default()
        }),
    }
}

/// Hosts of a run.
const MAX_HOSTS: u8 = 8;
/// Reasons kept for the report.
const MAX_REASONS: usize = 20;
/// Time for what is not a timeout: data on its way, RNR timers, memory that is given back.
const BASE_PATIENCE_NS: Nanos = 3_000_000_000;
/// Events of a run: a hundred times what the busiest of some thousand seeds needed.
const MAX_EVENTS: u64 = 10_000_000;
