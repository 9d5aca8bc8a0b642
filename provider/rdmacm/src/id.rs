//! IDs: creation, addresses, destruction.

use crate::address;
use crate::addrinfo::{Names, rdma_freeaddrinfo};
use crate::channel;
use crate::device;
use crate::event;
use crate::ibv::qp_type;
use crate::layout::{IbvSaPathRec, RdmaAddr, RdmaCmId, RdmaEventChannel, RdmaIbAddr, RdmaRoute};
use crate::multicast::Group;
use crate::qp;
use ferroce::cm::{CmId, PortSpace};
use ferroce::core::QpType;
use ferroce::{Device, Gid};
use ferroce_abi::errno::{Errno, minus_one};
use ferroce_abi::pointer;
use ferroce_ibverbs_layout::{IbvGid, IbvQpInitAttr};
use libc::{c_int, c_void, sockaddr};
use parking_lot::{Condvar, Mutex};
use std::net::IpAddr;
use std::ptr::null_mut;

/// An ID: the public structure, and what is ours.
#[repr(C)]
pub(crate) struct IdObject {
    abi: RdmaCmId,
    private: Private,
}

/// What programs do not see of an ID.
pub(crate) struct Private {
    pub(crate) cm: CmId,
    /// Whether calls wait for what they lead to, since nobody reads the channel, which is the ID's own.
    pub(crate) is_sync: bool,
    /// Events about it that the program has acknowledged.
    pub(crate) completed: Mutex<u64>,
    pub(crate) acknowledged: Condvar,
    pub(crate) more: Mutex<More>,
    /// Room for `route.path_rec`.
    path: Mutex<Box<IbvSaPathRec>>,
}

/// What changes of it.
#[derive(Default)]
pub(crate) struct More {
    /// RDMA READs and atomics under way at once, as asked for or agreed.
    pub(crate) initiator_depth: u8,
    /// RDMA READs and atomics answered at once.
    pub(crate) responder_resources: u8,
    /// With what the queue pairs of an endpoint's requests are made.
    pub(crate) qp_init: Option<QpInit>,
    /// The multicast groups joined.
    pub(crate) groups: Vec<Group>,
    /// The application's bytes for a connection that names none.
    pub(crate) connect: Vec<u8>,
    /// What `rdma_resolve_addrinfo` found.
    pub(crate) found: Names,
}

/// A copy of what a program gave `rdma_create_ep`.
#[derive(Clone, Copy)]
pub(crate) struct QpInit {
    pub(crate) attr: IbvQpInitAttr,
    pub(crate) pd: *mut ferroce_ibverbs_layout::IbvPd,
}

// SAFETY: the pointers in it are the program's, and used in calls of the program's only.
unsafe impl Send for QpInit {}

/// The two parts of an ID.
///
/// # Safety
/// The C contract: `id` is null or an ID of ours that outlives `'a`, and nobody else works on it meanwhile.
pub(crate) unsafe fn parts<'a>(id: *mut RdmaCmId) -> Result<(&'a mut RdmaCmId, &'a Private), Errno> {
    let object = id.cast::<IdObject>();
    if object.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: a block of ours.
    let private = unsafe { &(*object).private };
    // SAFETY: as above; the public structure is another part of it.
    let abi = unsafe { &mut (*object).abi };
    Ok((abi, private))
}

/// A new ID's block.
pub(crate) fn hand_out(
    cm: CmId,
    channel: *mut RdmaEventChannel,
    context: *mut c_void,
    ps: u32,
    qp_type: u32,
    is_sync: bool,
) -> *mut RdmaCmId {
    let abi = RdmaCmId {
        verbs: null_mut(),
        channel,
        context,
        qp: null_mut(),
        route: RdmaRoute {
            addr: RdmaAddr { src: address::storage(None), dst: address::storage(None), ib: NO_IB_ADDR },
            path_rec: null_mut(),
            num_paths: 0,
        },
        ps,
        port_num: 0,
        event: null_mut(),
        send_cq_channel: null_mut(),
        send_cq: null_mut(),
        recv_cq_channel: null_mut(),
        recv_cq: null_mut(),
        srq: null_mut(),
        pd: null_mut(),
        qp_type,
    };
    let private = Private {
        cm,
        is_sync,
        completed: Mutex::new(0),
        acknowledged: Condvar::new(),
        more: Mutex::default(),
        path: Mutex::new(Box::new(NO_PATH)),
    };
    let id: *mut RdmaCmId = Box::into_raw(Box::new(IdObject { abi, private })).cast();
    // SAFETY: just made.
    if let Ok((_, private)) = unsafe { parts(id) } {
        private.cm.set_cookie(id.expose_provenance() as u64);
    }
    id
}

