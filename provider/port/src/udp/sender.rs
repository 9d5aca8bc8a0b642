//! Sends the runs of a batch.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use ferroce_core::Path;
use ferroce_wire::icrc::{self, IpContext};
use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_UDP, c_int};
use smallvec::SmallVec;

use super::batch::{Batch, Run};
use super::send_socket::{DEFAULT_HOP_LIMIT, Family, SendSocketId, SendSockets};
use crate::port::PortCounters;
use crate::reported::Reported;
use crate::sys::name::SocketName;
use crate::sys::packet_message::{self, MAX_SEND, Outgoing, TransmitControl};

/// Knows the paths and their sockets.
pub(super) struct Sender {
    destination_port: u16,
    segmentation: Segmentation,
    sockets: SendSockets,
    routes: Vec<Route>,
    by_path: HashMap<Path, RouteId>,
    last: Option<(Path, RouteId)>,
    reported: Reported,
}

/// Whether runs leave as one message each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segmentation {
    pub(super) ipv4: bool,
    pub(super) ipv6: bool,
}

/// One of a sender's routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RouteId(pub(super) u32);

/// A path, in the kernel's terms.
struct Route {
    family: Family,
    socket: SendSocketId,
    name: SocketName,
    control: TransmitControl,
    /// What the ICRC covers of the IP level; over IPv4 with the identification of a run's first packet.
    context: IpContext,
}

impl Sender {
    pub(super) fn new(destination_port: u16, segmentation: Segmentation) -> Sender {
        Sender {
            destination_port,
            segmentation,
            sockets: SendSockets::default(),
            routes: Vec::new(),
            by_path: HashMap::new(),
            last: None,
            reported: Reported::default(),
        }
    }

    /// The route of a path; `None` while no socket can be had for it.
    pub(super) fn route(&mut self, path: &Path) -> Option<RouteId> {
        if let Some((last, id)) = &self.last
            && last == path
        {
            return Some(*id);
        }
        let id = match self.by_path.get(path) {
            Some(&id) => id,
            None => self.add_route(path)?,
        };
        self.last = Some((*path, id));
        Some(id)
    }

    /// The most packets that a run on this route may have.
    pub(super) fn run_limit(&self, id: RouteId) -> usize {
        if self.segments(self.route_of(id).family) { MAX_SEGMENTS } else { 1 }
    }

    /// Writes the ICRC of the packet that is number `index` of its run.
    pub(super) fn seal(&self, id: RouteId, index: usize, packet: &mut [u8]) {
        let mut context = self.route_of(id).context;
        if let IpContext::V4 { id, .. } = &mut context {
            *id = index as u16; // below MAX_SEGMENTS
        }
        icrc::seal(&context, packet);
    }

    /// Sends all runs, in order. What the kernel does not take is lost.
    pub(super) fn send(&mut self, batch: &mut Batch, counters: &mut PortCounters) {
        let mut next = 0;
        // Each round sends, or gives up, at least one run.
        while let Some(first) = batch.runs().get(next) {
            let socket = self.route_of(first.route).socket;
            let same_socket = batch.runs()[next..].iter().map_while(|run| {
                let route = self.route_of(run.route);
                (route.socket == socket).then_some((run, route))
            });
            let result = send_runs(&self.sockets, socket, batch, same_socket);
            counters.tx_syscalls += 1;
            match result {
                Ok(sent) => {
                    let sent = &batch.runs()[next..next + sent.max(1)];
                    counters.tx_messages += sent.len() as u64;
                    counters.tx_packets += sent.iter().map(|run| run.count as u64).sum::<u64>();
                    next += sent.len();
                }
                Err(error) => {
                    let run = *first;
                    self.handle_refusal(batch, &run, &error, counters);
                    next += 1;
                }
            }
        }
    }

    /// Makes room for other paths. Call it when no batch refers to a route.
    pub(super) fn forget_routes(&mut self) {
        if self.routes.len() >= MAX_ROUTES {
            self.routes.clear();
            self.by_path.clear();
            self.last = None;
        }
    }

    fn handle_refusal(
        &mut self,
        batch: &mut Batch,
        run: &Run,
        error: &io::Error,
        counters: &mut PortCounters,
    ) {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => counters.tx_no_room += run.count as u64,
            // The device or the path does not support segmentation, or a segment is too long.
            Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP) if run.count > 1 => {
                return self.send_singly(batch, run, counters);
            }
            _ => counters.tx_refused += run.count as u64,
        }
        self.report(error);
    }

    /// Sends the packets of a run one by one, and stops sending runs if that works where a run did not.
    fn send_singly(&mut self, batch: &mut Batch, run: &Run, counters: &mut PortCounters) {
        let mut any_sent = false;
        for packet in batch.packets_mut(run) {
            self.seal(run.route, 0, packet);
            let route = self.route_of(run.route);
            let message = Outgoing { name: &route.name, control: &route.control, bytes: packet };
            counters.tx_syscalls += 1;
            match packet_message::send(self.sockets.fd(route.socket), [message].into_iter()) {
                Ok(_) => {
                    any_sent = true;
                    counters.tx_messages += 1;
                    counters.tx_packets += 1;
                }
                Err(error) => {
                    counters.tx_refused += 1;
                    self.report(&error);
                }
            }
        }
        if any_sent {
            let family = self.route_of(run.route).family;
            match family {
                Family::V4 => self.segmentation.ipv4 = false,
                Family::V6 => self.segmentation.ipv6 = false,
            }
            tracing::warn!(?family, "segmentation offload does not work here: packets are sent one by one");
        }
    }

    fn add_route(&mut self, path: &Path) -> Option<RouteId> {
        let family = if path.dst.to_canonical().is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = match self.sockets.open(family, path.source_port) {
            Ok(socket) => socket,
            Err(error) => {
                self.report(&error);
                return None;
            }
        };
        let Some(route) = Route::new(path, socket, self.sockets.port(socket), self.destination_port) else {
            self.report(&io::Error::from(io::ErrorKind::AddrNotAvailable));
            return None;
        };
        let id = RouteId(self.routes.len() as u32);
        self.routes.push(route);
        self.by_path.insert(*path, id);
        Some(id)
    }

    fn route_of(&self, id: RouteId) -> &Route {
        &self.routes[id.0 as usize]
    }

    fn segments(&self, family: Family) -> bool {
        match family {
            Family::V4 => self.segmentation.ipv4,
            Family::V6 => self.segmentation.ipv6,
        }
    }

    fn report(&mut self, error: &io::Error) {
        if self.reported.is_first(error) {
            tracing::warn!(%error, "packets cannot be sent; more of the same is only counted");
        }
    }
}

