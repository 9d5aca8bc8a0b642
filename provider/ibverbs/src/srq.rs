//! Shared receive queues.

use crate::context::ContextObject;
use crate::cq::CqObject;
use crate::errno::{Errno, pointer as or_null, status};
use crate::object::{self, NO_HANDLE, Object, Room, UNUSED_COND, UNUSED_MUTEX};
use crate::pd::PdObject;
use crate::pointer;
use crate::xrcd::XrcdObject;
use ferroce::{Srq, SrqSpec};
use ferroce_ibverbs_layout::{
    IbvContext, IbvCq, IbvPd, IbvSrq, IbvSrqAttr, IbvSrqInitAttr, IbvSrqInitAttrEx, IbvSrqInitAttrExOldest,
    IbvXrcd,
};
use libc::{c_int, c_void};

/// A shared receive queue.
#[repr(C)]
pub(crate) struct SrqObject {
    abi: IbvSrq,
    srq: Srq,
    is_xrc: bool,
}

// SAFETY: repr(C) with the public structure first; nothing in it changes.
unsafe impl Object for SrqObject {
    type Abi = IbvSrq;
}

impl SrqObject {
    pub(crate) fn verbs(&self) -> &Srq {
        &self.srq
    }
}

/// What `ibv_create_srq` and `ibv_create_srq_ex` have in common.
struct NewSrq {
    pd: *mut IbvPd,
    srq_context: *mut c_void,
    attr: IbvSrqAttr,
    /// Of an XRC SRQ.
    xrc: Option<(*mut IbvXrcd, *mut IbvCq)>,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_srq(pd: *mut IbvPd, init_attr: *mut IbvSrqInitAttr) -> *mut IbvSrq {
    // SAFETY: the C contract.
    or_null(unsafe { pointer::read(init_attr) }.and_then(|init| {
        let new = NewSrq { pd, srq_context: init.srq_context, attr: init.attr, xrc: None };
        // SAFETY: the C contract. The sizes that are granted are the ones that were asked for, so `init_attr` already
        // says them.
        unsafe { create(&new) }
    }))
}

/// The operation behind `ibv_create_srq_ex`.
pub(crate) unsafe extern "C" fn create_srq_ex_op(
    context: *mut IbvContext,
    init_attr: *mut IbvSrqInitAttrEx,
) -> *mut IbvSrq {
    // SAFETY: the C contract.
    or_null(unsafe { create_ex(context, init_attr) })
}

unsafe fn create_ex(
    context: *mut IbvContext,
    init_attr: *mut IbvSrqInitAttrEx,
) -> Result<*mut IbvSrq, Errno> {
    // SAFETY: the C contract.
    unsafe { ContextObject::borrow(context) }?;
    // SAFETY: the C contract: every form of the structure has these members.
    let init = unsafe { pointer::read(init_attr.cast::<IbvSrqInitAttrExOldest>()) }?;
    let has = |bit| init.comp_mask & bit != 0;
    let srq_type = if has(INIT_ATTR_TYPE) { init.srq_type } else { TYPE_BASIC };
    if init.comp_mask & !(INIT_ATTR_TYPE | INIT_ATTR_PD | INIT_ATTR_XRCD | INIT_ATTR_CQ) != 0
        || !matches!(srq_type, TYPE_BASIC | TYPE_XRC)
    {
        return Err(Errno::UNSUPPORTED);
    }
    if !has(INIT_ATTR_PD) || (srq_type == TYPE_XRC && !(has(INIT_ATTR_XRCD) && has(INIT_ATTR_CQ))) {
        return Err(Errno::INVALID);
    }
    let xrc = (srq_type == TYPE_XRC).then_some((init.xrcd, init.cq));
    // SAFETY: the C contract.
    unsafe { create(&NewSrq { pd: init.pd, srq_context: init.srq_context, attr: init.attr, xrc }) }
}

/// # Safety
/// The C contract for the pointers in `new`.
unsafe fn create(new: &NewSrq) -> Result<*mut IbvSrq, Errno> {
    // SAFETY: the C contract.
    let pd = unsafe { object::borrow::<PdObject>(new.pd) }?;
    let mut spec = SrqSpec { max_wr: new.attr.max_wr, max_sge: new.attr.max_sge, xrc: None, cookie: 0 };
    if let Some((xrcd, cq)) = new.xrc {
        // SAFETY: the C contract.
        let xrcd = unsafe { object::borrow::<XrcdObject>(xrcd) }?.verbs();
        // SAFETY: the C contract.
        let cq = unsafe { object::borrow::<CqObject>(cq) }?.verbs();
        if !xrcd.same_context(pd.verbs()) || !pd.verbs().same_context(cq) {
            return Err(Errno::INVALID);
        }
        spec.xrc = Some((xrcd, cq));
    }
    let room = Room::<SrqObject>::new();
    let srq = pd.verbs().create_srq(&SrqSpec { cookie: room.cookie(), ..spec })?;
    let abi = IbvSrq {
        context: pd.context(),
        srq_context: new.srq_context,
        pd: new.pd,
        handle: NO_HANDLE,
        mutex: UNUSED_MUTEX,
        cond: UNUSED_COND,
        events_completed: 0,
    };
    Ok(room.fill(SrqObject { abi, srq, is_xrc: new.xrc.is_some() }))
}

/// `IBV_SRQ_INIT_ATTR_TYPE`.
const INIT_ATTR_TYPE: u32 = 1;
/// `IBV_SRQ_INIT_ATTR_PD`.
const INIT_ATTR_PD: u32 = 1 << 1;
/// `IBV_SRQ_INIT_ATTR_XRCD`.
const INIT_ATTR_XRCD: u32 = 1 << 2;
/// `IBV_SRQ_INIT_ATTR_CQ`.
const INIT_ATTR_CQ: u32 = 1 << 3;
/// `IBV_SRQT_BASIC`.
const TYPE_BASIC: u32 = 0;
/// `IBV_SRQT_XRC`.
const TYPE_XRC: u32 = 1;

/// The operation behind `ibv_get_srq_num`.
pub(crate) unsafe extern "C" fn get_srq_num_op(srq: *mut IbvSrq, srq_num: *mut u32) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<SrqObject>(srq) };
    status(object.and_then(|object| {
        // As libibverbs has it: the others' numbers mean nothing to a program.
        if !object.is_xrc {
            return Err(Errno::UNSUPPORTED);
        }
        // SAFETY: the C contract.
        unsafe { pointer::write(srq_num, object.srq.srqn().value()) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_srq(srq: *mut IbvSrq, attr: *mut IbvSrqAttr, attr_mask: c_int) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<SrqObject>(srq) };
    status(object.and_then(|object| {
        // SAFETY: the C contract.
        let attr = unsafe { pointer::read(attr) }?;
        if attr_mask & !(MAX_WR | LIMIT) != 0 {
            return Err(Errno::INVALID);
        }
        let max_wr = (attr_mask & MAX_WR != 0).then_some(attr.max_wr);
        let limit = (attr_mask & LIMIT != 0).then_some(attr.srq_limit);
        Ok(object.srq.modify(max_wr, limit)?)
    }))
}

/// `IBV_SRQ_MAX_WR`.
const MAX_WR: c_int = 1;
/// `IBV_SRQ_LIMIT`.
const LIMIT: c_int = 1 << 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_srq(srq: *mut IbvSrq, attr: *mut IbvSrqAttr) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<SrqObject>(srq) };
    status(object.and_then(|object| {
        let found = object.srq.query()?;
        let found = IbvSrqAttr { max_wr: found.max_wr, max_sge: found.max_sge, srq_limit: found.limit };
        // SAFETY: the C contract.
        unsafe { pointer::write(attr, found) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_srq(srq: *mut IbvSrq) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<SrqObject>(srq) };
    status(object.and_then(|object| {
        object.srq.close()?;
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<SrqObject>(srq) };
        Ok(())
    }))
}

/// The verbs behind the SRQ that a QP is made with, of the same open device; none for a null pointer.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn of_qp<'a>(srq: *const IbvSrq, pd: &PdObject) -> Result<Option<&'a Srq>, Errno> {
    if srq.is_null() {
        return Ok(None);
    }
    // SAFETY: the C contract.
    let srq = unsafe { object::borrow::<SrqObject>(srq) }?.verbs();
    if srq.same_context(pd.verbs()) { Ok(Some(srq)) } else { Err(Errno::INVALID) }
}
