//! One end of a connection: a device with a QP, a region over all of its arena, and shorthand for work requests.

use crate::arena::Arena;
use ferroce_core::{
    AccessFlags, AddressVector, AsyncEvent, Completion, CqId, Device, DeviceConfig, Event, Ipv4Id, Nanos,
    PacketMeta, Path, PathMtu, Payload, PdId, Profile, QpAttr, QpAttrMask, QpInit, QpState, QpType, Queue,
    RecvWr, RegionKeys, RegionSpec, Remote, SendFlags, SendOp, SendWr, Sge, SrqInit, Srqn, Transmit,
    TransmitSink, Wc, WcStatus, XrcSrq, XrcdId,
};
use ferroce_wire::icrc::{self, IpContext};
use ferroce_wire::{Psn, Qpn};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

pub const PD: PdId = PdId(1);
pub const SEND_CQ: CqId = CqId(1);
pub const RECV_CQ: CqId = CqId(2);
pub const XRCD: XrcdId = XrcdId(5);
/// What only a reliable responder has.
const RESPONDER: QpAttrMask = QpAttrMask::MAX_DEST_RD_ATOMIC.union(QpAttrMask::MIN_RNR_TIMER);
pub const ALL_ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC);

/// How a QP under test is set up. The defaults are those of a quick connection.
#[derive(Clone)]
pub struct Setup {
    pub qp_type: QpType,
    pub mtu: PathMtu,
    pub sq_psn: u32,
    pub rq_psn: u32,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub access: AccessFlags,
    pub sq_sig_all: bool,
    /// Whether it receives through an SRQ.
    pub srq: bool,
    pub qkey: u32,
    pub block_self_mcast: bool,
    /// Whether the QP repeats selectively, in the belief that its peer does.
    pub selective: bool,
    pub profile: Profile,
}

impl Setup {
    /// The same for a QP of another type.
    pub fn of(qp_type: QpType) -> Setup {
        Setup { qp_type, ..Setup::default() }
    }

    /// Those of `mask` that a QP of this type takes.
    fn taken(&self, mask: QpAttrMask) -> QpAttrMask {
        let reliable = QpAttrMask::MAX_DEST_RD_ATOMIC
            | QpAttrMask::MIN_RNR_TIMER
            | QpAttrMask::TIMEOUT
            | QpAttrMask::RETRY_CNT
            | QpAttrMask::RNR_RETRY
            | QpAttrMask::MAX_QP_RD_ATOMIC;
        let connected = QpAttrMask::AV
            | QpAttrMask::PATH_MTU
            | QpAttrMask::DEST_QPN
            | QpAttrMask::RQ_PSN
            | QpAttrMask::ACCESS_FLAGS;
        match self.qp_type {
            QpType::XrcIni => mask - RESPONDER - QpAttrMask::QKEY,
            QpType::XrcTgt => mask - (reliable - RESPONDER - QpAttrMask::TIMEOUT) - QpAttrMask::QKEY,
            QpType::Uc => mask - reliable - QpAttrMask::QKEY,
            QpType::Ud => mask - reliable - connected,
            _ => mask - QpAttrMask::QKEY,
        }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            qp_type: QpType::Rc,
            mtu: PathMtu::Mtu1024,
            sq_psn: 0,
            rq_psn: 0,
            timeout: 8,
            retry_cnt: 3,
            rnr_retry: 7,
            min_rnr_timer: 1,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            access: ALL_ACCESS,
            sq_sig_all: false,
            srq: false,
            qkey: 0x1111_1111,
            block_self_mcast: false,
            selective: false,
            profile: Profile::default(),
        }
    }
}

/// A device with one QP.
pub struct End {
    pub device: Device,
    pub memory: Arena,
    pub keys: RegionKeys,
    pub srqn: Option<Srqn>,
    /// Whom requests are for that do not say.
    pub remote: Remote,
    pub qpn: Qpn,
    pub address: IpAddr,
    pub setup: Setup,
    pub reasons: Vec<String>,
    pub asyncs: Vec<AsyncEvent>,
    pub completions: Vec<Completion>,
}

impl End {
    /// A device whose QP is in INIT.
    pub fn new(host: u8, setup: Setup, arena: usize) -> End {
        let mut device = Device::new(DeviceConfig {
            qpn_base: u32::from(host) << 16,
            qpn_count: 1 << 16,
            seed: host.into(),
            profile: setup.profile.clone(),
        });
        let memory = Arena::new(arena);
        let keys = device
            .register(RegionSpec {
                pd: PD,
                addr: Arena::BASE,
                length: arena as u64,
                iova: Arena::BASE,
                access: ALL_ACCESS,
            })
            .expect("a region");
        let is_target = setup.qp_type == QpType::XrcTgt;
        let xrc = is_target.then_some(XrcSrq { xrcd: XRCD, cq: RECV_CQ });
        let has_srq = setup.srq || is_target;
        let srqn = has_srq.then(|| device.create_srq(SrqInit { pd: PD, xrc }).expect("an SRQ"));
        let srq = srqn.filter(|_| !is_target);
        let qpn = device.create_qp(QpInit { srq, ..init(&setup) }).expect("a QP");
        if setup.selective {
            device.repeat_selectively(qpn).expect("the profile has it");
        }
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
        let mut end = End {
            device,
            memory,
            keys,
            srqn,
            remote: Remote::Peer,
            qpn,
            address,
            setup,
            reasons: Vec::new(),
            asyncs: Vec::new(),
            completions: Vec::new(),
        };
        end.enter_init();
        end
    }

