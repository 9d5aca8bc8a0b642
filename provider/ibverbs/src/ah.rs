//! Address handles and multicast groups.

use crate::attr;
use crate::context::ContextObject;
use crate::errno::{Errno, minus_one, pointer as or_null, status};
use crate::object::{self, NO_HANDLE, Object};
use crate::pd::PdObject;
use crate::pointer;
use crate::qp::QpObject;
use ferroce::core::{Remote, WcFlags};
use ferroce::{Ah, AhAttr, Gid};
use ferroce_ibverbs_layout::{IbvAh, IbvAhAttr, IbvContext, IbvGid, IbvGrh, IbvPd, IbvQp, IbvWc};
use ferroce_wire::Qpn;
use libc::c_int;

/// An address handle.
#[repr(C)]
struct AhObject {
    abi: IbvAh,
    ah: Ah,
}

// SAFETY: repr(C) with the public structure first; nothing in it changes.
unsafe impl Object for AhObject {
    type Abi = IbvAh;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_ah(pd: *mut IbvPd, attr: *mut IbvAhAttr) -> *mut IbvAh {
    // SAFETY: the C contract.
    or_null(unsafe { pointer::read(attr) }.and_then(|attr| {
        // SAFETY: the C contract.
        unsafe { create(pd, &attr::ah_attr(&attr)) }
    }))
}

/// # Safety
/// The C contract.
unsafe fn create(pd: *mut IbvPd, attr: &AhAttr) -> Result<*mut IbvAh, Errno> {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<PdObject>(pd) }?;
    let ah = object.verbs().create_ah(attr)?;
    let abi = IbvAh { context: object.context(), pd, handle: NO_HANDLE };
    Ok(object::hand_out(AhObject { abi, ah }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut IbvPd,
    wc: *mut IbvWc,
    grh: *mut IbvGrh,
    port_num: u8,
) -> *mut IbvAh {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<PdObject>(pd) };
    or_null(object.and_then(|object| {
        // SAFETY: the C contract: the PD's context is open.
        let attr = unsafe { sender(object.context(), port_num, wc, grh) }?;
        // SAFETY: the C contract.
        unsafe { create(pd, &attr) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut IbvContext,
    port_num: u8,
    wc: *mut IbvWc,
    grh: *mut IbvGrh,
    ah_attr: *mut IbvAhAttr,
) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { sender(context, port_num, wc, grh) }.and_then(|attr| {
        // SAFETY: the C contract.
        unsafe { pointer::write(ah_attr, attr::ibv_ah_attr_of(&attr)) }
    }))
}

/// The way back to the sender of a datagram.
///
/// # Safety
/// The C contract.
unsafe fn sender(
    context: *mut IbvContext,
    port_num: u8,
    wc: *const IbvWc,
    grh: *const IbvGrh,
) -> Result<AhAttr, Errno> {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) }?;
    // Asks for the port, so that one that is not there is refused.
    context.device().port_attr(u32::from(port_num))?;
    // SAFETY: the C contract.
    let wc = unsafe { pointer::read(wc) }?;
    if wc.wc_flags & WcFlags::GRH.bits() == 0 {
        // On RoCE nothing leads back to the sender without one.
        return Err(Errno::INVALID);
    }
    // SAFETY: the C contract: the 40 bytes in front of the payload, at any address.
    let bytes = unsafe { pointer::read_unaligned(grh.cast::<[u8; size_of::<IbvGrh>()]>()) }?;
    Ok(AhAttr::of_sender(context.device(), &bytes)?)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_ah(ah: *mut IbvAh) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<AhObject>(ah) };
    status(object.map(|_| {
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<AhObject>(ah) };
    }))
}

/// The UD QP behind an address handle, as a request of the QP `from` names it.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn remote(ah: *const IbvAh, from: Qpn, qpn: u32, qkey: u32) -> Result<Remote, Errno> {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<AhObject>(ah) }?;
    Ok(object.ah.remote(from, Qpn::new(qpn), qkey))
}

/// The LID means nothing on RoCE.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_attach_mcast(qp: *mut IbvQp, gid: *const IbvGid, _lid: u16) -> c_int {
    // SAFETY: the C contract.
    status(unsafe { group(qp, gid) }.and_then(|(object, gid)| Ok(object.verbs().attach_mcast(gid)?)))
}

/// The LID means nothing on RoCE.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_detach_mcast(qp: *mut IbvQp, gid: *const IbvGid, _lid: u16) -> c_int {
    // SAFETY: the C contract.
    status(unsafe { group(qp, gid) }.and_then(|(object, gid)| Ok(object.verbs().detach_mcast(gid)?)))
}

/// # Safety
/// The C contract.
unsafe fn group<'a>(qp: *const IbvQp, gid: *const IbvGid) -> Result<(&'a QpObject, Gid), Errno> {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<QpObject>(qp) }?;
    // SAFETY: the C contract.
    let gid = unsafe { pointer::read(gid) }?;
    Ok((object, Gid(gid.raw)))
}
