//! Where a switch sends a frame: along the shortest ways, spread over equal ones by connection.

use super::{HostId, Node, Port, SwitchId, VirtualNetwork};
use crate::frame::{Frame, Mac};
use crate::rules::ends;
use ferroce_wire::frame::Network;
use std::collections::{BTreeMap, VecDeque};

/// The routes of all switches.
#[derive(Debug)]
pub(super) struct Routes {
    /// By switch: the ports that lead to a host on a shortest way.
    ports: Vec<BTreeMap<Mac, Vec<usize>>>,
    /// By switch: the ports of a tree that reaches every host once, for frames that go to all.
    tree: Vec<Vec<usize>>,
}

impl Routes {
    /// The ports that a frame leaves a switch by.
    pub(super) fn next(
        &self,
        switch: SwitchId,
        came_by: usize,
        frame: &Frame,
        is_multicast: bool,
    ) -> Vec<usize> {
        if is_multicast {
            return self.tree[switch.0].iter().copied().filter(|port| *port != came_by).collect();
        }
        match self.ports[switch.0].get(&frame.destination()) {
            Some(ports) => vec![ports[(flow_hash(frame) % ports.len() as u64) as usize]],
            None => Vec::new(),
        }
    }
}

impl VirtualNetwork {
    /// Computes the routes, if the network has changed.
    pub(super) fn routes(&mut self) -> &Routes {
        if self.routes.is_none() {
            self.routes = Some(self.find_routes());
        }
        self.routes.get_or_insert_with(|| Routes { ports: Vec::new(), tree: Vec::new() })
    }

    fn find_routes(&self) -> Routes {
        let mut ports = vec![BTreeMap::new(); self.switches.len()];
        for host in &self.hosts {
            let Some((link, way)) = host.link else { continue };
            let distances = self.distances(self.links[link].ends[1 - way]);
            for (switch, routes) in ports.iter_mut().enumerate() {
                routes.insert(host.mac, self.ports_towards(SwitchId(switch), host.mac, &distances));
            }
        }
        for routes in &mut ports {
            routes.retain(|_, ports| !ports.is_empty());
        }
        Routes { ports, tree: self.find_tree() }
    }

    /// How many links lie between each switch and the port of a host's neighbour; `None` where no way leads.
    fn distances(&self, start: Port) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.switches.len()];
        let Node::Switch(first) = start.node else { return distances };
        distances[first.0] = Some(0);
        let mut queue = VecDeque::from([first]);
        // Each switch is queued once.
        while let Some(switch) = queue.pop_front() {
            for (_, neighbour) in self.neighbours_of(switch) {
                let Node::Switch(next) = neighbour else { continue };
                if distances[next.0].is_none() {
                    distances[next.0] = distances[switch.0].map(|distance| distance + 1);
                    queue.push_back(next);
                }
            }
        }
        distances
    }

    fn ports_towards(&self, switch: SwitchId, mac: Mac, distances: &[Option<u32>]) -> Vec<usize> {
        let here = distances[switch.0];
        let leads = |neighbour: Node| match neighbour {
            Node::Host(HostId(number)) => self.hosts[number].mac == mac,
            Node::Switch(next) => here.is_some() && distances[next.0].map(|distance| distance + 1) == here,
        };
        self.neighbours_of(switch).filter(|(_, neighbour)| leads(*neighbour)).map(|(port, _)| port).collect()
    }

    /// A spanning tree of each part of the network, from its first switch on.
    fn find_tree(&self) -> Vec<Vec<usize>> {
        let mut tree = vec![Vec::new(); self.switches.len()];
        let mut reached = vec![false; self.switches.len()];
        for root in 0..self.switches.len() {
            let mut queue = VecDeque::from([SwitchId(root)]);
            if std::mem::replace(&mut reached[root], true) {
                continue;
            }
            while let Some(switch) = queue.pop_front() {
                for (port, neighbour) in self.neighbours_of(switch) {
                    match neighbour {
                        Node::Host(_) => tree[switch.0].push(port),
                        Node::Switch(next) if !reached[next.0] => {
                            reached[next.0] = true;
                            tree[switch.0].push(port);
                            tree[next.0].push(self.far_port(switch, port));
                            queue.push_back(next);
                        }
                        Node::Switch(_) => {}
                    }
                }
            }
        }
        tree
    }

    /// The ports of a switch, and what is at the other ends of their links.
    fn neighbours_of(&self, switch: SwitchId) -> impl Iterator<Item = (usize, Node)> + '_ {
        let ports = self.switches[switch.0].ports.iter().enumerate();
        ports.map(|(number, port)| (number, self.links[port.link].ends[1 - port.way].node))
    }

    fn far_port(&self, switch: SwitchId, port: usize) -> usize {
        let port = &self.switches[switch.0].ports[port];
        self.links[port.link].ends[1 - port.way].number
    }
}

/// A number that is the same for all packets of a connection: addresses and UDP source port (W-9).
fn flow_hash(frame: &Frame) -> u64 {
    let Ok(parsed) = frame.parse() else { return 0 };
    let (src, dst) = ends(&parsed.network());
    let port = match parsed.network() {
        Network::Ipv4(_, udp) | Network::Ipv6(_, udp) => udp.source_port(),
        Network::RoceV1(_) => 0,
    };
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let octets = |addr| match addr {
        std::net::IpAddr::V4(v4) => u128::from(u32::from(v4)),
        std::net::IpAddr::V6(v6) => u128::from(v6),
    };
    for byte in
        [octets(src).to_be_bytes().as_slice(), &octets(dst).to_be_bytes(), &port.to_be_bytes()].concat()
    {
        // FNV-1a.
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    hash ^ hash >> 32
}