impl Route {
    /// `None` for addresses of two families.
    fn new(path: &Path, socket: SendSocketId, source_port: u16, destination_port: u16) -> Option<Route> {
        let mut control = TransmitControl::new();
        let dst = path.dst.to_canonical();
        // Each control message costs time, so what the socket does anyway is not said.
        let class = (path.traffic_class != 0).then(|| i32::from(path.traffic_class).to_ne_bytes());
        // 0 is none that the kernel takes; multicast has a default of its own, which is 1.
        let hop_limit = if path.hop_limit == 0 { DEFAULT_HOP_LIMIT } else { path.hop_limit };
        let hop_limit = (hop_limit != DEFAULT_HOP_LIMIT || dst.is_multicast())
            .then(|| i32::from(hop_limit).to_ne_bytes());
        let (family, context) = match (path.src.to_canonical(), dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                control.push(IPPROTO_IP, libc::IP_PKTINFO, &ipv4_packet_info(src.octets(), path.interface));
                push_some(&mut control, IPPROTO_IP, libc::IP_TOS, class);
                push_some(&mut control, IPPROTO_IP, libc::IP_TTL, hop_limit);
                (Family::V4, IpContext::V4 { src: src.octets(), dst: dst.octets(), id: 0, source_port })
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                // The flow label stays 0: to send another needs an agreement with the kernel (IPV6_FLOWLABEL_MGR),
                // and the ICRC does not cover it.
                control.push(
                    IPPROTO_IPV6,
                    libc::IPV6_PKTINFO,
                    &ipv6_packet_info(src.octets(), path.interface),
                );
                push_some(&mut control, IPPROTO_IPV6, libc::IPV6_TCLASS, class);
                push_some(&mut control, IPPROTO_IPV6, libc::IPV6_HOPLIMIT, hop_limit);
                (Family::V6, IpContext::V6 { src: src.octets(), dst: dst.octets(), source_port })
            }
            _ => return None,
        };
        let name = SocketName::new(dst, destination_port, path.interface);
        Some(Route { family, socket, name, control, context })
    }
}

/// Sends the first of `runs`, which all leave through `socket`. Returns how many the kernel took.
fn send_runs<'a>(
    sockets: &SendSockets,
    socket: SendSocketId,
    batch: &Batch,
    runs: impl Iterator<Item = (&'a Run, &'a Route)>,
) -> io::Result<usize> {
    let mut messages = SmallVec::<[(&Run, &Route, TransmitControl); MAX_SEND]>::new();
    for (run, route) in runs.take(MAX_SEND) {
        let mut control = route.control;
        if run.count > 1 {
            // A run is shorter than 64 KiB.
            control.push(SOL_UDP, libc::UDP_SEGMENT, &(run.segment as u16).to_ne_bytes());
        }
        messages.push((run, route, control));
    }
    let messages = messages.iter().map(|(run, route, control)| Outgoing {
        name: &route.name,
        control,
        bytes: batch.bytes(run),
    });
    packet_message::send(sockets.fd(socket), messages)
}

fn push_some(control: &mut TransmitControl, level: c_int, kind: c_int, value: Option<[u8; 4]>) {
    if let Some(value) = value {
        control.push(level, kind, &value);
    }
}

/// A `struct in_pktinfo`: interface (0: the routing table's choice), source address, and a field that only matters on
/// receipt.
fn ipv4_packet_info(src: [u8; 4], interface: u32) -> [u8; 12] {
    let mut info = [0; 12];
    info[..4].copy_from_slice(&interface.to_ne_bytes());
    info[4..8].copy_from_slice(&src);
    info
}

/// A `struct in6_pktinfo`: source address and interface.
fn ipv6_packet_info(src: [u8; 16], interface: u32) -> [u8; 20] {
    let mut info = [0; 20];
    info[..16].copy_from_slice(&src);
    info[16..].copy_from_slice(&interface.to_ne_bytes());
    info
}

/// Segments of one message: the kernel's UDP_MAX_SEGMENTS, which was 64 before it became 128 in Linux 6.11.
const MAX_SEGMENTS: usize = 64;

/// Routes kept for use; more only within one batch.
const MAX_ROUTES: usize = 1024;
