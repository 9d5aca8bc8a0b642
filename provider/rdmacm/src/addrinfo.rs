//! `rdma_getaddrinfo`: names to addresses and services, over the C library's getaddrinfo(3).

use crate::channel;
use crate::endpoint::PASSIVE;
use crate::event;
use crate::ibv::qp_type;
use crate::id::parts;
use crate::layout::{RdmaAddrinfo, RdmaCmId};
use ferroce::cm::{CmEventKind, PortSpace};
use ferroce_abi::errno::{Errno, minus_one};
use ferroce_abi::pointer;
use libc::{addrinfo, c_char, c_int, sockaddr, sockaddr_storage, socklen_t};
use std::ffi::{CStr, CString};
use std::mem::zeroed;
use std::ptr::null_mut;

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const RdmaAddrinfo,
    res: *mut *mut RdmaAddrinfo,
) -> c_int {
    channel::start();
    // SAFETY: the C contract.
    let found = unsafe { find(node, service, hints) };
    // SAFETY: the C contract.
    minus_one(found.and_then(|found| unsafe { pointer::write(res, found) }))
}

/// Looks names up for an ID; `RDMA_CM_EVENT_ADDRINFO_RESOLVED` follows. The C library's getaddrinfo(3) is waited for.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_resolve_addrinfo(
    id: *mut RdmaCmId,
    node: *const c_char,
    service: *const c_char,
    hints: *const RdmaAddrinfo,
) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { resolve(id, node, service, hints) })
}

unsafe fn resolve(
    id: *mut RdmaCmId,
    node: *const c_char,
    service: *const c_char,
    hints: *const RdmaAddrinfo,
) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (_, private) = unsafe { parts(id) }?;
    // SAFETY: the C contract.
    match unsafe { find(node, service, hints) } {
        Ok(found) => {
            let before = std::mem::replace(&mut private.more.lock().found, Names(found));
            // SAFETY: the ID's own.
            unsafe { rdma_freeaddrinfo(before.0) };
            private.cm.tell(CmEventKind::AddrinfoResolved, 0, 0)?;
        }
        Err(errno) => private.cm.tell(CmEventKind::AddrinfoError, -errno.0, 0)?,
    }
    // SAFETY: the C contract.
    unsafe { event::complete(id) }
}

/// Gives what was found for an ID to the program.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_query_addrinfo(id: *mut RdmaCmId, info: *mut *mut RdmaAddrinfo) -> c_int {
    // SAFETY: the C contract.
    let found = unsafe { parts(id) }.and_then(|(_, private)| {
        let found = std::mem::take(&mut private.more.lock().found).0;
        if found.is_null() { Err(Errno(libc::ENODATA)) } else { Ok(found) }
    });
    // SAFETY: the C contract.
    minus_one(found.and_then(|found| unsafe { pointer::write(info, found) }))
}

/// What was found for an ID and nobody has asked for yet.
pub(crate) struct Names(pub(crate) *mut RdmaAddrinfo);

impl Default for Names {
    fn default() -> Names {
        Names(null_mut())
    }
}

// SAFETY: the list is of plain memory and belongs to whoever has the pointer.
unsafe impl Send for Names {}

/// What a caller wants.
#[derive(Clone, Copy)]
struct Wanted {
    flags: c_int,
    family: c_int,
    qp_type: c_int,
    port_space: c_int,
}

/// # Safety
/// The C contract.
pub(crate) unsafe fn find(
    node: *const c_char,
    service: *const c_char,
    hints: *const RdmaAddrinfo,
) -> Result<*mut RdmaAddrinfo, Errno> {
    // SAFETY: the C contract.
    let hints = unsafe { hints.as_ref() };
    let has_source = hints.is_some_and(|hints| !hints.src_addr.is_null());
    if node.is_null() && service.is_null() && !has_source {
        return Err(Errno::INVALID);
    }
    let wanted = wanted(hints);
    let mut made = Box::new(RdmaAddrinfo {
        flags: wanted.flags,
        family: wanted.family,
        qp_type: wanted.qp_type,
        port_space: wanted.port_space,
        src_len: 0,
        dst_len: 0,
        src_addr: null_mut(),
        dst_addr: null_mut(),
        src_canonname: null_mut(),
        dst_canonname: null_mut(),
        route_len: 0,
        route: null_mut(),
        connect_len: 0,
        connect: null_mut(),
        next: null_mut(),
    });
    if !node.is_null() || !service.is_null() {
        // SAFETY: the C contract.
        let (address, len, family, name) = unsafe { look_up(node, service, wanted) }?;
        made.family = family;
        if wanted.flags & PASSIVE != 0 {
            (made.src_addr, made.src_len, made.src_canonname) = (into_room(address), len, name);
        } else {
            (made.dst_addr, made.dst_len, made.dst_canonname) = (into_room(address), len, name);
        }
    }
    if let Some(hints) = hints
        && has_source
        && made.src_addr.is_null()
    {
        // SAFETY: the C contract: the address is as long as the hints say.
        let bytes = unsafe { pointer::borrow_slice(hints.src_addr.cast::<u8>(), hints.src_len as usize) }?;
        (made.src_addr, made.src_len) = (into_room(copied(bytes)?), hints.src_len);
    }
    Ok(Box::into_raw(made))
}

