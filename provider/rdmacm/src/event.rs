//! Events: reading them, what the library does about them, acknowledging them.

use crate::channel;
use crate::connect;
use crate::device::last_error;
use crate::ibv::qp_type;
use crate::id::{self, Private, by_cookie, hand_out, migrate, parts, refresh, show_path};
use crate::layout::{RdmaCmEvent, RdmaCmId, RdmaConnParam, RdmaEventChannel, RdmaEventParam, RdmaUdParam};
use crate::multicast;
use crate::qp;
use ferroce::cm::{CmEvent, CmEventKind, CmId, ConnParam, UdParam};
use ferroce::core::QpType;
use ferroce_abi::errno::{Errno, minus_one};
use ferroce_abi::pointer;
use ferroce_ibverbs_layout::{IbvAhAttr, IbvGid, IbvGlobalRoute};
use libc::{c_int, c_void};
use std::ptr::{null, null_mut};

/// An event: the public structure, and what is ours.
#[repr(C)]
struct EventObject {
    abi: RdmaCmEvent,
    /// What the public structure points to.
    private_data: Vec<u8>,
    /// The ID that counts it.
    counted_by: *mut RdmaCmId,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_cm_event(
    channel: *mut RdmaEventChannel,
    event: *mut *mut RdmaCmEvent,
) -> c_int {
    // SAFETY: the C contract.
    let read = unsafe { read(channel) };
    // SAFETY: the C contract.
    minus_one(read.and_then(|read| unsafe { pointer::write(event, read) }))
}

/// Reads an event and does what the library does about it.
///
/// # Safety
/// The C contract.
unsafe fn read(channel: *mut RdmaEventChannel) -> Result<*mut RdmaCmEvent, Errno> {
    // A clone, since programs destroy channels that a thread of theirs waits at; it goes on waiting, as it would in the
    // kernel.
    // SAFETY: the C contract.
    let channel = unsafe { channel::borrow(channel) }?.channel.clone();
    let mut event = channel.next_event()?;
    let owner = by_cookie(event.cookie);
    // SAFETY: the owner's ID stays until all its events are acknowledged.
    let (abi, private) = unsafe { parts(owner) }?;
    let mut object = EventObject {
        abi: RdmaCmEvent {
            id: owner,
            listen_id: null_mut(),
            event: event.kind as u32,
            status: event.status,
            param: RdmaEventParam { arg: 0 },
        },
        private_data: Vec::new(),
        counted_by: owner,
    };
    let is_datagram = is_datagram(abi, &event);
    match event.kind {
        CmEventKind::ConnectRequest => {
            let request = event.request.take().ok_or(Errno::INVALID)?;
            take_request(abi, private, request, &event.conn, &mut object)?;
        }
        CmEventKind::AddrResolved => refresh(abi, private)?,
        CmEventKind::RouteResolved => show_path(abi, private),
        // SAFETY: the C contract.
        CmEventKind::ConnectResponse if !abi.qp.is_null() => unsafe {
            finish_connection(owner, &mut object.abi);
        },
        // SAFETY: the C contract.
        CmEventKind::Rejected => unsafe { qp::to_error(owner) },
        // SAFETY: the C contract.
        CmEventKind::MulticastJoin => unsafe { attach(owner, &mut object.abi) },
        _ => {}
    }
    if matches!(event.kind, CmEventKind::User | CmEventKind::Internal) {
        object.abi.param = RdmaEventParam { arg: event.arg };
        return Ok(Box::into_raw(Box::new(object)).cast());
    }
    Ok(into_block(object, event.conn, event.ud, is_datagram))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_write_cm_event(id: *mut RdmaCmId, event: u32, status: c_int, arg: u64) -> c_int {
    let kinds = [CmEventKind::User, CmEventKind::Internal];
    let kind = kinds.into_iter().find(|kind| *kind as u32 == event).ok_or(Errno::INVALID);
    // SAFETY: the C contract.
    let written = kind.and_then(|kind| Ok(unsafe { parts(id) }?.1.cm.tell(kind, status, arg)?));
    minus_one(written)
}

fn is_datagram(id: &RdmaCmId, event: &CmEvent) -> bool {
    event.ud.is_some() || id.qp_type == qp_type::UD
}

/// Gives a request's ID to the program.
fn take_request(
    listener: &mut RdmaCmId,
    private: &Private,
    request: CmId,
    conn: &ConnParam,
    object: &mut EventObject,
) -> Result<(), Errno> {
    let service = match request.qp_type() {
        QpType::Ud => qp_type::UD,
        QpType::Uc => qp_type::UC,
        QpType::XrcTgt | QpType::XrcIni => qp_type::XRC_RECV,
        QpType::Rc => qp_type::RC,
    };
    let id = hand_out(request, listener.channel, listener.context, listener.ps, service, false);
    // SAFETY: just made.
    let (abi, own) = unsafe { parts(id) }?;
    {
        let mut more = own.more.lock();
        more.responder_resources = conn.responder_resources;
        more.initiator_depth = conn.initiator_depth;
    }
    let shown = refresh(abi, own);
    show_path(abi, own);
    let moved = match private.is_sync {
        // Requests of a listener that waits are waited for, too.
        // SAFETY: just made.
        true => shown.and_then(|()| unsafe { migrate(id, null_mut()) }),
        false => shown,
    };
    if let Err(errno) = moved {
        // SAFETY: just made, and nobody else's.
        unsafe { id::rdma_destroy_id(id) };
        return Err(errno);
    }
    object.abi.listen_id = object.abi.id;
    object.abi.id = id;
    Ok(())
}

/// The peer has accepted: the queue pair gets ready, and the peer is told.
///
/// # Safety
/// The C contract.
unsafe fn finish_connection(id: *mut RdmaCmId, event: &mut RdmaCmEvent) {
    // SAFETY: the C contract.
    match unsafe { connect::ready_and_establish(id) } {
        Ok(()) => event.event = CmEventKind::Established as u32,
        Err(errno) => {
            event.event = CmEventKind::ConnectError as u32;
            event.status = -errno.0;
            // SAFETY: the C contract.
            unsafe { qp::to_error(id) };
        }
    }
}

/// # Safety
/// The C contract.
unsafe fn attach(id: *mut RdmaCmId, event: &mut RdmaCmEvent) {
    // SAFETY: the C contract.
    if let Err(errno) = unsafe { multicast::attach_joined(id) } {
        event.event = CmEventKind::MulticastError as u32;
        event.status = -errno.0;
    }
}

fn into_block(
    object: EventObject,
    conn: ConnParam,
    ud: Option<UdParam>,
    is_datagram: bool,
) -> *mut RdmaCmEvent {
    let mut object = Box::new(EventObject { private_data: conn.private_data, ..object });
    let data: *const c_void =
        if object.private_data.is_empty() { null() } else { object.private_data.as_ptr().cast() };
    let private_data_len = object.private_data.len() as u8;
    object.abi.param = if is_datagram {
        RdmaEventParam {
            ud: RdmaUdParam {
                private_data: data,
                private_data_len,
                ah_attr: ud.map(|ud| ah_attr(&ud.ah)).unwrap_or_default(),
                qp_num: ud.map_or(conn.qp_num, |ud| ud.qp_num),
                qkey: ud.map_or(0, |ud| ud.qkey),
            },
        }
    } else {
        RdmaEventParam {
            conn: RdmaConnParam {
                private_data: data,
                private_data_len,
                responder_resources: conn.responder_resources,
                initiator_depth: conn.initiator_depth,
                flow_control: conn.flow_control.into(),
                retry_count: conn.retry_count,
                rnr_retry_count: conn.rnr_retry_count,
                srq: conn.srq.into(),
                qp_num: conn.qp_num,
            },
        }
    };
    Box::into_raw(object).cast()
}

pub(crate) fn ah_attr(ah: &ferroce::AhAttr) -> IbvAhAttr {
    IbvAhAttr {
        grh: IbvGlobalRoute {
            dgid: IbvGid { raw: ah.dgid.0 },
            flow_label: ah.flow_label,
            sgid_index: ah.sgid_index as u8,
            hop_limit: ah.hop_limit,
            traffic_class: ah.traffic_class,
        },
        dlid: 0,
        sl: ah.sl,
        src_path_bits: 0,
        static_rate: 0,
        is_global: ah.is_global.into(),
        port_num: ah.port_num,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_ack_cm_event(event: *mut RdmaCmEvent) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { acknowledge(event) })
}

/// # Safety
/// The C contract.
pub(crate) unsafe fn acknowledge(event: *mut RdmaCmEvent) -> Result<(), Errno> {
    if event.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the C contract: it came from `into_block` and is acknowledged once.
    let object = unsafe { Box::from_raw(event.cast::<EventObject>()) };
    // SAFETY: the ID stays until all its events are acknowledged.
    if let Ok((_, private)) = unsafe { parts(object.counted_by) } {
        let mut completed = private.completed.lock();
        *completed += 1;
        private.acknowledged.notify_all();
    }
    Ok(())
}

/// Acknowledges the event that a synchronous ID holds on to.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn acknowledge_own(id: &mut RdmaCmId) {
    let event = std::mem::replace(&mut id.event, null_mut());
    if !event.is_null() {
        // SAFETY: read by `complete`, and not acknowledged by anybody.
        let _never_null = unsafe { acknowledge(event) };
    }
}

/// What a synchronous ID's call led to, when it comes; nothing for others.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn complete(id: *mut RdmaCmId) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(id) }?;
    if !private.is_sync {
        return Ok(());
    }
    // SAFETY: as above.
    unsafe { acknowledge_own(abi) };
    // SAFETY: the ID's own channel.
    let event = unsafe { read(abi.channel) }?;
    // SAFETY: as above; reading may have changed the ID.
    let (abi, _) = unsafe { parts(id) }?;
    abi.event = event;
    // SAFETY: just read.
    let RdmaCmEvent { event: kind, status, .. } = *unsafe { pointer::borrow(event) }?;
    match status {
        0 => Ok(()),
        _ if kind == CmEventKind::Rejected as u32 => Err(Errno(libc::ECONNREFUSED)),
        status if status < 0 => Err(Errno(-status)),
        status => Err(Errno(status)),
    }
}

/// Waits for the next request of a synchronous listener.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn next_request(listener: *mut RdmaCmId) -> Result<*mut RdmaCmEvent, Errno> {
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(listener) }?;
    if !private.is_sync {
        return Err(Errno::INVALID);
    }
    // SAFETY: as above.
    unsafe { acknowledge_own(abi) };
    // SAFETY: the ID's own channel.
    let event = unsafe { read(abi.channel) }?;
    // SAFETY: just read.
    let RdmaCmEvent { event: kind, status, .. } = *unsafe { pointer::borrow(event) }?;
    if status == 0 && kind == CmEventKind::ConnectRequest as u32 {
        return Ok(event);
    }
    // SAFETY: just read, and nobody else's.
    unsafe { acknowledge(event) }?;
    Err(if status < 0 { Errno(-status) } else { Errno::INVALID })
}

/// The error that a call of libibverbs' reports by -1 or its number.
pub(crate) fn of_status(status: c_int) -> Result<(), Errno> {
    match status {
        0 => Ok(()),
        -1 => Err(last_error()),
        status => Err(Errno(status)),
    }
}
