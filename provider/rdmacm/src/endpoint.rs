//! Endpoints: IDs made from what `rdma_getaddrinfo` found, whose calls wait.

use crate::event;
use crate::id::{self, QpInit, destroy_with_all, parts};
use crate::layout::{RdmaAddrinfo, RdmaCmId};
use crate::qp;
use ferroce_abi::errno::{Errno, minus_one};
use ferroce_abi::pointer;
use ferroce_ibverbs_layout::{IbvPd, IbvQpInitAttr};
use libc::c_int;
use std::ptr::null_mut;

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_ep(
    id: *mut *mut RdmaCmId,
    res: *mut RdmaAddrinfo,
    pd: *mut IbvPd,
    qp_init_attr: *mut IbvQpInitAttr,
) -> c_int {
    // SAFETY: the C contract.
    let created = unsafe { create(res, pd, qp_init_attr) };
    // SAFETY: the C contract.
    minus_one(created.and_then(|created| unsafe { pointer::write(id, created) }))
}

unsafe fn create(
    res: *const RdmaAddrinfo,
    pd: *mut IbvPd,
    attr: *mut IbvQpInitAttr,
) -> Result<*mut RdmaCmId, Errno> {
    // SAFETY: the C contract.
    let res = unsafe { pointer::borrow(res) }?;
    // SAFETY: as above.
    let id = unsafe { id::create(null_mut(), null_mut(), res.port_space as u32, res.qp_type as u32) }?;
    // SAFETY: as above.
    let done = unsafe { set_up(id, res, pd, attr) };
    if let Err(errno) = done {
        // SAFETY: just made, and nobody else's.
        let _gone = unsafe { destroy_with_all(id) };
        return Err(errno);
    }
    Ok(id)
}

unsafe fn set_up(
    id: *mut RdmaCmId,
    res: &RdmaAddrinfo,
    pd: *mut IbvPd,
    attr: *mut IbvQpInitAttr,
) -> Result<(), Errno> {
    if !attr.is_null() {
        // SAFETY: the C contract: the program sees which service it gets.
        unsafe { (*attr).qp_type = res.qp_type as u32 };
    }
    if res.flags & PASSIVE != 0 {
        // SAFETY: the C contract.
        unsafe { id::bind(id, res.src_addr) }?;
        if !attr.is_null() {
            // SAFETY: the C contract.
            let (_, private) = unsafe { parts(id) }?;
            // SAFETY: the C contract.
            let attr = unsafe { pointer::read(attr) }?;
            private.more.lock().qp_init = Some(QpInit { attr, pd });
        }
        return Ok(());
    }
    // SAFETY: the C contract.
    unsafe { id::resolve_addr(id, res.src_addr, res.dst_addr) }?;
    // SAFETY: the C contract.
    unsafe { id::resolve_route(id) }?;
    if !attr.is_null() {
        // SAFETY: the C contract.
        unsafe { qp::create(id, pd, attr) }?;
    }
    if res.connect_len > 0 {
        // SAFETY: the C contract.
        let (_, private) = unsafe { parts(id) }?;
        // SAFETY: the C contract.
        let bytes = unsafe { pointer::borrow_slice(res.connect.cast::<u8>(), res.connect_len) }?;
        private.more.lock().connect = bytes.to_vec();
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_destroy_ep(id: *mut RdmaCmId) {
    // SAFETY: the C contract.
    let _null_is_nothing = unsafe { destroy_with_all(id) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_request(listen: *mut RdmaCmId, id: *mut *mut RdmaCmId) -> c_int {
    // SAFETY: the C contract.
    let request = unsafe { get_request(listen) };
    // SAFETY: the C contract.
    minus_one(request.and_then(|request| unsafe { pointer::write(id, request) }))
}

pub(crate) unsafe fn get_request(listen: *mut RdmaCmId) -> Result<*mut RdmaCmId, Errno> {
    // SAFETY: the C contract.
    let event = unsafe { event::next_request(listen) }?;
    // SAFETY: just read.
    let request = unsafe { (*event).id };
    // SAFETY: the C contract.
    let (_, listener) = unsafe { parts(listen) }?;
    let init = listener.more.lock().qp_init;
    if let Some(mut init) = init {
        // SAFETY: the request's ID is ours to give.
        if let Err(errno) = unsafe { qp::create(request, init.pd, &raw mut init.attr) } {
            // SAFETY: as above.
            let _gone = unsafe { event::acknowledge(event) };
            // SAFETY: as above.
            let _gone = unsafe { destroy_with_all(request) };
            return Err(errno);
        }
    }
    // SAFETY: as above.
    let (abi, _) = unsafe { parts(request) }?;
    // The program finds the request's parameters there.
    abi.event = event;
    Ok(request)
}

/// `RAI_PASSIVE`.
pub(crate) const PASSIVE: c_int = 1;
