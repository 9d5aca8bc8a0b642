//! Queue pairs: creation, modification, query.

use crate::attr;
use crate::context::ContextObject;
use crate::cq::CqObject;
use crate::errno::{Errno, pointer as or_null, status};
use crate::object::{self, NO_HANDLE, Object, Room, UNUSED_COND, UNUSED_MUTEX};
use crate::pd::PdObject;
use crate::pointer;
use crate::qp_ex::{Builder, new_qp_ex, supported_send_ops};
use crate::srq;
use crate::xrcd::XrcdObject;
use ferroce::core::{QpAttrMask, QpType};
use ferroce::{Qp, QpSpec};
use ferroce_ibverbs_layout::{
    IbvContext, IbvCq, IbvPd, IbvQp, IbvQpAttr, IbvQpCap, IbvQpEx, IbvQpInitAttr, IbvQpInitAttrEx,
    IbvQpInitAttrExOldest, IbvSrq,
};
use libc::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A queue pair.
#[repr(C)]
pub(crate) struct QpObject {
    abi: IbvQpEx,
    qp: Qp,
    builder: Option<Builder>,
}

// SAFETY: repr(C), and the public structure begins with an IbvQp; what changes in it is an atomic, and the builder is
// behind its lock.
unsafe impl Object for QpObject {
    type Abi = IbvQp;
}

impl QpObject {
    pub(crate) fn verbs(&self) -> &Qp {
        &self.qp
    }

    pub(crate) fn abi(&self) -> &IbvQpEx {
        &self.abi
    }

    /// What collects requests between `ibv_wr_start` and `ibv_wr_complete`, if it was made for that.
    pub(crate) fn builder(&self) -> Option<&Builder> {
        self.builder.as_ref()
    }
}

