//! What a device, its port, its GID table and its P_Key table say.

use crate::context::ContextObject;
use crate::device::c_chars;
use crate::errno::{Errno, count, minus_one, status};
use crate::pointer;
use ferroce::limits::MAX_DM_SIZE;
use ferroce::{Device, DeviceAttr, Gid, PortAttr};
use ferroce_ibverbs_layout::{
    IbvContext, IbvCqModerationCaps, IbvDeviceAttr, IbvDeviceAttrEx, IbvGid, IbvGidEntry, IbvOdpCaps,
    IbvOdpTransportCaps, IbvPacketPacingCaps, IbvPciAtomicCaps, IbvPortAttr, IbvQueryDeviceExInput,
    IbvRssCaps, IbvTmCaps, IbvTsoCaps, IbvValuesEx,
};
use libc::{c_int, ssize_t, timespec};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_device(
    context: *mut IbvContext,
    attr: *mut IbvDeviceAttr,
) -> c_int {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    status(context.and_then(|context| {
        // SAFETY: the C contract.
        unsafe { pointer::write(attr, device_attr(&context.device().attr())) }
    }))
}

/// The operation behind `ibv_query_device_ex`; writes `size` bytes and not more.
pub(crate) unsafe extern "C" fn query_device_ex_op(
    context: *mut IbvContext,
    input: *const IbvQueryDeviceExInput,
    attr: *mut IbvDeviceAttrEx,
    size: usize,
) -> c_int {
    // SAFETY: the C contract; null means no input.
    let asks_for_more = unsafe { pointer::read(input) }.is_ok_and(|input| input.comp_mask != 0);
    if asks_for_more || size < size_of::<IbvDeviceAttr>() {
        return status(Err(Errno::INVALID));
    }
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    status(context.and_then(|context| {
        // SAFETY: the C contract: `attr` has room for `size` bytes.
        unsafe { pointer::write_sized(attr, &device_attr_ex(&context.device().attr()), size) }
    }))
}

/// The exported function, whose callers may have room for the oldest form of the structure only.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_port(
    context: *mut IbvContext,
    port_num: u8,
    attr: *mut IbvPortAttr,
) -> c_int {
    // SAFETY: the C contract: 48 bytes of room.
    unsafe { query_port_op(context, port_num, attr, IbvPortAttr::OLDEST_SIZE) }
}

/// The operation behind the macro of the same name; writes `size` bytes and not more.
pub(crate) unsafe extern "C" fn query_port_op(
    context: *mut IbvContext,
    port_num: u8,
    attr: *mut IbvPortAttr,
    size: usize,
) -> c_int {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    status(context.and_then(|context| {
        let port = context.verbs().port_attr(u32::from(port_num))?;
        // SAFETY: the C contract: `attr` has room for `size` bytes.
        unsafe { pointer::write_sized(attr, &port_attr(&port), size) }
    }))
}

/// The speed of the port in units of 100 Mb/s.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port_speed(context: *mut IbvContext, port_num: u32, speed: *mut u64) -> c_int {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    status(context.and_then(|context| {
        let port = context.device().port_attr(port_num)?;
        // SAFETY: the C contract.
        unsafe { pointer::write(speed, port_speed(port.active_width, port.active_speed)) }
    }))
}

/// A zero GID where the table is empty, as libibverbs does.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid(
    context: *mut IbvContext,
    port_num: u8,
    index: c_int,
    gid: *mut IbvGid,
) -> c_int {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    minus_one(context.and_then(|context| {
        let index = u32::try_from(index).map_err(|_| Errno::INVALID)?;
        let found = context.device().gid(u32::from(port_num), index)?;
        // SAFETY: the C contract.
        unsafe { pointer::write(gid, IbvGid { raw: found.0 }) }
    }))
}

/// `ENODATA` where the table is empty.
#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut IbvContext,
    port_num: u32,
    gid_index: u32,
    entry: *mut IbvGidEntry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    status(context.and_then(|context| {
        if flags != 0 {
            return Err(Errno::INVALID);
        }
        let gid = context.device().gid(port_num, gid_index)?;
        if gid.is_zero() {
            return Err(Errno(libc::ENODATA));
        }
        // SAFETY: the C contract: `entry` has room for `entry_size` bytes.
        unsafe { pointer::write_sized(entry, &gid_entry(context.device(), gid_index, gid), entry_size) }
    }))
}

/// The entries that are not empty: how many, or a negative error number.
#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut IbvContext,
    entries: *mut IbvGidEntry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> ssize_t {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    let written = context.and_then(|context| {
        let gids = context.device().gids();
        if flags != 0 || gids.len() > max_entries {
            return Err(Errno::INVALID);
        }
        for (position, (index, gid)) in gids.iter().enumerate() {
            let entry = entries.wrapping_byte_add(position * entry_size);
            // SAFETY: the C contract: room for `max_entries` elements of `entry_size` bytes.
            unsafe { pointer::write_sized(entry, &gid_entry(context.device(), *index, *gid), entry_size) }?;
        }
        Ok(gids.len())
    });
    written.map_or_else(|errno| -(errno.raise() as ssize_t), |len| len as ssize_t)
}

