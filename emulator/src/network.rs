//! The virtual network: hosts, switches and links, and the one loop that moves time.
//!
//! Everything that happens is an event with a moment, and events of one moment happen in the order in which they
//! were planned. Time jumps from one to the next, so a second of waiting costs nothing, and the same seed and the
//! same calls give the same packets at the same nanoseconds.

mod crossing;
mod describe;
mod hosts;
mod receiving;
mod routes;
mod switching;

use crate::agenda::Agenda;
use crate::capture::Capture;
use crate::egress::{Egress, EgressStats};
use crate::frame::{Frame, Mac};
use crate::link::{Link, LinkConfig, LinkStats, Way};
use crate::nic::{Host, HostConfig, HostStats, VirtualNic};
use crate::rules::{Rule, Rules, Script};
use crate::switch::{Switch, SwitchConfig, SwitchPort};
use ferroce_core::Nanos;
use routes::Routes;
use std::collections::BTreeMap;
use std::net::IpAddr;
use thiserror::Error;

/// A host of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub(crate) usize);

/// A switch of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SwitchId(pub(crate) usize);

/// A link of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub(crate) usize);

/// What a link can be connected to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    /// A host, which has one port.
    Host(HostId),
    /// A switch, which has a port for each link.
    Switch(SwitchId),
}

impl From<HostId> for Node {
    fn from(host: HostId) -> Node {
        Node::Host(host)
    }
}

impl From<SwitchId> for Node {
    fn from(switch: SwitchId) -> Node {
        Node::Switch(switch)
    }
}

/// A port of a node; a host's is number 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Port {
    pub(crate) node: Node,
    pub(crate) number: usize,
}

/// What is going to happen.
#[derive(Debug)]
enum Event {
    /// A frame's last bit arrives at the far end of a link.
    Arrive { link: usize, way: usize, frame: Frame },
    /// A port has sent the frame it was sending.
    Sent { port: Port },
    /// A device's deadline.
    Deadline { host: usize },
    /// A pause ends.
    Resume { port: Port },
    /// A pause that still has its cause is renewed.
    Renew { port: Port, priority: usize },
    /// A frame has waited long enough to be overtaken.
    Release { link: usize, way: usize, number: u64 },
    /// A card has taken in the frame it was taking in.
    Taken { host: usize },
}

/// A network of virtual cards, in virtual time.
#[derive(Debug)]
pub struct VirtualNetwork {
    seed: u64,
    now: Nanos,
    agenda: Agenda<Event>,
    hosts: Vec<Host>,
    switches: Vec<Switch>,
    links: Vec<Link>,
    /// Ethernet addresses by IP address.
    neighbours: BTreeMap<IpAddr, Mac>,
    /// Where switches send frames; computed when first needed after a change.
    routes: Option<Routes>,
    rules: Rules,
    capture: Option<Capture>,
    events: u64,
}

impl VirtualNetwork {
    /// An empty network at time 0. All its chances follow from `seed`.
    pub fn new(seed: u64) -> VirtualNetwork {
        VirtualNetwork {
            seed,
            now: 0,
            agenda: Agenda::new(),
            hosts: Vec::new(),
            switches: Vec::new(),
            links: Vec::new(),
            neighbours: BTreeMap::new(),
            routes: None,
            rules: Rules::new(seed),
            capture: None,
            events: 0,
        }
    }

    /// Adds a host with a virtual card.
    pub fn add_host(&mut self, config: HostConfig) -> HostId {
        self.add(config, false)
    }

    /// Adds a host without a card: it sends what [`VirtualNetwork::send_datagram`] is given, and keeps what comes for
    /// [`VirtualNetwork::poll_datagram`]. Wire scripts and hostile peers are made of it.
    pub fn add_bare_host(&mut self, config: HostConfig) -> HostId {
        self.add(config, true)
    }

    fn add(&mut self, config: HostConfig, is_bare: bool) -> HostId {
        let number = self.hosts.len();
        let loopback = self.links.len();
        let port = Port { node: Node::Host(HostId(number)), number: 0 };
        let name = format!("{}-loopback", config.name);
        // What a host sends to itself is as long as it likes and takes no time but that of sending.
        let link = LinkConfig { delay_ns: 0, mtu: u32::MAX, ..LinkConfig::default() };
        self.add_link(name, [&config.name; 2].map(String::clone), link, [port; 2]);
        let host = Host::new(config, number, loopback, self.seed, is_bare);
        for address in &host.addresses {
            self.neighbours.insert(address.to_canonical(), host.mac);
        }
        self.hosts.push(host);
        self.routes = None;
        HostId(number)
    }

