//! `ibv_copy_*`: between the kernel's structures and the program's. Connection managers use them.

use crate::errno::Errno;
use crate::pointer;
use ferroce_ibverbs_layout::{
    IbvAhAttr, IbvGid, IbvGlobalRoute, IbvQpAttr, IbvQpCap, IbvSaPathRec, UserPathRec, UverbsAhAttr,
    UverbsQpAttr,
};

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_copy_ah_attr_from_kern(dst: *mut IbvAhAttr, src: *const UverbsAhAttr) {
    // SAFETY: null, or the caller's structures.
    ignore_null(unsafe { convert(dst, src, |_, src| ah_attr(src)) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_copy_qp_attr_from_kern(dst: *mut IbvQpAttr, src: *const UverbsQpAttr) {
    // SAFETY: null, or the caller's structures.
    ignore_null(unsafe { convert(dst, src, qp_attr) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_copy_path_rec_from_kern(dst: *mut IbvSaPathRec, src: *const UserPathRec) {
    // SAFETY: null, or the caller's structures.
    ignore_null(unsafe { convert(dst, src, |_, src| path_rec_from_kernel(src)) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_copy_path_rec_to_kern(dst: *mut UserPathRec, src: *const IbvSaPathRec) {
    // SAFETY: null, or the caller's structures.
    ignore_null(unsafe { convert(dst, src, |_, src| path_rec_to_kernel(src)) });
}

/// These functions return nothing, so a null pointer can only be passed over.
fn ignore_null(result: Result<(), Errno>) {
    if let Err(errno) = result {
        errno.raise();
    }
}

/// Writes to `dst` what `make` makes of what is there and of `src`.
///
/// # Safety
/// Both are null or point to their structures.
unsafe fn convert<D: Copy, S: Copy>(
    dst: *mut D,
    src: *const S,
    make: impl FnOnce(D, &S) -> D,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let src = unsafe { pointer::read(src) }?;
    // SAFETY: the caller's promise.
    let old = unsafe { pointer::read(dst) }?;
    // SAFETY: the caller's promise.
    unsafe { pointer::write(dst, make(old, &src)) }
}

fn ah_attr(src: &UverbsAhAttr) -> IbvAhAttr {
    IbvAhAttr {
        grh: IbvGlobalRoute {
            dgid: IbvGid { raw: src.grh.dgid },
            flow_label: src.grh.flow_label,
            sgid_index: src.grh.sgid_index,
            hop_limit: src.grh.hop_limit,
            traffic_class: src.grh.traffic_class,
        },
        dlid: src.dlid,
        sl: src.sl,
        src_path_bits: src.src_path_bits,
        static_rate: src.static_rate,
        is_global: src.is_global,
        port_num: src.port_num,
    }
}

/// The kernel's structure carries the target state, which callers set themselves, and no rate limit: both stay.
fn qp_attr(old: IbvQpAttr, src: &UverbsQpAttr) -> IbvQpAttr {
    IbvQpAttr {
        qp_state: old.qp_state,
        cur_qp_state: src.cur_qp_state,
        path_mtu: src.path_mtu,
        path_mig_state: src.path_mig_state,
        qkey: src.qkey,
        rq_psn: src.rq_psn,
        sq_psn: src.sq_psn,
        dest_qp_num: src.dest_qp_num,
        qp_access_flags: src.qp_access_flags,
        cap: IbvQpCap {
            max_send_wr: src.max_send_wr,
            max_recv_wr: src.max_recv_wr,
            max_send_sge: src.max_send_sge,
            max_recv_sge: src.max_recv_sge,
            max_inline_data: src.max_inline_data,
        },
        ah_attr: ah_attr(&src.ah_attr),
        alt_ah_attr: ah_attr(&src.alt_ah_attr),
        pkey_index: src.pkey_index,
        alt_pkey_index: src.alt_pkey_index,
        en_sqd_async_notify: src.en_sqd_async_notify,
        sq_draining: src.sq_draining,
        max_rd_atomic: src.max_rd_atomic,
        max_dest_rd_atomic: src.max_dest_rd_atomic,
        min_rnr_timer: src.min_rnr_timer,
        port_num: src.port_num,
        timeout: src.timeout,
        retry_cnt: src.retry_cnt,
        rnr_retry: src.rnr_retry,
        alt_port_num: src.alt_port_num,
        alt_timeout: src.alt_timeout,
        rate_limit: old.rate_limit,
    }
}

fn path_rec_from_kernel(src: &UserPathRec) -> IbvSaPathRec {
    IbvSaPathRec {
        dgid: IbvGid { raw: src.dgid },
        sgid: IbvGid { raw: src.sgid },
        dlid: src.dlid,
        slid: src.slid,
        raw_traffic: src.raw_traffic as i32,
        flow_label: src.flow_label,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        reversible: src.reversible as i32,
        numb_path: src.numb_path,
        pkey: src.pkey,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        mtu: src.mtu as u8,
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    }
}

fn path_rec_to_kernel(src: &IbvSaPathRec) -> UserPathRec {
    UserPathRec {
        dgid: src.dgid.raw,
        sgid: src.sgid.raw,
        dlid: src.dlid,
        slid: src.slid,
        raw_traffic: src.raw_traffic as u32,
        flow_label: src.flow_label,
        reversible: src.reversible as u32,
        mtu: u32::from(src.mtu),
        pkey: src.pkey,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        numb_path: src.numb_path,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_record_survives_both_ways() {
        let path = IbvSaPathRec {
            dgid: IbvGid { raw: [1; 16] },
            sgid: IbvGid { raw: [2; 16] },
            flow_label: 0x3412,
            mtu: 5,
            packet_life_time: 18,
            reversible: 1,
            ..IbvSaPathRec::default()
        };
        let (mut kernel, mut back) = (UserPathRec::default(), IbvSaPathRec::default());
        // SAFETY: the structures are ours.
        unsafe { ibv_copy_path_rec_to_kern(&raw mut kernel, &raw const path) };
        // SAFETY: as above.
        unsafe { ibv_copy_path_rec_from_kern(&raw mut back, &raw const kernel) };
        assert_eq!((kernel.mtu, back), (5, path));
    }

    #[test]
    fn qp_attributes_keep_the_state_to_go_to() {
        let mut attr = IbvQpAttr { qp_state: 2, rate_limit: 7, ..IbvQpAttr::default() };
        let mut kernel =
            UverbsQpAttr { qp_state: 3, dest_qp_num: 0x11, max_send_sge: 4, ..Default::default() };
        kernel.ah_attr.grh.dgid = [9; 16];
        // SAFETY: the structures are ours.
        unsafe { ibv_copy_qp_attr_from_kern(&raw mut attr, &raw const kernel) };
        assert_eq!(
            (attr.qp_state, attr.rate_limit, attr.dest_qp_num, attr.cap.max_send_sge),
            (2, 7, 0x11, 4)
        );
        assert_eq!(attr.ah_attr.grh.dgid.raw, [9; 16]);
    }
}