/// The hints with what they leave open.
fn wanted(hints: Option<&RdmaAddrinfo>) -> Wanted {
    let (flags, family, mut service, mut space) =
        hints.map_or((0, 0, 0, 0), |hints| (hints.flags, hints.family, hints.qp_type, hints.port_space));
    if service == 0 {
        let is_datagram = space == PortSpace::Udp as c_int || space == PortSpace::Ipoib as c_int;
        service = if is_datagram { qp_type::UD } else { qp_type::RC } as c_int;
    }
    if space == 0 {
        let of_service = if service == qp_type::UD as c_int { PortSpace::Udp } else { PortSpace::Tcp };
        space = of_service as c_int;
    }
    Wanted { flags, family, qp_type: service, port_space: space }
}

type Found = (sockaddr_storage, socklen_t, c_int, *mut c_char);

/// # Safety
/// The C contract.
unsafe fn look_up(node: *const c_char, service: *const c_char, wanted: Wanted) -> Result<Found, Errno> {
    // SAFETY: all fields are integers and pointers, for which zero is a value.
    let mut hints: addrinfo = unsafe { zeroed() };
    hints.ai_family = wanted.family;
    hints.ai_socktype = libc::SOCK_STREAM;
    if wanted.flags & PASSIVE != 0 {
        hints.ai_flags |= libc::AI_PASSIVE;
    }
    if wanted.flags & NUMERICHOST != 0 {
        hints.ai_flags |= libc::AI_NUMERICHOST;
    }
    let mut list: *mut addrinfo = null_mut();
    // SAFETY: C strings or null, by the C contract; hints of ours, and room for the list.
    let failed = unsafe { libc::getaddrinfo(node, service, &raw const hints, &raw mut list) };
    if failed != 0 || list.is_null() {
        return Err(errno_of(failed));
    }
    // SAFETY: not empty when it succeeds.
    let first = unsafe { &*list };
    // SAFETY: an address as long as it says.
    let bytes = unsafe { pointer::borrow_slice(first.ai_addr.cast::<u8>(), first.ai_addrlen as usize) };
    let found = bytes.and_then(copied).map(|address| {
        let name = if first.ai_canonname.is_null() {
            null_mut()
        } else {
            // SAFETY: a C string of the list's.
            let name = unsafe { CStr::from_ptr(first.ai_canonname) };
            CString::from(name).into_raw()
        };
        (address, first.ai_addrlen, first.ai_family, name)
    });
    // SAFETY: the list was made for us.
    unsafe { libc::freeaddrinfo(list) };
    found
}

/// The error number for one of getaddrinfo's.
fn errno_of(error: c_int) -> Errno {
    Errno(match error {
        libc::EAI_MEMORY => libc::ENOMEM,
        libc::EAI_AGAIN => libc::EAGAIN,
        libc::EAI_FAMILY => libc::EAFNOSUPPORT,
        libc::EAI_SYSTEM => return crate::device::last_error(),
        libc::EAI_NONAME => libc::ENODEV,
        _ => libc::EINVAL,
    })
}

fn copied(bytes: &[u8]) -> Result<sockaddr_storage, Errno> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut storage: sockaddr_storage = unsafe { zeroed() };
    if bytes.len() > size_of::<sockaddr_storage>() {
        return Err(Errno::INVALID);
    }
    let room = (&raw mut storage).cast::<u8>();
    // SAFETY: there is room for so many bytes, and the two do not overlap.
    unsafe { bytes.as_ptr().copy_to_nonoverlapping(room, bytes.len()) };
    Ok(storage)
}

fn into_room(address: sockaddr_storage) -> *mut sockaddr {
    Box::into_raw(Box::new(address)).cast()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_freeaddrinfo(res: *mut RdmaAddrinfo) {
    let mut next = res;
    // Bounded by the list's end.
    while !next.is_null() {
        // SAFETY: the C contract: made by `find`, and nobody uses it any more.
        let one = unsafe { Box::from_raw(next) };
        for address in [one.src_addr, one.dst_addr] {
            if !address.is_null() {
                // SAFETY: made by `into_room`.
                drop(unsafe { Box::from_raw(address.cast::<sockaddr_storage>()) });
            }
        }
        for name in [one.src_canonname, one.dst_canonname] {
            if !name.is_null() {
                // SAFETY: made by `CString::into_raw`.
                drop(unsafe { CString::from_raw(name) });
            }
        }
        next = one.next;
    }
}

/// `RAI_NUMERICHOST`.
const NUMERICHOST: c_int = 2;
