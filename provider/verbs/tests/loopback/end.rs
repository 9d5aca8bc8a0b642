//! One end of a connection: a QP with its CQ and a region.

use ferroce::core::{
    AccessFlags, PathMtu, Payload, QpAttr, QpAttrMask, QpCaps, QpState, QpType, RecvWr, Remote, SendFlags,
    SendOp, SendWr, Sge, Wc, WcStatus,
};
use ferroce::{AhAttr, Config, Context, Cq, CqSpec, Device, Gid, Mr, Pd, PostError, Qp, QpSpec};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Rights for everything a peer can do.
pub const ALL: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

/// How long a completion may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct End {
    pub qp: Qp,
    pub cq: Cq,
    pub mr: Mr,
    /// Registered with `mr`; its address is stable, since it is never resized.
    pub buffer: Box<[u64]>,
    pub pd: Pd,
    pub context: Context,
}

/// What the ends of a test are made with.
#[derive(Clone, Copy)]
pub struct Plan {
    pub gid: IpAddr,
    pub mtu: PathMtu,
    pub caps: QpCaps,
    pub cqe: u32,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            gid: "127.0.0.1".parse().expect("an address"),
            mtu: PathMtu::Mtu1024,
            caps: QpCaps {
                max_send_wr: 16,
                max_recv_wr: 16,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline_data: 64,
            },
            cqe: 64,
        }
    }
}

/// The loopback device. Test processes may run at the same time, so they share port 4791 as applications do.
pub fn loopback() -> Device {
    Config::set_keeper_bin(keeper());
    let all = ferroce::devices().expect("a device list");
    all.into_iter().find(|device| device.interface_name() == "lo").expect("a loopback interface that is up")
}

/// The keeper's program, of the same profile as this test, built if need be.
fn keeper() -> PathBuf {
    static KEEPER: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "ferroce-keeper"])
            .args(profile)
            .status()
            .expect("cargo starts");
        assert!(built.success(), "the keeper does not build");
        let test = std::env::current_exe().expect("this test is a file");
        // Cargo puts tests into a folder `deps` inside the profile's.
        test.ancestors().nth(2).expect("the profile's folder").join("ferroce-keeper")
    };
    KEEPER.get_or_init(find).clone()
}

/// Two connected ends.
pub fn pair(plan: Plan) -> (End, End) {
    let context = loopback().open().expect("the loopback device opens");
    let (a, b) = (End::new(&context, plan), End::new(&context, plan));
    a.connect(&b, plan);
    b.connect(&a, plan);
    (a, b)
}

impl End {
    pub fn new(context: &Context, plan: Plan) -> End {
        let pd = context.alloc_pd().expect("a PD");
        let cq = context.create_cq(&CqSpec { cqe: plan.cqe, cookie: 7, ..CqSpec::default() }).expect("a CQ");
        let buffer = vec![0u64; 32 * 1024].into_boxed_slice();
        let length = std::mem::size_of_val(&*buffer) as u64;
        let addr = buffer.as_ptr() as u64;
        // SAFETY: the buffer lives in the same struct as the region, declared after it, and so outlives it.
        let mr = unsafe { pd.reg_mr(addr, length, addr, ALL) }.expect("a region");
        let spec = QpSpec {
            qp_type: QpType::Rc,
            send_cq: &cq,
            recv_cq: &cq,
            srq: None,
            caps: plan.caps,
            sq_sig_all: false,
            block_self_mcast: false,
            cookie: 11,
        };
        let qp = pd.create_qp(&spec).expect("a QP");
        End { qp, cq, mr, buffer, pd, context: context.clone() }
    }

    pub fn connect(&self, peer: &End, plan: Plan) {
        self.init();
        self.rtr(peer, plan);
        self.rts();
    }

    pub fn init(&self) {
        let attr = QpAttr { qp_state: QpState::Init, access: ALL, ..QpAttr::default() };
        let mask = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS;
        self.qp.modify(&attr, None, mask).expect("RESET to INIT");
    }

    pub fn rtr(&self, peer: &End, plan: Plan) {
        let gid = Gid::from_ip(plan.gid);
        let gids = self.context.device().gids();
        let (sgid_index, _) = gids.iter().find(|(_, own)| *own == gid).expect("the GID of the plan");
        let ah = AhAttr {
            is_global: true,
            dgid: gid,
            sgid_index: *sgid_index,
            flow_label: 0,
            hop_limit: 64,
            traffic_class: 0,
            sl: 0,
            port_num: 1,
        };
        let attr = QpAttr {
            qp_state: QpState::Rtr,
            path_mtu: plan.mtu,
            dest_qpn: peer.qp.qpn(),
            max_dest_rd_atomic: 4,
            min_rnr_timer: 1,
            ..QpAttr::default()
        };
        let mask = QpAttrMask::STATE
            | QpAttrMask::AV
            | QpAttrMask::PATH_MTU
            | QpAttrMask::DEST_QPN
            | QpAttrMask::RQ_PSN
            | QpAttrMask::MAX_DEST_RD_ATOMIC
            | QpAttrMask::MIN_RNR_TIMER;
        self.qp.modify(&attr, Some(&ah), mask).expect("INIT to RTR");
    }

    pub fn rts(&self) {
        let attr = QpAttr {
            qp_state: QpState::Rts,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 4,
            ..QpAttr::default()
        };
        let mask = QpAttrMask::STATE
            | QpAttrMask::SQ_PSN
            | QpAttrMask::TIMEOUT
            | QpAttrMask::RETRY_CNT
            | QpAttrMask::RNR_RETRY
            | QpAttrMask::MAX_QP_RD_ATOMIC;
        self.qp.modify(&attr, None, mask).expect("RTR to RTS");
    }

    /// Address of word `index` of the buffer.
    pub fn addr(&self, index: usize) -> u64 {
        (&raw const self.buffer[index]) as u64
    }

    pub fn sge(&self, index: usize, length: u32) -> Sge {
        Sge { addr: self.addr(index), length, lkey: self.mr.lkey() }
    }

    pub fn send(&self, wr_id: u64, op: SendOp, sge: Sge) -> Result<(), PostError> {
        let payload = Payload::Sges([sge].into_iter().collect());
        self.qp.post_send([SendWr { wr_id, op, flags: SendFlags::SIGNALED, payload, remote: Remote::Peer }])
    }

    pub fn recv(&self, wr_id: u64, sge: Sge) -> Result<(), PostError> {
        self.qp.post_recv([RecvWr { wr_id, sges: [sge].into_iter().collect() }])
    }

    /// Polls until there is a completion.
    pub fn wait(&self) -> Wc {
        let start = Instant::now();
        loop {
            if let Some(wc) = self.cq.poll(1).expect("no overrun").pop() {
                return wc;
            }
            assert!(start.elapsed() < PATIENCE, "no completion in {PATIENCE:?}");
        }
    }

    pub fn wait_success(&self) -> Wc {
        let wc = self.wait();
        assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
        wc
    }
}
