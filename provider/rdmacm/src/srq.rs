//! Shared receive queues of IDs.

use crate::device::{self, last_error};
use crate::ibv::{self, qp_type};
use crate::id::parts;
use crate::layout::RdmaCmId;
use crate::qp::{create_cqs, destroy_cqs};
use ferroce_abi::errno::{Errno, minus_one};
use ferroce_abi::pointer;
use ferroce_ibverbs_layout::{IbvPd, IbvSrqInitAttr, IbvSrqInitAttrEx, IbvSrqInitAttrExOldest, IbvTmCap};
use libc::c_int;
use std::ptr::null_mut;

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_srq(id: *mut RdmaCmId, pd: *mut IbvPd, attr: *mut IbvSrqInitAttr) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { create(id, pd, attr) })
}

unsafe fn create(id: *mut RdmaCmId, pd: *mut IbvPd, attr: *mut IbvSrqInitAttr) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let mut wanted = unsafe { pointer::read(attr) }?;
    let service = {
        // SAFETY: the C contract.
        let (id, _) = unsafe { parts(id) }?;
        id.qp_type
    };
    let is_xrc = matches!(service, qp_type::XRC_SEND | qp_type::XRC_RECV);
    let oldest = IbvSrqInitAttrExOldest {
        srq_context: wanted.srq_context,
        attr: wanted.attr,
        comp_mask: if pd.is_null() { MASK_TYPE } else { MASK_TYPE | MASK_PD },
        srq_type: if is_xrc { TYPE_XRC } else { TYPE_BASIC },
        pd,
        xrcd: null_mut(),
        cq: null_mut(),
    };
    let mut whole = IbvSrqInitAttrEx { oldest, tm_cap: IbvTmCap { max_num_tags: 0, max_ops: 0 } };
    // SAFETY: the C contract.
    unsafe { create_ex(id, &raw mut whole) }?;
    wanted.attr = whole.oldest.attr;
    // SAFETY: the C contract: the program reads what it got.
    unsafe { pointer::write(attr, wanted) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_srq_ex(id: *mut RdmaCmId, attr: *mut IbvSrqInitAttrEx) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { create_ex(id, attr) })
}

unsafe fn create_ex(id: *mut RdmaCmId, attr: *mut IbvSrqInitAttrEx) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (id, _) = unsafe { parts(id) }?;
    if attr.is_null() || id.verbs.is_null() || !id.srq.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the C contract; every form of it has these members.
    let wanted = unsafe { &mut (*attr).oldest };
    if wanted.comp_mask & MASK_PD == 0 {
        wanted.pd = id.pd;
        wanted.comp_mask |= MASK_PD;
    }
    if wanted.comp_mask & MASK_TYPE != 0 && wanted.srq_type == TYPE_XRC {
        if wanted.comp_mask & MASK_XRCD == 0 {
            wanted.xrcd = device::xrcd(id.verbs)?;
        }
        if wanted.comp_mask & MASK_CQ == 0 {
            let mut none = null_mut();
            // SAFETY: the C contract.
            unsafe { create_cqs(id, &mut none, &mut wanted.cq, 0, wanted.attr.max_wr) }?;
        }
        wanted.comp_mask |= MASK_XRCD | MASK_CQ;
    }
    let pd = wanted.pd;
    // SAFETY: an open context.
    let create = unsafe { &*ibv::extended(id.verbs) }.create_srq_ex.ok_or(Errno::UNSUPPORTED)?;
    // SAFETY: the C contract.
    let srq = unsafe { create(id.verbs, attr) };
    if srq.is_null() {
        let errno = last_error();
        if id.qp.is_null() {
            // SAFETY: nobody uses what was just made.
            unsafe { destroy_cqs(id) };
        }
        return Err(errno);
    }
    (id.srq, id.pd) = (srq, pd);
    Ok(())
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_srq(id: *mut RdmaCmId) {
    // SAFETY: the C contract.
    let Ok((id, _)) = (unsafe { parts(id) }) else { return };
    let srq = std::mem::replace(&mut id.srq, null_mut());
    if !srq.is_null() {
        // SAFETY: the ID's own, which nobody uses any more.
        unsafe { ibv::ibv_destroy_srq(srq) };
    }
    if id.qp.is_null() {
        // SAFETY: as above.
        unsafe { destroy_cqs(id) };
    }
}

/// `IBV_SRQT_BASIC`.
const TYPE_BASIC: u32 = 0;
/// `IBV_SRQT_XRC`.
const TYPE_XRC: u32 = 1;
/// `IBV_SRQ_INIT_ATTR_TYPE`.
const MASK_TYPE: u32 = 1;
/// `IBV_SRQ_INIT_ATTR_PD`.
const MASK_PD: u32 = 2;
/// `IBV_SRQ_INIT_ATTR_XRCD`.
const MASK_XRCD: u32 = 4;
/// `IBV_SRQ_INIT_ATTR_CQ`.
const MASK_CQ: u32 = 8;
