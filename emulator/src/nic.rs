//! Hosts: a device of the core behind a network port, or a bare port for tests that make their own packets.

use crate::chance::Chance;
use crate::egress::{EcnMarking, Egress};
use crate::frame::{self, Envelope, Frame, Mac};
use crate::memory::HostMemory;
use crate::pfc::{Account, Pfc};
use bytes::Bytes;
use ferroce_core::{Device, DeviceConfig, Nanos, PacketMeta, Path, Profile, TransmitSink};
use ferroce_wire::Qpn;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// A host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostConfig {
    /// Its name in captures and rules.
    pub name: String,
    /// Its addresses, each of them a GID; the first is the one that is used unless another is asked for.
    pub addresses: Vec<IpAddr>,
    /// Its device.
    pub nic: NicConfig,
}

/// A virtual RoCEv2 card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NicConfig {
    /// Limits and habits of the transport.
    pub profile: Profile,
    /// First QPN.
    pub qpn_base: u32,
    /// QPNs from there on.
    pub qpn_count: u32,
    /// Bits per second it sends at, if that is less than its link's rate.
    pub rate_bps: Option<u64>,
    /// Bytes that wait for the wire in each priority's queue. While a queue is full, QPs of that priority wait.
    pub queue_bytes: u64,
    /// ECN marks by the length of its own queues.
    pub ecn: Option<EcnMarking>,
    /// How fast it takes packets in.
    pub receive: ReceiveConfig,
}

impl Default for NicConfig {
    fn default() -> Self {
        NicConfig {
            profile: Profile::default(),
            qpn_base: FIRST_QPN,
            qpn_count: 1 << 16,
            rate_bps: None,
            queue_bytes: 32 << 10,
            ecn: None,
            receive: ReceiveConfig::default(),
        }
    }
}

/// The receiving side of a card. A card that takes packets in more slowly than they come (a narrow bus, an engine
/// that is busy) makes them wait, then pauses its neighbour or drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveConfig {
    /// Bits per second; as fast as the link, and without a queue, if not given.
    pub rate_bps: Option<u64>,
    /// Bytes that wait; beyond them frames are dropped, but for priorities with flow control.
    pub buffer_bytes: u64,
    /// Flow control towards the neighbour.
    pub pfc: Option<Pfc>,
}

impl Default for ReceiveConfig {
    fn default() -> Self {
        ReceiveConfig { rate_bps: None, buffer_bytes: 256 << 10, pfc: None }
    }
}

/// What a host's port has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostStats {
    /// Frames that were not for this host, or whose IP or UDP headers were wrong.
    pub not_taken: u64,
    /// Packets to an address that nobody in the network has.
    pub unresolved: u64,
    /// Frames dropped because the receiving side was full.
    pub overrun: u64,
}

/// A UDP payload that came to a bare host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// When.
    pub at: Nanos,
    /// The headers in front of it.
    pub meta: PacketMeta,
    /// BTH to ICRC.
    pub payload: Bytes,
}

/// A virtual card: the core's device, and the memory of its host.
#[derive(Debug)]
pub struct VirtualNic {
    pub(crate) device: Device,
    pub(crate) memory: HostMemory,
    pub(crate) timer_at: Option<Nanos>,
}

impl VirtualNic {
    pub(crate) fn new(config: &NicConfig, seed: u64) -> VirtualNic {
        let device = Device::new(DeviceConfig {
            qpn_base: config.qpn_base,
            qpn_count: config.qpn_count,
            seed,
            profile: config.profile.clone(),
        });
        VirtualNic { device, memory: HostMemory::new(), timer_at: None }
    }

    /// The device, to look at.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The host's memory.
    pub fn memory(&self) -> &HostMemory {
        &self.memory
    }
}

/// What is behind a host's port.
#[derive(Debug)]
pub(crate) enum Behind {
    Nic(Box<VirtualNic>),
    /// Nothing: whatever comes is kept for the test.
    Inbox(VecDeque<Datagram>),
}

/// A host in a network.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) config: NicConfig,
    pub(crate) mac: Mac,
    pub(crate) egress: Egress,
    pub(crate) receive: Receive,
    pub(crate) behind: Behind,
    /// Link and way that leave it.
    pub(crate) link: Option<(usize, usize)>,
    /// What it sends to itself.
    pub(crate) loopback: usize,
    ip_id: u16,
    pub(crate) chance: Chance,
    pub(crate) stats: HostStats,
}

/// Frames that came in and have not been taken in.
#[derive(Debug, Default)]
pub(crate) struct Receive {
    pub(crate) queue: VecDeque<Frame>,
    pub(crate) bytes: u64,
    pub(crate) account: Account,
    pub(crate) is_busy: bool,
    pub(crate) free_at_ps: u64,
}

impl Host {
    pub(crate) fn new(config: HostConfig, number: usize, loopback: usize, seed: u64, is_bare: bool) -> Host {
        let HostConfig { name, addresses, nic } = config;
        let mut chance = Chance::of_part(seed, HOSTS_PART + number as u64);
        let behind = if is_bare {
            Behind::Inbox(VecDeque::new())
        } else {
            Behind::Nic(Box::new(VirtualNic::new(&nic, chance.bits())))
        };
        let [high, low] = (number as u16).to_be_bytes();
        Host {
            name,
            addresses,
            mac: [0x02, 0, 0, 0, high, low],
            egress: Egress::new(nic.rate_bps.unwrap_or(LOOPBACK_BPS), nic.queue_bytes, nic.ecn),
            config: nic,
            receive: Receive::default(),
            behind,
            link: None,
            loopback,
            ip_id: 0,
            chance,
            stats: HostStats::default(),
        }
    }

