//! What the device and its port say about themselves (`ibv_query_device(3)`, `ibv_query_port(3)`).

use crate::limits::{
    GID_TABLE_LEN, MAX_AH, MAX_CQ, MAX_CQE, MAX_MCAST_GRP, MAX_MR, MAX_MR_SIZE, MAX_MSG_SIZE, MAX_MW, MAX_PD,
    MAX_QP, MAX_QP_WR, MAX_RD_ATOMIC, MAX_SGE, MAX_SRQ, MAX_SRQ_WR, PKEY_TABLE_LEN,
};
use ferroce_core::PathMtu;

/// Attributes of the device, under the names of `struct ibv_device_attr`. What is not named there is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are ibv_query_device(3)'s own")]
pub struct DeviceAttr {
    /// Big-endian when read as bytes.
    pub node_guid: [u8; 8],
    pub sys_image_guid: [u8; 8],
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    /// Of nobody: 0xffffff, as rxe has it; pyverbs refuses 0.
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: u32,
    pub max_qp_wr: u32,
    /// Bits of `enum ibv_device_cap_flags`.
    pub device_cap_flags: u32,
    /// The same and the upper bits of `enum ib_uverbs_device_cap_flags`, which `ibv_query_device_ex(3)` reports.
    pub device_cap_flags_ex: u64,
    pub max_sge: u32,
    pub max_sge_rd: u32,
    pub max_cq: u32,
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_mw: u32,
    pub max_pd: u32,
    pub max_qp_rd_atom: u32,
    pub max_res_rd_atom: u32,
    pub max_qp_init_rd_atom: u32,
    /// Bits 0 none, 1 HCA, 2 global as in `enum ibv_atomic_cap`; ours is global, as host atomics are.
    pub atomic_cap: u32,
    pub max_ah: u32,
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_srq_sge: u32,
    pub max_mcast_grp: u32,
    pub max_mcast_qp_attach: u32,
    pub max_total_mcast_qp_attach: u32,
    pub max_pkeys: u32,
    /// Code of the local ACK delay: 4.096 µs · 2^code.
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// `IBV_DEVICE_BAD_PKEY_CNTR` and `IBV_DEVICE_BAD_QKEY_CNTR`: the port counts them.
const CAP_KEY_COUNTERS: u32 = 1 << 1 | 1 << 2;
/// `IBV_DEVICE_CURR_QP_STATE_MOD`: CUR_STATE may be given to a modify.
const CAP_CURR_QP_STATE_MOD: u32 = 1 << 7;
/// `IBV_DEVICE_SYS_IMAGE_GUID`: the system image GUID is reported.
const CAP_SYS_IMAGE_GUID: u32 = 1 << 11;
/// `IBV_DEVICE_RC_RNR_NAK_GEN`: RNR NAKs are made.
const CAP_RC_RNR_NAK_GEN: u32 = 1 << 12;
/// `IBV_DEVICE_PORT_ACTIVE_EVENT`.
const CAP_PORT_ACTIVE_EVENT: u32 = 1 << 10;
/// `IBV_DEVICE_SRQ_RESIZE`.
const CAP_SRQ_RESIZE: u32 = 1 << 13;
/// `IBV_DEVICE_MEM_WINDOW`: type 1 windows.
const CAP_MEM_WINDOW: u32 = 1 << 17;
/// `IBV_DEVICE_MEM_MGT_EXTENSIONS`: local invalidate and SEND with invalidate.
const CAP_MEM_MGT_EXTENSIONS: u32 = 1 << 21;
/// `IBV_DEVICE_MEM_WINDOW_TYPE_2B`: type 2 windows, as ConnectX and rxe have them.
const CAP_MEM_WINDOW_TYPE_2B: u32 = 1 << 24;
/// `IB_UVERBS_DEVICE_FLUSH_GLOBAL`.
const CAP_FLUSH_GLOBAL: u64 = 1 << 38;
/// `IB_UVERBS_DEVICE_FLUSH_PERSISTENT`.
const CAP_FLUSH_PERSISTENT: u64 = 1 << 39;
/// `IB_UVERBS_DEVICE_ATOMIC_WRITE`.
const CAP_ATOMIC_WRITE: u64 = 1 << 40;
/// `IBV_DEVICE_XRC`.
const CAP_XRC: u32 = 1 << 20;
/// `IBV_DEVICE_RESIZE_MAX_WR` is not offered: work queues keep their size.
const CAP_FLAGS: u32 = CAP_KEY_COUNTERS
    | CAP_CURR_QP_STATE_MOD
    | CAP_SYS_IMAGE_GUID
    | CAP_RC_RNR_NAK_GEN
    | CAP_PORT_ACTIVE_EVENT
    | CAP_SRQ_RESIZE
    | CAP_MEM_WINDOW
    | CAP_XRC
    | CAP_MEM_MGT_EXTENSIONS
    | CAP_MEM_WINDOW_TYPE_2B;
/// The `vendor_id` of a device without a vendor.
const NOBODYS_OUI: u32 = 0xff_ffff;
/// `IBV_ATOMIC_GLOB`.
const ATOMIC_GLOB: u32 = 2;

impl DeviceAttr {
    /// The attributes of a device with this GUID.
    pub(crate) fn new(guid: [u8; 8]) -> DeviceAttr {
        let rd_atomic = u32::from(MAX_RD_ATOMIC);
        DeviceAttr {
            node_guid: guid,
            sys_image_guid: guid,
            max_mr_size: MAX_MR_SIZE,
            page_size_cap: 0xffff_f000,
            vendor_id: NOBODYS_OUI,
            vendor_part_id: 0,
            hw_ver: 0,
            max_qp: MAX_QP,
            max_qp_wr: MAX_QP_WR,
            device_cap_flags: CAP_FLAGS,
            device_cap_flags_ex: CAP_FLAGS as u64
                | CAP_FLUSH_GLOBAL
                | CAP_FLUSH_PERSISTENT
                | CAP_ATOMIC_WRITE,
            max_sge: MAX_SGE,
            max_sge_rd: MAX_SGE,
            max_cq: MAX_CQ,
            max_cqe: MAX_CQE,
            max_mr: MAX_MR,
            max_mw: MAX_MW,
            max_pd: MAX_PD,
            max_qp_rd_atom: rd_atomic,
            max_res_rd_atom: rd_atomic.saturating_mul(MAX_QP),
            max_qp_init_rd_atom: rd_atomic,
            atomic_cap: ATOMIC_GLOB,
            max_ah: MAX_AH,
            max_srq: MAX_SRQ,
            max_srq_wr: MAX_SRQ_WR,
            max_srq_sge: MAX_SGE,
            max_mcast_grp: MAX_MCAST_GRP,
            max_mcast_qp_attach: MAX_QP,
            max_total_mcast_qp_attach: MAX_QP.saturating_mul(MAX_MCAST_GRP),
            max_pkeys: PKEY_TABLE_LEN,
            local_ca_ack_delay: 15,
            phys_port_cnt: 1,
        }
    }
}

/// State of a port; the values are those of `enum ibv_port_state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum PortState {
    /// The interface is switched off, has no carrier, or is gone.
    Down = 1,
    /// The interface carries packets.
    Active = 4,
}

