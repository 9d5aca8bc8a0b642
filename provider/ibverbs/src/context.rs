//! An open device, and its asynchronous events.

use crate::cq::CqObject;
use crate::device::DeviceObject;
use crate::errno::{Errno, minus_one};
use crate::object::{self, Object};
use crate::qp::QpObject;
use crate::srq::SrqObject;
use crate::{pointer, table};
use ferroce::{AsyncEventKind, Context};
use ferroce_ibverbs_layout::{IbvAsyncElement, IbvAsyncEvent, IbvContext, VerbsContext};
use libc::c_int;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// The block of an open device. Programs hold the address of the [`IbvContext`] in it.
#[repr(C)]
pub(crate) struct ContextObject {
    abi: VerbsContext,
    context: Context,
    device: Arc<DeviceObject>,
}

// SAFETY: repr(C) with the public structure first; nothing in it changes.
unsafe impl Object for ContextObject {
    type Abi = VerbsContext;
}

impl ContextObject {
    pub(crate) fn new(device: Arc<DeviceObject>, context: Context) -> ContextObject {
        let async_fd = context.async_fd().as_raw_fd();
        ContextObject { abi: table::verbs_context(device.as_abi(), async_fd), context, device }
    }

    pub(crate) fn verbs(&self) -> &Context {
        &self.context
    }

    pub(crate) fn device(&self) -> &ferroce::Device {
        self.device.device()
    }

    /// The block around a context.
    pub(crate) fn block(context: *const IbvContext) -> *mut VerbsContext {
        context.wrapping_byte_sub(offset_of!(VerbsContext, context)).cast::<VerbsContext>().cast_mut()
    }

    /// # Safety
    /// The C contract.
    pub(crate) unsafe fn borrow<'a>(context: *const IbvContext) -> Result<&'a ContextObject, Errno> {
        if context.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the C contract: the context came from `ibv_open_device`, which made the block.
        unsafe { object::borrow(Self::block(context)) }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_async_event(context: *mut IbvContext, event: *mut IbvAsyncEvent) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { next_async_event(context, event) })
}

unsafe fn next_async_event(context: *mut IbvContext, event: *mut IbvAsyncEvent) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let context = unsafe { ContextObject::borrow(context) }?;
    let record = context.verbs().next_async_event()?;
    let element = match Subject::of(record.kind) {
        Subject::Cq => IbvAsyncElement { cq: object::by_cookie::<CqObject>(record.element) },
        Subject::Qp => IbvAsyncElement { qp: object::by_cookie::<QpObject>(record.element) },
        Subject::Srq => IbvAsyncElement { srq: object::by_cookie::<SrqObject>(record.element) },
        Subject::Port => IbvAsyncElement { port_num: record.element as c_int },
    };
    // SAFETY: the C contract.
    unsafe { pointer::write(event, IbvAsyncEvent { element, event_type: record.kind as u32 }) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_async_event(event: *mut IbvAsyncEvent) {
    // SAFETY: the C contract.
    let acknowledged = unsafe { acknowledge(event) };
    if let Err(errno) = acknowledged {
        errno.raise();
    }
}

unsafe fn acknowledge(event: *mut IbvAsyncEvent) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let event = unsafe { pointer::read(event) }?;
    let kind = AsyncEventKind::ALL.get(event.event_type as usize).ok_or(Errno::INVALID)?;
    match Subject::of(*kind) {
        Subject::Cq => {
            // SAFETY: of the members of the union, the event's type says that it is this one.
            let cq = unsafe { event.element.cq };
            // SAFETY: the C contract: the event came from `ibv_get_async_event`, and its CQ waits for this.
            unsafe { object::borrow::<CqObject>(cq) }?.verbs().ack_async_event();
        }
        Subject::Qp => {
            // SAFETY: as for a CQ.
            let qp = unsafe { event.element.qp };
            // SAFETY: as for a CQ.
            unsafe { object::borrow::<QpObject>(qp) }?.verbs().ack_async_event();
        }
        Subject::Srq => {
            // SAFETY: as for a CQ.
            let srq = unsafe { event.element.srq };
            // SAFETY: as for a CQ.
            unsafe { object::borrow::<SrqObject>(srq) }?.verbs().ack_async_event();
        }
        Subject::Port => {}
    }
    Ok(())
}

/// What kind of thing an event is about.
enum Subject {
    Cq,
    Qp,
    Srq,
    /// The port or the device as a whole.
    Port,
}

impl Subject {
    fn of(kind: AsyncEventKind) -> Subject {
        use AsyncEventKind as Kind;
        match kind {
            Kind::CqErr => Subject::Cq,
            Kind::QpFatal
            | Kind::QpReqErr
            | Kind::QpAccessErr
            | Kind::CommEst
            | Kind::SqDrained
            | Kind::PathMig
            | Kind::PathMigErr
            | Kind::QpLastWqeReached => Subject::Qp,
            Kind::SrqErr | Kind::SrqLimitReached => Subject::Srq,
            Kind::DeviceFatal
            | Kind::PortActive
            | Kind::PortErr
            | Kind::LidChange
            | Kind::PkeyChange
            | Kind::SmChange
            | Kind::ClientReregister
            | Kind::GidChange => Subject::Port,
        }
    }
}
