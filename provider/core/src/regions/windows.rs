//! Memory windows (IBTA 10.6.7): an R_Key of its own for a part of a region, given and taken back by work requests.
//!
//! A **type 1** window is bound and bound again by the verb `ibv_bind_mw(3)`; whoever is in its protection domain may use
//! it. A **type 2** window is bound by IBV_WR_BIND_MW, belongs to the QP that it was bound through, and is unbound by an
//! invalidation, its owner's or the peer's. The low byte of its R_Key is the consumer's choice at each bind.
//!
//! A window leads to its region by the region's key, which is looked up at every use.

use super::fault::{AllocMwError, BindFault, InvalidateFault, KeyFault, RemoteFault};
use super::{Entry, KeyUser, Region, Regions, check_pd, check_rights, offset_in};
use crate::{AccessFlags, PdId, Place};
use ferroce_wire::Qpn;

/// Type of a memory window; the values are those of `enum ibv_mw_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum MwType {
    /// Bound by a verb, used by every QP of its protection domain.
    Type1 = 1,
    /// Bound by a work request, used by the QP that this was posted to.
    Type2 = 2,
}

/// What a device's type 2 windows belong to (IBTA 10.6.7.2.2). A device has one of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Type2 {
    /// The QP: no other can invalidate it (IBV_DEVICE_MEM_WINDOW_TYPE_2A).
    A,
    /// The QP and its protection domain, all of whose QPs can invalidate it (IBV_DEVICE_MEM_WINDOW_TYPE_2B), as on ConnectX
    /// and rxe.
    #[default]
    B,
}

/// What a memory window is bound to (`struct ibv_mw_bind_info`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MwBind {
    /// The region's L_Key; means nothing when `length` is 0.
    pub lkey: u32,
    /// First address of the window, as the region's users call it.
    pub addr: u64,
    /// Bytes; 0 unbinds a type 1 window.
    pub length: u64,
    /// What peers may do; with [`AccessFlags::ZERO_BASED`], addresses in a type 2 window count from 0.
    pub access: AccessFlags,
}

/// A window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pd: PdId,
    mw_type: MwType,
    bound: Option<Bound>,
}

/// What a window is bound to.
#[derive(Clone, Copy, Debug)]
struct Bound {
    lkey: u32,
    /// Where in the region it begins.
    offset: u64,
    length: u64,
    /// First address in the eyes of those who use its key.
    start: u64,
    access: AccessFlags,
    /// The QP that a type 2 window was bound through.
    qpn: Option<Qpn>,
}

/// What a window can give.
const WINDOW_ACCESS: AccessFlags = AccessFlags::REMOTE_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::ZERO_BASED)
    .union(FLUSH_ACCESS);

const FLUSH_ACCESS: AccessFlags = AccessFlags::FLUSH_GLOBAL.union(AccessFlags::FLUSH_PERSISTENT);

impl MwBind {
    /// The rights asked for that no window can give.
    pub fn impossible_access(&self) -> AccessFlags {
        self.access.difference(WINDOW_ACCESS)
    }
}

impl Regions {
    /// Makes a window that is not bound; its R_Key.
    ///
    /// # Errors
    /// The table is full.
    pub fn alloc_window(&mut self, pd: PdId, mw_type: MwType) -> Result<u32, AllocMwError> {
        self.fill_slot(Entry::Window(Window { pd, mw_type, bound: None }))
            .ok_or(AllocMwError { max: self.max })
    }

    /// Takes a window out, bound or not. Of `rkey`, which may be any that it has had, the number counts.
    ///
    /// # Errors
    /// There is no such window.
    pub fn dealloc_window(&mut self, rkey: u32) -> Result<(), KeyFault> {
        let index = self.window_index(rkey)?;
        self.unbind(index);
        self.vacate_slot(index);
        Ok(())
    }

    /// Binds a window for a QP, or unbinds one of type 1. Its R_Key is `rkey` from now on; before, it may have had any
    /// other key byte.
    pub fn bind(&mut self, user: KeyUser, rkey: u32, bind: &MwBind) -> Result<(), BindFault> {
        let index = self.window_index(rkey).map_err(BindFault::Window)?;
        let bound = self.check_bind(index, user, rkey, bind)?;
        self.unbind(index);
        let slot = &mut self.slots[index as usize];
        slot.key_byte = rkey as u8;
        let Entry::Window(window) = &mut slot.entry else { return Ok(()) };
        window.bound = bound;
        if let Some(Bound { lkey, qpn, .. }) = bound {
            if let Some(region) = self.region_mut(lkey) {
                region.windows += 1;
            }
            self.bound_through.extend(qpn.map(|qpn| (qpn.value(), index)));
        }
        Ok(())
    }

    /// What the window at `index` is to be bound to.
    fn check_bind(
        &self,
        index: u32,
        user: KeyUser,
        rkey: u32,
        bind: &MwBind,
    ) -> Result<Option<Bound>, BindFault> {
        let Entry::Window(window) = &self.slots[index as usize].entry else { return Ok(None) };
        // C10-72
        check_pd(rkey, window.pd, user.pd).map_err(BindFault::Window)?;
        let is_type_2 = window.mw_type == MwType::Type2;
        if is_type_2 && window.bound.is_some() {
            return Err(BindFault::Bound { rkey });
        }
        let impossible = bind.impossible_access();
        if !impossible.is_empty() {
            return Err(BindFault::Access(impossible));
        }
        if bind.length == 0 {
            return if is_type_2 { Err(BindFault::Empty) } else { Ok(None) };
        }
        let lkey = bind.lkey;
        let region = self.region_of(user.pd, lkey).map_err(BindFault::Region)?;
        region.check_bindable(lkey, bind.access)?;
        let zero_based = AccessFlags::ZERO_BASED;
        if !is_type_2 && (bind.access | region.access).contains(zero_based) {
            return Err(BindFault::ZeroBased);
        }
        let offset = offset_in(region.iova, region.length, bind.addr, bind.length)?;
        Ok(Some(Bound {
            lkey,
            offset,
            length: bind.length,
            start: if bind.access.contains(zero_based) { 0 } else { bind.addr },
            access: bind.access - zero_based,
            qpn: is_type_2.then_some(user.qpn),
        }))
    }