/// Makes an ID; without a channel it gets one of its own, and its calls wait.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn create(
    channel: *mut RdmaEventChannel,
    context: *mut c_void,
    ps: u32,
    service: u32,
) -> Result<*mut RdmaCmId, Errno> {
    let space = port_space(ps)?;
    let is_sync = channel.is_null();
    let channel = if is_sync { channel::create()? } else { channel };
    // SAFETY: the program's, or just made.
    let object = unsafe { channel::borrow(channel) }?;
    match CmId::new(&object.channel, space, qp_type_of(service), 0) {
        Ok(cm) => Ok(hand_out(cm, channel, context, ps, service, is_sync)),
        Err(error) => {
            if is_sync {
                // SAFETY: just made for it.
                unsafe { channel::rdma_destroy_event_channel(channel) };
            }
            Err(error.into())
        }
    }
}

fn port_space(ps: u32) -> Result<PortSpace, Errno> {
    let spaces = [PortSpace::Ipoib, PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib];
    spaces.into_iter().find(|space| *space as u32 == ps).ok_or(Errno::INVALID)
}

/// The service of a port space that names none.
fn service_of(ps: u32) -> u32 {
    let is_datagram = ps == PortSpace::Udp as u32 || ps == PortSpace::Ipoib as u32;
    if is_datagram { qp_type::UD } else { qp_type::RC }
}

pub(crate) fn qp_type_of(service: u32) -> QpType {
    match service {
        qp_type::UC => QpType::Uc,
        qp_type::UD => QpType::Ud,
        qp_type::XRC_SEND => QpType::XrcIni,
        qp_type::XRC_RECV => QpType::XrcTgt,
        _ => QpType::Rc,
    }
}

/// Shows the program the addresses and the device that the ID has now.
pub(crate) fn refresh(id: &mut RdmaCmId, private: &Private) -> Result<(), Errno> {
    let (local, peer) = (private.cm.local_addr(), private.cm.peer_addr());
    id.route.addr.src = address::storage(local);
    id.route.addr.dst = address::storage(peer);
    let Some((device, _)) = private.cm.device() else { return Ok(()) };
    if id.verbs.is_null() {
        let opened = device::open(device.name())?;
        id.verbs = opened.context;
        id.pd = opened.pd;
        id.port_num = 1;
    }
    let gid = |ip: Option<IpAddr>| IbvGid { raw: ip.map_or([0; 16], |ip| Gid::from_ip(ip).0) };
    let (sgid, dgid) = (gid(local.map(|it| it.ip())), gid(peer.map(|it| it.ip())));
    id.route.addr.ib = RdmaIbAddr { sgid, dgid, pkey: DEFAULT_PKEY.to_be() };
    Ok(())
}

/// Shows the program the path, as it would be with a subnet manager.
pub(crate) fn show_path(id: &mut RdmaCmId, private: &Private) {
    let Some((device, _)) = private.cm.device() else { return };
    let mut path = private.path.lock();
    let RdmaIbAddr { sgid, dgid, pkey } = id.route.addr.ib;
    **path = IbvSaPathRec { sgid, dgid, pkey, mtu: mtu_of(&device), ..NO_PATH };
    id.route.path_rec = &raw mut **path;
    id.route.num_paths = 1;
}

fn mtu_of(device: &Device) -> u8 {
    device.port_attr(1).map_or(1, |attr| attr.active_mtu as u8)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_id(
    channel: *mut RdmaEventChannel,
    id: *mut *mut RdmaCmId,
    context: *mut c_void,
    ps: u32,
) -> c_int {
    // SAFETY: the C contract.
    let created = unsafe { create(channel, context, ps, service_of(ps)) };
    // SAFETY: as above.
    minus_one(created.and_then(|created| unsafe { pointer::write(id, created) }))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_id(id: *mut RdmaCmId) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { destroy(id) })
}

unsafe fn destroy(id: *mut RdmaCmId) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(id) }?;
    // What a synchronous ID holds on to itself counts as read.
    // SAFETY: an event that this library made and that is nobody else's.
    unsafe { event::acknowledge_own(abi) };
    let reported = private.cm.close();
    let mut completed = private.completed.lock();
    while *completed < reported {
        private.acknowledged.wait(&mut completed);
    }
    drop(completed);
    let found = std::mem::take(&mut private.more.lock().found);
    // SAFETY: the ID's own.
    unsafe { rdma_freeaddrinfo(found.0) };
    let own_channel = private.is_sync.then_some(abi.channel);
    // SAFETY: the C contract: nobody uses it any more, and all its events are acknowledged.
    drop(unsafe { Box::from_raw(id.cast::<IdObject>()) });
    if let Some(channel) = own_channel {
        // SAFETY: the channel was the ID's own.
        unsafe { channel::rdma_destroy_event_channel(channel) };
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_bind_addr(id: *mut RdmaCmId, addr: *mut sockaddr) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { bind(id, addr) })
}

/// # Safety
/// The C contract.
pub(crate) unsafe fn bind(id: *mut RdmaCmId, addr: *const sockaddr) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (id, private) = unsafe { parts(id) }?;
    // SAFETY: the C contract.
    private.cm.bind(unsafe { address::read(addr) }?)?;
    refresh(id, private)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_resolve_addr(
    id: *mut RdmaCmId,
    src_addr: *mut sockaddr,
    dst_addr: *mut sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { resolve_addr(id, src_addr, dst_addr) })
}

