//! Memory regions.

use crate::errno::{Errno, pointer as or_null, status};
use crate::object::{self, NO_HANDLE, Object};
use crate::pd::PdObject;
use ferroce::Mr;
use ferroce::core::AccessFlags;
use ferroce_ibverbs_layout::{IbvMr, IbvPd};
use libc::{c_int, c_void};

/// A memory region.
#[repr(C)]
pub(crate) struct MrObject {
    abi: IbvMr,
    mr: Mr,
}

// SAFETY: repr(C) with the public structure first; nothing in it changes.
unsafe impl Object for MrObject {
    type Abi = IbvMr;
}

impl MrObject {
    pub(crate) fn verbs(&self) -> &Mr {
        &self.mr
    }
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
    let mr = unsafe { object.verbs().reg_mr(addr as u64, length as u64, iova, access) }?;
    let abi = IbvMr {
        context: object.context(),
        pd,
        addr,
        length,
        handle: NO_HANDLE,
        lkey: mr.lkey(),
        rkey: mr.rkey(),
    };
    Ok(object::hand_out(MrObject { abi, mr }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(mr: *mut IbvMr) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<MrObject>(mr) };
    status(object.and_then(|object| {
        object.mr.close()?;
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<MrObject>(mr) };
        Ok(())
    }))
}
