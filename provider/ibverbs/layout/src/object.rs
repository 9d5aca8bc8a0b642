//! The objects that a program gets pointers to.

use crate::IbvContext;
use libc::{c_int, c_void, pthread_cond_t, pthread_mutex_t};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};

/// `struct ibv_pd`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvPd {
    pub context: *mut IbvContext,
    pub handle: u32,
}

/// `struct ibv_mr`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvMr {
    pub context: *mut IbvContext,
    /// Changes with `ibv_rereg_mr(3)`, as address and length do.
    pub pd: AtomicPtr<IbvPd>,
    pub addr: AtomicPtr<c_void>,
    pub length: AtomicUsize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// `struct ibv_mw`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvMw {
    pub context: *mut IbvContext,
    pub pd: *mut IbvPd,
    /// Changes with each bind; of a type 2 window, the program changes it.
    pub rkey: AtomicU32,
    pub handle: u32,
    pub mw_type: u32,
}

/// `struct ibv_dm`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are ibv_alloc_dm(3)'s own")]
pub struct IbvDm {
    pub context: *mut IbvContext,
    pub memcpy_to_dm: Option<unsafe extern "C" fn(*mut IbvDm, u64, *const c_void, usize) -> c_int>,
    pub memcpy_from_dm: Option<unsafe extern "C" fn(*mut c_void, *mut IbvDm, u64, usize) -> c_int>,
    pub comp_mask: u32,
    pub handle: u32,
}

/// `struct ibv_ah`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvAh {
    pub context: *mut IbvContext,
    pub pd: *mut IbvPd,
    pub handle: u32,
}

/// `struct ibv_xrcd`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvXrcd {
    pub context: *mut IbvContext,
}

/// `struct ibv_td`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvTd {
    pub context: *mut IbvContext,
}

/// `struct ibv_comp_channel`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvCompChannel {
    pub context: *mut IbvContext,
    pub fd: c_int,
    /// How many CQs are attached.
    pub refcnt: AtomicI32,
}

/// `struct ibv_cq`. Frozen; the head of [`IbvCqEx`](crate::IbvCqEx).
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvCq {
    pub context: *mut IbvContext,
    pub channel: *mut IbvCompChannel,
    pub cq_context: AtomicPtr<c_void>,
    pub handle: u32,
    pub cqe: AtomicI32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

/// `struct ibv_srq`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvSrq {
    pub context: *mut IbvContext,
    pub srq_context: *mut c_void,
    pub pd: *mut IbvPd,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

/// `struct ibv_qp`. Frozen; the head of [`IbvQpEx`](crate::IbvQpEx).
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvQp {
    pub context: *mut IbvContext,
    pub qp_context: AtomicPtr<c_void>,
    pub pd: *mut IbvPd,
    pub send_cq: *mut IbvCq,
    pub recv_cq: *mut IbvCq,
    pub srq: *mut IbvSrq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: AtomicU32,
    pub qp_type: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}
