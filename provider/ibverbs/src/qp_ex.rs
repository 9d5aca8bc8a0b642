//! `ibv_wr_post(3)`: work requests built by calls between `ibv_wr_start` and `ibv_wr_complete`.
//!
//! Requests are collected here and posted together by `ibv_wr_complete`, all or none. Between the two the QP's send queue
//! belongs to one thread, as in rdma-core.

use crate::ah;
use crate::errno::{Errno, status};
use crate::mw;
use crate::object;
use crate::pointer;
use crate::post::{append, converted, refused};
use crate::qp::QpObject;
use ferroce::check_inline;
use ferroce::core::{
    Flush, FlushPlacement, MwBind, Payload, QpCaps, QpType, Remote, SendFlags, SendOp, SendWr, Sge, Srqn,
};
use ferroce_ibverbs_layout::{IbvAh, IbvDataBuf, IbvMw, IbvMwBindInfo, IbvQp, IbvQpEx, IbvSge};
use ferroce_wire::Qpn;
use libc::{c_int, c_void};
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use std::mem;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What a QP that was made with `send_ops_flags` collects requests in.
pub(crate) struct Builder {
    /// The operations that the program asked for at creation.
    send_ops: u64,
    batch: Mutex<Batch>,
}

/// The requests since `ibv_wr_start`.
#[derive(Default)]
struct Batch {
    wrs: Vec<SendWr>,
    /// The first thing that went wrong; the calls themselves return nothing.
    error: Option<Errno>,
}

impl Builder {
    pub(crate) fn new(send_ops: u64) -> Builder {
        Builder { send_ops, batch: Mutex::new(Batch::default()) }
    }

    /// Takes the send queue for this thread.
    fn acquire(&self) {
        mem::forget(self.batch.lock());
    }

    /// Gives the send queue back; what has been collected.
    ///
    /// # Safety
    /// The thread has acquired it.
    unsafe fn release(&self) -> Batch {
        // SAFETY: acquired.
        let batch = mem::take(unsafe { self.batch() });
        // SAFETY: locked by `acquire` in this thread.
        unsafe { self.batch.force_unlock() };
        batch
    }

    /// # Safety
    /// The thread has acquired it, and nothing else that this function gave is alive.
    #[expect(clippy::mut_from_ref, reason = "the lock is held across calls from C")]
    unsafe fn batch(&self) -> &mut Batch {
        // SAFETY: the lock keeps other threads away.
        unsafe { &mut *self.batch.data_ptr() }
    }
}

impl Batch {
    fn fail(&mut self, errno: Errno) {
        self.error.get_or_insert(errno);
    }

    /// Says whom the last request is for.
    fn set_remote(&mut self, remote: Result<Remote, Errno>) {
        match (remote, self.wrs.last_mut()) {
            (Err(errno), _) => self.fail(errno),
            (Ok(_), None) => self.fail(Errno::INVALID),
            (Ok(remote), Some(wr)) => wr.remote = remote,
        }
    }

    /// Gives the last request its payload.
    fn set_payload(&mut self, payload: Result<Payload, Errno>) {
        match (payload, self.wrs.last_mut()) {
            (Err(errno), _) => self.fail(errno),
            (Ok(_), None) => self.fail(Errno::INVALID),
            (Ok(payload), Some(wr)) => {
                wr.flags.set(SendFlags::INLINE, matches!(payload, Payload::Inline(_)));
                wr.payload = payload;
            }
        }
    }
}

/// Does something with a QP and its builder; nothing for a QP that has none.
///
/// # Safety
/// The C contract.
unsafe fn with_builder(qp: *mut IbvQpEx, act: impl FnOnce(&QpObject, &Builder)) {
    // SAFETY: the C contract.
    let Ok(object) = (unsafe { object::borrow::<QpObject>(qp.cast()) }) else { return };
    if let Some(builder) = object.builder() {
        act(object, builder);
    }
}