    /// Invalidates `rkey` for a QP, as LOCAL_INV and SEND with invalidate ask for.
    ///
    /// # Errors
    /// It is not the present key of a type 2 window that is bound and that the QP may invalidate. In particular, regions that
    /// `ibv_reg_mr(3)` made cannot be invalidated (linux-rdma f962208aa).
    pub fn invalidate(&mut self, user: KeyUser, belongs_to: Type2, rkey: u32) -> Result<(), InvalidateFault> {
        let window = match &self.slot(rkey)?.entry {
            Entry::Vacant => return Err(KeyFault::Unknown { key: rkey }.into()),
            Entry::Region(region) => {
                check_pd(rkey, region.pd, user.pd)?;
                return Err(InvalidateFault::UserRegion { rkey });
            }
            Entry::Window(window) => window,
        };
        check_pd(rkey, window.pd, user.pd)?;
        if window.mw_type == MwType::Type1 {
            return Err(InvalidateFault::Type1 { rkey });
        }
        let bound = window.bound.ok_or(KeyFault::Unbound { key: rkey })?;
        if belongs_to == Type2::A {
            bound.check_qp(user, rkey)?;
        }
        self.unbind(self.numbers.to_index(rkey >> 8));
        Ok(())
    }

    /// The QP is gone: so are the bindings of type 2 windows through it, or a QP that gets its number would inherit them.
    pub fn unbind_all_of(&mut self, qpn: Qpn) {
        let qpn = qpn.value();
        while let Some((_, index)) = self.bound_through.range((qpn, 0)..=(qpn, u32::MAX)).next().copied() {
            // Takes it out of the set, too.
            self.unbind(index);
        }
    }

    /// Unbinds the windows on a region.
    pub(super) fn unbind_all_on(&mut self, lkey: u32) {
        for index in 0..self.slots.len() as u32 {
            match &self.slots[index as usize].entry {
                Entry::Window(Window { bound: Some(bound), .. }) if bound.lkey == lkey => self.unbind(index),
                _ => {}
            }
        }
    }

    /// Checks a peer's use of a range of a window, or of all of it, as [`Regions::check_flush`] does.
    pub(super) fn check_window(
        &self,
        window: &Window,
        user: KeyUser,
        rkey: u32,
        range: Option<(u64, u32)>,
        need: AccessFlags,
    ) -> Result<(Place, u64), RemoteFault> {
        check_pd(rkey, window.pd, user.pd)?;
        let unbound = KeyFault::Unbound { key: rkey };
        let bound = window.bound.ok_or(unbound)?;
        let region = self.region(bound.lkey).map_err(|_| unbound)?;
        bound.check_qp(user, rkey)?;
        check_rights(rkey, bound.access, need)?;
        let (va, length) = range.map_or((bound.start, bound.length), |(va, length)| (va, length.into()));
        let offset = offset_in(bound.start, bound.length, va, length)?;
        Ok((region.place(bound.offset + offset), length))
    }

    /// Where the window is whose number `rkey` has.
    fn window_index(&self, rkey: u32) -> Result<u32, KeyFault> {
        let index = self.numbers.to_index(rkey >> 8);
        match self.slots.get(index as usize).map(|slot| &slot.entry) {
            Some(Entry::Window(_)) => Ok(index),
            _ => Err(KeyFault::Unknown { key: rkey }),
        }
    }

    fn unbind(&mut self, index: u32) {
        let Entry::Window(window) = &mut self.slots[index as usize].entry else { return };
        let Some(Bound { lkey, qpn, .. }) = window.bound.take() else { return };
        if let Some(qpn) = qpn {
            self.bound_through.remove(&(qpn.value(), index));
        }
        if let Some(region) = self.region_mut(lkey) {
            region.windows -= 1;
        }
    }

    /// The region that `key` stands for, unless it has gone.
    pub(super) fn region_mut(&mut self, key: u32) -> Option<&mut Region> {
        let slot = self.slots.get_mut(self.numbers.to_index(key >> 8) as usize)?;
        match &mut slot.entry {
            Entry::Region(region) if slot.key_byte == key as u8 => Some(region),
            _ => None,
        }
    }
}

impl Bound {
    /// A type 2 window is used through the QP that it was bound through.
    fn check_qp(&self, user: KeyUser, key: u32) -> Result<(), KeyFault> {
        match self.qpn {
            Some(bound_to) if bound_to != user.qpn => {
                Err(KeyFault::OtherQp { key, used_by: user.qpn, bound_to })
            }
            _ => Ok(()),
        }
    }
}

impl Region {
    /// Windows that give `access` may be bound to it.
    fn check_bindable(&self, lkey: u32, access: AccessFlags) -> Result<(), BindFault> {
        // C10-73
        if !self.access.contains(AccessFlags::MW_BIND) {
            return Err(BindFault::NotBindable { lkey });
        }
        // C10-74
        let remote_change = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
        if access.intersects(remote_change) && !self.access.contains(AccessFlags::LOCAL_WRITE) {
            return Err(BindFault::NotWritable { lkey });
        }
        let missing = access.intersection(FLUSH_ACCESS).difference(self.access);
        if missing.is_empty() { Ok(()) } else { Err(BindFault::NotFlushable { lkey, missing }) }
    }
}

#[cfg(test)]
mod tests;
