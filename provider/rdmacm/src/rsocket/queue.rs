//! The queue pair of a stream, with its CQ and completion channel.

use super::options::Options;
use crate::device::last_error;
use crate::ibv::{self, qp_type};
use crate::layout::RdmaCmId;
use crate::qp;
use ferroce_abi::errno::Errno;
use ferroce_ibverbs_layout::{
    IbvBindMw, IbvCompChannel, IbvContext, IbvCq, IbvMwBindInfo, IbvQp, IbvQpCap, IbvQpInitAttr, IbvRdma,
    IbvRecvWr, IbvSendExtra, IbvSendRemote, IbvSendWr, IbvSge, IbvWc,
};
use libc::{c_int, c_uint, c_void};
use std::ptr::null_mut;

unsafe extern "C" {
    fn ibv_get_cq_event(
        channel: *mut IbvCompChannel,
        cq: *mut *mut IbvCq,
        cq_context: *mut *mut c_void,
    ) -> c_int;
    fn ibv_ack_cq_events(cq: *mut IbvCq, nevents: c_uint);
}

/// Where work requests are posted and completions taken.
pub(super) struct Queue {
    context: *mut IbvContext,
    qp: *mut IbvQp,
    cq: *mut IbvCq,
    channel: *mut IbvCompChannel,
    id: *mut RdmaCmId,
    inline: usize,
}

/// A write to the peer.
pub(super) struct Write {
    pub(super) kind: Kind,
    /// With what immediate data, if any.
    pub(super) imm: Option<[u8; 4]>,
    pub(super) addr: u64,
    pub(super) key: u32,
}

// SAFETY: the verbs may be called by every thread.
unsafe impl Send for Queue {}

impl Queue {
    /// Makes the queue pair of an ID that has a device, and posts its receives.
    ///
    /// # Safety
    /// `id` is an ID of ours that outlives this; its device is open.
    pub(super) unsafe fn new(id: *mut RdmaCmId, options: &Options) -> Result<Queue, Errno> {
        // SAFETY: the caller's promise.
        let context = unsafe { (*id).verbs };
        // SAFETY: an open device.
        let channel = unsafe { ibv::ibv_create_comp_channel(context) };
        if channel.is_null() {
            return Err(last_error());
        }
        let entries = (options.sq_size + options.rq_size) as c_int;
        // SAFETY: as above, and the channel was just made.
        let cq = unsafe { ibv::ibv_create_cq(context, entries, id.cast(), channel, 0) };
        if cq.is_null() {
            let errno = last_error();
            // SAFETY: just made.
            unsafe { ibv::ibv_destroy_comp_channel(channel) };
            return Err(errno);
        }
        let mut queue = Queue { context, qp: null_mut(), cq, channel, id, inline: options.inline as usize };
        // SAFETY: the caller's promise.
        unsafe { queue.create_qp(options) }?;
        Ok(queue)
    }

