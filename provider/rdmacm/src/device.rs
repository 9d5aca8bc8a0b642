//! The devices that IDs are bound to: one context for each, opened once and kept, with a protection domain for whoever
//! names none.

use crate::ibv;
use ferroce_abi::errno::Errno;
use ferroce_ibverbs_layout::{IbvContext, IbvDevice, IbvPd, IbvXrcd, IbvXrcdInitAttr};
use libc::c_int;
use parking_lot::Mutex;
use std::ffi::CStr;
use std::ptr::{self, null_mut};

/// An open device.
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub(crate) context: *mut IbvContext,
    pub(crate) pd: *mut IbvPd,
}

struct Opened {
    name: String,
    /// Of the process that opened it: in a forked child it is dead.
    process: u32,
    device: Device,
    xrcd: *mut IbvXrcd,
}

// SAFETY: libibverbs' objects may be used from any thread.
unsafe impl Send for Opened {}

static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

/// The device of that name.
pub(crate) fn open(name: &str) -> Result<Device, Errno> {
    let mut opened = OPENED.lock();
    let process = std::process::id();
    if let Some(found) = opened.iter().find(|one| one.name == name && one.process == process) {
        return Ok(found.device);
    }
    let context = open_context(name)?;
    // SAFETY: an open context.
    let pd = unsafe { ibv::ibv_alloc_pd(context) };
    if pd.is_null() {
        return Err(last_error());
    }
    let device = Device { context, pd };
    opened.push(Opened { name: name.to_owned(), process, device, xrcd: null_mut() });
    Ok(device)
}

fn open_context(name: &str) -> Result<*mut IbvContext, Errno> {
    // SAFETY: the number is not wanted.
    let list = unsafe { ibv::ibv_get_device_list(null_mut()) };
    if list.is_null() {
        return Err(last_error());
    }
    let mut context = Err(Errno(libc::ENODEV));
    // Ends at the list's null pointer.
    for at in 0.. {
        // SAFETY: the list ends with a null pointer, which has not been passed.
        let device: *mut IbvDevice = unsafe { list.wrapping_add(at).read() };
        if device.is_null() {
            break;
        }
        // SAFETY: a device of the list.
        let c_name = unsafe { ibv::ibv_get_device_name(device) };
        // SAFETY: a device's name is a C string that lives as long as the device.
        if unsafe { CStr::from_ptr(c_name) }.to_bytes() == name.as_bytes() {
            // SAFETY: a device of the list.
            let opened = unsafe { ibv::ibv_open_device(device) };
            context = if opened.is_null() { Err(last_error()) } else { Ok(opened) };
            break;
        }
    }
    // SAFETY: the list was made for us.
    unsafe { ibv::ibv_free_device_list(list) };
    context
}

/// The XRC domain that IDs of a device share; opened with the first that wants one.
pub(crate) fn xrcd(context: *mut IbvContext) -> Result<*mut IbvXrcd, Errno> {
    let mut opened = OPENED.lock();
    let device = opened.iter_mut().find(|one| one.device.context == context).ok_or(Errno::INVALID)?;
    if device.xrcd.is_null() {
        let mut attr = IbvXrcdInitAttr { comp_mask: XRCD_MASK, fd: -1, oflags: libc::O_CREAT };
        // SAFETY: an open context.
        let open = unsafe { &*ibv::extended(context) }.open_xrcd.ok_or(Errno::UNSUPPORTED)?;
        // SAFETY: as above.
        device.xrcd = unsafe { open(context, &raw mut attr) };
    }
    if device.xrcd.is_null() { Err(last_error()) } else { Ok(device.xrcd) }
}

/// `IBV_XRCD_INIT_ATTR_FD` and `IBV_XRCD_INIT_ATTR_OFLAGS`.
const XRCD_MASK: u32 = 3;

/// What the last call that failed left in `errno`.
pub(crate) fn last_error() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// All devices, opened, as a null-terminated array.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_devices(num_devices: *mut c_int) -> *mut *mut IbvContext {
    crate::channel::start();
    let devices = ferroce::devices().unwrap_or_default();
    let contexts = devices.iter().filter_map(|device| open(device.name()).ok());
    let mut list: Vec<_> = contexts.map(|device| device.context).collect();
    let count = list.len();
    list.push(null_mut());
    // SAFETY: the C contract; null means that the number is not wanted.
    let _unwanted = unsafe { ferroce_abi::pointer::write(num_devices, count as c_int) };
    Box::into_raw(list.into_boxed_slice()).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_free_devices(list: *mut *mut IbvContext) {
    if list.is_null() {
        return;
    }
    let mut count = 0;
    // SAFETY: the C contract: the list ends with a null pointer, which has not been passed.
    while !unsafe { list.wrapping_add(count).read() }.is_null() {
        count += 1;
    }
    // SAFETY: the array was made by `rdma_get_devices`, with as many elements and its end.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(list, count + 1)) });
}