/// What the interface under a port says of its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// Switched off.
    Off,
    /// Switched on, without a carrier.
    NoCarrier,
    /// It carries packets.
    Up,
}

impl Link {
    /// The codes of `phys_state`: Disabled, Polling, LinkUp.
    fn phys_state(self) -> u8 {
        match self {
            Link::Off => 3,
            Link::NoCarrier => 2,
            Link::Up => 5,
        }
    }
}

/// Attributes of the port, under the names of `struct ibv_port_attr`. What is not named there is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are ibv_query_port(3)'s own")]
pub struct PortAttr {
    pub state: PortState,
    pub max_mtu: PathMtu,
    /// The largest that fits the interface's MTU.
    pub active_mtu: PathMtu,
    pub gid_tbl_len: u32,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    /// Packets dropped for their P_Key (`bad_pkey_cntr`), by this process since it opened its first device.
    pub bad_pkeys: u64,
    /// Packets dropped for their Q_Key (`qkey_viol_cntr`), likewise.
    pub bad_qkeys: u64,
    pub pkey_tbl_len: u16,
    /// Bits of `enum ibv_port_attr` width: 1 is 1X, 2 is 4X.
    pub active_width: u8,
    /// 32 is EDR, 25 Gb/s a lane: a name for "fast" and no measurement.
    pub active_speed: u8,
    /// 5 is LinkUp, 2 Polling (no carrier), 3 Disabled.
    pub phys_state: u8,
    /// 2 is Ethernet.
    pub link_layer: u8,
}

/// `IBV_PORT_CM_SUP` and `IBV_PORT_IP_BASED_GIDS`.
const PORT_CAP_FLAGS: u32 = 1 << 16 | 1 << 26;

impl PortAttr {
    /// The attributes of the port over an interface.
    pub(crate) fn new(link: Link, active_mtu: PathMtu) -> PortAttr {
        PortAttr {
            state: if link == Link::Up { PortState::Active } else { PortState::Down },
            max_mtu: PathMtu::Mtu4096,
            active_mtu,
            gid_tbl_len: GID_TABLE_LEN,
            port_cap_flags: PORT_CAP_FLAGS,
            max_msg_sz: MAX_MSG_SIZE as u32,
            bad_pkeys: 0,
            bad_qkeys: 0,
            pkey_tbl_len: PKEY_TABLE_LEN as u16,
            active_width: 2,
            active_speed: 32,
            phys_state: link.phys_state(),
            link_layer: 2,
        }
    }
}
