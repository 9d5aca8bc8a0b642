//! Queue pairs of IDs, and the completion queues that come with them.

use crate::device::{self, last_error};
use crate::event::{ah_attr, of_status};
use crate::ibv::{self, qp_type};
use crate::id::{Private, parts, qp_type_of};
use crate::layout::RdmaCmId;
use ferroce::cm::QpSetup;
use ferroce::core::QpState;
use ferroce_abi::errno::{Errno, minus_one};
use ferroce_abi::pointer;
use ferroce_ibverbs_layout::{
    IbvCompChannel, IbvCq, IbvPd, IbvQp, IbvQpAttr, IbvQpInitAttr, IbvQpInitAttrEx, IbvQpInitAttrExOldest,
    IbvRxHashConf,
};
use libc::c_int;
use std::ptr::null_mut;

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_qp(id: *mut RdmaCmId, pd: *mut IbvPd, attr: *mut IbvQpInitAttr) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { create(id, pd, attr) })
}

/// Makes the queue pair of an ID, with completion queues where the program names none, and gets it ready as far as it is
/// known how.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn create(
    id: *mut RdmaCmId,
    pd: *mut IbvPd,
    attr: *mut IbvQpInitAttr,
) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let mut wanted = unsafe { pointer::read(attr) }?;
    let mut oldest = extended(&wanted);
    if !pd.is_null() {
        oldest.pd = pd;
        oldest.comp_mask = MASK_PD;
    }
    // Cards keep inline data where the list would be, so that some fit in any case; rdma_xclient counts on it.
    let in_list = oldest.cap.max_send_sge.max(1) * SGE_LEN;
    oldest.cap.max_inline_data = oldest.cap.max_inline_data.max(in_list);
    let mut whole = IbvQpInitAttrEx { oldest, send_ops_flags: 0 };
    // SAFETY: the C contract.
    unsafe { create_ex(id, &raw mut whole) }?;
    wanted.send_cq = whole.oldest.send_cq;
    wanted.recv_cq = whole.oldest.recv_cq;
    wanted.srq = whole.oldest.srq;
    wanted.cap = whole.oldest.cap;
    // SAFETY: the C contract: the program reads what it got.
    unsafe { pointer::write(attr, wanted) }
}

fn extended(attr: &IbvQpInitAttr) -> IbvQpInitAttrExOldest {
    IbvQpInitAttrExOldest {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
        comp_mask: 0,
        pd: null_mut(),
        xrcd: null_mut(),
        create_flags: 0,
        max_tso_header: 0,
        rwq_ind_tbl: null_mut(),
        rx_hash_conf: IbvRxHashConf {
            rx_hash_function: 0,
            rx_hash_key_len: 0,
            rx_hash_key: null_mut(),
            rx_hash_fields_mask: 0,
        },
        source_qpn: 0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_qp_ex(id: *mut RdmaCmId, attr: *mut IbvQpInitAttrEx) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { create_ex(id, attr) })
}

unsafe fn create_ex(id: *mut RdmaCmId, attr: *mut IbvQpInitAttrEx) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (id, private) = unsafe { parts(id) }?;
    if attr.is_null() || id.verbs.is_null() || !id.qp.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the C contract; every form of it has these members.
    let wanted = unsafe { &mut (*attr).oldest };
    // SAFETY: as above.
    unsafe { complete(id, wanted) }?;
    // SAFETY: an open context.
    let create = unsafe { &*ibv::extended(id.verbs) }.create_qp_ex.ok_or(Errno::UNSUPPORTED)?;
    // SAFETY: the C contract.
    let qp = unsafe { create(id.verbs, attr) };
    if qp.is_null() {
        let errno = last_error();
        // SAFETY: nobody uses what was just made.
        unsafe { destroy_cqs(id) };
        return Err(errno);
    }
    id.qp = qp;
    // SAFETY: as above.
    let wanted = unsafe { &(*attr).oldest };
    if wanted.qp_type != qp_type::XRC_RECV {
        id.pd = wanted.pd;
    }
    // SAFETY: just made.
    let is_ready = unsafe { get_ready(id, private) };
    if is_ready.is_err() {
        id.qp = null_mut();
        // SAFETY: just made, and nobody else's.
        unsafe { ibv::ibv_destroy_qp(qp) };
        // SAFETY: as above.
        unsafe { destroy_cqs(id) };
    }
    is_ready
}

