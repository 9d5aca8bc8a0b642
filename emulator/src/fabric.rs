//! A ready-made network: so many endpoints, on one link or around one switch, and the few calls that most uses need.
//!
//! Everything else is a call on [`Fabric::network`].

use crate::link::LinkConfig;
use crate::network::{HostId, LinkId, SwitchId, VirtualNetwork};
use crate::nic::{HostConfig, NicConfig};
use crate::switch::SwitchConfig;
use ferroce_core::{
    AccessFlags, AddressVector, AsyncEvent, Completion, Counter, CqId, Event, Path, PathMtu, Payload, PdId,
    QpAttr, QpAttrMask, QpInit, QpState, QpType, Queue, RecvWr, RegionKeys, RegionSpec, Remote, SendFlags,
    SendOp, SendWr, Sge, Wc,
};
use ferroce_wire::{Psn, Qpn};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a fabric is made of.
#[derive(Clone, Debug)]
pub struct FabricConfig {
    /// All chances follow from it.
    pub seed: u64,
    /// Endpoints with a card.
    pub endpoints: usize,
    /// Endpoints without one, behind the others: see [`VirtualNetwork::add_bare_host`].
    pub bare_endpoints: usize,
    /// The card of each.
    pub nic: NicConfig,
    /// Each link.
    pub link: LinkConfig,
    /// The switch in the middle. Without one, two endpoints share a link; more need one.
    pub switch: Option<SwitchConfig>,
}

impl Default for FabricConfig {
    /// Two endpoints on a link.
    fn default() -> Self {
        FabricConfig {
            seed: 0,
            endpoints: 2,
            bare_endpoints: 0,
            nic: NicConfig::default(),
            link: LinkConfig::default(),
            switch: None,
        }
    }
}

/// Endpoints on a network. They are called a, b, c … and have the addresses 10.0.0.1 and fd00::1, 10.0.0.2 and
/// fd00::2 …
#[derive(Debug)]
pub struct Fabric {
    /// The network, for everything that has no method here.
    pub network: VirtualNetwork,
    endpoints: Vec<HostId>,
    links: Vec<LinkId>,
    switch: Option<SwitchId>,
    /// Completions fetched and not taken, by endpoint.
    completions: Vec<Vec<Completion>>,
}

/// A QP of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QpRef {
    /// Where it is.
    pub host: HostId,
    /// Its number.
    pub qpn: Qpn,
}

/// Memory of an endpoint that is registered with all rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Where it is.
    pub host: HostId,
    /// Its address.
    pub addr: u64,
    /// Its length in bytes.
    pub len: usize,
    /// Its keys.
    pub keys: RegionKeys,
}

impl Buffer {
    /// The `length` bytes from `offset` on, for a scatter/gather list.
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge { addr: self.addr + offset, length, lkey: self.keys.lkey }
    }
}

/// How two RC QPs are connected. Both ends are alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Largest payload of a packet; the link's largest if not given.
    pub path_mtu: Option<PathMtu>,
    /// First PSN of each end.
    pub psns: [u32; 2],
    /// Local ACK timeout: 4.096 µs · 2^timeout; 0 for none.
    pub timeout: u8,
    /// Transport retries, 0 to 7.
    pub retry_cnt: u8,
    /// RNR retries, 0 to 6, or 7 for ever.
    pub rnr_retry: u8,
    /// RNR timer code.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding, either way.
    pub max_rd_atomic: u8,
    /// DSCP and ECN of its packets.
    pub traffic_class: u8,
    /// Whether it goes over IPv6.
    pub ipv6: bool,
    /// Whether both ends repeat selectively; their profiles must have it.
    pub selective_repeat: bool,
}

impl Default for Connection {
    /// DSCP 26, ECN-capable; a timeout of 67 ms and seven retries, as most applications have.
    fn default() -> Self {
        Connection {
            path_mtu: None,
            psns: [0, 0],
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_rd_atomic: 16,
            traffic_class: 26 << 2 | 2,
            ipv6: false,
            selective_repeat: false,
        }
    }
}

impl Connection {
    /// The address vector of a QP at `src` with its peer at `dst`.
    pub fn address_vector(&self, src: IpAddr, dst: IpAddr) -> AddressVector {
        let path = Path {
            src,
            dst,
            interface: 0,
            traffic_class: self.traffic_class,
            hop_limit: HOP_LIMIT,
            flow_label: 0,
            // The same both ways (W-10).
            source_port: 0xc000 | u16::from(last_octet(src) ^ last_octet(dst)),
            receiver: None,
        };
        AddressVector {
            dgid: gid(dst),
            flow_label: 0,
            sgid_index: u8::from(src.is_ipv6()),
            hop_limit: HOP_LIMIT,
            traffic_class: self.traffic_class,
            sl: 0,
            port_num: 1,
            path,
        }
    }
}