/// The private `ibv_query_gid_type`, which `ibv_devinfo` and pyverbs call; an empty entry counts as RoCE v1.
#[unsafe(no_mangle)]
unsafe extern "C" fn ferroce_query_gid_type(
    context: *mut IbvContext,
    port_num: u8,
    index: u32,
    gid_type: *mut u32,
) -> c_int {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    minus_one(context.and_then(|context| {
        let gid = context.device().gid(u32::from(port_num), index)?;
        let found = if gid.is_zero() { SYSFS_ROCE_V1 } else { SYSFS_ROCE_V2 };
        // SAFETY: the C contract.
        unsafe { pointer::write(gid_type, found) }
    }))
}

/// Writes the P_Key in big-endian.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_pkey(
    context: *mut IbvContext,
    port_num: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    minus_one(context.and_then(|context| {
        let index = u32::try_from(index).map_err(|_| Errno::INVALID)?;
        let found = context.device().pkey(u32::from(port_num), index)?;
        // SAFETY: the C contract.
        unsafe { pointer::write(pkey, found.to_be()) }
    }))
}

/// Takes the P_Key in big-endian.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_pkey_index(context: *mut IbvContext, port_num: u8, pkey: u16) -> c_int {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    count(context.and_then(|context| {
        // The first index past the table's end is refused, which ends the search.
        for index in 0u32.. {
            if context.device().pkey(u32::from(port_num), index)?.to_be() == pkey {
                return Ok(index as c_int);
            }
        }
        Err(Errno::INVALID)
    }))
}

/// `IBV_GID_TYPE_ROCE_V2` of `enum ibv_gid_type`.
const GID_TYPE_ROCE_V2: u32 = 2;
/// RoCE v1 in the private `enum ibv_gid_type_sysfs`.
const SYSFS_ROCE_V1: u32 = 0;
/// RoCE v2 in the private `enum ibv_gid_type_sysfs`.
const SYSFS_ROCE_V2: u32 = 1;
/// The only port.
const PORT: u32 = 1;

fn gid_entry(device: &Device, gid_index: u32, gid: Gid) -> IbvGidEntry {
    IbvGidEntry {
        gid: IbvGid { raw: gid.0 },
        gid_index,
        port_num: PORT,
        gid_type: GID_TYPE_ROCE_V2,
        ndev_ifindex: device.interface_index(),
    }
}

fn device_attr(attr: &DeviceAttr) -> IbvDeviceAttr {
    let number = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
    IbvDeviceAttr {
        fw_ver: c_chars(env!("CARGO_PKG_VERSION")),
        node_guid: u64::from_ne_bytes(attr.node_guid),
        sys_image_guid: u64::from_ne_bytes(attr.sys_image_guid),
        max_mr_size: attr.max_mr_size,
        page_size_cap: attr.page_size_cap,
        vendor_id: attr.vendor_id,
        vendor_part_id: attr.vendor_part_id,
        hw_ver: attr.hw_ver,
        max_qp: number(attr.max_qp),
        max_qp_wr: number(attr.max_qp_wr),
        device_cap_flags: attr.device_cap_flags,
        max_sge: number(attr.max_sge),
        max_sge_rd: number(attr.max_sge_rd),
        max_cq: number(attr.max_cq),
        max_cqe: number(attr.max_cqe),
        max_mr: number(attr.max_mr),
        max_mw: number(attr.max_mw),
        max_pd: number(attr.max_pd),
        max_qp_rd_atom: number(attr.max_qp_rd_atom),
        max_ee_rd_atom: 0,
        max_res_rd_atom: number(attr.max_res_rd_atom),
        max_qp_init_rd_atom: number(attr.max_qp_init_rd_atom),
        max_ee_init_rd_atom: 0,
        atomic_cap: attr.atomic_cap,
        max_ee: 0,
        max_rdd: 0,
        max_raw_ipv6_qp: 0,
        max_raw_ethy_qp: 0,
        max_mcast_grp: number(attr.max_mcast_grp),
        max_mcast_qp_attach: number(attr.max_mcast_qp_attach),
        max_total_mcast_qp_attach: number(attr.max_total_mcast_qp_attach),
        max_ah: number(attr.max_ah),
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: number(attr.max_srq),
        max_srq_wr: number(attr.max_srq_wr),
        max_srq_sge: number(attr.max_srq_sge),
        max_pkeys: u16::try_from(attr.max_pkeys).unwrap_or(u16::MAX),
        local_ca_ack_delay: attr.local_ca_ack_delay,
        phys_port_cnt: attr.phys_port_cnt,
    }
}

