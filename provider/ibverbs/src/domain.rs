//! Thread domains, and the parent domains that put a protection domain and a thread domain together.

use crate::context::ContextObject;
use crate::errno::{Errno, pointer as or_null, status};
use crate::object::{self, NO_HANDLE, Object};
use crate::pd::PdObject;
use crate::pointer;
use ferroce::{PdUser, Td};
use ferroce_ibverbs_layout::{IbvContext, IbvParentDomainInitAttr, IbvPd, IbvTd, IbvTdInitAttr};
use libc::c_int;

/// A thread domain.
#[repr(C)]
struct TdObject {
    abi: IbvTd,
    td: Td,
}

// SAFETY: repr(C) with the public structure first; nothing in it changes.
unsafe impl Object for TdObject {
    type Abi = IbvTd;
}

/// The operation behind `ibv_alloc_td`.
pub(crate) unsafe extern "C" fn alloc_td_op(
    context: *mut IbvContext,
    attr: *mut IbvTdInitAttr,
) -> *mut IbvTd {
    // SAFETY: the C contract.
    or_null(unsafe { ContextObject::borrow(context) }.and_then(|opened| {
        // SAFETY: the C contract.
        if unsafe { pointer::read(attr) }?.comp_mask != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        let td = opened.verbs().alloc_td()?;
        Ok(object::hand_out(TdObject { abi: IbvTd { context }, td }))
    }))
}

/// The operation behind `ibv_dealloc_td`.
pub(crate) unsafe extern "C" fn dealloc_td_op(td: *mut IbvTd) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<TdObject>(td) };
    status(object.and_then(|object| {
        object.td.close()?;
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<TdObject>(td) };
        Ok(())
    }))
}

/// The operation behind `ibv_alloc_parent_domain`.
pub(crate) unsafe extern "C" fn alloc_parent_domain_op(
    context: *mut IbvContext,
    attr: *mut IbvParentDomainInitAttr,
) -> *mut IbvPd {
    // SAFETY: the C contract.
    or_null(unsafe { alloc_parent_domain(context, attr) })
}

unsafe fn alloc_parent_domain(
    context: *mut IbvContext,
    attr: *mut IbvParentDomainInitAttr,
) -> Result<*mut IbvPd, Errno> {
    // SAFETY: the C contract.
    unsafe { ContextObject::borrow(context) }?;
    // SAFETY: the C contract: every form of the structure has these members.
    let attr = unsafe { pointer::read(attr) }?;
    // The device asks nobody for memory, so it has no use for allocators, nor for what they would be called with.
    if attr.comp_mask != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    // SAFETY: the C contract.
    let pd = unsafe { object::borrow::<PdObject>(attr.pd) }?;
    let td = if attr.td.is_null() {
        None
    } else {
        // SAFETY: the C contract.
        Some(&unsafe { object::borrow::<TdObject>(attr.td) }?.td)
    };
    if pd.context() != context {
        return Err(Errno::INVALID);
    }
    let parent = pd.verbs().alloc_parent_domain(td)?;
    Ok(object::hand_out(PdObject::new(IbvPd { context, handle: NO_HANDLE }, parent)))
}

/// The parent domain that a CQ is made in; none for a null pointer, and an error for a PD that is no parent domain.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn of_cq(pd: *const IbvPd) -> Result<Option<PdUser>, Errno> {
    if pd.is_null() {
        return Ok(None);
    }
    // SAFETY: the C contract.
    let pd = unsafe { object::borrow::<PdObject>(pd) }?;
    Ok(Some(pd.verbs().parent_domain_user().ok_or(Errno::INVALID)?))
}