impl Fabric {
    /// A fabric.
    ///
    /// # Panics
    /// If there are too many endpoints for their addresses, or several without a switch.
    pub fn new(config: &FabricConfig) -> Fabric {
        let count = config.endpoints + config.bare_endpoints;
        assert!(count <= 250, "there are addresses for 250 endpoints");
        assert!(count <= 2 || config.switch.is_some(), "more than two endpoints need a switch");
        let mut network = VirtualNetwork::new(config.seed);
        let switch = config.switch.clone().map(|switch| network.add_switch(switch));
        let endpoints: Vec<_> = (0..count)
            .map(|index| {
                let name = endpoint_name(index);
                let addresses = vec![address(index, false), address(index, true)];
                let host = HostConfig { name, addresses, nic: config.nic.clone() };
                if index < config.endpoints { network.add_host(host) } else { network.add_bare_host(host) }
            })
            .collect();
        let new = "a new host has no link";
        let links = match (switch, endpoints.as_slice()) {
            (Some(switch), hosts) => {
                hosts.iter().map(|host| network.connect(*host, switch, config.link).expect(new)).collect()
            }
            (None, [first, second]) => vec![network.connect(*first, *second, config.link).expect(new)],
            (None, _) => Vec::new(),
        };
        let completions = vec![Vec::new(); endpoints.len()];
        Fabric { network, endpoints, links, switch, completions }
    }

    /// The endpoint with this number, from 0.
    pub fn endpoint(&self, index: usize) -> HostId {
        self.endpoints[index]
    }

    /// The link of the endpoint with this number, or the only one.
    pub fn link(&self, index: usize) -> LinkId {
        self.links[index.min(self.links.len() - 1)]
    }

    /// The switch in the middle.
    pub fn switch(&self) -> Option<SwitchId> {
        self.switch
    }

    /// Allocates and registers `len` bytes.
    pub fn buffer(&mut self, host: HostId, len: usize) -> Buffer {
        let addr = self.network.alloc(host, len);
        let spec = RegionSpec { pd: PD, addr, length: len as u64, iova: addr, access: ALL_ACCESS };
        let keys = self.network.register(host, spec).expect("the table has room for millions of regions");
        Buffer { host, addr, len, keys }
    }

