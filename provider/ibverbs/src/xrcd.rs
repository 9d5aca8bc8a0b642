//! XRC domains, and handles to the targets in them.

use crate::context::ContextObject;
use crate::errno::{Errno, pointer as or_null, status};
use crate::object::{self, Object};
use crate::pointer;
use crate::qp;
use ferroce::{Xrcd, XrcdFlags};
use ferroce_ibverbs_layout::{IbvContext, IbvQp, IbvQpOpenAttr, IbvXrcd, IbvXrcdInitAttr};
use ferroce_wire::Qpn;
use libc::c_int;
use std::os::fd::BorrowedFd;

/// An XRC domain.
#[repr(C)]
pub(crate) struct XrcdObject {
    abi: IbvXrcd,
    xrcd: Xrcd,
}

// SAFETY: repr(C) with the public structure first; nothing in it changes.
unsafe impl Object for XrcdObject {
    type Abi = IbvXrcd;
}

impl XrcdObject {
    pub(crate) fn verbs(&self) -> &Xrcd {
        &self.xrcd
    }

    pub(crate) fn context(&self) -> *mut IbvContext {
        self.abi.context
    }
}

/// The operation behind `ibv_open_xrcd`.
pub(crate) unsafe extern "C" fn open_xrcd_op(
    context: *mut IbvContext,
    init_attr: *mut IbvXrcdInitAttr,
) -> *mut IbvXrcd {
    // SAFETY: the C contract.
    or_null(unsafe { open(context, init_attr) })
}

unsafe fn open(context: *mut IbvContext, init_attr: *mut IbvXrcdInitAttr) -> Result<*mut IbvXrcd, Errno> {
    // SAFETY: the C contract.
    let opened = unsafe { ContextObject::borrow(context) }?;
    // SAFETY: the C contract.
    let attr = unsafe { pointer::read(init_attr) }?;
    if attr.comp_mask & !(INIT_ATTR_FD | INIT_ATTR_OFLAGS) != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    // Both are demanded, also by rdma-core.
    if attr.comp_mask != INIT_ATTR_FD | INIT_ATTR_OFLAGS {
        return Err(Errno::INVALID);
    }
    let flags =
        XrcdFlags { create: attr.oflags & libc::O_CREAT != 0, exclusive: attr.oflags & libc::O_EXCL != 0 };
    let file = (attr.fd != NO_FILE).then(|| {
        // SAFETY: a number that is no descriptor of the program's gives EBADF in fstat(2), and nothing else is done
        // with it.
        unsafe { BorrowedFd::borrow_raw(attr.fd.max(0)) }
    });
    if attr.fd < NO_FILE {
        return Err(Errno(libc::EBADF));
    }
    let xrcd = opened.verbs().open_xrcd(file, flags)?;
    Ok(object::hand_out(XrcdObject { abi: IbvXrcd { context }, xrcd }))
}

/// The `fd` of a domain that nobody shares.
const NO_FILE: c_int = -1;
/// `IBV_XRCD_INIT_ATTR_FD`.
const INIT_ATTR_FD: u32 = 1;
/// `IBV_XRCD_INIT_ATTR_OFLAGS`.
const INIT_ATTR_OFLAGS: u32 = 1 << 1;

/// The operation behind `ibv_close_xrcd`.
pub(crate) unsafe extern "C" fn close_xrcd_op(xrcd: *mut IbvXrcd) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<XrcdObject>(xrcd) };
    status(object.and_then(|object| {
        object.xrcd.close()?;
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<XrcdObject>(xrcd) };
        Ok(())
    }))
}

/// The operation behind `ibv_open_qp`.
pub(crate) unsafe extern "C" fn open_qp_op(
    context: *mut IbvContext,
    open_attr: *mut IbvQpOpenAttr,
) -> *mut IbvQp {
    // SAFETY: the C contract.
    or_null(unsafe { open_qp(context, open_attr) })
}

unsafe fn open_qp(context: *mut IbvContext, open_attr: *mut IbvQpOpenAttr) -> Result<*mut IbvQp, Errno> {
    // SAFETY: the C contract.
    unsafe { ContextObject::borrow(context) }?;
    // SAFETY: the C contract.
    let attr = unsafe { pointer::read(open_attr) }?;
    let needed = OPEN_ATTR_NUM | OPEN_ATTR_XRCD | OPEN_ATTR_TYPE;
    if attr.comp_mask & !(needed | OPEN_ATTR_CONTEXT) != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    if attr.comp_mask & needed != needed || attr.qp_type != qp::XRC_RECV {
        return Err(Errno::INVALID);
    }
    let qp_context =
        if attr.comp_mask & OPEN_ATTR_CONTEXT != 0 { attr.qp_context } else { std::ptr::null_mut() };
    // SAFETY: the C contract.
    let xrcd = unsafe { object::borrow::<XrcdObject>(attr.xrcd) }?;
    let open = |cookie| xrcd.xrcd.open_target(Qpn::new(attr.qp_num), cookie);
    qp::hand_out_target(xrcd, qp_context, open)
}

// `enum ibv_qp_open_attr_mask`.
const OPEN_ATTR_NUM: u32 = 1;
const OPEN_ATTR_XRCD: u32 = 1 << 1;
const OPEN_ATTR_CONTEXT: u32 = 1 << 2;
const OPEN_ATTR_TYPE: u32 = 1 << 3;
