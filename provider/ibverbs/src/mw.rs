//! Memory windows, and the way of their binds from C to the verbs.

use crate::errno::{Errno, pointer as or_null, status};
use crate::mr::MrObject;
use crate::object::{self, NO_HANDLE, Object};
use crate::pd::PdObject;
use crate::pointer;
use crate::post::refused;
use crate::qp::QpObject;
use ferroce::core::{AccessFlags, MwBind, MwType, SendFlags, SendOp};
use ferroce::{Mw, PostCause};
use ferroce_ibverbs_layout::{IbvMw, IbvMwBind, IbvMwBindInfo, IbvPd, IbvQp};
use libc::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// A memory window.
#[repr(C)]
struct MwObject {
    abi: IbvMw,
    mw: Mw,
}

// SAFETY: repr(C) with the public structure first; what changes in it is an atomic.
unsafe impl Object for MwObject {
    type Abi = IbvMw;
}

/// The operation behind `ibv_alloc_mw`.
pub(crate) unsafe extern "C" fn alloc_mw_op(pd: *mut IbvPd, mw_type: u32) -> *mut IbvMw {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<PdObject>(pd) };
    or_null(object.and_then(|object| {
        let kind = match mw_type {
            1 => MwType::Type1,
            2 => MwType::Type2,
            _ => return Err(Errno::INVALID),
        };
        let mw = object.verbs().alloc_mw(kind)?;
        let rkey = AtomicU32::new(mw.rkey());
        let abi = IbvMw { context: object.context(), pd, rkey, handle: NO_HANDLE, mw_type };
        Ok(object::hand_out(MwObject { abi, mw }))
    }))
}

/// The operation behind `ibv_dealloc_mw`.
pub(crate) unsafe extern "C" fn dealloc_mw_op(mw: *mut IbvMw) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<MwObject>(mw) };
    status(object.map(|_| {
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<MwObject>(mw) };
    }))
}

/// The operation behind `ibv_bind_mw`.
pub(crate) unsafe extern "C" fn bind_mw_op(qp: *mut IbvQp, mw: *mut IbvMw, bind: *mut IbvMwBind) -> c_int {
    // SAFETY: the C contract.
    status(unsafe { bind_type_1(qp, mw, bind) })
}

unsafe fn bind_type_1(qp: *mut IbvQp, mw: *mut IbvMw, bind: *mut IbvMwBind) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let qp = unsafe { object::borrow::<QpObject>(qp) }?;
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<MwObject>(mw) }?;
    // SAFETY: the C contract.
    let request = unsafe { pointer::read(bind) }?;
    // SAFETY: the C contract.
    let bind = unsafe { mw_bind(&request.bind_info) }?;
    let flags = SendFlags::from_bits_truncate(request.send_flags) - SendFlags::INLINE;
    let posted = qp.verbs().bind_mw(&object.mw, request.wr_id, flags, bind);
    posted.map_err(|error| Errno::from(error.cause.kind()))?;
    object.abi.rkey.store(object.mw.rkey(), Ordering::Relaxed);
    Ok(())
}

/// The operation that binds a type 2 window (IBV_WR_BIND_MW, `ibv_wr_bind_mw`).
///
/// # Safety
/// The C contract for the window and the region in `info`.
pub(crate) unsafe fn bind_op(mw: *const IbvMw, rkey: u32, info: &IbvMwBindInfo) -> Result<SendOp, Errno> {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<MwObject>(mw) }?;
    if object.mw.mw_type() != MwType::Type2 {
        return Err(refused(PostCause::OpNotSupported(
            "a bind of a type 1 memory window: ibv_bind_mw does it",
        )));
    }
    // SAFETY: the C contract.
    let op = object.mw.bind_op(rkey as u8, unsafe { mw_bind(info) }?);
    match op {
        SendOp::BindMw { rkey: own, .. } if own != rkey => {
            Err(refused(PostCause::OpNotSupported("a bind with an R_Key of another memory window")))
        }
        op => Ok(op),
    }
}

/// # Safety
/// The C contract for the region, which is null for an unbind.
unsafe fn mw_bind(info: &IbvMwBindInfo) -> Result<MwBind, Errno> {
    let access = AccessFlags::from_bits(info.mw_access_flags).ok_or(Errno::INVALID)?;
    let lkey = match info.length {
        0 => 0,
        // SAFETY: the C contract.
        _ => unsafe { object::borrow::<MrObject>(info.mr) }?.verbs().lkey(),
    };
    Ok(MwBind { lkey, addr: info.addr, length: info.length, access })
}
