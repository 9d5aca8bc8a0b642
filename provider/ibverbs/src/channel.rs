//! Completion channels and their events.

use crate::context::ContextObject;
use crate::cq::CqObject;
use crate::errno::{Errno, minus_one, pointer as or_null, status};
use crate::object::{self, Object};
use crate::pointer;
use ferroce::CompChannel;
use ferroce_ibverbs_layout::{IbvCompChannel, IbvContext, IbvCq};
use libc::{c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// A completion channel.
#[repr(C)]
pub(crate) struct ChannelObject {
    abi: IbvCompChannel,
    channel: CompChannel,
}

// SAFETY: repr(C) with the public structure first; what changes in it is an atomic.
unsafe impl Object for ChannelObject {
    type Abi = IbvCompChannel;
}

impl ChannelObject {
    pub(crate) fn verbs(&self) -> &CompChannel {
        &self.channel
    }

    /// Shows the program how many CQs use it now.
    pub(crate) fn show_users(&self) {
        self.abi.refcnt.store(self.channel.users() as c_int, Ordering::Relaxed);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_comp_channel(context: *mut IbvContext) -> *mut IbvCompChannel {
    // SAFETY: the C contract.
    let opened = unsafe { ContextObject::borrow(context) };
    or_null(opened.and_then(|opened| {
        let channel = opened.verbs().create_comp_channel()?;
        let abi = IbvCompChannel { context, fd: channel.fd().as_raw_fd(), refcnt: AtomicI32::new(0) };
        Ok(object::hand_out(ChannelObject { abi, channel }))
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut IbvCompChannel) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<ChannelObject>(channel) };
    status(object.and_then(|object| {
        if object.channel.users() > 0 {
            return Err(Errno::BUSY);
        }
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<ChannelObject>(channel) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut IbvCompChannel,
    cq: *mut *mut IbvCq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { next_event(channel, cq, cq_context) })
}

unsafe fn next_event(
    channel: *mut IbvCompChannel,
    cq: *mut *mut IbvCq,
    cq_context: *mut *mut c_void,
) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let channel = unsafe { object::borrow::<ChannelObject>(channel) }?;
    let found = object::by_cookie::<CqObject>(channel.channel.next_event()?);
    // SAFETY: a CQ goes away only when its events have been acknowledged, or were never read.
    let object = unsafe { object::borrow::<CqObject>(found) }?;
    // SAFETY: the C contract.
    unsafe { pointer::write(cq, found) }?;
    // SAFETY: the C contract.
    unsafe { pointer::write(cq_context, object.cq_context()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_cq_events(cq: *mut IbvCq, nevents: c_uint) {
    // SAFETY: the C contract.
    if let Ok(cq) = unsafe { object::borrow::<CqObject>(cq) } {
        cq.verbs().ack_events(nevents);
    }
}
