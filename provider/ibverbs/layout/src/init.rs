//! What objects are created with. The `_ex` structures grow: read a field behind `comp_mask` only when its bit is set.

use crate::{IbvCompChannel, IbvCq, IbvPd, IbvQpCap, IbvSrq, IbvSrqAttr};
use libc::{c_int, c_void};

/// `struct ibv_qp_init_attr`. Frozen; [`IbvQpInitAttrEx`] begins with the same members, and with `comp_mask` where
/// this one has padding.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_qp(3)'s own")]
pub struct IbvQpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut IbvCq,
    pub recv_cq: *mut IbvCq,
    pub srq: *mut IbvSrq,
    pub cap: IbvQpCap,
    pub qp_type: u32,
    pub sq_sig_all: c_int,
}

/// `struct ibv_qp_init_attr_ex`. Has been 128 bytes long without `send_ops_flags`.
#[repr(C)]
#[expect(missing_docs, reason = "the names are ibv_create_qp_ex(3)'s own")]
pub struct IbvQpInitAttrEx {
    pub qp_context: *mut c_void,
    pub send_cq: *mut IbvCq,
    pub recv_cq: *mut IbvCq,
    pub srq: *mut IbvSrq,
    pub cap: IbvQpCap,
    pub qp_type: u32,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut IbvPd,
    pub xrcd: *mut c_void,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut c_void,
    pub rx_hash_conf: IbvRxHashConf,
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}

/// `struct ibv_rx_hash_conf`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are ibv_create_qp_ex(3)'s own")]
pub struct IbvRxHashConf {
    pub rx_hash_function: u8,
    pub rx_hash_key_len: u8,
    pub rx_hash_key: *mut u8,
    pub rx_hash_fields_mask: u64,
}

/// `struct ibv_cq_init_attr_ex`. Has been 48 bytes long, up to `comp_mask` and `flags`.
#[repr(C)]
#[expect(missing_docs, reason = "the names are ibv_create_cq_ex(3)'s own")]
pub struct IbvCqInitAttrEx {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut IbvCompChannel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut IbvPd,
}

/// `struct ibv_srq_init_attr`. Frozen; [`IbvSrqInitAttrEx`] begins with the same members.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_srq(3)'s own")]
pub struct IbvSrqInitAttr {
    pub srq_context: *mut c_void,
    pub attr: IbvSrqAttr,
}

/// `struct ibv_srq_init_attr_ex`. Has been 56 bytes long without `tm_cap`.
#[repr(C)]
#[expect(missing_docs, reason = "the names are ibv_create_srq_ex(3)'s own")]
pub struct IbvSrqInitAttrEx {
    pub srq_context: *mut c_void,
    pub attr: IbvSrqAttr,
    pub comp_mask: u32,
    pub srq_type: u32,
    pub pd: *mut IbvPd,
    pub xrcd: *mut c_void,
    pub cq: *mut IbvCq,
    pub tm_cap: IbvTmCap,
}

/// `struct ibv_tm_cap`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_srq_ex(3)'s own")]
pub struct IbvTmCap {
    pub max_num_tags: u32,
    pub max_ops: u32,
}
