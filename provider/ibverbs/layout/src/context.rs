//! An open device: the tables of function pointers behind libibverbs' inline functions.

use crate::{
    IbvAllocDmAttr, IbvCq, IbvCqEx, IbvCqInitAttrEx, IbvDevice, IbvDeviceAttr, IbvDeviceAttrEx, IbvDm,
    IbvModifyCqAttr, IbvMr, IbvMw, IbvMwBind, IbvParentDomainInitAttr, IbvPd, IbvPortAttr, IbvQp,
    IbvQpInitAttrEx, IbvQpOpenAttr, IbvQueryDeviceExInput, IbvRecvWr, IbvSendWr, IbvSge, IbvSrq,
    IbvSrqInitAttrEx, IbvTd, IbvTdInitAttr, IbvValuesEx, IbvWc, IbvXrcd, IbvXrcdInitAttr,
};
use libc::{c_int, c_uint, c_void, pthread_mutex_t};

/// Any operation that returns an error number, when its arguments do not matter.
pub type ErrnoOp = Option<unsafe extern "C" fn() -> c_int>;

/// Any operation that returns a pointer, null after an error, when its arguments do not matter.
pub type PointerOp = Option<unsafe extern "C" fn() -> *mut c_void>;

/// Any operation that returns nothing, when its arguments do not matter.
pub type VoidOp = Option<unsafe extern "C" fn()>;

/// `struct ibv_context`. Frozen; the last member of [`VerbsContext`].
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvContext {
    pub device: *mut IbvDevice,
    pub ops: IbvContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: pthread_mutex_t,
    /// [`EXTENDED`](Self::EXTENDED), or a program does not look for a [`VerbsContext`] around it.
    pub abi_compat: *mut c_void,
}

impl IbvContext {
    /// The `abi_compat` of a context that is part of a [`VerbsContext`].
    pub const EXTENDED: *mut c_void = usize::MAX as *mut c_void;
}