/// Adds a request, whose payload comes with a later call.
///
/// # Safety
/// The C contract: between `ibv_wr_start` and `ibv_wr_complete`.
unsafe fn add(qp: *mut IbvQpEx, send_op: u64, op: SendOp) {
    let act = |object: &QpObject, builder: &Builder| {
        // SAFETY: acquired by wr_start.
        let batch = unsafe { builder.batch() };
        if builder.send_ops & send_op == 0 {
            return batch.fail(Errno::UNSUPPORTED);
        }
        // Inline or not follows from the payload and not from the flag.
        let flags = SendFlags::from_bits_truncate(object.abi().wr_flags.load(Ordering::Relaxed));
        batch.wrs.push(SendWr {
            wr_id: object.abi().wr_id.load(Ordering::Relaxed),
            op,
            flags: flags - SendFlags::INLINE,
            payload: Payload::Sges(SmallVec::new()),
            remote: Remote::Peer,
        });
    };
    // SAFETY: the C contract.
    unsafe { with_builder(qp, act) };
}

/// Notes that the last request was none.
///
/// # Safety
/// The C contract: between `ibv_wr_start` and `ibv_wr_complete`.
unsafe fn add_refused(qp: *mut IbvQpEx, errno: Errno) {
    let act = |_: &QpObject, builder: &Builder| {
        // SAFETY: acquired by wr_start.
        unsafe { builder.batch() }.fail(errno);
    };
    // SAFETY: the C contract.
    unsafe { with_builder(qp, act) };
}

/// Gives the last request its payload.
///
/// # Safety
/// The C contract: between `ibv_wr_start` and `ibv_wr_complete`.
unsafe fn set_payload(qp: *mut IbvQpEx, payload: impl FnOnce(&QpCaps) -> Result<Payload, Errno>) {
    let act = |object: &QpObject, builder: &Builder| {
        // SAFETY: acquired by wr_start.
        unsafe { builder.batch() }.set_payload(payload(&object.verbs().init().caps));
    };
    // SAFETY: the C contract.
    unsafe { with_builder(qp, act) };
}

/// Says whom the last request is for, as one of the QP with the number given.
///
/// # Safety
/// The C contract: between `ibv_wr_start` and `ibv_wr_complete`.
unsafe fn set_remote(qp: *mut IbvQpEx, remote: impl FnOnce(Qpn) -> Result<Remote, Errno>) {
    let act = |object: &QpObject, builder: &Builder| {
        // SAFETY: acquired by wr_start.
        unsafe { builder.batch() }.set_remote(remote(object.verbs().qpn()));
    };
    // SAFETY: the C contract.
    unsafe { with_builder(qp, act) };
}

unsafe extern "C" fn wr_start(qp: *mut IbvQpEx) {
    // SAFETY: the C contract.
    unsafe { with_builder(qp, |_, builder| builder.acquire()) };
}

unsafe extern "C" fn wr_complete(qp: *mut IbvQpEx) -> c_int {
    let mut result = Err(Errno::INVALID);
    let act = |object: &QpObject, builder: &Builder| {
        // SAFETY: acquired by wr_start.
        let batch = unsafe { builder.release() };
        result = match batch.error {
            Some(errno) => Err(errno),
            None => object.verbs().post_send_all(batch.wrs).map_err(|error| Errno::from(error.cause.kind())),
        };
    };
    // SAFETY: the C contract.
    unsafe { with_builder(qp, act) };
    status(result)
}

unsafe extern "C" fn wr_abort(qp: *mut IbvQpEx) {
    let act = |_: &QpObject, builder: &Builder| {
        // SAFETY: acquired by wr_start.
        drop(unsafe { builder.release() });
    };
    // SAFETY: the C contract.
    unsafe { with_builder(qp, act) };
}

