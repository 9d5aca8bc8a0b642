//! Protection domains and memory regions.

use crate::context::ContextObject;
use crate::errno::{Errno, pointer as or_null, status};
use crate::object::{self, NO_HANDLE, Object};
use ferroce::core::AccessFlags;
use ferroce::{Mr, Pd};
use ferroce_ibverbs_layout::{IbvContext, IbvMr, IbvPd};
use libc::{c_int, c_void};

/// A protection domain.
#[repr(C)]
pub(crate) struct PdObject {
    abi: IbvPd,
    pd: Pd,
}

// SAFETY: repr(C) with the public structure first; nothing in it changes.
unsafe impl Object for PdObject {
    type Abi = IbvPd;
}

impl PdObject {
    pub(crate) fn verbs(&self) -> &Pd {
        &self.pd
    }

    pub(crate) fn context(&self) -> *mut IbvContext {
        self.abi.context
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_alloc_pd(context: *mut IbvContext) -> *mut IbvPd {
    // SAFETY: the C contract.
    let opened = unsafe { ContextObject::borrow(context) };
    or_null(opened.and_then(|opened| {
        let pd = opened.verbs().alloc_pd()?;
        Ok(object::hand_out(PdObject { abi: IbvPd { context, handle: NO_HANDLE }, pd }))
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dealloc_pd(pd: *mut IbvPd) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<PdObject>(pd) };
    status(object.and_then(|object| {
        object.pd.close()?;
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<PdObject>(pd) };
        Ok(())
    }))
}

/// A memory region.
#[repr(C)]
struct MrObject {
    abi: IbvMr,
    _mr: Mr,
}

// SAFETY: repr(C) with the public structure first; nothing in it changes.
unsafe impl Object for MrObject {
    type Abi = IbvMr;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut IbvMr {
    // SAFETY: the C contract.
    or_null(unsafe { register(pd, addr, length, addr as u64, access as u32) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut IbvMr {
    // SAFETY: the C contract.
    or_null(unsafe { register(pd, addr, length, iova, access as u32) })
}

/// Where the header's macros go when they can't see that no optional flag is set: those that are not known are passed
/// over, as on a kernel that is older than them.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> *mut IbvMr {
    let access = access & !(OPTIONAL_ACCESS & !AccessFlags::RELAXED_ORDERING.bits());
    // SAFETY: the C contract.
    or_null(unsafe { register(pd, addr, length, iova, access) })
}

/// `IBV_ACCESS_OPTIONAL_RANGE`: flags that a device may ignore.
const OPTIONAL_ACCESS: u32 = 0x3ff0_0000;

unsafe fn register(
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> Result<*mut IbvMr, Errno> {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<PdObject>(pd) }?;
    let access = AccessFlags::from_bits(access).ok_or(Errno::INVALID)?;
    // SAFETY: the C contract of ibv_reg_mr(3): the program keeps the range mapped until it deregisters, and knows that
    // peers change it.
    let mr = unsafe { object.pd.reg_mr(addr as u64, length as u64, iova, access) }?;
    let abi = IbvMr {
        context: object.context(),
        pd,
        addr,
        length,
        handle: NO_HANDLE,
        lkey: mr.lkey(),
        rkey: mr.rkey(),
    };
    Ok(object::hand_out(MrObject { abi, _mr: mr }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(mr: *mut IbvMr) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<MrObject>(mr) };
    status(object.map(|_| {
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<MrObject>(mr) };
    }))
}
