//! Protection domains and memory regions.

use crate::ah::{Ah, AhAttr};
use crate::context::ContextShared;
use crate::cq::Cq;
use crate::error::Error;
use crate::limits::{MAX_INLINE_DATA, MAX_MR_SIZE, MAX_QP_WR, MAX_SGE};
use crate::mappings::{self, Obstacle};
use crate::qp::{Qp, QpSpec};
use crate::srq::{Srq, SrqSpec};
use ferroce_core::{AccessFlags, PdId, RegionKeys, RegionSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A protection domain (`ibv_alloc_pd(3)`).
#[derive(Debug)]
pub struct Pd {
    shared: Arc<PdShared>,
}

#[derive(Debug)]
pub(crate) struct PdShared {
    pub(crate) id: PdId,
    pub(crate) context: Arc<ContextShared>,
    users: AtomicUsize,
}

/// Rights with which the device may write a region's pages, or let somebody do so later.
const NEED_WRITABLE_PAGES: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::MW_BIND);

/// Numbers PDs over all contexts of the process, since they share one key table.
static NEXT_PD: AtomicU32 = AtomicU32::new(1);

impl Pd {
    pub(crate) fn new(context: Arc<ContextShared>) -> Pd {
        let id = PdId(NEXT_PD.fetch_add(1, Ordering::Relaxed));
        Pd { shared: Arc::new(PdShared { id, context, users: AtomicUsize::new(0) }) }
    }

    /// Registers `length` bytes at `addr`, which peers and work requests call `iova` and following
    /// (`ibv_reg_mr_iova(3)`). Nothing is pinned, and no memlock limit applies.
    ///
    /// # Errors
    /// A too large length, rights that need LOCAL_WRITE without it, a range that is not mapped, a full key
    /// table. A zero length is allowed.
    ///
    /// # Safety
    /// Until the region is dropped, the whole range stays mapped, readable, and writable if `access` has
    /// LOCAL_WRITE; and everyone who touches the memory knows that it changes at any time.
    pub unsafe fn reg_mr(&self, addr: u64, length: u64, iova: u64, access: AccessFlags) -> Result<Mr, Error> {
        let context = &self.shared.context;
        context.check_alive()?;
        if length > MAX_MR_SIZE {
            return Err(Error::OutOfRange { what: "length", asked: length, limit: MAX_MR_SIZE });
        }
        mappings::check(addr, length, access.intersects(NEED_WRITABLE_PAGES)).map_err(|obstacle| {
            match obstacle {
                Obstacle::NotReadable(at) => Error::NotMapped { addr, length, at },
                Obstacle::NotWritable(at) => Error::ReadOnly { addr, length, at },
            }
        })?;
        let spec = RegionSpec { pd: self.shared.id, addr, length, iova, access };
        let keys = context.engine.register(spec)?;
        Ok(Mr { keys, pd: PdUser::new(&self.shared) })
    }

    /// Makes a QP in RESET.
    pub fn create_qp(&self, spec: &QpSpec<'_>) -> Result<Qp, Error> {
        self.shared.context.check_alive()?;
        let caps = spec.granted();
        for (what, asked, limit) in [
            ("max_send_wr", caps.max_send_wr, MAX_QP_WR),
            ("max_recv_wr", caps.max_recv_wr, MAX_QP_WR),
            ("max_send_sge", caps.max_send_sge, MAX_SGE),
            ("max_recv_sge", caps.max_recv_sge, MAX_SGE),
            ("max_inline_data", caps.max_inline_data, MAX_INLINE_DATA),
        ] {
            if asked > limit {
                return Err(Error::OutOfRange { what, asked: u64::from(asked), limit: u64::from(limit) });
            }
        }
        Qp::new(PdUser::new(&self.shared), spec)
    }

    /// Makes an address handle.
    pub fn create_ah(&self, attr: &AhAttr) -> Result<Ah, Error> {
        self.shared.context.check_alive()?;
        let ah = Ah::new(PdUser::new(&self.shared), attr);
        if let Err(error) = &ah {
            tracing::info!(%error, "create_ah refused");
        }
        ah
    }

    /// Makes an SRQ without work requests and without a limit.
    pub fn create_srq(&self, spec: &SrqSpec<'_>) -> Result<Srq, Error> {
        self.shared.context.check_alive()?;
        Srq::new(PdUser::new(&self.shared), spec)
    }

    /// Whether `cq` belongs to the same open device.
    pub fn same_context(&self, cq: &Cq) -> bool {
        cq.is_of(&self.shared.context)
    }

    pub(crate) fn context(&self) -> &Arc<ContextShared> {
        &self.shared.context
    }

    /// Makes it ready to be dropped. Fails while regions or QPs of it exist (`ibv_dealloc_pd(3)`: EBUSY).
    pub fn close(&self) -> Result<(), Error> {
        match self.shared.users.load(Ordering::Acquire) {
            0 => Ok(()),
            users => Err(Error::InUse { what: "PD", users }),
        }
    }
}

impl Drop for PdShared {
    fn drop(&mut self) {
        self.context.release_pd();
    }
}

/// Counts an object as a user of its PD for as long as it lives.
#[derive(Debug)]
pub(crate) struct PdUser {
    pub(crate) pd: Arc<PdShared>,
}

impl PdUser {
    fn new(pd: &Arc<PdShared>) -> PdUser {
        pd.users.fetch_add(1, Ordering::AcqRel);
        PdUser { pd: Arc::clone(pd) }
    }
}

impl Drop for PdUser {
    fn drop(&mut self) {
        self.pd.users.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A memory region. Dropping it deregisters: when that returns, the engine does not touch the memory any more.
#[derive(Debug)]
pub struct Mr {
    keys: RegionKeys,
    pd: PdUser,
}

impl Mr {
    /// The local key.
    pub fn lkey(&self) -> u32 {
        self.keys.lkey
    }

    /// The remote key.
    pub fn rkey(&self) -> u32 {
        self.keys.rkey
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        let context = &self.pd.pd.context;
        if !context.is_dead()
            && let Err(error) = context.engine.deregister(self.keys.lkey)
        {
            tracing::error!(%error, "deregistering a region");
        }
    }
}
