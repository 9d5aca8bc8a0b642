//! `ibv_post_send`, `ibv_post_recv` and `ibv_post_srq_recv`: lists of work requests, converted one by one as the verbs take them.

use crate::ah;
use crate::errno::{Errno, status};
use crate::mw;
use crate::object;
use crate::pointer;
use crate::qp::QpObject;
use crate::srq::SrqObject;
use ferroce::core::{Payload, QpCaps, QpType, RecvWr, Remote, SendFlags, SendOp, SendWr, Sge, Srqn};
use ferroce::{PostCause, PostError, check_inline};
use ferroce_ibverbs_layout::{IbvQp, IbvRecvWr, IbvSendWr, IbvSge, IbvSrq};
use ferroce_wire::Qpn;
use libc::c_int;
use smallvec::SmallVec;

/// The operation behind `ibv_post_send`.
pub(crate) unsafe extern "C" fn post_send_op(
    qp: *mut IbvQp,
    wr: *mut IbvSendWr,
    bad_wr: *mut *mut IbvSendWr,
) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<QpObject>(qp) };
    let posted = object.map_err(|errno| (wr, errno)).and_then(|object| {
        let mut list = List::new(wr, Target::of(object));
        let result = object.verbs().post_send(&mut list);
        list.outcome(result)
    });
    // SAFETY: the C contract.
    unsafe { report(posted, bad_wr) }
}

/// The operation behind `ibv_post_recv`.
pub(crate) unsafe extern "C" fn post_recv_op(
    qp: *mut IbvQp,
    wr: *mut IbvRecvWr,
    bad_wr: *mut *mut IbvRecvWr,
) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<QpObject>(qp) };
    let posted = object.map_err(|errno| (wr, errno)).and_then(|object| {
        let mut list = List::new(wr, Target::of(object));
        let result = object.verbs().post_recv(&mut list);
        list.outcome(result)
    });
    // SAFETY: the C contract.
    unsafe { report(posted, bad_wr) }
}

/// The operation behind `ibv_post_srq_recv`.
pub(crate) unsafe extern "C" fn post_srq_recv_op(
    srq: *mut IbvSrq,
    wr: *mut IbvRecvWr,
    bad_wr: *mut *mut IbvRecvWr,
) -> c_int {
    // SAFETY: the C contract.
    let object = unsafe { object::borrow::<SrqObject>(srq) };
    let posted = object.map_err(|errno| (wr, errno)).and_then(|object| {
        let caps = QpCaps { max_recv_sge: object.verbs().max_sge(), ..QpCaps::default() };
        let mut list = List::new(wr, Target { caps: &caps, qp_type: None, qpn: Qpn::default() });
        let result = object.verbs().post_recv(&mut list);
        list.outcome(result)
    });
    // SAFETY: the C contract.
    unsafe { report(posted, bad_wr) }
}

/// What a list of work requests is posted to.
#[derive(Clone, Copy)]
struct Target<'a> {
    caps: &'a QpCaps,
    /// The type of a QP.
    qp_type: Option<QpType>,
    qpn: Qpn,
}

impl<'a> Target<'a> {
    fn of(object: &'a QpObject) -> Self {
        let init = object.verbs().init();
        Target { caps: &init.caps, qp_type: Some(init.qp_type), qpn: object.verbs().qpn() }
    }
}

/// Answers C: the error number, and in `bad_wr` the first work request that was not posted.
///
/// # Safety
/// The C contract.
unsafe fn report<W>(posted: Result<(), (*mut W, Errno)>, bad_wr: *mut *mut W) -> c_int {
    status(posted.map_err(|(first_bad, errno)| {
        // SAFETY: the C contract; without a place to write it, the number has to do.
        let _unwanted = unsafe { pointer::write(bad_wr, first_bad) };
        errno
    }))
}

/// A work request as C links them.
trait Linked: Sized {
    /// The verbs' form of it.
    type Wr;

    /// The next one of the list, or null.
    fn next(&self) -> *mut Self;

    /// # Safety
    /// The C contract for the pointers in it.
    unsafe fn convert(&self, target: Target<'_>) -> Result<Self::Wr, Errno>;
}

/// The work requests of a list that can be converted, up to the first that can't.
struct List<'a, W> {
    first: *mut W,
    next: *mut W,
    target: Target<'a>,
    refused: Option<Errno>,
}

impl<'a, W: Linked> List<'a, W> {
    fn new(first: *mut W, target: Target<'a>) -> Self {
        List { first, next: first, target, refused: None }
    }

    /// What became of it: done, or the first work request that was not posted, and why.
    fn outcome(&self, result: Result<(), PostError>) -> Result<(), (*mut W, Errno)> {
        match (result, self.refused) {
            (Err(error), _) => Err((self.nth(error.index), Errno::from(error.cause.kind()))),
            (Ok(()), Some(errno)) => Err((self.next, errno)),
            (Ok(()), None) => Ok(()),
        }
    }

    /// The work request after `index` others, all of which have been read.
    fn nth(&self, index: usize) -> *mut W {
        (0..index).fold(self.first, |wr, _| {
            // SAFETY: the C contract: the list is as it was when it was read.
            unsafe { wr.as_ref() }.map_or(wr, W::next)
        })
    }
}

impl<W: Linked> Iterator for List<'_, W> {
    type Item = W::Wr;

    fn next(&mut self) -> Option<W::Wr> {
        if self.refused.is_some() {
            return None;
        }
        // SAFETY: the C contract; the list ends with a null pointer.
        let wr = unsafe { self.next.as_ref() }?;
        // SAFETY: the C contract.
        match unsafe { wr.convert(self.target) } {
            Ok(converted) => {
                self.next = wr.next();
                Some(converted)
            }
            Err(errno) => {
                self.refused = Some(errno);
                None
            }
        }
    }
}

