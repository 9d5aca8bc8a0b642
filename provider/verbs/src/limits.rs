//! The device's limits, in one place: what `ibv_query_device(3)` reports and the verbs enforce.

/// QPs of one process.
pub const MAX_QP: u32 = 65_000;
/// Work requests of one work queue.
pub const MAX_QP_WR: u32 = 65_536;
/// Scatter/gather elements of a work request.
pub const MAX_SGE: u32 = 32;
/// Bytes of inline data of a work request.
pub const MAX_INLINE_DATA: u32 = 1024;
/// SRQs of one process.
pub const MAX_SRQ: u32 = ferroce_core::MAX_SRQS;
/// Work requests of one SRQ.
pub const MAX_SRQ_WR: u32 = 65_536;
/// Address handles of one process; what is reported, as nothing bounds them.
pub const MAX_AH: u32 = 1 << 24;
/// Multicast groups; what is reported, as nothing but the kernel bounds them.
pub const MAX_MCAST_GRP: u32 = 8192;
/// CQs of one process.
pub const MAX_CQ: u32 = 65_536;
/// Completions of one CQ.
pub const MAX_CQE: u32 = 4_194_303;
/// Regions of one process.
pub const MAX_MR: u32 = ferroce_core::MAX_KEYS / 2;
/// Memory windows of one process.
pub const MAX_MW: u32 = ferroce_core::MAX_KEYS / 2;
/// Protection domains of one process.
pub const MAX_PD: u32 = 1 << 16;
/// Largest region: the whole of the user's address space.
pub const MAX_MR_SIZE: u64 = 1 << 47;
/// Bytes of device memory of one open device.
pub const MAX_DM_SIZE: u64 = 16 << 20;
/// Largest message; IBTA allows 2^31, ConnectX reports 2^30.
pub const MAX_MSG_SIZE: u64 = 1 << 30;
/// READs and atomics outstanding of one QP, either way.
pub const MAX_RD_ATOMIC: u8 = 16;
/// Entries of a port's GID table.
pub const GID_TABLE_LEN: u32 = 16;
/// Entries of a port's P_Key table.
pub const PKEY_TABLE_LEN: u32 = 1;
/// The only P_Key: full membership of the default partition.
pub const DEFAULT_PKEY: u16 = ferroce_core::DEFAULT_PKEY;
/// Completion vectors: they all end at the one engine.
pub const COMP_VECTORS: u32 = 4;
/// Events that wait behind a full pipe, at most; see [`crate::CompChannel`].
pub const MAX_WAITING_EVENTS: usize = 1 << 16;
/// Devices shown, at most.
pub const MAX_DEVICES: usize = 64;
