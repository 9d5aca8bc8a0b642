//! The objects with function pointers inside: `struct ibv_qp_ex` (`ibv_wr_post(3)`) and `struct ibv_cq_ex`
//! (`ibv_create_cq_ex(3)`).

use crate::{IbvAh, IbvCq, IbvMw, IbvMwBindInfo, IbvQp, IbvSge};
use libc::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// `struct ibv_qp_ex`. Grows at the end; has the address of its [`IbvQp`].
#[repr(C)]
#[expect(missing_docs, reason = "the names are ibv_wr_post(3)'s own")]
pub struct IbvQpEx {
    pub qp_base: IbvQp,
    pub comp_mask: u64,
    /// Set by the program before each operation.
    pub wr_id: AtomicU64,
    /// Set by the program before each operation.
    pub wr_flags: AtomicU32,
    pub wr_atomic_cmp_swp: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64, u64, u64)>,
    pub wr_atomic_fetch_add: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64, u64)>,
    pub wr_bind_mw: Option<unsafe extern "C" fn(*mut IbvQpEx, *mut IbvMw, u32, *const IbvMwBindInfo)>,
    pub wr_local_inv: Option<unsafe extern "C" fn(*mut IbvQpEx, u32)>,
    pub wr_rdma_read: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64)>,
    pub wr_rdma_write: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64)>,
    pub wr_rdma_write_imm: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64, u32)>,
    pub wr_send: Option<unsafe extern "C" fn(*mut IbvQpEx)>,
    pub wr_send_imm: Option<unsafe extern "C" fn(*mut IbvQpEx, u32)>,
    pub wr_send_inv: Option<unsafe extern "C" fn(*mut IbvQpEx, u32)>,
    pub wr_send_tso: Option<unsafe extern "C" fn(*mut IbvQpEx, *mut c_void, u16, u16)>,
    pub wr_set_ud_addr: Option<unsafe extern "C" fn(*mut IbvQpEx, *mut IbvAh, u32, u32)>,
    pub wr_set_xrc_srqn: Option<unsafe extern "C" fn(*mut IbvQpEx, u32)>,
    pub wr_set_inline_data: Option<unsafe extern "C" fn(*mut IbvQpEx, *mut c_void, usize)>,
    pub wr_set_inline_data_list: Option<unsafe extern "C" fn(*mut IbvQpEx, usize, *const IbvDataBuf)>,
    pub wr_set_sge: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64, u32)>,
    pub wr_set_sge_list: Option<unsafe extern "C" fn(*mut IbvQpEx, usize, *const IbvSge)>,
    pub wr_start: Option<unsafe extern "C" fn(*mut IbvQpEx)>,
    pub wr_complete: Option<unsafe extern "C" fn(*mut IbvQpEx) -> c_int>,
    pub wr_abort: Option<unsafe extern "C" fn(*mut IbvQpEx)>,
    pub wr_atomic_write: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64, *const c_void)>,
    /// Newer than rdma-core 44.
    pub wr_flush: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64, usize, u8, u8)>,
}

/// `struct ibv_data_buf`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_wr_post(3)'s own")]
pub struct IbvDataBuf {
    pub addr: *mut c_void,
    pub length: usize,
}

/// `struct ibv_cq_ex`. Grows at the end; has the address of its [`IbvCq`].
#[repr(C)]
#[expect(missing_docs, reason = "the names are ibv_create_cq_ex(3)'s own")]
pub struct IbvCqEx {
    /// The members of `struct ibv_cq`, which the header repeats one by one.
    pub cq: IbvCq,
    pub comp_mask: u32,
    /// Of the completion that is being read.
    pub status: AtomicU32,
    /// Of the completion that is being read.
    pub wr_id: AtomicU64,
    pub start_poll: Option<unsafe extern "C" fn(*mut IbvCqEx, *mut IbvPollCqAttr) -> c_int>,
    pub next_poll: Option<unsafe extern "C" fn(*mut IbvCqEx) -> c_int>,
    pub end_poll: Option<unsafe extern "C" fn(*mut IbvCqEx)>,
    pub read_opcode: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u32>,
    pub read_vendor_err: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u32>,
    pub read_byte_len: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u32>,
    pub read_imm_data: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u32>,
    pub read_qp_num: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u32>,
    pub read_src_qp: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u32>,
    pub read_wc_flags: Option<unsafe extern "C" fn(*mut IbvCqEx) -> c_uint>,
    pub read_slid: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u32>,
    pub read_sl: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u8>,
    pub read_dlid_path_bits: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u8>,
    pub read_completion_ts: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u64>,
    pub read_cvlan: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u16>,
    pub read_flow_tag: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u32>,
    pub read_tm_info: Option<unsafe extern "C" fn(*mut IbvCqEx, *mut IbvWcTmInfo)>,
    pub read_completion_wallclock_ns: Option<unsafe extern "C" fn(*mut IbvCqEx) -> u64>,
}

/// `struct ibv_poll_cq_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_cq_ex(3)'s own")]
pub struct IbvPollCqAttr {
    pub comp_mask: u32,
}

/// `struct ibv_wc_tm_info`. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names are ibv_create_cq_ex(3)'s own")]
pub struct IbvWcTmInfo {
    pub tag: u64,
    pub private: u32,
}
