//! Work requests and completions.

use crate::{IbvAh, IbvMr, IbvMw};
use libc::{c_int, c_uint, c_void};

/// `struct ibv_sge`. Frozen.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "the names are ibv_post_send(3)'s own")]
pub struct IbvSge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// `struct ibv_send_wr`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_post_send(3)'s own")]
pub struct IbvSendWr {
    pub wr_id: u64,
    pub next: *mut IbvSendWr,
    pub sg_list: *mut IbvSge,
    pub num_sge: c_int,
    pub opcode: u32,
    pub send_flags: c_uint,
    /// Big-endian immediate data, or (the header's `invalidate_rkey`) the R_Key to invalidate.
    pub imm_data: u32,
    pub wr: IbvSendRemote,
    /// `qp_type.xrc.remote_srqn`.
    pub remote_srqn: u32,
    pub bind_or_tso: IbvSendExtra,
}

/// The remote side of a send work request, by opcode and service type.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_post_send(3)'s own")]
pub union IbvSendRemote {
    pub rdma: IbvRdma,
    pub atomic: IbvAtomic,
    pub ud: IbvUd,
}

/// For RDMA READ and WRITE.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_post_send(3)'s own")]
pub struct IbvRdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// For atomics.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_post_send(3)'s own")]
pub struct IbvAtomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// For datagrams.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_post_send(3)'s own")]
pub struct IbvUd {
    pub ah: *mut IbvAh,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// What only window binds and segmentation offload have.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_post_send(3)'s own")]
pub union IbvSendExtra {
    pub bind_mw: IbvBindMw,
    pub tso: IbvTso,
}

/// For window binds.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_post_send(3)'s own")]
pub struct IbvBindMw {
    pub mw: *mut IbvMw,
    pub rkey: u32,
    pub bind_info: IbvMwBindInfo,
}

/// For segmentation offload.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_post_send(3)'s own")]
pub struct IbvTso {
    pub hdr: *mut c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}

/// `struct ibv_mw_bind_info`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_bind_mw(3)'s own")]
pub struct IbvMwBindInfo {
    pub mr: *mut IbvMr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}

/// `struct ibv_mw_bind`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_bind_mw(3)'s own")]
pub struct IbvMwBind {
    pub wr_id: u64,
    pub send_flags: c_uint,
    pub bind_info: IbvMwBindInfo,
}

/// `struct ibv_recv_wr`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_post_recv(3)'s own")]
pub struct IbvRecvWr {
    pub wr_id: u64,
    pub next: *mut IbvRecvWr,
    pub sg_list: *mut IbvSge,
    pub num_sge: c_int,
}

/// `struct ibv_wc`. Frozen.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "the names are ibv_poll_cq(3)'s own")]
pub struct IbvWc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// Big-endian immediate data, or (the header's `invalidated_rkey`) the R_Key that was invalidated.
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}