unsafe extern "C" fn wr_rdma_write(qp: *mut IbvQpEx, rkey: u32, va: u64) {
    // SAFETY: the C contract.
    unsafe { add(qp, WITH_RDMA_WRITE, SendOp::Write { va, rkey }) };
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut IbvQpEx, rkey: u32, va: u64, imm_data: u32) {
    let op = SendOp::WriteImm { va, rkey, imm: imm_data.to_ne_bytes() };
    // SAFETY: the C contract.
    unsafe { add(qp, WITH_RDMA_WRITE_WITH_IMM, op) };
}

unsafe extern "C" fn wr_send(qp: *mut IbvQpEx) {
    // SAFETY: the C contract.
    unsafe { add(qp, WITH_SEND, SendOp::Send) };
}

unsafe extern "C" fn wr_send_imm(qp: *mut IbvQpEx, imm_data: u32) {
    // SAFETY: the C contract.
    unsafe { add(qp, WITH_SEND_WITH_IMM, SendOp::SendImm { imm: imm_data.to_ne_bytes() }) };
}

unsafe extern "C" fn wr_rdma_read(qp: *mut IbvQpEx, rkey: u32, va: u64) {
    // SAFETY: the C contract.
    unsafe { add(qp, WITH_RDMA_READ, SendOp::Read { va, rkey }) };
}

unsafe extern "C" fn wr_atomic_cmp_swp(qp: *mut IbvQpEx, rkey: u32, va: u64, compare: u64, swap: u64) {
    // SAFETY: the C contract.
    unsafe { add(qp, WITH_ATOMIC_CMP_AND_SWP, SendOp::CompareSwap { va, rkey, compare, swap }) };
}

unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut IbvQpEx, rkey: u32, va: u64, add_value: u64) {
    // SAFETY: the C contract.
    unsafe { add(qp, WITH_ATOMIC_FETCH_AND_ADD, SendOp::FetchAdd { va, rkey, add: add_value }) };
}

unsafe extern "C" fn wr_local_inv(qp: *mut IbvQpEx, rkey: u32) {
    // SAFETY: the C contract.
    unsafe { add(qp, WITH_LOCAL_INV, SendOp::LocalInv { rkey }) };
}

unsafe extern "C" fn wr_send_inv(qp: *mut IbvQpEx, rkey: u32) {
    // SAFETY: the C contract.
    unsafe { add(qp, WITH_SEND_WITH_INV, SendOp::SendInv { rkey }) };
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut IbvQpEx,
    mw: *mut IbvMw,
    rkey: u32,
    bind_info: *const IbvMwBindInfo,
) {
    // SAFETY: the C contract.
    let info = unsafe { pointer::read(bind_info) };
    // SAFETY: the C contract.
    let op = info.and_then(|info| unsafe { mw::bind_op(mw, rkey, &info) });
    match op {
        // SAFETY: the C contract.
        Ok(op) => unsafe { add(qp, WITH_BIND_MW, op) },
        // SAFETY: the C contract.
        Err(errno) => unsafe { add_refused(qp, errno) },
    }
}

unsafe extern "C" fn wr_send_tso(qp: *mut IbvQpEx, _: *mut c_void, _: u16, _: u16) {
    // SAFETY: the C contract.
    unsafe { add_refused(qp, Errno::UNSUPPORTED) };
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut IbvQpEx, ah: *mut IbvAh, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: the C contract.
    let remote = |qpn| unsafe { ah::remote(ah, qpn, remote_qpn, remote_qkey) };
    // SAFETY: the C contract.
    unsafe { set_remote(qp, remote) };
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut IbvQpEx, remote_srqn: u32) {
    // SAFETY: the C contract.
    unsafe { set_remote(qp, |_| Ok(Remote::Srq(Srqn::new(remote_srqn)))) };
}

/// The 8 bytes are copied now, as inline data is.
unsafe extern "C" fn wr_atomic_write(qp: *mut IbvQpEx, rkey: u32, va: u64, atomic_wr: *const c_void) {
    // SAFETY: the C contract: 8 bytes, at any address.
    let word = unsafe { pointer::read_unaligned(atomic_wr.cast::<[u8; 8]>()) };
    // SAFETY: the C contract.
    unsafe { add(qp, WITH_ATOMIC_WRITE, SendOp::AtomicWrite { va, rkey }) };
    // SAFETY: the C contract.
    unsafe { set_payload(qp, |_| Ok(Payload::Inline(SmallVec::from_slice(&word?)))) };
}

