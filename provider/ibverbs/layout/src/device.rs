//! A device in the list, and what `ibv_query_device`, `_ex` and `ibv_query_port` fill in.

use libc::{c_char, c_int, c_uint, c_void};

/// `struct ibv_device`. Frozen.
#[repr(C)]
#[expect(missing_docs, reason = "the names are verbs.h's own")]
pub struct IbvDevice {
    /// Two pointers that nothing has ever used.
    pub _ops: [*const c_void; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    /// Device name, "rocep3s0".
    pub name: [c_char; 64],
    /// Name of the character device in `/dev/infiniband`, "uverbs0".
    pub dev_name: [c_char; 64],
    /// Folder of the character device in sysfs.
    pub dev_path: [c_char; 256],
    /// Folder of the device in sysfs.
    pub ibdev_path: [c_char; 256],
}

/// rdma-core's internal `struct verbs_device`, of which [`IbvDevice`] is the head.
///
/// Provider libraries compare `ops`, the pointer right behind the public part, with their own table to find out whether
/// a device is theirs; with a null pointer it never is. Its layout has been the same from rdma-core 44 to 65.
#[repr(C)]
#[expect(missing_docs, reason = "the names are rdma-core's own")]
pub struct VerbsDevice {
    pub device: IbvDevice,
    pub ops: *const c_void,
    pub refcount: c_int,
    pub entry: [*const c_void; 2],
    pub sysfs: *const c_void,
    pub core_support: u64,
}

/// `union ibv_gid`, aligned as its 64-bit halves are.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IbvGid {
    /// The GID in network byte order.
    pub raw: [u8; 16],
}

/// `struct ibv_gid_entry`. Frozen; `_ibv_query_gid_ex` is given its size nevertheless.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "the names are ibv_query_gid_ex(3)'s own")]
pub struct IbvGidEntry {
    pub gid: IbvGid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

/// `struct ibv_device_attr`. Frozen.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_query_device(3)'s own")]
pub struct IbvDeviceAttr {
    pub fw_ver: [c_char; 64],
    /// Big-endian.
    pub node_guid: u64,
    /// Big-endian.
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: u32,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// `struct ibv_device_attr_ex`. Grows; `query_device_ex` is given its size.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_query_device_ex(3)'s own")]
pub struct IbvDeviceAttrEx {
    pub orig_attr: IbvDeviceAttr,
    pub comp_mask: u32,
    pub odp_caps: IbvOdpCaps,
    pub completion_timestamp_mask: u64,
    pub hca_core_clock: u64,
    pub device_cap_flags_ex: u64,
    pub tso_caps: IbvTsoCaps,
    pub rss_caps: IbvRssCaps,
    pub max_wq_type_rq: u32,
    pub packet_pacing_caps: IbvPacketPacingCaps,
    pub raw_packet_caps: u32,
    pub tm_caps: IbvTmCaps,
    pub cq_mod_caps: IbvCqModerationCaps,
    pub max_dm_size: u64,
    pub pci_atomic_caps: IbvPciAtomicCaps,
    pub xrc_odp_caps: u32,
    pub phys_port_cnt_ex: u32,
}

/// `struct ibv_odp_caps`. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names are ibv_query_device_ex(3)'s own")]
pub struct IbvOdpCaps {
    pub general_caps: u64,
    pub per_transport_caps: IbvOdpTransportCaps,
}

/// The part of [`IbvOdpCaps`] that differs between service types. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names are ibv_query_device_ex(3)'s own")]
pub struct IbvOdpTransportCaps {
    pub rc_odp_caps: u32,
    pub uc_odp_caps: u32,
    pub ud_odp_caps: u32,
}

/// `struct ibv_tso_caps`. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names are ibv_query_device_ex(3)'s own")]
pub struct IbvTsoCaps {
    pub max_tso: u32,
    pub supported_qpts: u32,
}

/// `struct ibv_rss_caps`. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names are ibv_query_device_ex(3)'s own")]
pub struct IbvRssCaps {
    pub supported_qpts: u32,
    pub max_rwq_indirection_tables: u32,
    pub max_rwq_indirection_table_size: u32,
    pub rx_hash_fields_mask: u64,
    pub rx_hash_function: u8,
}

/// `struct ibv_packet_pacing_caps`. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names are ibv_query_device_ex(3)'s own")]
pub struct IbvPacketPacingCaps {
    pub qp_rate_limit_min: u32,
    pub qp_rate_limit_max: u32,
    pub supported_qpts: u32,
}

/// `struct ibv_tm_caps`. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names are ibv_query_device_ex(3)'s own")]
pub struct IbvTmCaps {
    pub max_rndv_hdr_size: u32,
    pub max_num_tags: u32,
    pub flags: u32,
    pub max_ops: u32,
    pub max_sge: u32,
}

/// `struct ibv_cq_moderation_caps`. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names are ibv_query_device_ex(3)'s own")]
pub struct IbvCqModerationCaps {
    pub max_cq_count: u16,
    pub max_cq_period: u16,
}

/// `struct ibv_pci_atomic_caps`. Frozen.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names are ibv_query_device_ex(3)'s own")]
pub struct IbvPciAtomicCaps {
    pub fetch_add: u16,
    pub swap: u16,
    pub compare_swap: u16,
}

/// `struct ibv_query_device_ex_input`.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are ibv_query_device_ex(3)'s own")]
pub struct IbvQueryDeviceExInput {
    pub comp_mask: u32,
}

/// `struct ibv_port_attr`. Grows: it has been 48, 52 and 56 bytes long. The exported `ibv_query_port` may write only
/// the first [`IbvPortAttr::OLDEST_SIZE`]; the operation of the same name is given the size.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "the names are ibv_query_port(3)'s own")]
pub struct IbvPortAttr {
    pub state: u32,
    pub max_mtu: u32,
    pub active_mtu: u32,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
    /// Newer than rdma-core 44.
    pub active_speed_ex: u32,
}

impl IbvPortAttr {
    /// Bytes that every program has room for, whatever header it was built with.
    pub const OLDEST_SIZE: usize = 48;
}