    /// Lets the device fill the queues.
    pub(crate) fn transmit(&mut self, now: Nanos, neighbours: &BTreeMap<IpAddr, Mac>) {
        let Host { behind, egress, mac, ip_id, chance, stats, .. } = self;
        let Behind::Nic(nic) = behind else { return };
        let mut sink = EgressSink {
            egress,
            mac: *mac,
            ip_id,
            chance,
            stats,
            neighbours,
            staged: Vec::new(),
            path: None,
        };
        // Whether something is left to send is asked again when a frame has left.
        let _ = nic.device.poll_transmit(now, &nic.memory, &mut sink);
    }

    /// Sends a UDP payload that a test made; `seal` computes its ICRC. Whether it found room.
    pub(crate) fn send(&mut self, path: &Path, payload: &[u8], seal: bool, destination: Mac) -> bool {
        self.ip_id = self.ip_id.wrapping_add(1);
        let envelope = Envelope::new(self.mac, destination, path, self.ip_id);
        let head = Envelope::len(path.src, path.dst);
        let mut bytes = vec![0; head + payload.len()];
        bytes[head..].copy_from_slice(payload);
        self.push(Frame::finish(&envelope, bytes, seal))
    }

    /// Sends an IP datagram as it is. Whether it found room.
    pub(crate) fn send_ip_datagram(&mut self, dst: IpAddr, datagram: &[u8], destination: Mac) -> bool {
        self.push(Frame::of_datagram(destination, self.mac, dst.is_ipv4(), datagram))
    }

    fn push(&mut self, frame: Frame) -> bool {
        let has_room = self.egress.has_room(frame.priority(), frame.wire_len());
        if has_room {
            self.egress.push(frame, None, &mut self.chance);
        } else {
            self.egress.count_drop();
        }
        has_room
    }

    /// The process that used the device dies: queues, QPs and regions are gone, and nobody says so to the peers. The
    /// device that the host has from now on has other keys, and the QPNs behind those of the one before, so that nobody
    /// is taken for a peer that has died.
    pub(crate) fn restart(&mut self) {
        let seed = self.chance.bits();
        let NicConfig { qpn_base, qpn_count, .. } = &mut self.config;
        let next = *qpn_base + *qpn_count;
        // Where the numbers end, they begin anew.
        *qpn_base = if next + *qpn_count <= Qpn::MULTICAST.value() { next } else { FIRST_QPN };
        if let Behind::Nic(nic) = &mut self.behind {
            let is_recording = nic.memory.is_recording();
            **nic = VirtualNic::new(&self.config, seed);
            if is_recording {
                nic.memory.record_accesses();
            }
        }
        self.egress.clear();
    }
}

/// Where a device writes its packets: into frames, and those into the port's queues.
struct EgressSink<'a> {
    egress: &'a mut Egress,
    mac: Mac,
    ip_id: &'a mut u16,
    chance: &'a mut Chance,
    stats: &'a mut HostStats,
    neighbours: &'a BTreeMap<IpAddr, Mac>,
    staged: Vec<u8>,
    path: Option<Path>,
}

impl TransmitSink for EgressSink<'_> {
    fn reserve(&mut self, path: &Path, len: usize) -> Option<&mut [u8]> {
        let head = Envelope::len(path.src, path.dst);
        let priority = usize::from(frame::priority(path.traffic_class));
        if !self.egress.has_room(priority, frame::wire_len(head + len)) {
            return None;
        }
        self.path = Some(*path);
        self.staged.clear();
        self.staged.resize(head + len, 0);
        Some(&mut self.staged[head..])
    }

    fn commit(&mut self) {
        let Some(path) = self.path.take() else { return };
        let Some(destination) = resolve(self.neighbours, path.dst) else {
            self.stats.unresolved += 1;
            return;
        };
        *self.ip_id = self.ip_id.wrapping_add(1);
        let envelope = Envelope::new(self.mac, destination, &path, *self.ip_id);
        let frame = Frame::finish(&envelope, std::mem::take(&mut self.staged), true);
        self.egress.push(frame, None, self.chance);
    }
}

/// The Ethernet address behind an IP address (W-18, W-20).
pub(crate) fn resolve(neighbours: &BTreeMap<IpAddr, Mac>, address: IpAddr) -> Option<Mac> {
    match address.to_canonical() {
        IpAddr::V4(v4) if v4.is_multicast() => {
            let [_, b, c, d] = v4.octets();
            Some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(v6) if v6.is_multicast() => {
            let o = v6.octets();
            Some([0x33, 0x33, o[12], o[13], o[14], o[15]])
        }
        unicast => neighbours.get(&unicast).copied(),
    }
}

/// Whether a frame goes to more than one host.
pub(crate) fn is_multicast(mac: Mac) -> bool {
    mac[0] & 1 == 1
}

/// The first QPN, unless a configuration says another.
const FIRST_QPN: u32 = 0x100;
/// The parts of the simulation that draw the hosts' chances.
const HOSTS_PART: u64 = 1 << 33;
/// The rate of a host that has no link yet.
const LOOPBACK_BPS: u64 = 100_000_000_000;