impl Linked for IbvSendWr {
    type Wr = SendWr;

    fn next(&self) -> *mut Self {
        self.next
    }

    unsafe fn convert(&self, target: Target<'_>) -> Result<SendWr, Errno> {
        let caps = target.caps;
        // Flags that no header defines mean nothing to any device.
        let flags = SendFlags::from_bits_truncate(self.send_flags);
        // SAFETY: the C contract.
        let sges = unsafe { ibv_sges(self.sg_list, self.num_sge, caps.max_send_sge) }?;
        let payload = if flags.contains(SendFlags::INLINE) {
            // SAFETY: the C contract: with IBV_SEND_INLINE the elements are plain memory of the program.
            Payload::Inline(unsafe { gather(sges, caps) }?)
        } else {
            Payload::Sges(converted(sges))
        };
        let remote = match target.qp_type {
            Some(QpType::Ud) => {
                // SAFETY: of a UD QP's request this member of the union is the one that the program has filled in.
                let ud = unsafe { self.wr.ud };
                // SAFETY: the C contract.
                unsafe { ah::remote(ud.ah, target.qpn, ud.remote_qpn, ud.remote_qkey) }?
            }
            Some(QpType::XrcIni) => Remote::Srq(Srqn::new(self.remote_srqn)),
            _ => Remote::Peer,
        };
        // SAFETY: the C contract.
        let op = unsafe { send_op(self) }?;
        Ok(SendWr { wr_id: self.wr_id, op, flags, payload, remote })
    }
}

impl Linked for IbvRecvWr {
    type Wr = RecvWr;

    fn next(&self) -> *mut Self {
        self.next
    }

    unsafe fn convert(&self, target: Target<'_>) -> Result<RecvWr, Errno> {
        // SAFETY: the C contract.
        let sges = unsafe { ibv_sges(self.sg_list, self.num_sge, target.caps.max_recv_sge) }?;
        Ok(RecvWr { wr_id: self.wr_id, sges: converted(sges) })
    }
}

/// The scatter/gather list of a work request; its length is checked before it is looked at.
///
/// # Safety
/// The C contract.
unsafe fn ibv_sges<'a>(list: *const IbvSge, num_sge: c_int, limit: u32) -> Result<&'a [IbvSge], Errno> {
    let num_sge = usize::try_from(num_sge).map_err(|_| Errno::INVALID)?;
    if num_sge > limit as usize {
        return Err(refused(PostCause::TooManySges { num_sge, limit }));
    }
    // SAFETY: the C contract: `num_sge` elements.
    unsafe { pointer::borrow_slice(list, num_sge) }
}

pub(crate) fn converted(sges: &[IbvSge]) -> SmallVec<[Sge; 2]> {
    sges.iter().map(|sge| Sge { addr: sge.addr, length: sge.length, lkey: sge.lkey }).collect()
}

/// Copies inline data, after its length has been found to fit.
///
/// # Safety
/// The elements are mapped memory.
unsafe fn gather(sges: &[IbvSge], caps: &QpCaps) -> Result<SmallVec<[u8; 40]>, Errno> {
    let length = sges.iter().map(|sge| u64::from(sge.length)).sum();
    check_inline(caps, length).map_err(refused)?;
    let mut bytes = SmallVec::new();
    for sge in sges {
        // SAFETY: the caller's promise.
        unsafe { append(&mut bytes, sge.addr as *const u8, sge.length as usize) }?;
    }
    Ok(bytes)
}

/// # Safety
/// `addr` is null or points to `length` bytes.
pub(crate) unsafe fn append(
    bytes: &mut SmallVec<[u8; 40]>,
    addr: *const u8,
    length: usize,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise; the program does not change them during the call.
    bytes.extend_from_slice(unsafe { pointer::borrow_slice(addr, length) }?);
    Ok(())
}

/// The error number of a refusal found here, with its reason in the log.
pub(crate) fn refused(cause: PostCause) -> Errno {
    tracing::info!(%cause, "post refused");
    Errno::from(cause.kind())
}

/// # Safety
/// The C contract for the window and the region of a bind.
unsafe fn send_op(wr: &IbvSendWr) -> Result<SendOp, Errno> {
    // SAFETY: all members of the union are plain integers, valid whatever the program has put there.
    let rdma = unsafe { wr.wr.rdma };
    let (va, rkey, imm) = (rdma.remote_addr, rdma.rkey, wr.imm_data.to_ne_bytes());
    // SAFETY: as above.
    let atomic = unsafe { wr.wr.atomic };
    Ok(match wr.opcode {
        0 => SendOp::Write { va, rkey },
        1 => SendOp::WriteImm { va, rkey, imm },
        2 => SendOp::Send,
        3 => SendOp::SendImm { imm },
        4 => SendOp::Read { va, rkey },
        5 => SendOp::CompareSwap {
            va: atomic.remote_addr,
            rkey: atomic.rkey,
            compare: atomic.compare_add,
            swap: atomic.swap,
        },
        6 => SendOp::FetchAdd { va: atomic.remote_addr, rkey: atomic.rkey, add: atomic.compare_add },
        7 => SendOp::LocalInv { rkey: wr.imm_data },
        8 => {
            // SAFETY: of a bind this member of the union is the one that the program has filled in.
            let bind = unsafe { wr.bind_or_tso.bind_mw };
            // SAFETY: the C contract.
            unsafe { mw::bind_op(bind.mw, bind.rkey, &bind.bind_info) }?
        }
        9 => SendOp::SendInv { rkey: wr.imm_data },
        15 => SendOp::AtomicWrite { va, rkey },
        _ => return Err(refused(PostCause::OpNotSupported("an operation that the device does not have"))),
    })
}

#[cfg(test)]
mod tests;