/// Fills in what the program leaves to the library: domain, completion queues, shared receive queue.
///
/// # Safety
/// The C contract.
unsafe fn complete(id: &mut RdmaCmId, wanted: &mut IbvQpInitAttrExOldest) -> Result<(), Errno> {
    if wanted.qp_type == qp_type::XRC_RECV {
        if wanted.comp_mask & MASK_XRCD == 0 {
            wanted.xrcd = device::xrcd(id.verbs)?;
        }
        wanted.comp_mask = wanted.comp_mask & !MASK_PD | MASK_XRCD;
        return Ok(());
    }
    if wanted.comp_mask & MASK_PD == 0 {
        wanted.pd = id.pd;
        wanted.comp_mask |= MASK_PD;
    }
    // SAFETY: the program's, or the device's.
    if unsafe { pointer::borrow(wanted.pd) }?.context != id.verbs {
        return Err(Errno::INVALID);
    }
    if wanted.srq.is_null() && wanted.qp_type != qp_type::XRC_SEND {
        wanted.srq = id.srq;
    }
    let recv_wr = match wanted.qp_type {
        qp_type::XRC_SEND => 0,
        _ => wanted.cap.max_recv_wr,
    };
    let (mut send_cq, mut recv_cq) = (wanted.send_cq, wanted.recv_cq);
    // SAFETY: the C contract.
    unsafe { create_cqs(id, &mut send_cq, &mut recv_cq, wanted.cap.max_send_wr, recv_wr) }?;
    (wanted.send_cq, wanted.recv_cq) = (send_cq, recv_cq);
    Ok(())
}

/// To INIT, or as a datagram's to RTS.
///
/// # Safety
/// The C contract.
unsafe fn get_ready(id: &RdmaCmId, private: &Private) -> Result<(), Errno> {
    // SAFETY: the ID's queue pair.
    let service = unsafe { pointer::borrow(id.qp) }?.qp_type;
    private.cm.set_qp_type(qp_type_of(service))?;
    let states: &[QpState] = match service {
        qp_type::UD => &[QpState::Init, QpState::Rtr, QpState::Rts],
        _ => &[QpState::Init],
    };
    for state in states {
        // SAFETY: the ID's queue pair.
        unsafe { modify(id.qp, &private.cm.qp_setup(*state)?) }?;
    }
    Ok(())
}

/// Changes a queue pair.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn modify(qp: *mut IbvQp, setup: &QpSetup) -> Result<(), Errno> {
    let mut attr = ibv_attr(setup);
    // SAFETY: the program's queue pair, and attributes of ours.
    of_status(unsafe { ibv::ibv_modify_qp(qp, &raw mut attr, setup.mask.bits() as c_int) })
}

/// The attributes as C has them.
pub(crate) fn ibv_attr(setup: &QpSetup) -> IbvQpAttr {
    let attr = &setup.attr;
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
        ah_attr: setup.ah.as_ref().map(ah_attr).unwrap_or_default(),
        pkey_index: attr.pkey_index,
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

/// Takes the ID's queue pair, if it has one, to the error state.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn to_error(id: *mut RdmaCmId) {
    // SAFETY: the C contract.
    let Ok((id, _)) = (unsafe { parts(id) }) else { return };
    if !id.qp.is_null() {
        let mut attr = IbvQpAttr { qp_state: QpState::Err as u32, ..IbvQpAttr::default() };
        // SAFETY: the ID's queue pair. One that is gone from the network is in no need of it.
        unsafe { ibv::ibv_modify_qp(id.qp, &raw mut attr, STATE) };
    }
}

