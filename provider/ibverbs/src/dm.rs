//! Device memory.

use crate::context::ContextObject;
use crate::errno::{Errno, pointer as or_null, status};
use crate::mr;
use crate::object::{self, NO_HANDLE, Object};
use crate::pd::PdObject;
use crate::pointer;
use ferroce::Dm;
use ferroce::core::AccessFlags;
use ferroce_ibverbs_layout::{IbvAllocDmAttr, IbvContext, IbvDm, IbvMr, IbvPd};
use libc::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::slice;
use std::sync::Arc;

/// Device memory.
#[repr(C)]
struct DmObject {
    abi: IbvDm,
    dm: Arc<Dm>,
}

// SAFETY: repr(C) with the public structure first; nothing in it changes.
unsafe impl Object for DmObject {
    type Abi = IbvDm;
}

/// The largest alignment that can be asked for, as a power of 2: a page. Addresses in device memory count from 0, so
/// that each is as aligned as its offset, whatever was asked for.
const MAX_LOG_ALIGN: u32 = 12;

/// The operation behind `ibv_alloc_dm`.
pub(crate) unsafe extern "C" fn alloc_dm_op(
    context: *mut IbvContext,
    attr: *mut IbvAllocDmAttr,
) -> *mut IbvDm {
    // SAFETY: the C contract.
    let opened = unsafe { ContextObject::borrow(context) };
    or_null(opened.and_then(|opened| {
        // SAFETY: the C contract.
        let attr = unsafe { pointer::read(attr) }?;
        if attr.comp_mask != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if attr.log_align_req > MAX_LOG_ALIGN {
            return Err(Errno::INVALID);
        }
        let dm = opened.verbs().alloc_dm(attr.length as u64)?;
        let abi = IbvDm {
            context,
            memcpy_to_dm: Some(memcpy_to_dm),
            memcpy_from_dm: Some(memcpy_from_dm),
            comp_mask: 0,
            handle: NO_HANDLE,
        };
        Ok(object::hand_out(DmObject { abi, dm }))
    }))
}

/// The operation behind `ibv_free_dm`.
pub(crate) unsafe extern "C" fn free_dm_op(dm: *mut IbvDm) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<DmObject>(dm) };
    status(object.and_then(|object| {
        object.dm.close()?;
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<DmObject>(dm) };
        Ok(())
    }))
}

/// The operation behind `ibv_reg_dm_mr`.
pub(crate) unsafe extern "C" fn reg_dm_mr_op(
    pd: *mut IbvPd,
    dm: *mut IbvDm,
    dm_offset: u64,
    length: usize,
    access: c_uint,
) -> *mut IbvMr {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<PdObject>(pd) };
    or_null(object.and_then(|object| {
        // SAFETY: the C contract.
        let dm = unsafe { object::borrow::<DmObject>(dm) }?;
        let access = AccessFlags::from_bits(access).ok_or(Errno::INVALID)?;
        let mr = object.verbs().reg_dm_mr(&dm.dm, dm_offset, length as u64, access)?;
        Ok(mr::hand_out(object, pd, null_mut(), length, mr))
    }))
}

unsafe extern "C" fn memcpy_to_dm(
    dm: *mut IbvDm,
    dm_offset: u64,
    host_addr: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<DmObject>(dm) };
    status(object.and_then(|object| {
        // SAFETY: the C contract: `length` bytes, which the program leaves alone during the call.
        let bytes = unsafe { pointer::borrow_slice(host_addr.cast::<u8>(), length) }?;
        Ok(object.dm.write(dm_offset, bytes)?)
    }))
}

unsafe extern "C" fn memcpy_from_dm(
    host_addr: *mut c_void,
    dm: *mut IbvDm,
    dm_offset: u64,
    length: usize,
) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<DmObject>(dm) };
    status(object.and_then(|object| {
        if host_addr.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the C contract: room for `length` bytes, which the program leaves alone during the call.
        let room = unsafe { slice::from_raw_parts_mut(host_addr.cast::<u8>(), length) };
        Ok(object.dm.read(dm_offset, room)?)
    }))
}
