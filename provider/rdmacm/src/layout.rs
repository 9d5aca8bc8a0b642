//! The structures of `<rdma/rdma_cma.h>`, named as there.

use ferroce_ibverbs_layout::{IbvAhAttr, IbvCompChannel, IbvContext, IbvCq, IbvGid, IbvPd, IbvQp, IbvSrq};
use libc::{c_char, c_int, c_void, sockaddr, sockaddr_storage, socklen_t};
use std::mem::offset_of;

/// `struct rdma_event_channel`.
#[repr(C)]
pub(crate) struct RdmaEventChannel {
    pub(crate) fd: c_int,
}

/// `struct rdma_ib_addr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RdmaIbAddr {
    pub(crate) sgid: IbvGid,
    pub(crate) dgid: IbvGid,
    /// Big-endian.
    pub(crate) pkey: u16,
}

/// `struct rdma_addr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RdmaAddr {
    pub(crate) src: sockaddr_storage,
    pub(crate) dst: sockaddr_storage,
    pub(crate) ib: RdmaIbAddr,
}

/// `struct ibv_sa_path_rec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvSaPathRec {
    pub(crate) dgid: IbvGid,
    pub(crate) sgid: IbvGid,
    pub(crate) dlid: u16,
    pub(crate) slid: u16,
    pub(crate) raw_traffic: c_int,
    pub(crate) flow_label: u32,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) reversible: c_int,
    pub(crate) numb_path: u8,
    pub(crate) pkey: u16,
    pub(crate) sl: u8,
    pub(crate) mtu_selector: u8,
    pub(crate) mtu: u8,
    pub(crate) rate_selector: u8,
    pub(crate) rate: u8,
    pub(crate) packet_life_time_selector: u8,
    pub(crate) packet_life_time: u8,
    pub(crate) preference: u8,
}

/// `struct rdma_route`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RdmaRoute {
    pub(crate) addr: RdmaAddr,
    pub(crate) path_rec: *mut IbvSaPathRec,
    pub(crate) num_paths: c_int,
}

/// `struct rdma_cm_id`.
#[repr(C)]
pub(crate) struct RdmaCmId {
    pub(crate) verbs: *mut IbvContext,
    pub(crate) channel: *mut RdmaEventChannel,
    pub(crate) context: *mut c_void,
    pub(crate) qp: *mut IbvQp,
    pub(crate) route: RdmaRoute,
    pub(crate) ps: u32,
    pub(crate) port_num: u8,
    pub(crate) event: *mut RdmaCmEvent,
    pub(crate) send_cq_channel: *mut IbvCompChannel,
    pub(crate) send_cq: *mut IbvCq,
    pub(crate) recv_cq_channel: *mut IbvCompChannel,
    pub(crate) recv_cq: *mut IbvCq,
    pub(crate) srq: *mut IbvSrq,
    pub(crate) pd: *mut IbvPd,
    pub(crate) qp_type: u32,
}

/// `struct rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RdmaConnParam {
    pub(crate) private_data: *const c_void,
    pub(crate) private_data_len: u8,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) flow_control: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
    pub(crate) srq: u8,
    pub(crate) qp_num: u32,
}

/// `struct rdma_ud_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RdmaUdParam {
    pub(crate) private_data: *const c_void,
    pub(crate) private_data_len: u8,
    pub(crate) ah_attr: IbvAhAttr,
    pub(crate) qp_num: u32,
    pub(crate) qkey: u32,
}

/// The parameters of an event; which of them follows from the ID's service.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union RdmaEventParam {
    pub(crate) conn: RdmaConnParam,
    pub(crate) ud: RdmaUdParam,
    /// Of `rdma_write_cm_event`.
    pub(crate) arg: u64,
}

/// `struct rdma_cm_event`.
#[repr(C)]
pub(crate) struct RdmaCmEvent {
    pub(crate) id: *mut RdmaCmId,
    pub(crate) listen_id: *mut RdmaCmId,
    pub(crate) event: u32,
    pub(crate) status: c_int,
    pub(crate) param: RdmaEventParam,
}

