//! QP attributes between C's numbers and the verbs' types.

use crate::errno::Errno;
use ferroce::core::{AccessFlags, AddressVector, PathMtu, QpAttr, QpAttrMask, QpCaps, QpState, QpType};
use ferroce::{AhAttr, Gid};
use ferroce_ibverbs_layout::{IbvAhAttr, IbvGid, IbvGlobalRoute, IbvQpAttr, IbvQpCap};
use ferroce_wire::{Psn, Qpn};

/// The service type; EOPNOTSUPP for those of `enum ibv_qp_type` that the device does not have.
pub(crate) fn qp_type(value: u32) -> Result<QpType, Errno> {
    const RAW_PACKET: u32 = 8;
    const DRIVER: u32 = 0xff;
    match value {
        2 => Ok(QpType::Rc),
        3 => Ok(QpType::Uc),
        4 => Ok(QpType::Ud),
        9 => Ok(QpType::XrcIni),
        10 => Ok(QpType::XrcTgt),
        RAW_PACKET | DRIVER => Err(Errno::UNSUPPORTED),
        _ => Err(Errno::INVALID),
    }
}

pub(crate) fn caps(cap: &IbvQpCap) -> QpCaps {
    QpCaps {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

pub(crate) fn ibv_cap(caps: &QpCaps) -> IbvQpCap {
    IbvQpCap {
        max_send_wr: caps.max_send_wr,
        max_recv_wr: caps.max_recv_wr,
        max_send_sge: caps.max_send_sge,
        max_recv_sge: caps.max_recv_sge,
        max_inline_data: caps.max_inline_data,
    }
}

pub(crate) fn ah_attr(attr: &IbvAhAttr) -> AhAttr {
    AhAttr {
        is_global: attr.is_global != 0,
        dgid: Gid(attr.grh.dgid.raw),
        sgid_index: u32::from(attr.grh.sgid_index),
        flow_label: attr.grh.flow_label,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        sl: attr.sl,
        port_num: attr.port_num,
    }
}

fn ibv_ah_attr(av: &AddressVector) -> IbvAhAttr {
    IbvAhAttr {
        grh: IbvGlobalRoute {
            dgid: IbvGid { raw: av.dgid },
            flow_label: av.flow_label,
            sgid_index: av.sgid_index,
            hop_limit: av.hop_limit,
            traffic_class: av.traffic_class,
        },
        sl: av.sl,
        is_global: 1,
        port_num: av.port_num,
        ..IbvAhAttr::default()
    }
}

pub(crate) fn ibv_ah_attr_of(attr: &AhAttr) -> IbvAhAttr {
    IbvAhAttr {
        grh: IbvGlobalRoute {
            dgid: IbvGid { raw: attr.dgid.0 },
            flow_label: attr.flow_label,
            sgid_index: attr.sgid_index as u8,
            hop_limit: attr.hop_limit,
            traffic_class: attr.traffic_class,
        },
        sl: attr.sl,
        is_global: u8::from(attr.is_global),
        port_num: attr.port_num,
        ..IbvAhAttr::default()
    }
}

/// The attributes that `mask` names; what the program has in the others means nothing.
pub(crate) fn qp_attr(attr: &IbvQpAttr, mask: QpAttrMask) -> Result<QpAttr, Errno> {
    let mut found = QpAttr::default();
    if mask.contains(QpAttrMask::STATE) {
        found.qp_state = qp_state(attr.qp_state)?;
    }
    if mask.contains(QpAttrMask::CUR_STATE) {
        found.cur_qp_state = qp_state(attr.cur_qp_state)?;
    }
    if mask.contains(QpAttrMask::PATH_MTU) {
        found.path_mtu = PathMtu::from_code(attr.path_mtu).ok_or(Errno::INVALID)?;
    }
    if mask.contains(QpAttrMask::ACCESS_FLAGS) {
        found.access = AccessFlags::from_bits(attr.qp_access_flags).ok_or(Errno::INVALID)?;
    }
    // None of these is looked at without its bit.
    found.path_mig_state = attr.path_mig_state;
    found.qkey = attr.qkey;
    found.rq_psn = Psn::new(attr.rq_psn);
    found.sq_psn = Psn::new(attr.sq_psn);
    found.dest_qpn = Qpn::new(attr.dest_qp_num);
    found.pkey_index = attr.pkey_index;
    found.en_sqd_async_notify = attr.en_sqd_async_notify != 0;
    found.max_rd_atomic = attr.max_rd_atomic;
    found.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    found.min_rnr_timer = attr.min_rnr_timer;
    found.port_num = attr.port_num;
    found.timeout = attr.timeout;
    found.retry_cnt = attr.retry_cnt;
    found.rnr_retry = attr.rnr_retry;
    Ok(found)
}

/// Attributes of the half that an XRC QP does not have: programs set them as on RC, and the kernel passes over them.
pub(crate) fn ignored(qp_type: QpType) -> QpAttrMask {
    match qp_type {
        QpType::XrcIni => QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER,
        QpType::XrcTgt => QpAttrMask::MAX_QP_RD_ATOMIC | QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY,
        _ => QpAttrMask::empty(),
    }
}

fn qp_state(value: u32) -> Result<QpState, Errno> {
    Ok(match value {
        0 => QpState::Reset,
        1 => QpState::Init,
        2 => QpState::Rtr,
        3 => QpState::Rts,
        4 => QpState::Sqd,
        5 => QpState::Sqe,
        6 => QpState::Err,
        _ => return Err(Errno::INVALID),
    })
}

pub(crate) fn ibv_qp_attr(attr: &QpAttr, cap: IbvQpCap) -> IbvQpAttr {
    IbvQpAttr {
        qp_state: attr.qp_state as u32,
        cur_qp_state: attr.cur_qp_state as u32,
        path_mtu: attr.path_mtu as u32,
        path_mig_state: attr.path_mig_state,
        qkey: attr.qkey,
        rq_psn: attr.rq_psn.value(),
        sq_psn: attr.sq_psn.value(),
        dest_qp_num: attr.dest_qpn.value(),
        qp_access_flags: attr.access.bits(),
        cap,
        ah_attr: attr.av.as_ref().map(ibv_ah_attr).unwrap_or_default(),
        pkey_index: attr.pkey_index,
        en_sqd_async_notify: u8::from(attr.en_sqd_async_notify),
        sq_draining: u8::from(attr.sq_draining),
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port_num: attr.port_num,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        ..IbvQpAttr::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_in_fields_that_the_mask_does_not_name_is_not_looked_at() {
        let garbage = IbvQpAttr { path_mtu: 77, qp_state: 99, qp_access_flags: !0, ..IbvQpAttr::default() };
        assert!(qp_attr(&garbage, QpAttrMask::TIMEOUT).is_ok());
        for mask in [QpAttrMask::PATH_MTU, QpAttrMask::STATE, QpAttrMask::ACCESS_FLAGS] {
            assert_eq!(qp_attr(&garbage, mask), Err(Errno::INVALID));
        }
    }

    #[test]
    fn attributes_come_back_from_a_query_as_a_modify_gave_them() {
        let given = IbvQpAttr {
            qp_state: 3,
            cur_qp_state: 2,
            path_mtu: 5,
            rq_psn: 0x12_3456,
            sq_psn: 0xff_ffff,
            dest_qp_num: 0x01_0011,
            qp_access_flags: 0xf,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 8,
            min_rnr_timer: 12,
            port_num: 1,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 6,
            ..IbvQpAttr::default()
        };
        let there = qp_attr(&given, QpAttrMask::all()).unwrap();
        assert_eq!(ibv_qp_attr(&there, IbvQpCap::default()), given);
    }

    #[test]
    fn types_without_a_device_are_unsupported_and_others_invalid() {
        assert_eq!(qp_type(8), Err(Errno::UNSUPPORTED));
        assert_eq!(qp_type(5), Err(Errno::INVALID));
    }
}
