//! Connecting, accepting, disconnecting.

use crate::event;
use crate::ibv::qp_type;
use crate::id::{Private, parts};
use crate::layout::{RdmaCmId, RdmaConnParam};
use crate::qp;
use ferroce::cm::ConnParam;
use ferroce::core::QpState;
use ferroce_abi::errno::{Errno, minus_one};
use ferroce_abi::pointer;
use ferroce_ibverbs_layout::IbvEce;
use libc::{c_int, c_void};

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_listen(id: *mut RdmaCmId, backlog: c_int) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { listen(id, backlog) })
}

pub(crate) unsafe fn listen(id: *mut RdmaCmId, backlog: c_int) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (id, private) = unsafe { parts(id) }?;
    private.cm.listen(u32::try_from(backlog).unwrap_or(0))?;
    crate::id::refresh(id, private)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_connect(id: *mut RdmaCmId, conn_param: *mut RdmaConnParam) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { connect(id, conn_param) })
}

pub(crate) unsafe fn connect(id: *mut RdmaCmId, conn_param: *const RdmaConnParam) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(id) }?;
    // SAFETY: the C contract.
    let mut param = unsafe { param_of(abi, conn_param) }?;
    let limit = limit(private);
    param.initiator_depth = within(param.initiator_depth, limit);
    param.responder_resources = within(param.responder_resources, limit);
    {
        let mut more = private.more.lock();
        more.initiator_depth = param.initiator_depth;
        more.responder_resources = param.responder_resources;
        if param.private_data.is_empty() {
            param.private_data.clone_from(&more.connect);
        }
    }
    private.cm.connect(&param)?;
    // SAFETY: the C contract.
    unsafe { event::complete(id) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_accept(id: *mut RdmaCmId, conn_param: *mut RdmaConnParam) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { accept(id, conn_param) })
}

pub(crate) unsafe fn accept(id: *mut RdmaCmId, conn_param: *const RdmaConnParam) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(id) }?;
    let is_named = !conn_param.is_null();
    // SAFETY: the C contract.
    let mut param = unsafe { param_of(abi, conn_param) }?;
    let limit = limit(private);
    let (asked_depth, asked_resources) = {
        let more = private.more.lock();
        (more.initiator_depth.min(limit), more.responder_resources.min(limit))
    };
    if !is_named || param.initiator_depth == ANY {
        param.initiator_depth = asked_depth;
    }
    if !is_named || param.responder_resources == ANY {
        param.responder_resources = asked_resources;
    }
    if abi.qp_type == qp_type::UD {
        return Ok(private.cm.accept(&param, None)?);
    }
    if !abi.qp.is_null() {
        let (depth, resources) = (param.initiator_depth, param.responder_resources);
        // SAFETY: the C contract.
        unsafe { to_rts(id, Some(resources), Some(depth)) }?;
    }
    private.cm.accept(&param, None)?;
    // SAFETY: the C contract.
    unsafe { event::complete(id) }
}

/// The peer has accepted: the queue pair gets ready, and the peer is told.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn ready_and_establish(id: *mut RdmaCmId) -> Result<(), Errno> {
    // SAFETY: the C contract.
    unsafe { to_rts(id, None, None) }?;
    // SAFETY: the C contract.
    let (_, private) = unsafe { parts(id) }?;
    Ok(private.cm.establish()?)
}

/// Takes the ID's queue pair to RTS with what the peer said, or with what is accepted.
///
/// # Safety
/// The C contract.
unsafe fn to_rts(id: *mut RdmaCmId, resources: Option<u8>, depth: Option<u8>) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (id, private) = unsafe { parts(id) }?;
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let mut setup = private.cm.qp_setup(state)?;
        if let Some(resources) = resources {
            setup.attr.max_dest_rd_atomic = resources;
        }
        if let Some(depth) = depth {
            setup.attr.max_rd_atomic = depth;
        }
        // SAFETY: the ID's queue pair.
        unsafe { qp::modify(id.qp, &setup) }?;
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_establish(id: *mut RdmaCmId) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { establish(id) })
}

unsafe fn establish(id: *mut RdmaCmId) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(id) }?;
    // With a queue pair of its own the library does it.
    if !abi.qp.is_null() {
        return Err(Errno::INVALID);
    }
    Ok(private.cm.establish()?)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_reject(id: *mut RdmaCmId, private_data: *const c_void, len: u8) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { reject(id, private_data, len) })
}

