//! Protection domains.

use crate::context::ContextObject;
use crate::errno::{pointer as or_null, status};
use crate::object::{self, NO_HANDLE, Object};
use ferroce::Pd;
use ferroce_ibverbs_layout::{IbvContext, IbvPd};
use libc::c_int;

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
    pub(crate) fn new(abi: IbvPd, pd: Pd) -> PdObject {
        PdObject { abi, pd }
    }

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
