//! Multicast groups of datagram IDs.
//!
//! The address of a RoCEv2 group is an IP group's; libibverbs joins it when the queue pair is attached.

use crate::address;
use crate::event::{self, of_status};
use crate::ibv;
use crate::id::{More, parts};
use crate::layout::{RdmaCmId, RdmaCmJoinMcAttrEx};
use ferroce::Gid;
use ferroce_abi::errno::{Errno, minus_one};
use ferroce_abi::pointer;
use ferroce_ibverbs_layout::IbvGid;
use libc::{c_int, c_void, sockaddr};
use std::net::IpAddr;

/// A group that an ID has joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    address: IpAddr,
    /// Whether the queue pair gets its datagrams, or only sends to it.
    receives: bool,
    is_attached: bool,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_join_multicast(
    id: *mut RdmaCmId,
    addr: *mut sockaddr,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { join(id, addr, true) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_join_multicast_ex(
    id: *mut RdmaCmId,
    attr: *mut RdmaCmJoinMcAttrEx,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the C contract.
    let attr = unsafe { pointer::read(attr) };
    minus_one(attr.and_then(|attr| {
        let is_known = attr.comp_mask & !(ADDRESS | JOIN_FLAGS) == 0 && attr.join_flags <= SEND_ONLY;
        if attr.comp_mask & ADDRESS == 0 || !is_known {
            return Err(Errno::INVALID);
        }
        let sends_only = attr.comp_mask & JOIN_FLAGS != 0 && attr.join_flags == SEND_ONLY;
        // SAFETY: the C contract.
        unsafe { join(id, attr.addr, !sends_only) }
    }))
}

unsafe fn join(id: *mut RdmaCmId, addr: *const sockaddr, receives: bool) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let group = unsafe { address::read(addr) }?.ip();
    if !group.is_multicast() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the C contract.
    let (_, private) = unsafe { parts(id) }?;
    {
        let mut more = private.more.lock();
        if more.groups.iter().any(|one| one.address == group) {
            return Err(Errno(libc::EADDRINUSE));
        }
        more.groups.push(Group { address: group, receives, is_attached: false });
    }
    private.cm.tell_joined(group)?;
    // SAFETY: the C contract.
    unsafe { event::complete(id) }
}

/// Attaches the ID's queue pair, if it has one, to the groups that it has joined.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn attach_joined(id: *mut RdmaCmId) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(id) }?;
    let mut more = private.more.lock();
    let More { groups, .. } = &mut *more;
    for group in groups.iter_mut().filter(|group| group.receives && !group.is_attached) {
        if abi.qp.is_null() {
            return Ok(());
        }
        let gid = gid(group.address);
        // SAFETY: the ID's queue pair.
        of_status(unsafe { ibv::ibv_attach_mcast(abi.qp, &raw const gid, 0) })?;
        group.is_attached = true;
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_leave_multicast(id: *mut RdmaCmId, addr: *mut sockaddr) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { leave(id, addr) })
}

unsafe fn leave(id: *mut RdmaCmId, addr: *const sockaddr) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let left = unsafe { address::read(addr) }?.ip();
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(id) }?;
    let mut more = private.more.lock();
    let at = more.groups.iter().position(|one| one.address == left);
    let group = more.groups.remove(at.ok_or(Errno(libc::EADDRNOTAVAIL))?);
    if group.is_attached && !abi.qp.is_null() {
        let gid = gid(left);
        // SAFETY: the ID's queue pair.
        of_status(unsafe { ibv::ibv_detach_mcast(abi.qp, &raw const gid, 0) })?;
    }
    Ok(())
}

fn gid(address: IpAddr) -> IbvGid {
    IbvGid { raw: Gid::from_ip(address).0 }
}

/// `RDMA_CM_JOIN_MC_ATTR_ADDRESS`.
const ADDRESS: u32 = 1;
/// `RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS`.
const JOIN_FLAGS: u32 = 2;
/// `RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER`.
const SEND_ONLY: u32 = 1;
