//! `ibv_create_cq_ex` and the way to read completions that comes with it: one at a time, field by field.

use crate::cq::{self, CqObject, CqSpec, imm_or_rkey};
use crate::errno::{Errno, pointer as or_null};
use crate::object::{self, NO_HANDLE, UNUSED_COND, UNUSED_MUTEX};
use crate::pointer;
use ferroce::Stamps;
use ferroce::core::Wc;
use ferroce_ibverbs_layout::{
    IbvContext, IbvCq, IbvCqEx, IbvCqInitAttrEx, IbvCqInitAttrExOldest, IbvPollCqAttr, IbvWcTmInfo,
};
use libc::{c_int, c_uint};
use parking_lot::Mutex;
use std::mem;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The operation behind `ibv_create_cq_ex`.
pub(crate) unsafe extern "C" fn create_cq_ex_op(
    context: *mut IbvContext,
    attr: *mut IbvCqInitAttrEx,
) -> *mut IbvCqEx {
    // SAFETY: the C contract.
    or_null(unsafe { create(context, attr) }).cast()
}

unsafe fn create(context: *mut IbvContext, attr: *mut IbvCqInitAttrEx) -> Result<*mut IbvCq, Errno> {
    let whole = attr;
    // SAFETY: the C contract: every form of the structure has these members.
    let attr = unsafe { pointer::read(attr.cast::<IbvCqInitAttrExOldest>()) }?;
    let flags = if attr.comp_mask & MASK_FLAGS != 0 { attr.flags } else { 0 };
    if attr.wc_flags & !SUPPORTED_WC_FLAGS != 0
        || attr.comp_mask & !(MASK_FLAGS | MASK_PD) != 0
        || flags & !(FLAG_SINGLE_THREADED | FLAG_IGNORE_OVERRUN) != 0
    {
        return Err(Errno::UNSUPPORTED);
    }
    let mut spec = CqSpec {
        cqe: attr.cqe,
        cq_context: attr.cq_context,
        channel: attr.channel,
        comp_vector: attr.comp_vector,
        single_threaded: flags & FLAG_SINGLE_THREADED != 0,
        ignore_overrun: flags & FLAG_IGNORE_OVERRUN != 0,
        stamps: attr.wc_flags & (WITH_COMPLETION_TIMESTAMP | WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0,
        parent_domain: null_mut(),
    };
    if attr.comp_mask & MASK_PD != 0 {
        // SAFETY: the C contract: the mask says that the structure has the field.
        spec.parent_domain = unsafe { pointer::read(whole) }?.parent_domain;
        if spec.parent_domain.is_null() {
            return Err(Errno::INVALID);
        }
    }
    // SAFETY: the C contract.
    unsafe { cq::create(context, &spec) }
}

/// `IBV_WC_STANDARD_FLAGS`: byte length, immediate, QPN, source QPN, SLID, SL, path bits.
const STANDARD_FLAGS: u64 = 0x7f;
/// `IBV_WC_EX_WITH_COMPLETION_TIMESTAMP`.
const WITH_COMPLETION_TIMESTAMP: u64 = 1 << 7;
/// `IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK`.
const WITH_COMPLETION_TIMESTAMP_WALLCLOCK: u64 = 1 << 11;
const SUPPORTED_WC_FLAGS: u64 =
    STANDARD_FLAGS | WITH_COMPLETION_TIMESTAMP | WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
/// `IBV_CQ_INIT_ATTR_MASK_FLAGS`.
const MASK_FLAGS: u32 = 1;
/// `IBV_CQ_INIT_ATTR_MASK_PD`.
const MASK_PD: u32 = 1 << 1;
/// `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`.
const FLAG_SINGLE_THREADED: u32 = 1;
/// `IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`.
const FLAG_IGNORE_OVERRUN: u32 = 1 << 1;

/// The completion being read. Between `start_poll` and `end_poll` the CQ belongs to one thread.
pub(crate) struct Reader {
    single_threaded: bool,
    current: Mutex<Option<(Wc, Stamps)>>,
}

impl Reader {
    pub(crate) fn new(single_threaded: bool) -> Reader {
        Reader { single_threaded, current: Mutex::new(None) }
    }

    /// Takes the CQ for this thread. The program has promised not to need it if it is single-threaded.
    fn acquire(&self) {
        if !self.single_threaded {
            mem::forget(self.current.lock());
        }
    }

    /// # Safety
    /// The thread has acquired it.
    unsafe fn release(&self) {
        if !self.single_threaded {
            // SAFETY: locked by `acquire` in this thread.
            unsafe { self.current.force_unlock() };
        }
    }

    /// # Safety
    /// The thread has acquired it, and nothing else that this function gave is alive.
    #[expect(clippy::mut_from_ref, reason = "the lock is held across calls from C")]
    unsafe fn current(&self) -> &mut Option<(Wc, Stamps)> {
        // SAFETY: the lock, or the program's promise, keeps other threads away.
        unsafe { &mut *self.current.data_ptr() }
    }
}

/// Reads the next completion into the public structure: 0, or ENOENT, or EIO when the CQ was overrun.
///
/// # Safety
/// The thread has acquired the reader.
unsafe fn advance(object: &CqObject) -> c_int {
    let mut found = None;
    if object.verbs().poll_stamped_with(1, |wc, stamps| found = Some((*wc, stamps))).is_err() {
        return libc::EIO;
    }
    let Some((wc, stamps)) = found else { return libc::ENOENT };
    object.abi().status.store(wc.status as u32, Ordering::Relaxed);
    object.abi().wr_id.store(wc.wr_id, Ordering::Relaxed);
    // SAFETY: acquired.
    *unsafe { object.reader().current() } = Some((wc, stamps));
    0
}

unsafe extern "C" fn start_poll(cq: *mut IbvCqEx, attr: *mut IbvPollCqAttr) -> c_int {
    // SAFETY: the C contract.
    let Ok(object) = (unsafe { object::borrow::<CqObject>(cq.cast()) }) else { return libc::EINVAL };
    // SAFETY: the C contract.
    if unsafe { pointer::read(attr) }.is_ok_and(|attr| attr.comp_mask != 0) {
        return libc::EINVAL;
    }
    object.reader().acquire();
    // SAFETY: acquired.
    let answer = unsafe { advance(object) };
    if answer != 0 {
        // SAFETY: acquired; a program does not call end_poll after a failed start.
        unsafe { object.reader().release() };
    }
    answer
}

unsafe extern "C" fn next_poll(cq: *mut IbvCqEx) -> c_int {
    // SAFETY: the C contract.
    let Ok(object) = (unsafe { object::borrow::<CqObject>(cq.cast()) }) else { return libc::EINVAL };
    // SAFETY: the C contract: between start_poll and end_poll.
    unsafe { advance(object) }
}

unsafe extern "C" fn end_poll(cq: *mut IbvCqEx) {
    // SAFETY: the C contract.
    if let Ok(object) = unsafe { object::borrow::<CqObject>(cq.cast()) } {
        // SAFETY: the C contract: after a start_poll that succeeded.
        unsafe { object.reader().release() };
    }
}

/// The completion being read, or `absent`.
///
/// # Safety
/// The C contract: between `start_poll` and `end_poll`.
unsafe fn read<T>(cq: *mut IbvCqEx, absent: T, field: impl FnOnce(&Wc) -> T) -> T {
    // SAFETY: the caller's promise.
    unsafe { read_stamped(cq, absent, |wc, _| field(wc)) }
}

/// Like [`read`], with the time at which it was added.
///
/// # Safety
/// The C contract: between `start_poll` and `end_poll`.
unsafe fn read_stamped<T>(cq: *mut IbvCqEx, absent: T, field: impl FnOnce(&Wc, Stamps) -> T) -> T {
    // SAFETY: the C contract.
    let Ok(object) = (unsafe { object::borrow::<CqObject>(cq.cast()) }) else { return absent };
    // SAFETY: the C contract: acquired by start_poll.
    let current = unsafe { object.reader().current() };
    current.as_ref().map_or(absent, |(wc, stamps)| field(wc, *stamps))
}

unsafe extern "C" fn read_opcode(cq: *mut IbvCqEx) -> u32 {
    // SAFETY: the C contract.
    unsafe { read(cq, 0, |wc| wc.opcode as u32) }
}

unsafe extern "C" fn read_vendor_err(cq: *mut IbvCqEx) -> u32 {
    // SAFETY: the C contract.
    unsafe { read(cq, 0, |wc| wc.vendor_err) }
}

unsafe extern "C" fn read_byte_len(cq: *mut IbvCqEx) -> u32 {
    // SAFETY: the C contract.
    unsafe { read(cq, 0, |wc| wc.byte_len) }
}

unsafe extern "C" fn read_imm_data(cq: *mut IbvCqEx) -> u32 {
    // SAFETY: the C contract.
    unsafe { read(cq, 0, imm_or_rkey) }
}

unsafe extern "C" fn read_qp_num(cq: *mut IbvCqEx) -> u32 {
    // SAFETY: the C contract.
    unsafe { read(cq, 0, |wc| wc.qpn.value()) }
}

unsafe extern "C" fn read_src_qp(cq: *mut IbvCqEx) -> u32 {
    // SAFETY: the C contract.
    unsafe { read(cq, 0, |wc| wc.src_qp.value()) }
}

unsafe extern "C" fn read_wc_flags(cq: *mut IbvCqEx) -> c_uint {
    // SAFETY: the C contract.
    unsafe { read(cq, 0, |wc| wc.flags.bits()) }
}

// RoCE has no LIDs; the SL of a packet is not on the wire.

extern "C" fn read_slid(_: *mut IbvCqEx) -> u32 {
    0
}

extern "C" fn read_sl(_: *mut IbvCqEx) -> u8 {
    0
}

extern "C" fn read_dlid_path_bits(_: *mut IbvCqEx) -> u8 {
    0
}

unsafe extern "C" fn read_completion_ts(cq: *mut IbvCqEx) -> u64 {
    // SAFETY: the C contract.
    unsafe { read_stamped(cq, 0, |_, stamps| stamps.clock_ns) }
}

unsafe extern "C" fn read_completion_wallclock_ns(cq: *mut IbvCqEx) -> u64 {
    // SAFETY: the C contract.
    unsafe { read_stamped(cq, 0, |_, stamps| stamps.wallclock_ns) }
}

// What a CQ cannot be made with; the slots are filled because programs call them unseen.

extern "C" fn read_cvlan(_: *mut IbvCqEx) -> u16 {
    0
}

extern "C" fn read_flow_tag(_: *mut IbvCqEx) -> u32 {
    0
}

unsafe extern "C" fn read_tm_info(_: *mut IbvCqEx, tm_info: *mut IbvWcTmInfo) {
    // SAFETY: the C contract.
    let _unwanted = unsafe { pointer::write(tm_info, IbvWcTmInfo::default()) };
}

/// The public structure of a new CQ. One made by `ibv_create_cq` has the operations too, as rdma-core's have.
pub(crate) fn new_cq_ex(context: *mut IbvContext, spec: &CqSpec, capacity: u32) -> IbvCqEx {
    IbvCqEx {
        cq: IbvCq {
            context,
            channel: spec.channel,
            cq_context: AtomicPtr::new(spec.cq_context),
            handle: NO_HANDLE,
            cqe: AtomicI32::new(capacity as c_int),
            mutex: UNUSED_MUTEX,
            cond: UNUSED_COND,
            comp_events_completed: 0,
            async_events_completed: 0,
        },
        comp_mask: 0,
        status: AtomicU32::new(0),
        wr_id: AtomicU64::new(0),
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_slid),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_dlid_path_bits),
        read_completion_ts: Some(read_completion_ts),
        read_cvlan: Some(read_cvlan),
        read_flow_tag: Some(read_flow_tag),
        read_tm_info: Some(read_tm_info),
        read_completion_wallclock_ns: Some(read_completion_wallclock_ns),
    }
}
