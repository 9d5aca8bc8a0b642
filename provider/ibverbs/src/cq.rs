//! Completion queues, as `ibv_poll_cq` reads them; [`crate::cq_ex`] has the other way.

use crate::channel::ChannelObject;
use crate::context::ContextObject;
use crate::cq_ex::{Reader, new_cq_ex};
use crate::domain;
use crate::errno::{Errno, pointer as or_null, status};
use crate::object::{self, Object, Room};
use crate::pointer;
use ferroce::core::Wc;
use ferroce::{Cq, Moderation, PdUser};
use ferroce_ibverbs_layout::{
    IbvCompChannel, IbvContext, IbvCq, IbvCqEx, IbvModerateCq, IbvModifyCqAttr, IbvPd, IbvWc,
};
use libc::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// A completion queue.
#[repr(C)]
pub(crate) struct CqObject {
    abi: IbvCqEx,
    cq: Cq,
    reader: Reader,
    _parent_domain: Option<PdUser>,
}

// SAFETY: repr(C), and the public structure begins with an IbvCq; what changes in it is an atomic, and the reader is
// behind its lock.
unsafe impl Object for CqObject {
    type Abi = IbvCq;
}

/// What a CQ is made with.
pub(crate) struct CqSpec {
    pub(crate) cqe: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut IbvCompChannel,
    pub(crate) comp_vector: u32,
    pub(crate) single_threaded: bool,
    pub(crate) ignore_overrun: bool,
    pub(crate) stamps: bool,
    /// The parent domain that it is made in, if any: kept as long as the CQ.
    pub(crate) parent_domain: *mut IbvPd,
}

impl CqObject {
    pub(crate) fn verbs(&self) -> &Cq {
        &self.cq
    }

    pub(crate) fn abi(&self) -> &IbvCqEx {
        &self.abi
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// What the program calls it; it may have changed since the CQ was made.
    pub(crate) fn cq_context(&self) -> *mut c_void {
        self.abi.cq.cq_context.load(Ordering::Relaxed)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_cq(
    context: *mut IbvContext,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut IbvCompChannel,
    comp_vector: c_int,
) -> *mut IbvCq {
    let (Ok(cqe), Ok(comp_vector)) = (u32::try_from(cqe), u32::try_from(comp_vector)) else {
        return or_null(Err(Errno::INVALID));
    };
    let spec = CqSpec {
        cqe,
        cq_context,
        channel,
        comp_vector,
        single_threaded: false,
        ignore_overrun: false,
        stamps: false,
        parent_domain: null_mut(),
    };
    // SAFETY: the C contract.
    or_null(unsafe { create(context, &spec) })
}

/// # Safety
/// The C contract for the pointers in `spec` too.
pub(crate) unsafe fn create(context: *mut IbvContext, spec: &CqSpec) -> Result<*mut IbvCq, Errno> {
    // SAFETY: the C contract.
    let opened = unsafe { ContextObject::borrow(context) }?;
    // SAFETY: the C contract; a null pointer means that no events are wanted.
    let channel = unsafe { object::borrow::<ChannelObject>(spec.channel) }.ok();
    // SAFETY: the C contract.
    let parent_domain = unsafe { domain::of_cq(spec.parent_domain) }?;
    let room = Room::<CqObject>::new();
    let cq = opened.verbs().create_cq(&ferroce::CqSpec {
        cqe: spec.cqe,
        cookie: room.cookie(),
        channel: channel.map(ChannelObject::verbs),
        comp_vector: spec.comp_vector,
        stamps: spec.stamps,
        ignore_overrun: spec.ignore_overrun,
    })?;
    if let Some(channel) = channel {
        channel.show_users();
    }
    let abi = new_cq_ex(context, spec, cq.capacity());
    let reader = Reader::new(spec.single_threaded);
    Ok(room.fill(CqObject { abi, cq, reader, _parent_domain: parent_domain }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_resize_cq(cq: *mut IbvCq, cqe: c_int) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<CqObject>(cq) };
    status(object.and_then(|object| {
        let cqe = u32::try_from(cqe).map_err(|_| Errno::INVALID)?;
        object.cq.resize(cqe)?;
        object.abi.cq.cqe.store(object.cq.capacity() as c_int, Ordering::Relaxed);
        Ok(())
    }))
}

/// The operation behind `ibv_modify_cq`.
pub(crate) unsafe extern "C" fn modify_cq_op(cq: *mut IbvCq, attr: *mut IbvModifyCqAttr) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<CqObject>(cq) };
    status(object.and_then(|object| {
        // SAFETY: the C contract.
        let attr = unsafe { pointer::read(attr) }?;
        if attr.attr_mask & !ATTR_MODERATE != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if attr.attr_mask & ATTR_MODERATE != 0 {
            let IbvModerateCq { cq_count, cq_period } = attr.moderate;
            object.cq.moderate(Moderation { count: cq_count, period_us: cq_period })?;
        }
        Ok(())
    }))
}

/// `IBV_CQ_ATTR_MODERATE`.
const ATTR_MODERATE: u32 = 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_cq(cq: *mut IbvCq) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<CqObject>(cq) };
    status(object.and_then(|object| {
        object.cq.close()?;
        let channel = object.abi.cq.channel;
        // SAFETY: the C contract: not used any more.
        unsafe { object::take_back::<CqObject>(cq) };
        // SAFETY: the C contract: a channel outlives its CQs; null if there is none.
        if let Ok(channel) = unsafe { object::borrow::<ChannelObject>(channel) } {
            channel.show_users();
        }
        Ok(())
    }))
}

/// The operation behind `ibv_poll_cq`.
pub(crate) unsafe extern "C" fn poll_cq_op(cq: *mut IbvCq, num_entries: c_int, wcs: *mut IbvWc) -> c_int {
    // SAFETY: the C contract.
    let Ok(object) = (unsafe { object::borrow::<CqObject>(cq) }) else { return POLL_FAILED };
    let Ok(max) = usize::try_from(num_entries) else { return POLL_FAILED };
    let mut next = wcs;
    let polled = object.cq.poll_with(max, |wc| {
        // SAFETY: the C contract: room for `num_entries` completions, and no more than that are handed over.
        unsafe { next.write(ibv_wc(wc)) };
        next = next.wrapping_add(1);
    });
    polled.map_or(POLL_FAILED, |count| count as c_int)
}

/// `ibv_poll_cq(3)`: negative is failure; nothing more is promised.
const POLL_FAILED: c_int = -1;

/// The operation behind `ibv_req_notify_cq`.
pub(crate) unsafe extern "C" fn req_notify_cq_op(cq: *mut IbvCq, solicited_only: c_int) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<CqObject>(cq) };
    status(object.and_then(|object| Ok(object.cq.req_notify(solicited_only != 0)?)))
}

fn ibv_wc(wc: &Wc) -> IbvWc {
    IbvWc {
        wr_id: wc.wr_id,
        status: wc.status as u32,
        opcode: wc.opcode as u32,
        vendor_err: wc.vendor_err,
        byte_len: wc.byte_len,
        imm_data: imm_or_rkey(wc),
        qp_num: wc.qpn.value(),
        src_qp: wc.src_qp.value(),
        wc_flags: wc.flags.bits(),
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}

/// The immediate data as it came, or the R_Key that was invalidated, in the one field that C has for both.
pub(crate) fn imm_or_rkey(wc: &Wc) -> u32 {
    if wc.flags.contains(ferroce::core::WcFlags::WITH_INV) {
        wc.invalidated_rkey
    } else {
        u32::from_ne_bytes(wc.imm)
    }
}
