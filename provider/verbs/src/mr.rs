//! Memory regions.

use crate::error::Error;
use crate::limits::MAX_MR_SIZE;
use crate::mappings::{self, Obstacle};
use crate::pd::PdUser;
use ferroce_core::{AccessFlags, RegionKeys, RegionSpec};
use std::sync::atomic::{AtomicBool, Ordering};

/// A memory region. Dropping it deregisters, whatever memory windows are bound to it: when that returns, the engine does
/// not touch the memory any more.
#[derive(Debug)]
pub struct Mr {
    keys: RegionKeys,
    pd: PdUser,
    closed: AtomicBool,
}

/// Rights with which the device may write a region's pages, or let somebody do so later.
const NEED_WRITABLE_PAGES: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::MW_BIND);

impl Mr {
    /// Registers memory, which stays as [`Pd::reg_mr`](crate::Pd::reg_mr) demands.
    pub(crate) fn register(
        pd: PdUser,
        addr: u64,
        length: u64,
        iova: u64,
        access: AccessFlags,
    ) -> Result<Mr, Error> {
        if length > MAX_MR_SIZE {
            return Err(Error::OutOfRange { what: "length", asked: length, limit: MAX_MR_SIZE });
        }
        mappings::check(addr, length, access.intersects(NEED_WRITABLE_PAGES)).map_err(|obstacle| {
            match obstacle {
                Obstacle::NotReadable(at) => Error::NotMapped { addr, length, at },
                Obstacle::NotWritable(at) => Error::ReadOnly { addr, length, at },
            }
        })?;
        let spec = RegionSpec { pd: pd.pd.id, addr, length, iova, access };
        let keys = pd.pd.context.engine.register(spec)?;
        Ok(Mr { keys, pd, closed: AtomicBool::new(false) })
    }

    /// The local key.
    pub fn lkey(&self) -> u32 {
        self.keys.lkey
    }

    /// The remote key.
    pub fn rkey(&self) -> u32 {
        self.keys.rkey
    }

    /// Deregisters it and makes it ready to be dropped (`ibv_dereg_mr(3)`).
    ///
    /// # Errors
    /// Memory windows are bound to it (EBUSY, IBTA 10.6.7.2.6).
    pub fn close(&self) -> Result<(), Error> {
        let context = &self.pd.pd.context;
        if !context.is_dead() {
            context.engine.deregister(self.keys.lkey)?;
        }
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        let context = &self.pd.pd.context;
        if !*self.closed.get_mut()
            && !context.is_dead()
            && let Err(error) = context.engine.revoke(self.keys.lkey)
        {
            tracing::error!(%error, "deregistering a region");
        }
    }
}