/// What `ibv_create_qp` and `ibv_create_qp_ex` have in common.
struct NewQp {
    pd: *mut IbvPd,
    qp_context: *mut c_void,
    send_cq: *mut IbvCq,
    recv_cq: *mut IbvCq,
    srq: *mut IbvSrq,
    cap: IbvQpCap,
    qp_type: u32,
    sq_sig_all: bool,
    block_self_mcast: bool,
    send_ops: Option<u64>,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(pd: *mut IbvPd, init_attr: *mut IbvQpInitAttr) -> *mut IbvQp {
    // SAFETY: the C contract.
    or_null(unsafe { pointer::read(init_attr) }.and_then(|attr| {
        let new = NewQp {
            pd,
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all != 0,
            block_self_mcast: false,
            send_ops: None,
        };
        // SAFETY: the C contract. The sizes that are granted are the ones that were asked for, so `init_attr` already
        // says them.
        unsafe { create(&new) }
    }))
}

/// The operation behind `ibv_create_qp_ex`.
pub(crate) unsafe extern "C" fn create_qp_ex_op(
    context: *mut IbvContext,
    init_attr: *mut IbvQpInitAttrEx,
) -> *mut IbvQp {
    // SAFETY: the C contract.
    or_null(unsafe { create_ex(context, init_attr) })
}

unsafe fn create_ex(context: *mut IbvContext, init_attr: *mut IbvQpInitAttrEx) -> Result<*mut IbvQp, Errno> {
    // SAFETY: the C contract.
    unsafe { ContextObject::borrow(context) }?;
    // SAFETY: the C contract: every form of the structure has these members.
    let attr = unsafe { pointer::read(init_attr.cast::<IbvQpInitAttrExOldest>()) }?;
    let has = |bit| attr.comp_mask & bit != 0;
    let create_flags = if has(INIT_ATTR_CREATE_FLAGS) { attr.create_flags } else { 0 };
    let known = INIT_ATTR_PD | INIT_ATTR_XRCD | INIT_ATTR_CREATE_FLAGS | INIT_ATTR_SEND_OPS_FLAGS;
    if attr.comp_mask & !known != 0 || create_flags & !CREATE_BLOCK_SELF_MCAST_LB != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    let qp_type = attr::qp_type(attr.qp_type)?;
    let mut send_ops = None;
    if has(INIT_ATTR_SEND_OPS_FLAGS) {
        // SAFETY: the C contract: the mask says that the structure has the field.
        let flags = unsafe { pointer::read(init_attr) }?.send_ops_flags;
        if flags & !supported_send_ops(qp_type) != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        send_ops = Some(flags);
    }
    if qp_type == QpType::XrcTgt {
        if !has(INIT_ATTR_XRCD) {
            return Err(Errno::INVALID);
        }
        // SAFETY: the C contract.
        let xrcd = unsafe { object::borrow::<XrcdObject>(attr.xrcd) }?;
        return hand_out_target(xrcd, attr.qp_context, |cookie| xrcd.verbs().create_target(cookie));
    }
    if !has(INIT_ATTR_PD) {
        return Err(Errno::INVALID);
    }
    let new = NewQp {
        pd: attr.pd,
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all != 0,
        block_self_mcast: create_flags & CREATE_BLOCK_SELF_MCAST_LB != 0,
        send_ops,
    };
    // SAFETY: the C contract.
    unsafe { create(&new) }
}

/// `IBV_QP_INIT_ATTR_PD`.
const INIT_ATTR_PD: u32 = 1;
/// `IBV_QP_INIT_ATTR_XRCD`.
const INIT_ATTR_XRCD: u32 = 1 << 1;
/// `IBV_QP_INIT_ATTR_CREATE_FLAGS`.
const INIT_ATTR_CREATE_FLAGS: u32 = 1 << 2;
/// `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
const INIT_ATTR_SEND_OPS_FLAGS: u32 = 1 << 6;
/// `IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`.
const CREATE_BLOCK_SELF_MCAST_LB: u32 = 1 << 1;

/// # Safety
/// The C contract for the pointers in `new`.
unsafe fn create(new: &NewQp) -> Result<*mut IbvQp, Errno> {
    // SAFETY: the C contract.
    let pd = unsafe { object::borrow::<PdObject>(new.pd) }?;
    let qp_type = attr::qp_type(new.qp_type)?;
    // SAFETY: the C contract.
    let send_cq = unsafe { object::borrow::<CqObject>(new.send_cq) }?;
    // An XRC initiator receives nothing, so programs give it no CQ for that.
    let recv_cq = match (qp_type, new.recv_cq.is_null()) {
        (QpType::XrcIni, true) => send_cq,
        // SAFETY: the C contract.
        _ => unsafe { object::borrow::<CqObject>(new.recv_cq) }?,
    };
    if !pd.verbs().same_context(send_cq.verbs()) || !pd.verbs().same_context(recv_cq.verbs()) {
        return Err(Errno::INVALID);
    }
    // SAFETY: the C contract.
    let srq = unsafe { srq::of_qp(new.srq, pd) }?;
    let room = Room::<QpObject>::new();
    let qp = pd.verbs().create_qp(&QpSpec {
        qp_type,
        send_cq: send_cq.verbs(),
        recv_cq: recv_cq.verbs(),
        srq,
        caps: attr::caps(&new.cap),
        sq_sig_all: new.sq_sig_all,
        block_self_mcast: new.block_self_mcast,
        cookie: room.cookie(),
    })?;
    let abi = IbvQp {
        pd: new.pd,
        send_cq: new.send_cq,
        recv_cq: new.recv_cq,
        srq: new.srq,
        ..new_abi(pd.context(), new.qp_context, &qp)
    };
    Ok(room.fill(QpObject { abi: new_qp_ex(abi), qp, builder: new.send_ops.map(Builder::new) }))
}

/// Hands out a handle to an XRC target, which `make` makes or opens with the cookie given.
pub(crate) fn hand_out_target(
    xrcd: &XrcdObject,
    qp_context: *mut c_void,
    make: impl FnOnce(u64) -> Result<Qp, ferroce::Error>,
) -> Result<*mut IbvQp, Errno> {
    let room = Room::<QpObject>::new();
    let qp = make(room.cookie())?;
    let abi = new_abi(xrcd.context(), qp_context, &qp);
    Ok(room.fill(QpObject { abi: new_qp_ex(abi), qp, builder: None }))
}

/// The public structure of a new QP, with nothing that only some types have.
fn new_abi(context: *mut IbvContext, qp_context: *mut c_void, qp: &Qp) -> IbvQp {
    IbvQp {
        context,
        qp_context: AtomicPtr::new(qp_context),
        pd: null_mut(),
        send_cq: null_mut(),
        recv_cq: null_mut(),
        srq: null_mut(),
        handle: NO_HANDLE,
        qp_num: qp.qpn().value(),
        state: AtomicU32::new(0),
        qp_type: qp.init().qp_type as u32,
        mutex: UNUSED_MUTEX,
        cond: UNUSED_COND,
        events_completed: 0,
    }
}

/// `IBV_QPT_XRC_RECV`.
pub(crate) const XRC_RECV: u32 = QpType::XrcTgt as u32;

/// Null for a QP that was made without `send_ops_flags`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut IbvQp) -> *mut IbvQpEx {
    // SAFETY: the C contract.
    match unsafe { object::borrow::<QpObject>(qp) } {
        Ok(object) if object.builder.is_some() => qp.cast(),
        _ => null_mut(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(qp: *mut IbvQp, attr: *mut IbvQpAttr, attr_mask: c_int) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<QpObject>(qp) };
    status(object.and_then(|object| {
        // SAFETY: the C contract.
        let attr = unsafe { pointer::read(attr) }?;
        let mask = QpAttrMask::from_bits(attr_mask as u32).ok_or(Errno::INVALID)?;
        let mask = mask - attr::ignored(object.qp.init().qp_type);
        let ah = mask.contains(QpAttrMask::AV).then(|| attr::ah_attr(&attr.ah_attr));
        object.qp.modify(&attr::qp_attr(&attr, mask)?, ah.as_ref(), mask)?;
        if mask.contains(QpAttrMask::STATE) {
            object.abi.qp_base.state.store(attr.qp_state, Ordering::Relaxed);
        }
        Ok(())
    }))
}

/// All attributes are reported, whatever the mask asks for, as devices do.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_qp(
    qp: *mut IbvQp,
    attr: *mut IbvQpAttr,
    _attr_mask: c_int,
    init_attr: *mut IbvQpInitAttr,
) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<QpObject>(qp) };
    status(object.and_then(|object| {
        let found = object.qp.query()?;
        let cap = attr::ibv_cap(&object.qp.init().caps);
        // SAFETY: the C contract.
        unsafe { pointer::write(attr, attr::ibv_qp_attr(&found, cap)) }?;
        // SAFETY: the C contract.
        unsafe { pointer::write(init_attr, init_attr_of(object, cap)) }?;
        object.abi.qp_base.state.store(found.qp_state as u32, Ordering::Relaxed);
        Ok(())
    }))
}

fn init_attr_of(object: &QpObject, cap: IbvQpCap) -> IbvQpInitAttr {
    let abi = &object.abi.qp_base;
    IbvQpInitAttr {
        qp_context: abi.qp_context.load(Ordering::Relaxed),
        send_cq: abi.send_cq,
        recv_cq: abi.recv_cq,
        srq: abi.srq,
        cap,
        qp_type: abi.qp_type,
        sq_sig_all: c_int::from(object.qp.init().sq_sig_all),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_qp(qp: *mut IbvQp) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<QpObject>(qp) };
    status(object.and_then(|object| {
        object.qp.close()?;
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<QpObject>(qp) };
        Ok(())
    }))
}

/// Packets are placed in order, but the bytes of one in whatever order memcpy takes.
#[unsafe(no_mangle)]
extern "C" fn ibv_query_qp_data_in_order(_qp: *mut IbvQp, _op: u32, _flags: u32) -> c_int {
    0
}
