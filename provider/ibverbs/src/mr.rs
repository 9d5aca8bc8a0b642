//! Memory regions.

use crate::errno::{Errno, pointer as or_null, status};
use crate::object::{self, NO_HANDLE, Object};
use crate::pd::PdObject;
use crate::pointer;
use crate::post::converted;
use ferroce::core::AccessFlags;
use ferroce::{Advice, Mr, MrChange};
use ferroce_ibverbs_layout::{IbvMr, IbvPd, IbvSge};
use libc::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A memory region.
#[repr(C)]
pub(crate) struct MrObject {
    abi: IbvMr,
    mr: Mr,
}

// SAFETY: repr(C) with the public structure first; what changes in it are atomics.
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
    Ok(hand_out(object, pd, addr, length, mr))
}

/// Hands a region to the program, under the address and length that it knows it by.
pub(crate) fn hand_out(
    object: &PdObject,
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    mr: Mr,
) -> *mut IbvMr {
    let abi = IbvMr {
        context: object.context(),
        pd: AtomicPtr::new(pd),
        addr: AtomicPtr::new(addr),
        length: AtomicUsize::new(length),
        handle: NO_HANDLE,
        lkey: mr.lkey(),
        rkey: mr.rkey(),
    };
    object::hand_out(MrObject { abi, mr })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut IbvPd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut IbvMr {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<PdObject>(pd) };
    or_null(object.and_then(|object| {
        let access = AccessFlags::from_bits(access as u32).ok_or(Errno::INVALID)?;
        // What programs probe for: a device that has the feature looks at the descriptor first.
        if fd < 0 {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: the C contract: an open descriptor. One that is not open is an error of the system calls on it.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let mr = object.verbs().reg_dmabuf_mr(fd, offset, length as u64, iova, access)?;
        Ok(hand_out(object, pd, iova as *mut c_void, length, mr))
    }))
}

/// The operation behind `ibv_alloc_null_mr`.
pub(crate) unsafe extern "C" fn alloc_null_mr_op(pd: *mut IbvPd) -> *mut IbvMr {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<PdObject>(pd) };
    or_null(object.and_then(|object| {
        let mr = object.verbs().alloc_null_mr()?;
        Ok(hand_out(object, pd, null_mut(), 0, mr))
    }))
}

/// The operation behind `ibv_advise_mr`.
pub(crate) unsafe extern "C" fn advise_mr_op(
    pd: *mut IbvPd,
    advice: u32,
    flags: u32,
    sg_list: *mut IbvSge,
    num_sge: u32,
) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<PdObject>(pd) };
    status(object.and_then(|object| {
        let advice = match advice {
            0 => Advice::Prefetch,
            1 => Advice::PrefetchWrite,
            2 => Advice::PrefetchNoFault,
            _ => return Err(Errno::UNSUPPORTED),
        };
        if flags & !ADVISE_FLAG_FLUSH != 0 {
            return Err(Errno::INVALID);
        }
        // SAFETY: the C contract: `num_sge` elements.
        let sges = unsafe { pointer::borrow_slice(sg_list, num_sge as usize) }?;
        Ok(object.verbs().advise_mr(advice, flags & ADVISE_FLAG_FLUSH != 0, &converted(sges))?)
    }))
}

/// `IBV_ADVISE_MR_FLAG_FLUSH`: the advice has been followed when the call returns.
const ADVISE_FLAG_FLUSH: u32 = 1;

/// 0, or what went wrong, with `errno` set. The region is as it was then, as nothing is unpinned before something else is
/// pinned.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut IbvMr,
    flags: c_int,
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    // SAFETY: the C contract.
    let changed = unsafe { reregister(mr, flags, pd, addr, length, access as u32) };
    match changed {
        Ok(()) => 0,
        Err(Refusal { code, errno }) => {
            errno.raise();
            code
        }
    }
}

/// Why a region was not changed.
struct Refusal {
    code: c_int,
    errno: Errno,
}

/// `IBV_REREG_MR_ERR_INPUT`: the arguments are wrong.
const REREG_ERR_INPUT: c_int = -1;
/// `IBV_REREG_MR_ERR_CMD`: the device refused.
const REREG_ERR_CMD: c_int = -4;
/// `IBV_REREG_MR_CHANGE_TRANSLATION`.
const CHANGE_TRANSLATION: c_int = 1;
/// `IBV_REREG_MR_CHANGE_PD`.
const CHANGE_PD: c_int = 2;
/// `IBV_REREG_MR_CHANGE_ACCESS`.
const CHANGE_ACCESS: c_int = 4;

unsafe fn reregister(
    mr: *mut IbvMr,
    flags: c_int,
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    access: u32,
) -> Result<(), Refusal> {
    let input = |errno| Refusal { code: REREG_ERR_INPUT, errno };
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<MrObject>(mr) }.map_err(input)?;
    let has = |flag| flags & flag != 0;
    let known = CHANGE_TRANSLATION | CHANGE_PD | CHANGE_ACCESS;
    let translation_lacks = has(CHANGE_TRANSLATION) && (addr.is_null() || length == 0);
    if flags & !known != 0 || translation_lacks || (access != 0 && !has(CHANGE_ACCESS)) {
        return Err(input(Errno::INVALID));
    }
    let command = |errno| Refusal { code: REREG_ERR_CMD, errno };
    if flags == 0 {
        return Err(command(Errno::INVALID));
    }
    let new_pd = match has(CHANGE_PD) {
        // SAFETY: the C contract.
        true => Some(unsafe { object::borrow::<PdObject>(pd) }.map_err(input)?),
        false => None,
    };
    let access = match has(CHANGE_ACCESS) {
        true => Some(AccessFlags::from_bits(access).ok_or(command(Errno::INVALID))?),
        false => None,
    };
    let change = MrChange {
        pd: new_pd.map(PdObject::verbs),
        memory: has(CHANGE_TRANSLATION).then_some((addr as u64, length as u64)),
        access,
    };
    // SAFETY: the C contract of ibv_rereg_mr(3), as for ibv_reg_mr(3).
    let changed = unsafe { object.mr.rereg(&change) };
    changed.map_err(|error| command(Errno::from(error)))?;
    if has(CHANGE_PD) {
        object.abi.pd.store(pd, Ordering::Relaxed);
    }
    if has(CHANGE_TRANSLATION) {
        object.abi.addr.store(addr, Ordering::Relaxed);
        object.abi.length.store(length, Ordering::Relaxed);
    }
    Ok(())
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
