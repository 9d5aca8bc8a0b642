//! What objects are created with. The `_ex` structures grow: read a field behind the oldest form
//! only when its bit in `comp_mask` is set.

use crate::{IbvCompChannel, IbvCq, IbvPd, IbvQpCap, IbvSrq, IbvSrqAttr, IbvTd, IbvXrcd};
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

/// `struct ibv_qp_init_attr_ex`. Grows.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_qp_ex(3)'s own")]
pub struct IbvQpInitAttrEx {
    pub oldest: IbvQpInitAttrExOldest,
    /// There with `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS` in `comp_mask` only.
    pub send_ops_flags: u64,
}

/// The members of [`IbvQpInitAttrEx`] that every form of it has.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_qp_ex(3)'s own")]
pub struct IbvQpInitAttrExOldest {
    pub qp_context: *mut c_void,
    pub send_cq: *mut IbvCq,
    pub recv_cq: *mut IbvCq,
    pub srq: *mut IbvSrq,
    pub cap: IbvQpCap,
    pub qp_type: u32,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut IbvPd,
    pub xrcd: *mut IbvXrcd,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut c_void,
    pub rx_hash_conf: IbvRxHashConf,
    pub source_qpn: u32,
}

/// `struct ibv_rx_hash_conf`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_qp_ex(3)'s own")]
pub struct IbvRxHashConf {
    pub rx_hash_function: u8,
    pub rx_hash_key_len: u8,
    pub rx_hash_key: *mut u8,
    pub rx_hash_fields_mask: u64,
}

/// `struct ibv_cq_init_attr_ex`. Grows.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_cq_ex(3)'s own")]
pub struct IbvCqInitAttrEx {
    pub oldest: IbvCqInitAttrExOldest,
    /// There with `IBV_CQ_INIT_ATTR_MASK_PD` in `comp_mask` only.
    pub parent_domain: *mut IbvPd,
}

/// The members of [`IbvCqInitAttrEx`] that every form of it has.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_cq_ex(3)'s own")]
pub struct IbvCqInitAttrExOldest {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut IbvCompChannel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    /// Means something with `IBV_CQ_INIT_ATTR_MASK_FLAGS` in `comp_mask` only.
    pub flags: u32,
}

/// `struct ibv_modify_cq_attr`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_modify_cq(3)'s own")]
pub struct IbvModifyCqAttr {
    pub attr_mask: u32,
    pub moderate: IbvModerateCq,
}

/// `struct ibv_moderate_cq`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_modify_cq(3)'s own")]
pub struct IbvModerateCq {
    pub cq_count: u16,
    pub cq_period: u16,
}

/// `struct ibv_td_init_attr`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the name is ibv_alloc_td(3)'s own")]
pub struct IbvTdInitAttr {
    pub comp_mask: u32,
}

/// `struct ibv_parent_domain_init_attr`. What is behind these members is guarded by `comp_mask`.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_alloc_parent_domain(3)'s own")]
pub struct IbvParentDomainInitAttr {
    pub pd: *mut IbvPd,
    pub td: *mut IbvTd,
    pub comp_mask: u32,
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
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_srq_ex(3)'s own")]
pub struct IbvSrqInitAttrEx {
    pub oldest: IbvSrqInitAttrExOldest,
    /// There with `IBV_SRQ_INIT_ATTR_TM` in `comp_mask` only.
    pub tm_cap: IbvTmCap,
}

/// The members of [`IbvSrqInitAttrEx`] that every form of it has.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_srq_ex(3)'s own")]
pub struct IbvSrqInitAttrExOldest {
    pub srq_context: *mut c_void,
    pub attr: IbvSrqAttr,
    pub comp_mask: u32,
    /// With `IBV_SRQ_INIT_ATTR_TYPE` in `comp_mask`, as the others each with its bit.
    pub srq_type: u32,
    pub pd: *mut IbvPd,
    pub xrcd: *mut IbvXrcd,
    pub cq: *mut IbvCq,
}

/// `struct ibv_xrcd_init_attr`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_open_xrcd(3)'s own")]
pub struct IbvXrcdInitAttr {
    pub comp_mask: u32,
    pub fd: c_int,
    pub oflags: c_int,
}

/// `struct ibv_qp_open_attr`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_open_qp(3)'s own")]
pub struct IbvQpOpenAttr {
    pub comp_mask: u32,
    pub qp_num: u32,
    pub xrcd: *mut IbvXrcd,
    pub qp_context: *mut c_void,
    pub qp_type: u32,
}

/// `struct ibv_alloc_dm_attr`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_alloc_dm(3)'s own")]
pub struct IbvAllocDmAttr {
    pub length: usize,
    pub log_align_req: u32,
    pub comp_mask: u32,
}

/// `struct ibv_tm_cap`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_create_srq_ex(3)'s own")]
pub struct IbvTmCap {
    pub max_num_tags: u32,
    pub max_ops: u32,
}