    pub fn modify(&mut self, now: Nanos, attr: QpAttr, mask: QpAttrMask) {
        self.device.modify_qp(now, self.qpn, &attr, mask | QpAttrMask::STATE).expect("a legal transition");
    }

    pub fn enter(&mut self, now: Nanos, qp_state: QpState) {
        self.modify(now, QpAttr { qp_state, ..QpAttr::default() }, QpAttrMask::STATE);
    }

    pub fn enter_init(&mut self) {
        let attr = QpAttr {
            qp_state: QpState::Init,
            access: self.setup.access,
            qkey: self.setup.qkey,
            ..QpAttr::default()
        };
        let mask = QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS | QpAttrMask::QKEY;
        self.modify(0, attr, self.setup.taken(mask));
    }

    pub fn enter_rtr(&mut self, peer: IpAddr, dest_qpn: Qpn) {
        let attr = QpAttr {
            qp_state: QpState::Rtr,
            path_mtu: self.setup.mtu,
            rq_psn: Psn::new(self.setup.rq_psn),
            dest_qpn,
            av: Some(address_vector(self.address, peer)),
            max_dest_rd_atomic: self.setup.max_dest_rd_atomic,
            min_rnr_timer: self.setup.min_rnr_timer,
            ..QpAttr::default()
        };
        let mask = QpAttrMask::AV
            | QpAttrMask::PATH_MTU
            | QpAttrMask::DEST_QPN
            | QpAttrMask::RQ_PSN
            | QpAttrMask::MAX_DEST_RD_ATOMIC
            | QpAttrMask::MIN_RNR_TIMER;
        self.modify(0, attr, self.setup.taken(mask));
    }

    pub fn enter_rts(&mut self) {
        let attr = QpAttr {
            qp_state: QpState::Rts,
            sq_psn: Psn::new(self.setup.sq_psn),
            timeout: self.setup.timeout,
            retry_cnt: self.setup.retry_cnt,
            rnr_retry: self.setup.rnr_retry,
            max_rd_atomic: self.setup.max_rd_atomic,
            ..QpAttr::default()
        };
        let mask = QpAttrMask::SQ_PSN
            | QpAttrMask::TIMEOUT
            | QpAttrMask::RETRY_CNT
            | QpAttrMask::RNR_RETRY
            | QpAttrMask::MAX_QP_RD_ATOMIC;
        self.modify(0, attr, self.setup.taken(mask));
    }

    pub fn state(&self) -> QpState {
        self.device.qp_state(self.qpn).expect("the QP")
    }

