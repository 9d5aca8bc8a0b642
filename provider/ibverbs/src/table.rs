//! A context's tables of operations: what libibverbs' inline functions call.
//!
//! Every slot is filled, as rdma-core fills them: old programs call through some of them without a look.

use crate::unsupported::{errno_op, pointer_op, void_op};
use crate::{cq, cq_ex, dm, domain, mr, mw, object, post, qp, query, srq, xrcd};
use ferroce::limits::COMP_VECTORS;
use ferroce_ibverbs_layout::{IbvContext, IbvContextOps, IbvDevice, VerbsContext};
use libc::c_int;
use std::ptr::null_mut;

/// The public part of an open device.
pub(crate) fn verbs_context(device: *mut IbvDevice, async_fd: c_int) -> VerbsContext {
    VerbsContext {
        free_buf: Some(void_op),
        alloc_buf: Some(pointer_op),
        dm_export_dmabuf_fd: Some(errno_op),
        reg_mr_ex: Some(pointer_op),
        dealloc_dmah: Some(errno_op),
        alloc_dmah: Some(pointer_op),
        query_port: Some(query::query_port_op),
        advise_mr: Some(mr::advise_mr_op),
        alloc_null_mr: Some(mr::alloc_null_mr_op),
        read_counters: Some(errno_op),
        attach_counters_point_flow: Some(errno_op),
        create_counters: Some(pointer_op),
        destroy_counters: Some(errno_op),
        reg_dm_mr: Some(dm::reg_dm_mr_op),
        alloc_dm: Some(dm::alloc_dm_op),
        free_dm: Some(dm::free_dm_op),
        modify_flow_action_esp: Some(errno_op),
        destroy_flow_action: Some(errno_op),
        create_flow_action_esp: Some(pointer_op),
        modify_qp_rate_limit: Some(errno_op),
        alloc_parent_domain: Some(domain::alloc_parent_domain_op),
        dealloc_td: Some(domain::dealloc_td_op),
        alloc_td: Some(domain::alloc_td_op),
        modify_cq: Some(cq::modify_cq_op),
        post_srq_ops: Some(errno_op),
        destroy_rwq_ind_table: Some(errno_op),
        create_rwq_ind_table: Some(pointer_op),
        destroy_wq: Some(errno_op),
        modify_wq: Some(errno_op),
        create_wq: Some(pointer_op),
        query_rt_values: Some(query::query_rt_values_op),
        create_cq_ex: Some(cq_ex::create_cq_ex_op),
        private: null_mut(),
        query_device_ex: Some(query::query_device_ex_op),
        ibv_destroy_flow: Some(errno_op),
        abi_placeholder2: Some(errno_op),
        ibv_create_flow: Some(pointer_op),
        abi_placeholder1: Some(pointer_op),
        open_qp: Some(xrcd::open_qp_op),
        create_qp_ex: Some(qp::create_qp_ex_op),
        get_srq_num: Some(srq::get_srq_num_op),
        create_srq_ex: Some(srq::create_srq_ex_op),
        open_xrcd: Some(xrcd::open_xrcd_op),
        close_xrcd: Some(xrcd::close_xrcd_op),
        abi_placeholder3: 0,
        sz: size_of::<VerbsContext>(),
        context: IbvContext {
            device,
            ops: context_ops(),
            cmd_fd: NO_FD,
            async_fd,
            num_comp_vectors: COMP_VECTORS as c_int,
            mutex: object::UNUSED_MUTEX,
            abi_compat: IbvContext::EXTENDED,
        },
    }
}

/// The `cmd_fd` of a context that no kernel knows.
const NO_FD: c_int = -1;

fn context_ops() -> IbvContextOps {
    IbvContextOps {
        _compat_query_device: Some(query::ibv_query_device),
        _compat_query_port: Some(query::ibv_query_port),
        _compat_alloc_pd: Some(pointer_op),
        _compat_dealloc_pd: Some(pointer_op),
        _compat_reg_mr: Some(pointer_op),
        _compat_rereg_mr: Some(pointer_op),
        _compat_dereg_mr: Some(pointer_op),
        alloc_mw: Some(mw::alloc_mw_op),
        bind_mw: Some(mw::bind_mw_op),
        dealloc_mw: Some(mw::dealloc_mw_op),
        _compat_create_cq: Some(pointer_op),
        poll_cq: Some(cq::poll_cq_op),
        req_notify_cq: Some(cq::req_notify_cq_op),
        _compat_cq_event: Some(pointer_op),
        _compat_resize_cq: Some(pointer_op),
        _compat_destroy_cq: Some(pointer_op),
        _compat_create_srq: Some(pointer_op),
        _compat_modify_srq: Some(pointer_op),
        _compat_query_srq: Some(pointer_op),
        _compat_destroy_srq: Some(pointer_op),
        post_srq_recv: Some(post::post_srq_recv_op),
        _compat_create_qp: Some(pointer_op),
        _compat_query_qp: Some(pointer_op),
        _compat_modify_qp: Some(pointer_op),
        _compat_destroy_qp: Some(pointer_op),
        post_send: Some(post::post_send_op),
        post_recv: Some(post::post_recv_op),
        _compat_create_ah: Some(pointer_op),
        _compat_destroy_ah: Some(pointer_op),
        _compat_attach_mcast: Some(pointer_op),
        _compat_detach_mcast: Some(pointer_op),
        _compat_async_event: Some(pointer_op),
    }
}