    /// Puts bytes into a buffer.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&mut self, buffer: &Buffer, offset: u64, bytes: &[u8]) {
        let memory = self.network.memory(buffer.host);
        memory.put(buffer.addr + offset, bytes).expect("the bytes fit into the buffer");
    }

    /// Takes bytes out of a buffer.
    ///
    /// # Panics
    /// If it has not so many.
    pub fn read(&self, buffer: &Buffer, offset: u64, len: usize) -> Vec<u8> {
        let memory = self.network.memory(buffer.host);
        memory.get(buffer.addr + offset, len).expect("the buffer has so many bytes")
    }

    /// What the card of an endpoint has counted.
    ///
    /// # Panics
    /// If it has no card.
    pub fn counter(&self, host: HostId, counter: Counter) -> u64 {
        let nic = self.network.nic(host).expect("a bare endpoint counts nothing");
        nic.device().counters().get(counter)
    }

    /// Creates an RC QP.
    pub fn create_qp(&mut self, host: HostId) -> QpRef {
        let init = QpInit::new(QpType::Rc, PD, SEND_CQ, RECV_CQ, self.network.active_mtu(host));
        let qpn = self.network.create_qp(host, init).expect("there are thousands of QPNs");
        QpRef { host, qpn }
    }

    /// Creates an RC QP on each of two endpoints and connects them.
    pub fn connected_pair(&mut self, hosts: [HostId; 2], connection: &Connection) -> [QpRef; 2] {
        let qps = hosts.map(|host| self.create_qp(host));
        self.connect(qps, connection);
        qps
    }

    /// Takes two QPs in RESET to RTS, each with the other as its peer.
    pub fn connect(&mut self, qps: [QpRef; 2], connection: &Connection) {
        self.connect_to(qps[0], qps[1], connection.psns, connection);
        self.connect_to(qps[1], qps[0], [connection.psns[1], connection.psns[0]], connection);
    }

    /// Takes a QP in RESET to RTS. The peer need not exist; it may be made up by a bare endpoint. `psns` are the
    /// first ones of this end and of the peer.
    pub fn connect_to(&mut self, qp: QpRef, peer: QpRef, psns: [u32; 2], connection: &Connection) {
        if connection.selective_repeat {
            let agreed = self.network.call(qp.host, |device, _, _| device.repeat_selectively(qp.qpn));
            agreed.expect("the profile has selective repeat, and the QP is in RESET");
        }
        let largest = self.network.active_mtu(qp.host).min(self.network.active_mtu(peer.host));
        let [src, dst] = [qp.host, peer.host].map(|host| self.address(host, connection.ipv6));
        let attr = QpAttr {
            access: ALL_ACCESS,
            path_mtu: connection.path_mtu.unwrap_or(largest),
            dest_qpn: peer.qpn,
            rq_psn: Psn::new(psns[1]),
            sq_psn: Psn::new(psns[0]),
            av: Some(connection.address_vector(src, dst)),
            max_rd_atomic: connection.max_rd_atomic,
            max_dest_rd_atomic: connection.max_rd_atomic,
            min_rnr_timer: connection.min_rnr_timer,
            timeout: connection.timeout,
            retry_cnt: connection.retry_cnt,
            rnr_retry: connection.rnr_retry,
            ..QpAttr::default()
        };
        for (qp_state, mask) in TRANSITIONS {
            let attr = QpAttr { qp_state, ..attr };
            self.network
                .modify_qp(qp.host, qp.qpn, &attr, mask.union(QpAttrMask::STATE))
                .expect("the way from RESET to RTS has all its attributes");
        }
    }

    /// The address of an endpoint.
    pub fn address(&self, host: HostId, ipv6: bool) -> IpAddr {
        address(self.index(host), ipv6)
    }

    /// Posts a signaled send work request.
    pub fn post_send(&mut self, qp: QpRef, wr_id: u64, op: SendOp, sges: &[Sge]) {
        let payload = Payload::Sges(sges.into());
        let wr = SendWr { wr_id, op, flags: SendFlags::SIGNALED, payload, remote: Remote::Peer };
        self.network.post_send(qp.host, qp.qpn, wr).expect("the QP was created here");
    }

    /// Posts a receive work request.
    pub fn post_recv(&mut self, qp: QpRef, wr_id: u64, sges: &[Sge]) {
        let wr = RecvWr { wr_id, sges: sges.into() };
        self.network.post_recv(qp.host, qp.qpn, wr).expect("the QP was created here");
    }

    /// The completions of a QP's send queue since the last call.
    pub fn take_sent(&mut self, qp: QpRef) -> Vec<Wc> {
        self.take(qp, Queue::Send)
    }

    /// The completions of a QP's receive queue since the last call.
    pub fn take_received(&mut self, qp: QpRef) -> Vec<Wc> {
        self.take(qp, Queue::Recv)
    }

    fn take(&mut self, qp: QpRef, queue: Queue) -> Vec<Wc> {
        let index = self.index(qp.host);
        while let Some(completion) = self.network.poll_completion(qp.host) {
            self.completions[index].push(completion);
        }
        self.completions[index]
            .extract_if(.., |completion| completion.queue == queue && completion.wc.qpn == qp.qpn)
            .map(|completion| completion.wc)
            .collect()
    }

    /// The asynchronous events of an endpoint since the last call; reasons for people are left out.
    pub fn take_events(&mut self, host: HostId) -> Vec<AsyncEvent> {
        let events = std::iter::from_fn(|| self.network.poll_event(host));
        events
            .filter_map(|event| match event {
                Event::Async(event) => Some(event),
                Event::Reason { .. } => None,
            })
            .collect()
    }

    fn index(&self, host: HostId) -> usize {
        self.endpoints.iter().position(|own| *own == host).expect("the host is an endpoint of this fabric")
    }
}

/// a … z, then a1 … z1 and so on.
fn endpoint_name(index: usize) -> String {
    let letter = char::from(b'a' + (index % 26) as u8);
    if index < 26 { letter.to_string() } else { format!("{letter}{}", index / 26) }
}

fn address(index: usize, ipv6: bool) -> IpAddr {
    let number = index as u8 + 1;
    if ipv6 {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
    }
}

fn last_octet(address: IpAddr) -> u8 {
    gid(address)[15]
}

fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The protection domain of everything that a fabric makes.
const PD: PdId = PdId(1);
const SEND_CQ: CqId = CqId(1);
const RECV_CQ: CqId = CqId(2);
const HOP_LIMIT: u8 = 64;
const ALL_ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

/// The steps from RESET to RTS, and the attributes that each needs.
pub(crate) const TRANSITIONS: [(QpState, QpAttrMask); 3] = [
    (QpState::Init, QpAttrMask::PKEY_INDEX.union(QpAttrMask::PORT).union(QpAttrMask::ACCESS_FLAGS)),
    (
        QpState::Rtr,
        QpAttrMask::AV
            .union(QpAttrMask::PATH_MTU)
            .union(QpAttrMask::DEST_QPN)
            .union(QpAttrMask::RQ_PSN)
            .union(QpAttrMask::MAX_DEST_RD_ATOMIC)
            .union(QpAttrMask::MIN_RNR_TIMER),
    ),
    (
        QpState::Rts,
        QpAttrMask::SQ_PSN
            .union(QpAttrMask::TIMEOUT)
            .union(QpAttrMask::RETRY_CNT)
            .union(QpAttrMask::RNR_RETRY)
            .union(QpAttrMask::MAX_QP_RD_ATOMIC),
    ),
];