/// # Safety
/// The C contract.
pub(crate) unsafe fn resolve_addr(
    id: *mut RdmaCmId,
    src_addr: *const sockaddr,
    dst_addr: *const sockaddr,
) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(id) }?;
    // SAFETY: the C contract.
    let source = unsafe { address::read_optional(src_addr) }?;
    // SAFETY: the C contract.
    let peer = unsafe { address::read(dst_addr) }?;
    private.cm.resolve_addr(source, peer)?;
    refresh(abi, private)?;
    // SAFETY: the C contract.
    unsafe { event::complete(id) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_resolve_route(id: *mut RdmaCmId, _timeout_ms: c_int) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { resolve_route(id) })
}

/// # Safety
/// The C contract.
pub(crate) unsafe fn resolve_route(id: *mut RdmaCmId) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(id) }?;
    private.cm.resolve_route()?;
    show_path(abi, private);
    // SAFETY: the C contract.
    unsafe { event::complete(id) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_migrate_id(id: *mut RdmaCmId, channel: *mut RdmaEventChannel) -> c_int {
    // SAFETY: the C contract.
    minus_one(unsafe { migrate(id, channel) })
}

/// A null channel makes the ID synchronous; a channel ends that.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn migrate(id: *mut RdmaCmId, channel: *mut RdmaEventChannel) -> Result<(), Errno> {
    let becomes_sync = channel.is_null();
    {
        // SAFETY: the C contract.
        let (_, private) = unsafe { parts(id) }?;
        if private.is_sync && becomes_sync {
            return Err(Errno::INVALID);
        }
    }
    let channel = if becomes_sync { channel::create()? } else { channel };
    // SAFETY: the program's, or just made.
    let object = unsafe { channel::borrow(channel) }?;
    // SAFETY: the C contract.
    let (abi, private) = unsafe { parts(id) }?;
    private.cm.migrate(&object.channel)?;
    let before = std::mem::replace(&mut abi.channel, channel);
    let was_sync = private.is_sync;
    if was_sync {
        // SAFETY: an event that this library made and that is nobody else's.
        unsafe { event::acknowledge_own(abi) };
        // SAFETY: the channel was the ID's own.
        unsafe { channel::rdma_destroy_event_channel(before) };
    }
    // SAFETY: a block of ours, in which nobody reads meanwhile (the C contract).
    unsafe { (*id.cast::<IdObject>()).private.is_sync = becomes_sync };
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_src_port(id: *mut RdmaCmId) -> u16 {
    // SAFETY: the C contract.
    unsafe { parts(id) }.map_or(0, |(id, _)| address::port_be(&id.route.addr.src))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_dst_port(id: *mut RdmaCmId) -> u16 {
    // SAFETY: the C contract.
    unsafe { parts(id) }.map_or(0, |(id, _)| address::port_be(&id.route.addr.dst))
}

/// Takes an event's ID apart again, for those who know the pointer only.
pub(crate) fn by_cookie(cookie: u64) -> *mut RdmaCmId {
    std::ptr::with_exposed_provenance_mut(cookie as usize)
}

/// Frees what an endpoint's ID has: its queue pair, its completion queues, itself.
///
/// # Safety
/// The C contract.
pub(crate) unsafe fn destroy_with_all(id: *mut RdmaCmId) -> Result<(), Errno> {
    // SAFETY: the C contract.
    let (abi, _) = unsafe { parts(id) }?;
    let (has_qp, has_srq) = (!abi.qp.is_null(), !abi.srq.is_null());
    if has_qp {
        // SAFETY: the C contract.
        unsafe { qp::rdma_destroy_qp(id) };
    }
    if has_srq {
        // SAFETY: the C contract.
        unsafe { crate::srq::rdma_destroy_srq(id) };
    }
    // SAFETY: the C contract.
    unsafe { destroy(id) }
}

const DEFAULT_PKEY: u16 = 0xffff;
const NO_GID: IbvGid = IbvGid { raw: [0; 16] };
const NO_IB_ADDR: RdmaIbAddr = RdmaIbAddr { sgid: NO_GID, dgid: NO_GID, pkey: 0 };
const NO_PATH: IbvSaPathRec = IbvSaPathRec {
    dgid: NO_GID,
    sgid: NO_GID,
    dlid: 0,
    slid: 0,
    raw_traffic: 0,
    flow_label: 0,
    hop_limit: 64,
    traffic_class: 0,
    reversible: 1,
    numb_path: 1,
    pkey: 0,
    sl: 0,
    mtu_selector: 2,
    mtu: 0,
    rate_selector: 2,
    rate: 0,
    packet_life_time_selector: 2,
    packet_life_time: ferroce::cm::PACKET_LIFETIME,
    preference: 0,
};
