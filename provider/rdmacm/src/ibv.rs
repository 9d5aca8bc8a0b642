//! What is used of libibverbs.

use ferroce_ibverbs_layout::{
    IbvCompChannel, IbvContext, IbvCq, IbvDevice, IbvGid, IbvPd, IbvQp, IbvQpAttr, IbvSrq, VerbsContext,
};
use libc::{c_char, c_int, c_void};
use std::mem::offset_of;

unsafe extern "C" {
    pub(crate) fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut IbvDevice;
    pub(crate) fn ibv_free_device_list(list: *mut *mut IbvDevice);
    pub(crate) fn ibv_get_device_name(device: *mut IbvDevice) -> *const c_char;
    pub(crate) fn ibv_open_device(device: *mut IbvDevice) -> *mut IbvContext;
    pub(crate) fn ibv_alloc_pd(context: *mut IbvContext) -> *mut IbvPd;
    pub(crate) fn ibv_create_comp_channel(context: *mut IbvContext) -> *mut IbvCompChannel;
    pub(crate) fn ibv_destroy_comp_channel(channel: *mut IbvCompChannel) -> c_int;
    pub(crate) fn ibv_create_cq(
        context: *mut IbvContext,
        cqe: c_int,
        cq_context: *mut c_void,
        channel: *mut IbvCompChannel,
        comp_vector: c_int,
    ) -> *mut IbvCq;
    pub(crate) fn ibv_destroy_cq(cq: *mut IbvCq) -> c_int;
    pub(crate) fn ibv_destroy_qp(qp: *mut IbvQp) -> c_int;
    pub(crate) fn ibv_modify_qp(qp: *mut IbvQp, attr: *mut IbvQpAttr, mask: c_int) -> c_int;
    pub(crate) fn ibv_destroy_srq(srq: *mut IbvSrq) -> c_int;
    pub(crate) fn ibv_attach_mcast(qp: *mut IbvQp, gid: *const IbvGid, lid: u16) -> c_int;
    pub(crate) fn ibv_detach_mcast(qp: *mut IbvQp, gid: *const IbvGid, lid: u16) -> c_int;
}

/// `IBV_QPT_RC` and its like (`enum ibv_qp_type`).
pub(crate) mod qp_type {
    pub(crate) const RC: u32 = 2;
    pub(crate) const UC: u32 = 3;
    pub(crate) const UD: u32 = 4;
    pub(crate) const XRC_SEND: u32 = 9;
    pub(crate) const XRC_RECV: u32 = 10;
}

/// The operations of an open device that have no function of their own.
pub(crate) fn extended(context: *mut IbvContext) -> *const VerbsContext {
    // Our own libibverbs' contexts are always of the extended form.
    context.wrapping_byte_sub(offset_of!(VerbsContext, context)).cast()
}
