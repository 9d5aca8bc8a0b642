//! Asynchronous events and clock values.

use crate::{IbvCq, IbvQp, IbvSrq};
use libc::{c_int, c_void, timespec};

/// `struct ibv_async_event`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_get_async_event(3)'s own")]
pub struct IbvAsyncEvent {
    pub element: IbvAsyncElement,
    pub event_type: u32,
}

/// What an asynchronous event is about; `event_type` says which.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_get_async_event(3)'s own")]
pub union IbvAsyncElement {
    pub cq: *mut IbvCq,
    pub qp: *mut IbvQp,
    pub srq: *mut IbvSrq,
    pub wq: *mut c_void,
    pub port_num: c_int,
}

/// `struct ibv_values_ex`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_query_rt_values_ex(3)'s own")]
pub struct IbvValuesEx {
    pub comp_mask: u32,
    pub raw_clock: timespec,
}