unsafe extern "C" fn wr_flush(
    qp: *mut IbvQpEx,
    rkey: u32,
    va: u64,
    length: usize,
    placement_type: u8,
    selectivity_level: u8,
) {
    match flush(length, placement_type, selectivity_level) {
        // SAFETY: the C contract.
        Ok(flush) => unsafe { add(qp, WITH_FLUSH, SendOp::Flush { va, rkey, flush }) },
        // SAFETY: the C contract.
        Err(errno) => unsafe { add_refused(qp, errno) },
    }
}

/// From `enum ibv_placement_type` and `enum ibv_selectivity_level`.
fn flush(length: usize, placement_type: u8, selectivity_level: u8) -> Result<Flush, Errno> {
    let placement = FlushPlacement::from_bits(placement_type).ok_or(Errno::INVALID)?;
    let length = match selectivity_level {
        SELECTIVITY_RANGE => Some(u32::try_from(length).map_err(|_| Errno::INVALID)?),
        SELECTIVITY_MR => None,
        _ => return Err(Errno::INVALID),
    };
    Ok(Flush { placement, length })
}

/// `IBV_FLUSH_RANGE`.
const SELECTIVITY_RANGE: u8 = 0;
/// `IBV_FLUSH_MR`.
const SELECTIVITY_MR: u8 = 1;

unsafe extern "C" fn wr_set_sge(qp: *mut IbvQpEx, lkey: u32, addr: u64, length: u32) {
    // SAFETY: the C contract.
    unsafe { set_payload(qp, |_| Ok(Payload::Sges(smallvec![Sge { addr, length, lkey }]))) };
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut IbvQpEx, num_sge: usize, sg_list: *const IbvSge) {
    let payload = |caps: &QpCaps| {
        let limit = caps.max_send_sge;
        if num_sge > limit as usize {
            return Err(refused(ferroce::PostCause::TooManySges { num_sge, limit }));
        }
        // SAFETY: the C contract: `num_sge` elements.
        let sges = unsafe { pointer::borrow_slice(sg_list, num_sge) }?;
        Ok(Payload::Sges(converted(sges)))
    };
    // SAFETY: the C contract.
    unsafe { set_payload(qp, payload) };
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut IbvQpEx, addr: *mut c_void, length: usize) {
    let buf = IbvDataBuf { addr, length };
    // SAFETY: the C contract.
    unsafe { wr_set_inline_data_list(qp, 1, &raw const buf) };
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut IbvQpEx, num_buf: usize, buf_list: *const IbvDataBuf) {
    let payload = |caps: &QpCaps| {
        // SAFETY: the C contract: `num_buf` elements.
        let bufs = unsafe { pointer::borrow_slice(buf_list, num_buf) }?;
        // SAFETY: the C contract.
        unsafe { inline(bufs, caps) }
    };
    // SAFETY: the C contract.
    unsafe { set_payload(qp, payload) };
}

/// Copies inline data, after its length has been found to fit.
///
/// # Safety
/// The C contract: each buffer is null or as long as it says.
unsafe fn inline(bufs: &[IbvDataBuf], caps: &QpCaps) -> Result<Payload, Errno> {
    let length = bufs.iter().fold(0u64, |sum, buf| sum.saturating_add(buf.length as u64));
    check_inline(caps, length).map_err(refused)?;
    let mut bytes = SmallVec::new();
    for buf in bufs {
        // SAFETY: the caller's promise.
        unsafe { append(&mut bytes, buf.addr.cast(), buf.length) }?;
    }
    Ok(Payload::Inline(bytes))
}

