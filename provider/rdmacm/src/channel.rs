//! Event channels.

use crate::layout::RdmaEventChannel;
use ferroce::Config;
use ferroce::cm::CmEventChannel;
use ferroce_abi::errno::{Errno, pointer as or_null};
use ferroce_abi::{log, place, pointer};
use std::os::fd::AsRawFd;

/// A channel: the public structure, and what is ours.
#[repr(C)]
pub(crate) struct ChannelObject {
    abi: RdmaEventChannel,
    pub(crate) channel: CmEventChannel,
}

/// What has to be done once, before the first call does anything.
pub(crate) fn start() {
    log::start();
    if let Some(keeper) = place::keeper() {
        Config::set_keeper_bin(keeper);
    }
}

pub(crate) fn create() -> Result<*mut RdmaEventChannel, Errno> {
    start();
    let channel = CmEventChannel::new()?;
    let abi = RdmaEventChannel { fd: channel.fd().as_raw_fd() };
    Ok(Box::into_raw(Box::new(ChannelObject { abi, channel })).cast())
}

/// # Safety
/// The C contract.
pub(crate) unsafe fn borrow<'a>(channel: *const RdmaEventChannel) -> Result<&'a ChannelObject, Errno> {
    // SAFETY: a channel's pointer is that of its object.
    unsafe { pointer::borrow(channel.cast::<ChannelObject>()) }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_event_channel() -> *mut RdmaEventChannel {
    or_null(create())
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut RdmaEventChannel) {
    if !channel.is_null() {
        // SAFETY: the C contract: it came from `create` and nobody uses it any more.
        drop(unsafe { Box::from_raw(channel.cast::<ChannelObject>()) });
    }
}
