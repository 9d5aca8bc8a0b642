//! Advice about memory that will be used soon (`ibv_advise_mr(3)`).

use crate::error::Error;
use crate::memory::{Population, populate};
use crate::pd::Pd;
use ferroce_core::{Backing, LocalUse, Sge};

/// What will be done with memory of regions with on-demand paging; the values are those of `enum ibv_advise_mr_advice`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Advice {
    /// Read: make the pages present.
    Prefetch = 0,
    /// Written: make them present and writable.
    PrefetchWrite = 1,
    /// Read, but make no page present that is not. There is nothing else to do here.
    PrefetchNoFault = 2,
}

impl Pd {
    /// Makes pages present before a transfer needs them. If `wait`, that is sure afterwards, or it fails; otherwise what does
    /// not succeed does not matter.
    ///
    /// # Errors
    /// No elements; an element whose key is unknown (ENOENT), of another domain or not writable for writing (EPERM), whose
    /// range is not inside its region (EFAULT), or whose region has no on-demand paging (EINVAL); with `wait`, memory that is
    /// not mapped (EFAULT).
    pub fn advise_mr(&self, advice: Advice, wait: bool, sges: &[Sge]) -> Result<(), Error> {
        let context = self.context();
        context.check_alive()?;
        if sges.is_empty() {
            return Err(Error::NothingAdvised);
        }
        let usage = if advice == Advice::PrefetchWrite { LocalUse::Write } else { LocalUse::Read };
        let mut places = Vec::with_capacity(sges.len());
        for sge in sges.iter().filter(|sge| sge.length > 0) {
            let place = context.engine.check_local(self.id(), sge, usage)?;
            if place.backing != Backing::OnDemand {
                return Err(Error::NotOnDemand { lkey: sge.lkey });
            }
            places.push((place.addr, u64::from(sge.length)));
        }
        let population = match advice {
            Advice::Prefetch => Population::Read,
            Advice::PrefetchWrite => Population::Write,
            Advice::PrefetchNoFault => return Ok(()),
        };
        for (addr, length) in places {
            if !populate(addr, length, population) && wait {
                return Err(Error::NotMapped { addr, length, at: addr });
            }
        }
        Ok(())
    }
}
