//! Memory regions.

use crate::dm::Dm;
use crate::dmabuf::Mapping;
use crate::error::Error;
use crate::limits::MAX_MR_SIZE;
use crate::mappings::{self, Needs, Obstacle};
use crate::pd::{Pd, PdUser};
use ferroce_core::{AccessFlags, RegionChange, RegionKeys, RegionSpec};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A memory region. Dropping it deregisters, whatever memory windows are bound to it: when that returns, the engine does
/// not touch the memory any more.
#[derive(Debug)]
pub struct Mr {
    keys: RegionKeys,
    /// What a change of the region changes.
    state: Mutex<State>,
    closed: AtomicBool,
    /// Kept until the region is gone.
    memory: Owned,
}

#[derive(Debug)]
struct State {
    pd: PdUser,
    addr: u64,
    length: u64,
    access: AccessFlags,
}

/// Whose memory it is.
#[derive(Debug)]
enum Owned {
    /// The application's.
    Application,
    /// Nobody's: there is none.
    Nothing,
    /// The device's.
    Device { _dm: Arc<Dm> },
    /// Mapped for this region.
    Mapped { _mapping: Mapping },
}

/// What to change of a region (`ibv_rereg_mr(3)`); the rest stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct MrChange<'a> {
    /// Another protection domain.
    pub pd: Option<&'a Pd>,
    /// Other memory: address and bytes. Its users call it by its address, whatever they called the old one by.
    pub memory: Option<(u64, u64)>,
    /// Other rights.
    pub access: Option<AccessFlags>,
}

/// Rights with which the device may write a region's pages, or let somebody do so later.
const NEED_WRITABLE_PAGES: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::MW_BIND);

impl Mr {
    /// Registers memory, which stays as [`Pd::reg_mr`] demands.
    pub(crate) fn register(
        pd: PdUser,
        addr: u64,
        length: u64,
        iova: u64,
        access: AccessFlags,
    ) -> Result<Mr, Error> {
        check_memory(addr, length, iova, access)?;
        Mr::new(pd, (addr, length, iova), access, Owned::Application)
    }

    /// A region with nothing behind it.
    pub(crate) fn null(pd: PdUser) -> Result<Mr, Error> {
        let keys = pd.pd.context.engine.register_null(pd.pd.id)?;
        let state = State { pd, addr: 0, length: 0, access: AccessFlags::LOCAL_WRITE };
        Ok(Mr { keys, state: Mutex::new(state), closed: AtomicBool::new(false), memory: Owned::Nothing })
    }

    /// `length` bytes of device memory from `offset` on, which its users count from 0.
    pub(crate) fn of_dm(
        pd: PdUser,
        dm: &Arc<Dm>,
        offset: u64,
        length: u64,
        access: AccessFlags,
    ) -> Result<Mr, Error> {
        let end = offset.saturating_add(length);
        let outside = Error::OutOfRange { what: "end in the device memory", asked: end, limit: dm.length() };
        let addr = dm.range(offset, length).map_err(|_| outside)?;
        Mr::new(pd, (addr, length, 0), access, Owned::Device { _dm: Arc::clone(dm) })
    }

    /// Memory that was mapped for it.
    pub(crate) fn of_mapping(
        pd: PdUser,
        mapping: Mapping,
        length: u64,
        iova: u64,
        access: AccessFlags,
    ) -> Result<Mr, Error> {
        // A file can be cut off under its mapping, a dmabuf cannot.
        let access = if mapping.is_lasting() { access } else { access | AccessFlags::ON_DEMAND };
        Mr::new(pd, (mapping.addr(), length, iova), access, Owned::Mapped { _mapping: mapping })
    }

    fn new(
        pd: PdUser,
        (addr, length, iova): (u64, u64, u64),
        access: AccessFlags,
        memory: Owned,
    ) -> Result<Mr, Error> {
        let keys = pd.pd.context.engine.register(RegionSpec { pd: pd.pd.id, addr, length, iova, access })?;
        let state = Mutex::new(State { pd, addr, length, access });
        Ok(Mr { keys, state, closed: AtomicBool::new(false), memory })
    }

    /// The local key.
    pub fn lkey(&self) -> u32 {
        self.keys.lkey
    }

    /// The remote key.
    pub fn rkey(&self) -> u32 {
        self.keys.rkey
    }

    /// Changes it, all or nothing; its keys stay (`ibv_rereg_mr(3)`).
    ///
    /// # Errors
    /// Those of [`Pd::reg_mr`] for what it would be; a protection domain of another context; memory windows are bound to it
    /// (EBUSY); it was not made by [`Pd::reg_mr`].
    ///
    /// # Safety
    /// That of [`Pd::reg_mr`] for what it is afterwards. The old memory may go when this has returned.
    pub unsafe fn rereg(&self, change: &MrChange<'_>) -> Result<(), Error> {
        let mut state = self.state.lock();
        let context = Arc::clone(&state.pd.pd.context);
        context.check_alive()?;
        if !matches!(self.memory, Owned::Application) {
            return Err(Error::NotChangeable);
        }
        if change.pd.is_some_and(|pd| !Arc::ptr_eq(pd.context(), &context)) {
            return Err(Error::OtherContext("protection domain"));
        }
        let (addr, length) = change.memory.unwrap_or((state.addr, state.length));
        let access = change.access.unwrap_or(state.access);
        check_memory(addr, length, addr, access)?;
        let pd = change.pd.map(Pd::user);
        let region = RegionChange {
            pd: pd.as_ref().map(|user| user.pd.id),
            memory: change.memory.map(|(addr, length)| (addr, length, addr)),
            access: change.access,
        };
        context.engine.reregister(self.keys.lkey, &region)?;
        let pd = pd.unwrap_or_else(|| PdUser::new(&state.pd.pd));
        *state = State { pd, addr, length, access };
        Ok(())
    }

    /// Deregisters it and makes it ready to be dropped (`ibv_dereg_mr(3)`).
    ///
    /// # Errors
    /// Memory windows are bound to it (EBUSY, IBTA 10.6.7.2.6).
    pub fn close(&self) -> Result<(), Error> {
        let context = Arc::clone(&self.state.lock().pd.pd.context);
        if !context.is_dead() {
            context.engine.deregister(self.keys.lkey)?;
        }
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        let context = &self.state.get_mut().pd.pd.context;
        if !*self.closed.get_mut()
            && !context.is_dead()
            && let Err(error) = context.engine.revoke(self.keys.lkey)
        {
            tracing::error!(%error, "deregistering a region");
        }
    }
}

/// Checks memory that the application wants to register.
fn check_memory(addr: u64, length: u64, iova: u64, access: AccessFlags) -> Result<(), Error> {
    let on_demand = access.contains(AccessFlags::ON_DEMAND);
    // All of the address space, whatever is mapped there when it is used (ibv_reg_mr(3)).
    let is_implicit = on_demand && (addr, length, iova) == (0, u64::MAX, 0);
    if length > MAX_MR_SIZE && !is_implicit {
        return Err(Error::OutOfRange { what: "length", asked: length, limit: MAX_MR_SIZE });
    }
    if on_demand {
        return Ok(());
    }
    let needs = Needs {
        write: access.intersects(NEED_WRITABLE_PAGES),
        last: access.contains(AccessFlags::FLUSH_PERSISTENT),
    };
    mappings::check(addr, length, needs).map_err(|obstacle| match obstacle {
        Obstacle::NotReadable(at) => Error::NotMapped { addr, length, at },
        Obstacle::NotWritable(at) => Error::ReadOnly { addr, length, at },
        Obstacle::Unshared(at) => Error::NotPersistent { at },
    })
}