/// Makes completion queues, each with a channel, where the program names none.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn create_cqs(
    id: &mut RdmaCmId,
    send_cq: &mut *mut IbvCq,
    recv_cq: &mut *mut IbvCq,
    send_wr: u32,
    recv_wr: u32,
) -> Result<(), Errno> {
    if recv_cq.is_null() && recv_wr > 0 {
        // SAFETY: the C contract.
        (id.recv_cq_channel, id.recv_cq) = unsafe { create_cq(id, recv_wr) }?;
        *recv_cq = id.recv_cq;
    }
    if send_cq.is_null() && send_wr > 0 {
        // SAFETY: the C contract.
        match unsafe { create_cq(id, send_wr) } {
            Ok(made) => (id.send_cq_channel, id.send_cq) = made,
            Err(errno) => {
                // SAFETY: nobody uses what was just made.
                unsafe { destroy_cqs(id) };
                return Err(errno);
            }
        }
        *send_cq = id.send_cq;
    }
    // A queue pair needs two in any case.
    if recv_cq.is_null() {
        *recv_cq = *send_cq;
    }
    if send_cq.is_null() {
        *send_cq = *recv_cq;
    }
    Ok(())
}

/// # Safety
/// The C contract.
unsafe fn create_cq(id: &mut RdmaCmId, entries: u32) -> Result<(*mut IbvCompChannel, *mut IbvCq), Errno> {
    // SAFETY: the ID's context.
    let channel = unsafe { ibv::ibv_create_comp_channel(id.verbs) };
    if channel.is_null() {
        return Err(last_error());
    }
    let cookie = &raw mut *id;
    // SAFETY: as above; the cookie is only handed back.
    let cq = unsafe { ibv::ibv_create_cq(id.verbs, entries as c_int, cookie.cast(), channel, 0) };
    if cq.is_null() {
        let errno = last_error();
        // SAFETY: just made.
        unsafe { ibv::ibv_destroy_comp_channel(channel) };
        return Err(errno);
    }
    Ok((channel, cq))
}

/// Frees the completion queues that the library made.
///
/// # Safety
/// The C contract: no queue pair uses them.
pub(crate) unsafe fn destroy_cqs(id: &mut RdmaCmId) {
    for cq in [&mut id.recv_cq, &mut id.send_cq] {
        let cq = std::mem::replace(cq, null_mut());
        if !cq.is_null() {
            // SAFETY: made by this library, and nobody uses it any more.
            unsafe { ibv::ibv_destroy_cq(cq) };
        }
    }
    for channel in [&mut id.recv_cq_channel, &mut id.send_cq_channel] {
        let channel = std::mem::replace(channel, null_mut());
        if !channel.is_null() {
            // SAFETY: as above.
            unsafe { ibv::ibv_destroy_comp_channel(channel) };
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_qp(id: *mut RdmaCmId) {
    // SAFETY: the C contract.
    let Ok((id, _)) = (unsafe { parts(id) }) else { return };
    let qp = std::mem::replace(&mut id.qp, null_mut());
    if !qp.is_null() {
        // SAFETY: the ID's queue pair, which nobody uses any more.
        unsafe { ibv::ibv_destroy_qp(qp) };
    }
    // SAFETY: as above.
    unsafe { destroy_cqs(id) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut RdmaCmId,
    qp_attr: *mut IbvQpAttr,
    qp_attr_mask: *mut c_int,
) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { init_attr(id, qp_attr, qp_attr_mask) })
}

unsafe fn init_attr(id: *mut RdmaCmId, attr: *mut IbvQpAttr, mask: *mut c_int) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (_, private) = unsafe { parts(id) }?;
    // SAFETY: the C contract: the state that is wanted is there.
    let wanted = unsafe { pointer::read(attr) }?.qp_state;
    let states = [QpState::Init, QpState::Rtr, QpState::Rts];
    let state = states.into_iter().find(|state| *state as u32 == wanted).ok_or(Errno::INVALID)?;
    let setup = private.cm.qp_setup(state)?;
    // SAFETY: the C contract.
    unsafe { pointer::write(attr, ibv_attr(&setup)) }?;
    // SAFETY: the C contract.
    unsafe { pointer::write(mask, setup.mask.bits() as c_int) }
}

/// Length of a scatter/gather element in bytes.
const SGE_LEN: u32 = 16;
/// `IBV_QP_STATE`.
const STATE: c_int = 1;
/// `IBV_QP_INIT_ATTR_PD`.
const MASK_PD: u32 = 1;
/// `IBV_QP_INIT_ATTR_XRCD`.
const MASK_XRCD: u32 = 2;