    /// Adds a switch.
    pub fn add_switch(&mut self, config: SwitchConfig) -> SwitchId {
        self.switches.push(Switch::new(config, self.switches.len(), self.seed));
        self.routes = None;
        SwitchId(self.switches.len() - 1)
    }

    /// Connects two nodes by a link, which is called after them, in their order: `a-b`.
    ///
    /// # Errors
    /// A host that has a link already.
    pub fn connect(
        &mut self,
        first: impl Into<Node>,
        second: impl Into<Node>,
        config: LinkConfig,
    ) -> Result<LinkId, ConnectError> {
        let nodes = [first.into(), second.into()];
        for (place, node) in nodes.iter().enumerate() {
            if let Node::Host(HostId(number)) = node {
                let host = &self.hosts[*number];
                if host.link.is_some() || nodes[..place].contains(node) {
                    return Err(ConnectError { host: host.name.clone() });
                }
            }
        }
        let link = self.links.len();
        let end_names = nodes.map(|node| self.node_name(node).to_string());
        let name = end_names.join("-");
        let ports = [0, 1]
            .map(|way| Port { node: nodes[way], number: self.add_port(nodes[way], link, way, &config) });
        self.add_link(name, end_names, config, ports);
        self.routes = None;
        Ok(LinkId(link))
    }

    fn add_link(&mut self, name: String, end_names: [String; 2], config: LinkConfig, ends: [Port; 2]) {
        let number = self.links.len();
        let ways = [0, 1].map(|way| Way::new(self.seed, Link::way_number(number, way)));
        self.links.push(Link { name, end_names, config, ends, ways, is_up: true });
    }