/// `struct ibv_context_ops`. Frozen. The slots named `_compat_*` have not been used by any header since 2018.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvContextOps {
    pub _compat_query_device: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvDeviceAttr) -> c_int>,
    pub _compat_query_port: Option<unsafe extern "C" fn(*mut IbvContext, u8, *mut IbvPortAttr) -> c_int>,
    pub _compat_alloc_pd: PointerOp,
    pub _compat_dealloc_pd: PointerOp,
    pub _compat_reg_mr: PointerOp,
    pub _compat_rereg_mr: PointerOp,
    pub _compat_dereg_mr: PointerOp,
    pub alloc_mw: Option<unsafe extern "C" fn(*mut IbvPd, u32) -> *mut IbvMw>,
    pub bind_mw: Option<unsafe extern "C" fn(*mut IbvQp, *mut IbvMw, *mut IbvMwBind) -> c_int>,
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut IbvMw) -> c_int>,
    pub _compat_create_cq: PointerOp,
    pub poll_cq: Option<unsafe extern "C" fn(*mut IbvCq, c_int, *mut IbvWc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut IbvCq, c_int) -> c_int>,
    pub _compat_cq_event: PointerOp,
    pub _compat_resize_cq: PointerOp,
    pub _compat_destroy_cq: PointerOp,
    pub _compat_create_srq: PointerOp,
    pub _compat_modify_srq: PointerOp,
    pub _compat_query_srq: PointerOp,
    pub _compat_destroy_srq: PointerOp,
    pub post_srq_recv:
        Option<unsafe extern "C" fn(*mut IbvSrq, *mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int>,
    pub _compat_create_qp: PointerOp,
    pub _compat_query_qp: PointerOp,
    pub _compat_modify_qp: PointerOp,
    pub _compat_destroy_qp: PointerOp,
    pub post_send: Option<unsafe extern "C" fn(*mut IbvQp, *mut IbvSendWr, *mut *mut IbvSendWr) -> c_int>,
    pub post_recv: Option<unsafe extern "C" fn(*mut IbvQp, *mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int>,
    pub _compat_create_ah: PointerOp,
    pub _compat_destroy_ah: PointerOp,
    pub _compat_attach_mcast: PointerOp,
    pub _compat_detach_mcast: PointerOp,
    pub _compat_async_event: PointerOp,
}

/// `struct verbs_context`. Grows at the front, so that the distance from [`IbvContext`] back to each member is frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct VerbsContext {
    pub free_buf: VoidOp,
    pub alloc_buf: PointerOp,
    pub dm_export_dmabuf_fd: ErrnoOp,
    pub reg_mr_ex: PointerOp,
    pub dealloc_dmah: ErrnoOp,
    pub alloc_dmah: PointerOp,
    pub query_port: Option<unsafe extern "C" fn(*mut IbvContext, u8, *mut IbvPortAttr, usize) -> c_int>,
    pub advise_mr: Option<unsafe extern "C" fn(*mut IbvPd, u32, u32, *mut IbvSge, u32) -> c_int>,
    pub alloc_null_mr: Option<unsafe extern "C" fn(*mut IbvPd) -> *mut IbvMr>,
    pub read_counters: ErrnoOp,
    pub attach_counters_point_flow: ErrnoOp,
    pub create_counters: PointerOp,
    pub destroy_counters: ErrnoOp,
    pub reg_dm_mr: Option<unsafe extern "C" fn(*mut IbvPd, *mut IbvDm, u64, usize, c_uint) -> *mut IbvMr>,
    pub alloc_dm: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvAllocDmAttr) -> *mut IbvDm>,
    pub free_dm: Option<unsafe extern "C" fn(*mut IbvDm) -> c_int>,
    pub modify_flow_action_esp: ErrnoOp,
    pub destroy_flow_action: ErrnoOp,
    pub create_flow_action_esp: PointerOp,
    pub modify_qp_rate_limit: ErrnoOp,
    pub alloc_parent_domain:
        Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvParentDomainInitAttr) -> *mut IbvPd>,
    pub dealloc_td: Option<unsafe extern "C" fn(*mut IbvTd) -> c_int>,
    pub alloc_td: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvTdInitAttr) -> *mut IbvTd>,
    pub modify_cq: Option<unsafe extern "C" fn(*mut IbvCq, *mut IbvModifyCqAttr) -> c_int>,
    pub post_srq_ops: ErrnoOp,
    pub destroy_rwq_ind_table: ErrnoOp,
    pub create_rwq_ind_table: PointerOp,
    pub destroy_wq: ErrnoOp,
    pub modify_wq: ErrnoOp,
    pub create_wq: PointerOp,
    pub query_rt_values: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvValuesEx) -> c_int>,
    pub create_cq_ex: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvCqInitAttrEx) -> *mut IbvCqEx>,
    /// The library's own.
    pub private: *mut c_void,
    pub query_device_ex: Option<
        unsafe extern "C" fn(
            *mut IbvContext,
            *const IbvQueryDeviceExInput,
            *mut IbvDeviceAttrEx,
            usize,
        ) -> c_int,
    >,
    pub ibv_destroy_flow: ErrnoOp,
    /// The same as `ibv_destroy_flow`, for programs built with libibverbs 1.1.8.
    pub abi_placeholder2: ErrnoOp,
    pub ibv_create_flow: PointerOp,
    /// The same as `ibv_create_flow`, for programs built with libibverbs 1.1.8.
    pub abi_placeholder1: PointerOp,
    pub open_qp: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvQpOpenAttr) -> *mut IbvQp>,
    pub create_qp_ex: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvQpInitAttrEx) -> *mut IbvQp>,
    pub get_srq_num: Option<unsafe extern "C" fn(*mut IbvSrq, *mut u32) -> c_int>,
    pub create_srq_ex: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvSrqInitAttrEx) -> *mut IbvSrq>,
    pub open_xrcd: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvXrcdInitAttr) -> *mut IbvXrcd>,
    pub close_xrcd: Option<unsafe extern "C" fn(*mut IbvXrcd) -> c_int>,
    pub abi_placeholder3: u64,
    /// Bytes from the first operation to the end: the size of the structure that the library knows.
    pub sz: usize,
    pub context: IbvContext,
}
