//! Protection domains.

use crate::ah::{Ah, AhAttr};
use crate::context::ContextShared;
use crate::cq::Cq;
use crate::dm::Dm;
use crate::dmabuf::Mapping;
use crate::error::Error;
use crate::limits::{MAX_INLINE_DATA, MAX_QP_WR, MAX_SGE};
use crate::mr::Mr;
use crate::mw::Mw;
use crate::qp::{Qp, QpSpec};
use crate::srq::{Srq, SrqSpec};
use crate::td::{Td, TdUser};
use ferroce_core::{AccessFlags, MwType, PdId};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A protection domain (`ibv_alloc_pd(3)`), or a parent domain over one.
#[derive(Debug)]
pub struct Pd {
    shared: Arc<PdShared>,
}

#[derive(Debug)]
pub(crate) struct PdShared {
    pub(crate) id: PdId,
    pub(crate) context: Arc<ContextShared>,
    users: AtomicUsize,
    /// What it stands for, if it is a parent domain.
    base: Option<Base>,
}

/// What a parent domain is made of, which it keeps.
#[derive(Debug)]
struct Base {
    _pd: PdUser,
    _td: Option<TdUser>,
}

/// Rights that memory behind a dmabuf can be registered with.
const DMABUF_ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::RELAXED_ORDERING);

/// Numbers PDs over all contexts of the process, since they share one key table.
static NEXT_PD: AtomicU32 = AtomicU32::new(1);

impl Pd {
    pub(crate) fn new(context: Arc<ContextShared>) -> Pd {
        let id = PdId(NEXT_PD.fetch_add(1, Ordering::Relaxed));
        Pd { shared: Arc::new(PdShared { id, context, users: AtomicUsize::new(0), base: None }) }
    }

    /// Makes a parent domain (`ibv_alloc_parent_domain(3)`): objects that are made in it belong to this protection
    /// domain and, as the program promises, are used by the thread domain's one thread at a time. Nothing here is faster
    /// for that promise.
    ///
    /// # Errors
    /// This is a parent domain itself, or the thread domain is of another open device.
    pub fn alloc_parent_domain(&self, td: Option<&Td>) -> Result<Pd, Error> {
        let PdShared { id, context, base, .. } = &*self.shared;
        context.check_alive()?;
        if base.is_some() {
            return Err(Error::NestedParentDomain);
        }
        if td.is_some_and(|td| !td.is_of(context)) {
            return Err(Error::OtherDevice { what: "thread domain" });
        }
        let base = Base { _pd: PdUser::new(&self.shared), _td: td.map(Td::user) };
        let (id, context, users) = (*id, Arc::clone(context), AtomicUsize::new(0));
        Ok(Pd { shared: Arc::new(PdShared { id, context, users, base: Some(base) }) })
    }

    /// One more user of it, if it is a parent domain.
    pub fn parent_domain_user(&self) -> Option<PdUser> {
        self.shared.base.as_ref().map(|_| PdUser::new(&self.shared))
    }

    /// Registers `length` bytes at `addr`, which peers and work requests call `iova` and following
    /// (`ibv_reg_mr_iova(3)`). Nothing is pinned, and no memlock limit applies. With ON_DEMAND the memory need not be mapped
    /// before it is used, and 0, `u64::MAX`, 0 stands for all there is.
    ///
    /// # Errors
    /// A too large length, rights that need LOCAL_WRITE without it, a range that is not mapped, a full key
    /// table. A zero length is allowed.
    ///
    /// # Safety
    /// Until the region is dropped, the whole range stays mapped, readable, and writable if `access` has
    /// LOCAL_WRITE; with ON_DEMAND it need not, but may not be unmapped while an atomic works on it. Everyone who touches
    /// the memory knows that it changes at any time.
    pub unsafe fn reg_mr(&self, addr: u64, length: u64, iova: u64, access: AccessFlags) -> Result<Mr, Error> {
        self.shared.context.check_alive()?;
        Mr::register(PdUser::new(&self.shared), addr, length, iova, access)
    }

    /// Makes a region with nothing behind it: what elements with its key receive is lost, what they send is zero
    /// (`ibv_alloc_null_mr(3)`).
    pub fn alloc_null_mr(&self) -> Result<Mr, Error> {
        self.shared.context.check_alive()?;
        Mr::null(self.user())
    }

    /// Registers `length` bytes of device memory from `offset` on, which users of its keys count from 0: `access` must say
    /// so, by ZERO_BASED (`ibv_reg_dm_mr(3)`).
    pub fn reg_dm_mr(
        &self,
        dm: &Arc<Dm>,
        offset: u64,
        length: u64,
        access: AccessFlags,
    ) -> Result<Mr, Error> {
        self.shared.context.check_alive()?;
        if !access.contains(AccessFlags::ZERO_BASED) {
            return Err(Error::DmNotZeroBased);
        }
        if !dm.is_of(&self.shared.context) {
            return Err(Error::OtherContext("device memory"));
        }
        Mr::of_dm(self.user(), dm, offset, length, access)
    }

    /// Registers `length` bytes of the dmabuf behind `fd` from `offset` on, which users of the keys call `iova` and following
    /// (`ibv_reg_dmabuf_mr(3)`). They are mapped, so the exporter must allow that; any other file that can be mapped is
    /// taken too. The descriptor may be closed afterwards.
    ///
    /// # Errors
    /// Those of mmap(2); rights that are not for this; offset and iova at different places of a page.
    pub fn reg_dmabuf_mr(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        iova: u64,
        access: AccessFlags,
    ) -> Result<Mr, Error> {
        self.shared.context.check_alive()?;
        if !(access - DMABUF_ACCESS).is_empty() {
            return Err(Error::DmabufAccess(access - DMABUF_ACCESS));
        }
        let page = rustix::param::page_size() as u64;
        if offset % page != iova % page {
            return Err(Error::DmabufOffset { offset, iova });
        }
        let mapping = Mapping::new(fd, offset, length, access.contains(AccessFlags::LOCAL_WRITE))?;
        Mr::of_mapping(self.user(), mapping, length, iova, access)
    }

    /// Makes a memory window that is not bound (`ibv_alloc_mw(3)`).
    pub fn alloc_mw(&self, mw_type: MwType) -> Result<Mw, Error> {
        self.shared.context.check_alive()?;
        Mw::new(PdUser::new(&self.shared), mw_type)
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

    pub(crate) fn id(&self) -> PdId {
        self.shared.id
    }

    /// One more user of it.
    pub(crate) fn user(&self) -> PdUser {
        PdUser::new(&self.shared)
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
        // A parent domain is none of the device's PDs.
        if self.base.is_none() {
            self.context.release_pd();
        }
    }
}

/// Counts an object as a user of its PD for as long as it lives.
#[derive(Debug)]
pub struct PdUser {
    pub(crate) pd: Arc<PdShared>,
}

impl PdUser {
    pub(crate) fn new(pd: &Arc<PdShared>) -> PdUser {
        pd.users.fetch_add(1, Ordering::AcqRel);
        PdUser { pd: Arc::clone(pd) }
    }
}

impl Drop for PdUser {
    fn drop(&mut self) {
        self.pd.users.fetch_sub(1, Ordering::AcqRel);
    }
}
