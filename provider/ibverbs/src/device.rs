//! The device list, and what a device says without being opened.

use crate::context::ContextObject;
use crate::errno::{Errno, minus_one, pointer as or_null};
use crate::{log, object, place, pointer};
use ferroce::{Config, Device};
use ferroce_ibverbs_layout::{IbvContext, IbvDevice, VerbsContext, VerbsDevice};
use libc::{c_char, c_int};
use parking_lot::Mutex;
use std::mem::offset_of;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// A device in the list. Lists and contexts hold one count each of its `Arc`.
#[repr(C)]
pub(crate) struct DeviceObject {
    abi: VerbsDevice,
    device: Device,
}

// SAFETY: the raw pointers of the public part are null, and nothing in it changes.
unsafe impl Send for DeviceObject {}
// SAFETY: as above.
unsafe impl Sync for DeviceObject {}

/// The devices that were listed last. A device that is still there keeps its pointer, since programs compare them.
static KNOWN: Mutex<Vec<Arc<DeviceObject>>> = Mutex::new(Vec::new());

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut IbvDevice {
    start();
    let list = list_devices();
    let len = list.as_ref().map_or(0, Vec::len);
    // SAFETY: the C contract; a null pointer means that the number is not wanted.
    let _unwanted = unsafe { pointer::write(num_devices, len as c_int) };
    or_null(list.map(into_list))
}

/// What has to be done once, before the first device is seen.
fn start() {
    log::start();
    if let Some(keeper) = place::keeper() {
        Config::set_keeper_bin(keeper);
    }
}

fn list_devices() -> Result<Vec<Arc<DeviceObject>>, Errno> {
    let mut known = KNOWN.lock();
    let now: Vec<_> = ferroce::devices()?
        .into_iter()
        .map(|device| {
            let same = known.iter().find(|known| known.is_same(&device));
            same.cloned().unwrap_or_else(|| Arc::new(DeviceObject::new(device)))
        })
        .collect();
    known.clone_from(&now);
    Ok(now)
}

/// A null-terminated array of its own, as `ibv_free_device_list` takes it.
fn into_list(devices: Vec<Arc<DeviceObject>>) -> *mut *mut IbvDevice {
    let pointers = devices.into_iter().map(|device| Arc::into_raw(device).cast_mut().cast::<IbvDevice>());
    let list: Box<[*mut IbvDevice]> = pointers.chain([null_mut()]).collect();
    Box::into_raw(list).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_free_device_list(list: *mut *mut IbvDevice) {
    if list.is_null() {
        return;
    }
    let mut len = 0;
    loop {
        // SAFETY: the C contract: the list ends with a null pointer, and `len` has not passed it.
        let slot = unsafe { list.add(len) };
        // SAFETY: as above.
        let device = unsafe { slot.read() };
        len += 1;
        if device.is_null() {
            break;
        }
        // SAFETY: the count was given up by `into_list`.
        drop(unsafe { Arc::from_raw(device.cast_const().cast::<DeviceObject>()) });
    }
    // SAFETY: the array was made by `into_list`, with as many elements.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, len)) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_name(device: *mut IbvDevice) -> *const c_char {
    // SAFETY: the C contract.
    unsafe { DeviceObject::borrow(device) }.map_or(null(), |device| device.abi.device.name.as_ptr())
}

/// Big-endian.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_guid(device: *mut IbvDevice) -> u64 {
    // SAFETY: the C contract.
    unsafe { DeviceObject::borrow(device) }.map_or(0, |device| u64::from_ne_bytes(device.device.guid()))
}

/// The number by which the kernel's RDMA netlink interface knows a device; it knows none of ours.
#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_index(_device: *mut IbvDevice) -> c_int {
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_open_device(device: *mut IbvDevice) -> *mut IbvContext {
    // SAFETY: the C contract.
    or_null(unsafe { open(device) })
}

unsafe fn open(device: *mut IbvDevice) -> Result<*mut IbvContext, Errno> {
    // SAFETY: the C contract.
    let device = unsafe { DeviceObject::share(device) }?;
    let context = device.device.open()?;
    let block = object::hand_out(ContextObject::new(device, context));
    Ok(block.wrapping_byte_add(offset_of!(VerbsContext, context)).cast())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_close_device(context: *mut IbvContext) -> c_int {
    if context.is_null() {
        return minus_one(Err(Errno::INVALID));
    }
    // SAFETY: the C contract: the context came from `ibv_open_device` and is not used any more.
    unsafe { object::take_back::<ContextObject>(ContextObject::block(context)) };
    0
}

impl DeviceObject {
    fn new(device: Device) -> DeviceObject {
        let sysfs = crate::sysfs::sysfs_path();
        let dev_name = format!("uverbs{}", device.interface_index());
        let abi = IbvDevice {
            _ops: [null(); 2],
            node_type: NODE_CA,
            transport_type: TRANSPORT_IB,
            name: c_chars(device.name()),
            dev_path: c_chars(&format!("{sysfs}/class/infiniband_verbs/{dev_name}")),
            ibdev_path: c_chars(&format!("{sysfs}/class/infiniband/{}", device.name())),
            dev_name: c_chars(&dev_name),
        };
        let abi = VerbsDevice {
            device: abi,
            ops: null(),
            refcount: 1,
            entry: [null(); 2],
            sysfs: null(),
            core_support: 0,
        };
        DeviceObject { abi, device }
    }

    fn is_same(&self, other: &Device) -> bool {
        self.device.name() == other.name() && self.device.interface_index() == other.interface_index()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn as_abi(&self) -> *mut IbvDevice {
        (&raw const self.abi.device).cast_mut()
    }

    /// # Safety
    /// The C contract.
    unsafe fn borrow<'a>(device: *const IbvDevice) -> Result<&'a DeviceObject, Errno> {
        // SAFETY: a device's pointer is that of its object.
        unsafe { pointer::borrow(device.cast::<DeviceObject>()) }
    }

    /// # Safety
    /// The C contract.
    unsafe fn share(device: *const IbvDevice) -> Result<Arc<DeviceObject>, Errno> {
        if device.is_null() {
            return Err(Errno::INVALID);
        }
        let object = device.cast::<DeviceObject>();
        // SAFETY: the pointer came from `Arc::into_raw`, and its list or a context still holds a count.
        unsafe { Arc::increment_strong_count(object) };
        // SAFETY: the count just taken.
        Ok(unsafe { Arc::from_raw(object) })
    }
}

/// `IBV_NODE_CA`: a channel adapter, as RoCE cards are.
const NODE_CA: c_int = 1;
/// `IBV_TRANSPORT_IB`.
const TRANSPORT_IB: c_int = 0;

/// `text` as a C array, cut off if it is longer than that.
pub(crate) fn c_chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut chars = [0; N];
    // The last one stays zero and ends the string.
    for (c, byte) in chars[..N - 1].iter_mut().zip(text.bytes()) {
        *c = byte as c_char;
    }
    chars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_still_end() {
        assert_eq!(c_chars::<4>("abcdef"), [97, 98, 99, 0]);
        assert_eq!(c_chars::<4>("a"), [97, 0, 0, 0]);
    }
}
