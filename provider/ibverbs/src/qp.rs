//! Queue pairs: creation, modification, query.

use crate::attr;
use crate::context::ContextObject;
use crate::cq::CqObject;
use crate::errno::{Errno, pointer as or_null, status};
use crate::object::{self, NO_HANDLE, Object, Room, UNUSED_COND, UNUSED_MUTEX};
use crate::pd::PdObject;
use crate::pointer;
use crate::qp_ex::{Builder, SUPPORTED_SEND_OPS, new_qp_ex};
use ferroce::core::QpAttrMask;
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
            send_ops: None,
        };
        // SAFETY: the C contract.
        let qp = unsafe { create(&new) }?;
        // The sizes that were granted are the ones that were asked for, so `init_attr` already says them.
        Ok(qp)
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
    let create_flags = if attr.comp_mask & INIT_ATTR_CREATE_FLAGS != 0 { attr.create_flags } else { 0 };
    let known = INIT_ATTR_PD | INIT_ATTR_CREATE_FLAGS | INIT_ATTR_SEND_OPS_FLAGS;
    if attr.comp_mask & !known != 0 || create_flags != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    if attr.comp_mask & INIT_ATTR_PD == 0 {
        return Err(Errno::INVALID);
    }
    let mut send_ops = None;
    if attr.comp_mask & INIT_ATTR_SEND_OPS_FLAGS != 0 {
        // SAFETY: the C contract: the mask says that the structure has the field.
        let flags = unsafe { pointer::read(init_attr) }?.send_ops_flags;
        if flags & !SUPPORTED_SEND_OPS != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        send_ops = Some(flags);
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
        send_ops,
    };
    // SAFETY: the C contract.
    unsafe { create(&new) }
}

/// `IBV_QP_INIT_ATTR_PD`.
const INIT_ATTR_PD: u32 = 1;
/// `IBV_QP_INIT_ATTR_CREATE_FLAGS`.
const INIT_ATTR_CREATE_FLAGS: u32 = 1 << 2;
/// `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
const INIT_ATTR_SEND_OPS_FLAGS: u32 = 1 << 6;
/// # Safety
/// The C contract for the pointers in `new`.
unsafe fn create(new: &NewQp) -> Result<*mut IbvQp, Errno> {
    // SAFETY: the C contract.
    let pd = unsafe { object::borrow::<PdObject>(new.pd) }?;
    let qp_type = attr::qp_type(new.qp_type)?;
    if !new.srq.is_null() {
        return Err(Errno::UNSUPPORTED);
    }
    // SAFETY: the C contract.
    let send_cq = unsafe { object::borrow::<CqObject>(new.send_cq) }?;
    // SAFETY: the C contract.
    let recv_cq = unsafe { object::borrow::<CqObject>(new.recv_cq) }?;
    if !pd.verbs().same_context(send_cq.verbs()) || !pd.verbs().same_context(recv_cq.verbs()) {
        return Err(Errno::INVALID);
    }
    let room = Room::<QpObject>::new();
    let qp = pd.verbs().create_qp(&QpSpec {
        qp_type,
        send_cq: send_cq.verbs(),
        recv_cq: recv_cq.verbs(),
        caps: attr::caps(&new.cap),
        sq_sig_all: new.sq_sig_all,
        cookie: room.cookie(),
    })?;
    let abi = IbvQp {
        context: pd.context(),
        qp_context: AtomicPtr::new(new.qp_context),
        pd: new.pd,
        send_cq: new.send_cq,
        recv_cq: new.recv_cq,
        srq: null_mut(),
        handle: NO_HANDLE,
        qp_num: qp.qpn().value(),
        state: AtomicU32::new(0),
        qp_type: new.qp_type,
        mutex: UNUSED_MUTEX,
        cond: UNUSED_COND,
        events_completed: 0,
    };
    Ok(room.fill(QpObject { abi: new_qp_ex(abi), qp, builder: new.send_ops.map(Builder::new) }))
}

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