    /// An element of this end's region.
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge { addr: Arena::BASE + offset, length, lkey: self.keys.lkey }
    }

    pub fn post_send(&mut self, now: Nanos, mut wr: SendWr) {
        if wr.remote == Remote::Peer {
            wr.remote = self.remote.clone();
        }
        self.device.post_send(now, self.qpn, wr).expect("the QP");
    }

    pub fn post_recv(&mut self, now: Nanos, wr_id: u64, sges: &[Sge]) {
        let wr = RecvWr { wr_id, sges: sges.into() };
        match self.srqn {
            Some(srqn) => self.device.post_srq_recv(srqn, wr).expect("the SRQ"),
            None => self.device.post_recv(now, self.qpn, wr).expect("the QP"),
        }
    }

    pub fn handle_packet(&mut self, now: Nanos, from: IpAddr, bytes: &[u8]) {
        self.handle_packet_to(now, from, self.address, bytes);
    }

    /// A packet to an address that may be a group's.
    pub fn handle_packet_to(&mut self, now: Nanos, from: IpAddr, to: IpAddr, bytes: &[u8]) {
        let meta = PacketMeta {
            src: from,
            dst: to,
            source_port: SOURCE_PORT,
            traffic_class: 0,
            icrc_checked: false,
            ip_id: Ipv4Id::Seen(0),
            continues: false,
        };
        self.device.handle_packet(now, &meta, bytes, &self.memory);
        self.collect();
    }

    /// The packets it has to send.
    pub fn transmit(&mut self, now: Nanos) -> Vec<Vec<u8>> {
        self.transmit_with_paths(now).into_iter().map(|(_, packet)| packet).collect()
    }

    /// The packets it has to send, with where they go.
    pub fn transmit_with_paths(&mut self, now: Nanos) -> Vec<(Path, Vec<u8>)> {
        let mut batch = Batch::default();
        let result = self.device.poll_transmit(now, &self.memory, &mut batch);
        assert_eq!(result, Transmit::Idle);
        self.collect();
        batch.paths.into_iter().zip(batch.packets).collect()
    }

    /// A datagram QP of `peer`, as a work request of this end names it.
    pub fn to(&self, peer: &End) -> Remote {
        self.to_address(peer.address, peer.qpn, peer.setup.qkey)
    }

    pub fn to_address(&self, peer: IpAddr, qpn: Qpn, qkey: u32) -> Remote {
        let ah = Arc::new(address_vector(self.address, peer));
        Remote::Datagram { ah, pd: PD, qpn, qkey, source_port: SOURCE_PORT, receiver: None }
    }

    /// Fetches completions and events.
    pub fn collect(&mut self) {
        while let Some(completion) = self.device.poll_completion() {
            self.completions.push(completion);
        }
        while let Some(event) = self.device.poll_event() {
            match event {
                Event::Async(event) => self.asyncs.push(event),
                Event::Reason { text, .. } => self.reasons.push(text.into_owned()),
            }
        }
    }

    /// The send completions so far, as (wr_id, status); takes them.
    pub fn sent(&mut self) -> Vec<(u64, WcStatus)> {
        self.take(true).into_iter().map(|wc| (wc.wr_id, wc.status)).collect()
    }

    /// The receive completions so far; takes them.
    pub fn received(&mut self) -> Vec<Wc> {
        self.take(false)
    }

    fn take(&mut self, sent: bool) -> Vec<Wc> {
        self.collect();
        let taken = self.completions.extract_if(.., |completion| (completion.queue == Queue::Send) == sent);
        taken.map(|completion| completion.wc).collect()
    }

    /// Asserts that some reason contains `words`.
    #[track_caller]
    pub fn assert_reason(&self, words: &str) {
        assert!(self.reasons.iter().any(|text| text.contains(words)), "no {words:?} in {:#?}", self.reasons);
    }
}

pub fn init(setup: &Setup) -> QpInit {
    QpInit {
        xrcd: (setup.qp_type == QpType::XrcTgt).then_some(XRCD),
        sq_sig_all: setup.sq_sig_all,
        block_self_mcast: setup.block_self_mcast,
        ..QpInit::new(setup.qp_type, PD, SEND_CQ, RECV_CQ, PathMtu::Mtu4096)
    }
}

/// A signaled send WR with these elements.
pub fn wr(wr_id: u64, op: SendOp, sges: &[Sge]) -> SendWr {
    SendWr {
        wr_id,
        op,
        flags: SendFlags::SIGNALED,
        payload: Payload::Sges(sges.into()),
        remote: Remote::Peer,
    }
}

pub fn address_vector(src: IpAddr, dst: IpAddr) -> AddressVector {
    let path = Path {
        src,
        dst,
        interface: 0,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        source_port: SOURCE_PORT,
        receiver: None,
    };
    AddressVector {
        dgid: [0; 16],
        flow_label: 0,
        sgid_index: 0,
        hop_limit: 64,
        traffic_class: 0,
        sl: 0,
        port_num: 1,
        path,
    }
}

pub const SOURCE_PORT: u16 = 0xc123;

/// A sink that takes everything, and seals it.
#[derive(Default)]
pub struct Batch {
    pub packets: Vec<Vec<u8>>,
    pub paths: Vec<Path>,
    open: Option<(Path, Vec<u8>)>,
    /// Packets it takes before it refuses; `None` for no limit.
    room: Option<usize>,
}

impl Batch {
    pub fn with_room(packets: usize) -> Batch {
        Batch { room: Some(packets), ..Batch::default() }
    }
}

impl TransmitSink for Batch {
    fn reserve(&mut self, path: &Path, len: usize) -> Option<&mut [u8]> {
        if self.room.is_some_and(|room| self.packets.len() >= room) {
            return None;
        }
        // Arbitrary content, so that whatever is not written shows.
        Some(&mut self.open.insert((*path, vec![0xa5; len])).1)
    }

    fn commit(&mut self) {
        let (path, mut packet) = self.open.take().expect("something was reserved");
        icrc::seal(&ip_context(path.src, path.dst), &mut packet);
        self.packets.push(packet);
        self.paths.push(path);
    }
}

pub fn ip_context(src: IpAddr, dst: IpAddr) -> IpContext {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            IpContext::V4 { src: src.octets(), dst: dst.octets(), id: 0, source_port: SOURCE_PORT }
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            IpContext::V6 { src: src.octets(), dst: dst.octets(), source_port: SOURCE_PORT }
        }
        _ => panic!("two families"),
    }
}