/// To refuse for the peer's vendor options is to refuse: none are offered.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_reject_ece(id: *mut RdmaCmId, private_data: *const c_void, len: u8) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { reject(id, private_data, len) })
}

unsafe fn reject(id: *mut RdmaCmId, private_data: *const c_void, len: u8) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (_, private) = unsafe { parts(id) }?;
    // SAFETY: the C contract.
    let private_data = unsafe { pointer::borrow_slice(private_data.cast::<u8>(), len.into()) }?;
    Ok(private.cm.reject(private_data)?)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_disconnect(id: *mut RdmaCmId) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { disconnect(id) })
}

pub(crate) unsafe fn disconnect(id: *mut RdmaCmId) -> Result<(), Errno> {
    // SAFETY: the C contract.
    unsafe { qp::to_error(id) };
    // SAFETY: the C contract.
    let (_, private) = unsafe { parts(id) }?;
    let was_told = private.cm.is_ended();
    private.cm.disconnect()?;
    if was_told {
        return Ok(());
    }
    // SAFETY: the C contract.
    unsafe { event::complete(id) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_notify(id: *mut RdmaCmId, event: u32) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { notify(id, event) })
}

unsafe fn notify(id: *mut RdmaCmId, event: u32) -> Result<(), Errno> {
    const COMM_EST: u32 = 4;
    const PATH_MIG: u32 = 6;
    // SAFETY: the C contract.
    let (_, private) = unsafe { parts(id) }?;
    match event {
        COMM_EST => Ok(private.cm.notify_established()?),
        // There is one path.
        PATH_MIG => Ok(()),
        _ => Err(Errno::INVALID),
    }
}

/// No vendor options are offered.
#[unsafe(no_mangle)]
extern "C" fn rdma_set_local_ece(_id: *mut RdmaCmId, _ece: *mut IbvEce) -> c_int {
    minus_one(Err(Errno::UNSUPPORTED))
}

/// The peer's offer, of which nothing is known: none.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_remote_ece(id: *mut RdmaCmId, ece: *mut IbvEce) -> c_int {
    // SAFETY: the C contract.
    let known = unsafe { parts(id) }.map(|_| IbvEce::default());
    // SAFETY: the C contract.
    minus_one(known.and_then(|none| unsafe { pointer::write(ece, none) }))
}

/// What a program says about a connection, with the ID's own queue pair if it has one.
///
/// # Safety
/// The C contract.
unsafe fn param_of(id: &RdmaCmId, param: *const RdmaConnParam) -> Result<ConnParam, Errno> {
    let mut conn = ConnParam {
        responder_resources: ANY,
        initiator_depth: ANY,
        retry_count: MOST_RETRIES,
        rnr_retry_count: MOST_RETRIES,
        ..ConnParam::default()
    };
    if !param.is_null() {
        // SAFETY: the C contract.
        let given = unsafe { pointer::read(param) }?;
        // SAFETY: the C contract.
        let bytes =
            unsafe { pointer::borrow_slice(given.private_data.cast::<u8>(), given.private_data_len.into()) }?;
        conn = ConnParam {
            private_data: bytes.to_vec(),
            responder_resources: given.responder_resources,
            initiator_depth: given.initiator_depth,
            flow_control: given.flow_control != 0,
            retry_count: given.retry_count,
            rnr_retry_count: given.rnr_retry_count,
            srq: given.srq != 0,
            qp_num: given.qp_num,
        };
    }
    if !id.qp.is_null() {
        // SAFETY: the ID's queue pair.
        let qp = unsafe { pointer::borrow(id.qp) }?;
        conn.qp_num = qp.qp_num;
        conn.srq = !qp.srq.is_null();
    }
    Ok(conn)
}

/// RDMA READs and atomics that the device has under way, or answers, at once.
fn limit(private: &Private) -> u8 {
    let most = private.cm.device().map_or(0, |(device, _)| device.attr().max_qp_init_rd_atom);
    u8::try_from(most).unwrap_or(u8::MAX)
}

fn within(asked: u8, limit: u8) -> u8 {
    if asked == ANY { limit } else { asked.min(limit) }
}

/// `RDMA_MAX_RESP_RES`, `RDMA_MAX_INIT_DEPTH`: as many as the device has.
const ANY: u8 = 0xff;
const MOST_RETRIES: u8 = 7;