/// `struct rdma_addrinfo`.
#[repr(C)]
pub(crate) struct RdmaAddrinfo {
    pub(crate) flags: c_int,
    pub(crate) family: c_int,
    pub(crate) qp_type: c_int,
    pub(crate) port_space: c_int,
    pub(crate) src_len: socklen_t,
    pub(crate) dst_len: socklen_t,
    pub(crate) src_addr: *mut sockaddr,
    pub(crate) dst_addr: *mut sockaddr,
    pub(crate) src_canonname: *mut c_char,
    pub(crate) dst_canonname: *mut c_char,
    pub(crate) route_len: usize,
    pub(crate) route: *mut c_void,
    pub(crate) connect_len: usize,
    pub(crate) connect: *mut c_void,
    pub(crate) next: *mut RdmaAddrinfo,
}

/// `struct rdma_cm_join_mc_attr_ex`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RdmaCmJoinMcAttrEx {
    pub(crate) comp_mask: u32,
    pub(crate) join_flags: u32,
    pub(crate) addr: *mut sockaddr,
}

/// Where members lie on a 64-bit machine, as the C compiler places them by rdma-core's headers.
const LAYOUT: [bool; 50] = [
    size_of::<RdmaCmId>() == 416,
    size_of::<RdmaRoute>() == 312,
    size_of::<RdmaCmEvent>() == 80,
    size_of::<RdmaConnParam>() == 24,
    size_of::<RdmaUdParam>() == 56,
    size_of::<RdmaAddrinfo>() == 96,
    size_of::<IbvSaPathRec>() == 64,
    size_of::<RdmaAddr>() == 296,
    size_of::<RdmaIbAddr>() == 40,
    size_of::<RdmaCmJoinMcAttrEx>() == 16,
    offset_of!(RdmaCmId, qp) == 24,
    offset_of!(RdmaCmId, route) == 32,
    offset_of!(RdmaCmId, ps) == 344,
    offset_of!(RdmaCmId, port_num) == 348,
    offset_of!(RdmaCmId, event) == 352,
    offset_of!(RdmaCmId, send_cq_channel) == 360,
    offset_of!(RdmaCmId, recv_cq) == 384,
    offset_of!(RdmaCmId, srq) == 392,
    offset_of!(RdmaCmId, pd) == 400,
    offset_of!(RdmaCmId, qp_type) == 408,
    offset_of!(RdmaAddr, dst) == 128,
    offset_of!(RdmaAddr, ib) == 256,
    offset_of!(RdmaRoute, path_rec) == 296,
    offset_of!(RdmaRoute, num_paths) == 304,
    offset_of!(RdmaCmEvent, event) == 16,
    offset_of!(RdmaCmEvent, status) == 20,
    offset_of!(RdmaCmEvent, param) == 24,
    offset_of!(RdmaConnParam, responder_resources) == 9,
    offset_of!(RdmaConnParam, retry_count) == 12,
    offset_of!(RdmaConnParam, srq) == 14,
    offset_of!(RdmaConnParam, qp_num) == 16,
    offset_of!(RdmaUdParam, ah_attr) == 16,
    offset_of!(RdmaUdParam, qp_num) == 48,
    offset_of!(RdmaUdParam, qkey) == 52,
    offset_of!(RdmaAddrinfo, port_space) == 12,
    offset_of!(RdmaAddrinfo, src_len) == 16,
    offset_of!(RdmaAddrinfo, src_addr) == 24,
    offset_of!(RdmaAddrinfo, dst_canonname) == 48,
    offset_of!(RdmaAddrinfo, route) == 64,
    offset_of!(RdmaAddrinfo, connect) == 80,
    offset_of!(RdmaAddrinfo, next) == 88,
    offset_of!(IbvSaPathRec, dlid) == 32,
    offset_of!(IbvSaPathRec, flow_label) == 40,
    offset_of!(IbvSaPathRec, reversible) == 48,
    offset_of!(IbvSaPathRec, pkey) == 54,
    offset_of!(IbvSaPathRec, mtu) == 58,
    offset_of!(IbvSaPathRec, packet_life_time) == 62,
    offset_of!(IbvSaPathRec, preference) == 63,
    offset_of!(RdmaCmJoinMcAttrEx, addr) == 8,
    offset_of!(RdmaIbAddr, pkey) == 32,
];

const _: () = {
    let mut at = 0;
    while at < LAYOUT.len() {
        assert!(LAYOUT[at]);
        at += 1;
    }
};