/// `IBV_ODP_SUPPORT`.
const ODP_SUPPORT: u64 = 1;
/// `IBV_ODP_SUPPORT_IMPLICIT`: a region may be the whole address space.
const ODP_SUPPORT_IMPLICIT: u64 = 1 << 1;
/// Of `enum ibv_odp_transport_cap_bits`: SEND, RECV and SRQ_RECV.
const ODP_DATAGRAM: u32 = 1 | 1 << 1 | 1 << 5;
/// WRITE of the same.
const ODP_WRITE: u32 = 1 << 2;
/// With READ and ATOMIC, all of them.
const ODP_RELIABLE: u32 = ODP_DATAGRAM | ODP_WRITE | 1 << 3 | 1 << 4;

fn device_attr_ex(attr: &DeviceAttr) -> IbvDeviceAttrEx {
    IbvDeviceAttrEx {
        orig_attr: device_attr(attr),
        comp_mask: 0,
        odp_caps: IbvOdpCaps {
            general_caps: ODP_SUPPORT | ODP_SUPPORT_IMPLICIT,
            per_transport_caps: IbvOdpTransportCaps {
                rc_odp_caps: ODP_RELIABLE,
                uc_odp_caps: ODP_DATAGRAM | ODP_WRITE,
                ud_odp_caps: ODP_DATAGRAM,
            },
        },
        completion_timestamp_mask: u64::MAX,
        hca_core_clock: CORE_CLOCK_KHZ,
        device_cap_flags_ex: attr.device_cap_flags_ex,
        tso_caps: IbvTsoCaps::default(),
        rss_caps: IbvRssCaps::default(),
        max_wq_type_rq: 0,
        packet_pacing_caps: IbvPacketPacingCaps::default(),
        raw_packet_caps: 0,
        tm_caps: IbvTmCaps::default(),
        cq_mod_caps: IbvCqModerationCaps { max_cq_count: u16::MAX, max_cq_period: u16::MAX },
        max_dm_size: MAX_DM_SIZE,
        pci_atomic_caps: IbvPciAtomicCaps::default(),
        xrc_odp_caps: ODP_RELIABLE,
        phys_port_cnt_ex: u32::from(attr.phys_port_cnt),
    }
}

fn port_attr(port: &PortAttr) -> IbvPortAttr {
    IbvPortAttr {
        state: port.state as u32,
        max_mtu: port.max_mtu as u32,
        active_mtu: port.active_mtu as u32,
        gid_tbl_len: port.gid_tbl_len as c_int,
        port_cap_flags: port.port_cap_flags,
        max_msg_sz: port.max_msg_sz,
        bad_pkey_cntr: violations(port.bad_pkeys),
        qkey_viol_cntr: violations(port.bad_qkeys),
        pkey_tbl_len: port.pkey_tbl_len,
        max_vl_num: 1,
        active_width: port.active_width,
        active_speed: port.active_speed,
        phys_state: port.phys_state,
        link_layer: port.link_layer,
        ..IbvPortAttr::default()
    }
}

/// IBTA 14.2.5.6: counters of violations have 16 bits and stay at their largest value.
fn violations(count: u64) -> u32 {
    u16::try_from(count).unwrap_or(u16::MAX).into()
}

/// The operation behind `ibv_query_rt_values_ex`.
pub(crate) unsafe extern "C" fn query_rt_values_op(
    context: *mut IbvContext,
    values: *mut IbvValuesEx,
) -> c_int {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) };
    status(context.and_then(|context| {
        // SAFETY: the C contract.
        let mut found = unsafe { pointer::read(values) }?;
        // What is not known is not answered, and the mask says so.
        found.comp_mask &= VALUES_RAW_CLOCK;
        if found.comp_mask & VALUES_RAW_CLOCK != 0 {
            // Ticks of the clock, all of them in tv_nsec, as mlx5 gives them.
            let ticks = context.verbs().clock_ns()?;
            found.raw_clock = timespec { tv_sec: 0, tv_nsec: ticks as i64 };
        }
        // SAFETY: the C contract.
        unsafe { pointer::write(values, found) }
    }))
}

/// `IBV_VALUES_MASK_RAW_CLOCK`.
const VALUES_RAW_CLOCK: u32 = 1;
/// The clock that stamps completions counts nanoseconds.
const CORE_CLOCK_KHZ: u64 = 1_000_000;

/// From the codes of `struct ibv_port_attr`, in units of 100 Mb/s; 0 for codes that do not exist.
fn port_speed(width: u8, speed: u8) -> u64 {
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    let lane = match speed {
        1 => 25,
        2 => 50,
        4 | 8 => 100,
        16 => 140,
        32 => 250,
        64 => 500,
        128 => 1000,
        _ => 0,
    };
    lanes * lane
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_lanes_of_edr_are_100_gigabits() {
        assert_eq!(port_speed(2, 32), 1000);
        assert_eq!(port_speed(3, 32), 0);
    }
}