// `enum ibv_qp_create_send_ops_flags`.
const WITH_RDMA_WRITE: u64 = 1;
const WITH_RDMA_WRITE_WITH_IMM: u64 = 1 << 1;
const WITH_SEND: u64 = 1 << 2;
const WITH_SEND_WITH_IMM: u64 = 1 << 3;
const WITH_RDMA_READ: u64 = 1 << 4;
const WITH_ATOMIC_CMP_AND_SWP: u64 = 1 << 5;
const WITH_ATOMIC_FETCH_AND_ADD: u64 = 1 << 6;
const WITH_LOCAL_INV: u64 = 1 << 7;
const WITH_BIND_MW: u64 = 1 << 8;
const WITH_SEND_WITH_INV: u64 = 1 << 9;
const WITH_FLUSH: u64 = 1 << 11;
const WITH_ATOMIC_WRITE: u64 = 1 << 12;

/// The operations that a QP of this type may be made with.
pub(crate) fn supported_send_ops(qp_type: QpType) -> u64 {
    let (va, rkey, imm) = (0, 0, [0; 4]);
    let ops = [
        (WITH_RDMA_WRITE, SendOp::Write { va, rkey }),
        (WITH_RDMA_WRITE_WITH_IMM, SendOp::WriteImm { va, rkey, imm }),
        (WITH_SEND, SendOp::Send),
        (WITH_SEND_WITH_IMM, SendOp::SendImm { imm }),
        (WITH_RDMA_READ, SendOp::Read { va, rkey }),
        (WITH_ATOMIC_CMP_AND_SWP, SendOp::CompareSwap { va, rkey, compare: 0, swap: 0 }),
        (WITH_ATOMIC_FETCH_AND_ADD, SendOp::FetchAdd { va, rkey, add: 0 }),
        (WITH_LOCAL_INV, SendOp::LocalInv { rkey }),
        (WITH_BIND_MW, SendOp::BindMw { rkey, bind: MwBind::default() }),
        (WITH_SEND_WITH_INV, SendOp::SendInv { rkey }),
        (
            WITH_FLUSH,
            SendOp::Flush { va, rkey, flush: Flush { placement: FlushPlacement::GLOBAL, length: None } },
        ),
        (WITH_ATOMIC_WRITE, SendOp::AtomicWrite { va, rkey }),
    ];
    ops.iter().filter(|(_, op)| op.is_sent_by(qp_type)).fold(0, |bits, (bit, _)| bits | bit)
}

/// The public structure of a new QP around its plain part.
pub(crate) fn new_qp_ex(qp_base: IbvQp) -> IbvQpEx {
    IbvQpEx {
        qp_base,
        comp_mask: 0,
        wr_id: AtomicU64::new(0),
        wr_flags: AtomicU32::new(0),
        wr_atomic_cmp_swp: Some(wr_atomic_cmp_swp),
        wr_atomic_fetch_add: Some(wr_atomic_fetch_add),
        wr_bind_mw: Some(wr_bind_mw),
        wr_local_inv: Some(wr_local_inv),
        wr_rdma_read: Some(wr_rdma_read),
        wr_rdma_write: Some(wr_rdma_write),
        wr_rdma_write_imm: Some(wr_rdma_write_imm),
        wr_send: Some(wr_send),
        wr_send_imm: Some(wr_send_imm),
        wr_send_inv: Some(wr_send_inv),
        wr_send_tso: Some(wr_send_tso),
        wr_set_ud_addr: Some(wr_set_ud_addr),
        wr_set_xrc_srqn: Some(wr_set_xrc_srqn),
        wr_set_inline_data: Some(wr_set_inline_data),
        wr_set_inline_data_list: Some(wr_set_inline_data_list),
        wr_set_sge: Some(wr_set_sge),
        wr_set_sge_list: Some(wr_set_sge_list),
        wr_start: Some(wr_start),
        wr_complete: Some(wr_complete),
        wr_abort: Some(wr_abort),
        wr_atomic_write: Some(wr_atomic_write),
        wr_flush: Some(wr_flush),
    }
}