    /// The port of a node for a new link, and its number.
    fn add_port(&mut self, node: Node, link: usize, way: usize, config: &LinkConfig) -> usize {
        match node {
            Node::Host(HostId(number)) => {
                let host = &mut self.hosts[number];
                host.link = Some((link, way));
                host.egress.set_rate(host.config.rate_bps.unwrap_or(u64::MAX).min(config.rate_bps));
                0
            }
            Node::Switch(SwitchId(number)) => {
                let switch = &mut self.switches[number];
                let port = switch.ports.len();
                let [switch_high, switch_low] = (number as u16).to_be_bytes();
                let egress = Egress::new(config.rate_bps, switch.config.queue_bytes, switch.config.ecn);
                let mac = [0x06, 0, switch_high, switch_low, 0, port as u8];
                switch.ports.push(SwitchPort { egress, account: Default::default(), link, way, mac });
                port
            }
        }
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// How many events there were, which tells how much work a run is.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Adds a rule behind the others.
    pub fn add_rule(&mut self, rule: impl Rule + 'static) {
        self.rules.add(rule);
    }

    /// Adds the rules of a script behind the others.
    pub fn add_script(&mut self, script: &Script) {
        self.rules.add_script(script);
    }

    /// Takes all rules away. Frames that are held back or delayed still arrive.
    pub fn clear_rules(&mut self) {
        self.rules.clear();
    }

    /// Changes a link. Frames on their way are not touched.
    pub fn set_link(&mut self, link: LinkId, config: LinkConfig) {
        self.links[link.0].config = config;
        for port in self.links[link.0].ends {
            let rate = match port.node {
                Node::Host(HostId(number)) => self.hosts[number].config.rate_bps.unwrap_or(u64::MAX),
                Node::Switch(_) => u64::MAX,
            };
            self.egress_mut(port).set_rate(rate.min(config.rate_bps));
        }
    }

    /// Pulls a link's plug, or puts it back. Frames that begin to leave while it is out are lost.
    pub fn set_link_up(&mut self, link: LinkId, is_up: bool) {
        self.links[link.0].is_up = is_up;
    }

    /// The link's configuration.
    pub fn link(&self, link: LinkId) -> &LinkConfig {
        &self.links[link.0].config
    }

    /// The link's name.
    pub fn link_name(&self, link: LinkId) -> &str {
        &self.links[link.0].name
    }

    /// What the link has seen, from its first node to its second and back.
    pub fn link_stats(&self, link: LinkId) -> [LinkStats; 2] {
        [0, 1].map(|way| self.links[link.0].ways[way].stats)
    }

    /// What the sending side of a node's port has seen; a switch's ports are numbered in the order of its links.
    pub fn egress_stats(&self, node: impl Into<Node>, port: usize) -> EgressStats {
        self.egress(node.into(), port).map(Egress::stats).unwrap_or_default()
    }

    fn egress(&self, node: Node, port: usize) -> Option<&Egress> {
        match node {
            Node::Host(HostId(number)) => Some(&self.hosts[number].egress),
            Node::Switch(SwitchId(number)) => self.switches[number].ports.get(port).map(|port| &port.egress),
        }
    }

    /// Bytes that wait in a queue of a node's port.
    pub fn queue_bytes(&self, node: impl Into<Node>, port: usize, priority: usize) -> u64 {
        self.egress(node.into(), port).map_or(0, |egress| egress.queue_bytes(priority))
    }

    /// What a host has seen.
    pub fn host_stats(&self, host: HostId) -> HostStats {
        self.hosts[host.0].stats
    }

    /// A host's card, to look at; `None` for a bare host.
    pub fn nic(&self, host: HostId) -> Option<&VirtualNic> {
        self.hosts[host.0].nic()
    }

    /// A node's name.
    pub fn node_name(&self, node: impl Into<Node>) -> &str {
        match node.into() {
            Node::Host(HostId(number)) => &self.hosts[number].name,
            Node::Switch(SwitchId(number)) => &self.switches[number].config.name,
        }
    }

    /// Records every frame from now on, as pcapng.
    pub fn start_capture(&mut self) {
        self.capture.get_or_insert_with(Capture::new);
    }

    /// The bytes recorded since the last call. All of them one after the other are the file.
    pub fn take_capture(&mut self) -> Vec<u8> {
        self.capture.as_mut().map(Capture::take).unwrap_or_default()
    }

    /// Lets everything happen up to the moment `until`, at which it then is.
    pub fn run_until(&mut self, until: Nanos) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Lets everything happen until nothing is left to happen, but for no longer than up to the moment `limit`.
    /// Whether nothing was left.
    pub fn run_until_idle(&mut self, limit: Nanos) -> bool {
        while self.step(limit) {}
        self.agenda.next().is_none()
    }

    /// Lets the next thing happen, if it is due by `limit`; whether there was one.
    pub fn step(&mut self, limit: Nanos) -> bool {
        let Some((at, event)) = self.agenda.pop(limit) else { return false };
        self.now = self.now.max(at);
        self.events += 1;
        match event {
            Event::Arrive { link, way, frame } => self.arrive(self.links[link].ends[1 - way], link, frame),
            Event::Sent { port } => self.sent(port),
            Event::Deadline { host } => self.deadline(host),
            Event::Resume { port } => self.start(port),
            Event::Renew { port, priority } => self.renew(port, priority),
            Event::Release { link, way, number } => self.release(link, way, number),
            Event::Taken { host } => self.taken(host),
        }
        true
    }

    /// When the next thing happens.
    pub fn next_event(&self) -> Option<Nanos> {
        self.agenda.next()
    }

    fn plan(&mut self, at: Nanos, event: Event) {
        self.agenda.plan(at.max(self.now), event);
    }

    fn egress_mut(&mut self, port: Port) -> &mut Egress {
        match port.node {
            Node::Host(HostId(number)) => &mut self.hosts[number].egress,
            Node::Switch(SwitchId(number)) => &mut self.switches[number].ports[port.number].egress,
        }
    }

    /// A port is free again.
    fn sent(&mut self, port: Port) {
        self.egress_mut(port).finish();
        match port.node {
            Node::Host(HostId(number)) => self.drive(number),
            Node::Switch(_) => self.start(port),
        }
    }
}

/// A host has one port, and it is connected already.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("host {host} has one port, and it has a link already: put a switch between")]
pub struct ConnectError {
    /// The host's name.
    pub host: String,
}