    /// # Safety
    /// The ID lives.
    unsafe fn create_qp(&mut self, options: &Options) -> Result<(), Errno> {
        let mut attr = IbvQpInitAttr {
            qp_context: self.id.cast(),
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: null_mut(),
            cap: IbvQpCap {
                max_send_wr: options.sq_size,
                max_recv_wr: options.rq_size,
                max_send_sge: 2,
                max_recv_sge: 1,
                max_inline_data: options.inline,
            },
            qp_type: qp_type::RC,
            sq_sig_all: 1,
        };
        // SAFETY: the caller's promise.
        unsafe { qp::create(self.id, null_mut(), &raw mut attr) }?;
        // SAFETY: as above.
        self.qp = unsafe { (*self.id).qp };
        for _ in 0..options.rq_size {
            self.post_receive()?;
        }
        // It must not block: who waits does so at the descriptor.
        // SAFETY: a channel of ours.
        let fd = unsafe { (*self.channel).fd };
        // SAFETY: changing a descriptor's flags touches no memory.
        if unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
            Err(last_error())
        } else {
            Ok(())
        }
    }

    /// The descriptor that is readable when [`Queue::arm`] was called and something came after it.
    pub(super) fn fd(&self) -> c_int {
        // SAFETY: a channel of ours.
        unsafe { (*self.channel).fd }
    }

    /// Asks for an event with the next completion.
    pub(super) fn arm(&mut self) {
        // SAFETY: an open device.
        let Some(notify) = (unsafe { (*self.context).ops.req_notify_cq }) else { return };
        // SAFETY: a CQ of ours.
        let _never_fails = unsafe { notify(self.cq, 0) };
    }

    /// Takes the events that there are.
    pub(super) fn take_events(&mut self) {
        let (mut cq, mut context) = (null_mut(), null_mut());
        // SAFETY: a channel of ours, which does not block.
        while unsafe { ibv_get_cq_event(self.channel, &raw mut cq, &raw mut context) } == 0 {
            // SAFETY: the only CQ of the channel.
            unsafe { ibv_ack_cq_events(cq, 1) };
        }
    }

    /// Takes some of the completions that there are; how many.
    pub(super) fn poll(&mut self, wcs: &mut [IbvWc]) -> usize {
        // SAFETY: an open device.
        let Some(poll) = (unsafe { (*self.context).ops.poll_cq }) else { return 0 };
        // SAFETY: a CQ of ours, and room for so many.
        let count = unsafe { poll(self.cq, wcs.len() as c_int, wcs.as_mut_ptr()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Writes to the peer what `sges` name. Short writes are copied, and need no key.
    pub(super) fn write(&mut self, write: &Write, sges: &mut [IbvSge]) -> Result<(), Errno> {
        let length: usize = sges.iter().map(|sge| sge.length as usize).sum();
        let mut wr = IbvSendWr {
            wr_id: write.kind.wr_id(),
            next: null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as c_int,
            opcode: if write.imm.is_some() { WRITE_WITH_IMM } else { WRITE },
            send_flags: if (1..=self.inline).contains(&length) { SEND_INLINE } else { 0 },
            imm_data: u32::from_ne_bytes(write.imm.unwrap_or_default()),
            wr: IbvSendRemote { rdma: IbvRdma { remote_addr: write.addr, rkey: write.key } },
            remote_srqn: 0,
            bind_or_tso: NO_EXTRA,
        };
        let mut bad = null_mut();
        // SAFETY: an open device.
        let post = unsafe { (*self.context).ops.post_send }.ok_or(Errno::UNSUPPORTED)?;
        // SAFETY: a queue pair of ours, and a work request of ours; inline data are copied.
        errno(unsafe { post(self.qp, &raw mut wr, &raw mut bad) })
    }

    /// Posts a receive, for the immediate data of one write.
    pub(super) fn post_receive(&mut self) -> Result<(), Errno> {
        let mut wr =
            IbvRecvWr { wr_id: Kind::Receive.wr_id(), next: null_mut(), sg_list: null_mut(), num_sge: 0 };
        let mut bad = null_mut();
        // SAFETY: an open device.
        let post = unsafe { (*self.context).ops.post_recv }.ok_or(Errno::UNSUPPORTED)?;
        // SAFETY: a queue pair of ours, and a work request of ours.
        errno(unsafe { post(self.qp, &raw mut wr, &raw mut bad) })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.take_events();
        // SAFETY: the ID lives, and its queue pair is ours; a null one is nothing.
        unsafe { qp::rdma_destroy_qp(self.id) };
        // SAFETY: the queue pair is gone, and nobody else uses it.
        unsafe { ibv::ibv_destroy_cq(self.cq) };
        // SAFETY: the CQ is gone.
        unsafe { ibv::ibv_destroy_comp_channel(self.channel) };
    }
}

/// What a work request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Receive,
    /// So many bytes of the ring.
    Data(usize),
    Control,
}

impl Kind {
    fn wr_id(self) -> u64 {
        match self {
            Kind::Receive => RECEIVE,
            Kind::Control => CONTROL,
            Kind::Data(length) => length as u64,
        }
    }

    pub(super) fn of(wr_id: u64) -> Kind {
        match wr_id {
            RECEIVE => Kind::Receive,
            CONTROL => Kind::Control,
            length => Kind::Data(length as usize),
        }
    }
}

fn errno(status: c_int) -> Result<(), Errno> {
    match status {
        0 => Ok(()),
        status => Err(Errno(status.abs())),
    }
}

const RECEIVE: u64 = u64::MAX;
const CONTROL: u64 = u64::MAX - 1;
const NO_EXTRA: IbvSendExtra = IbvSendExtra {
    bind_mw: IbvBindMw {
        mw: null_mut(),
        rkey: 0,
        bind_info: IbvMwBindInfo { mr: null_mut(), addr: 0, length: 0, mw_access_flags: 0 },
    },
};
/// `IBV_WR_RDMA_WRITE`.
const WRITE: u32 = 0;
/// `IBV_WR_RDMA_WRITE_WITH_IMM`.
const WRITE_WITH_IMM: u32 = 1;
/// `IBV_SEND_INLINE`.
const SEND_INLINE: u32 = 1 << 3;
