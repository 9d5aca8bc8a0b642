//! The key table: which memory an L_Key or R_Key stands for, and who may use it how.
//!
//! Regions and memory windows ([`windows`]) share it, and the space of keys.
//!
//! A key is 24 bits of number and 8 bits of key byte; L_Key and R_Key are the same value, as on most cards. The
//! number leads to a slot by arithmetic and an array index. The byte
//! changes each time the slot is given up, so that a key outlives its region only as a fault; that of a window is its
//! consumer's choice while it lives. Numbers and first bytes come from a seed and follow no order that a peer could guess the next key by. It is no cryptography:
//! rights and protection domains are what protects memory.
//!
//! Every use of a key is checked here and nowhere else, in this order: key, protection domain, rights, range. A
//! use of zero bytes touches nothing, and its key is not looked at (IBTA C9-88; rxe learned it with linux-rdma
//! ff79dd0a5).

mod fault;
mod keys;
#[cfg(test)]
mod tests;
mod windows;

use crate::{AccessFlags, Backing, PdId, Place, Sge};
pub use fault::{
    AllocMwError, BindFault, DeregisterError, InvalidateFault, KeyFault, LocalFault, RangeFault,
    RegisterError, RemoteFault, ReregisterError,
};
use ferroce_wire::Qpn;
use keys::{KeyBytes, Numbers};
use std::collections::{BTreeSet, VecDeque};
use windows::Window;
pub use windows::{MwBind, MwType, Type2};

/// Most regions and memory windows of a device, together.
pub const MAX_KEYS: u32 = 1 << 23;

/// Slots that must be vacant before the one vacated first is used again, as long as the table may grow. Together
/// with the 255 key bytes of a slot, a key comes back after a quarter of a million deregistrations at the
/// earliest.
const REUSE_DISTANCE: usize = 1024;

/// What to register: `length` bytes of the host's memory at `addr`, which users of the key address as
/// `iova..iova + length`.
///
/// A length of 0 is allowed, as mlx5, mlx4 and rxe allow it: such a region has keys and no bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionSpec {
    /// The protection domain it belongs to.
    pub pd: PdId,
    /// Host address.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// First address in the eyes of those who use the key; [`AccessFlags::ZERO_BASED`] makes it 0.
    pub iova: u64,
    /// Rights. Keep bits that [`AccessFlags`] does not know (`from_bits_retain`), so that they can be refused.
    pub access: AccessFlags,
}

/// What to change of a region (`ibv_rereg_mr(3)`); the rest stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegionChange {
    /// Another protection domain.
    pub pd: Option<PdId>,
    /// Other memory: address, bytes, iova.
    pub memory: Option<(u64, u64, u64)>,
    /// Other rights.
    pub access: Option<AccessFlags>,
}

/// The keys of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionKeys {
    /// For scatter/gather elements of one's own work requests.
    pub lkey: u32,
    /// For the peer's READs, WRITEs and atomics.
    pub rkey: u32,
}

/// Who uses an R_Key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyUser {
    /// The protection domain that it uses it in: the QP's, for an XRC request the SRQ's.
    pub pd: PdId,
    /// The QP.
    pub qpn: Qpn,
}

/// What the device does with the memory of a scatter/gather element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalUse {
    /// Gathers from it, which every region allows.
    Read,
    /// Scatters to it, which needs LOCAL_WRITE.
    Write,
}

/// All regions and windows of a device, by key.
#[derive(Clone, Debug)]
pub struct Regions {
    slots: Vec<Slot>,
    /// The QPs that type 2 windows are bound through, each with the index of the window.
    bound_through: BTreeSet<(u32, u32)>,
    /// Indexes of the slots given up, longest ago first.
    vacant: VecDeque<u32>,
    numbers: Numbers,
    key_bytes: KeyBytes,
    max: u32,
}

/// A place in the table. It stays when its entry goes.
#[derive(Clone, Debug)]
struct Slot {
    /// The byte that a key needs to lead here.
    key_byte: u8,
    entry: Entry,
}

/// What a key stands for.
#[derive(Clone, Debug)]
enum Entry {
    Vacant,
    Region(Region),
    Window(Window),
}

#[derive(Clone, Copy, Debug)]
struct Region {
    pd: PdId,
    access: AccessFlags,
    addr: u64,
    length: u64,
    iova: u64,
    backing: Backing,
    /// Windows bound to it.
    windows: u32,
}

impl Regions {
    /// An empty table whose keys follow from `seed`, for at most [`MAX_KEYS`] regions and windows.
    pub fn new(seed: u64) -> Self {
        Self::with_limit(seed, MAX_KEYS)
    }

    /// The same for at most `max` regions and windows, which must be below 2^24.
    pub fn with_limit(seed: u64, max: u32) -> Self {
        assert!(max < Numbers::COUNT, "a key has room for {} numbers, not {max}", Numbers::COUNT);
        Regions {
            slots: Vec::new(),
            bound_through: BTreeSet::new(),
            vacant: VecDeque::new(),
            numbers: Numbers::new(seed),
            key_bytes: KeyBytes::new(seed),
            max,
        }
    }

    /// Registers memory.
    ///
    /// # Errors
    /// Rights that are unknown, unsupported or miss LOCAL_WRITE; addresses that wrap; a full table.
    pub fn register(&mut self, spec: RegionSpec) -> Result<RegionKeys, RegisterError> {
        let region = Region::new(spec)?;
        let key =
            self.fill_slot(Entry::Region(region)).ok_or(RegisterError::TooManyKeys { max: self.max })?;
        Ok(RegionKeys { lkey: key, rkey: key })
    }

    /// Makes a region of all addresses with nothing behind them, for elements whose data nobody wants.
    ///
    /// # Errors
    /// A full table.
    pub fn register_null(&mut self, pd: PdId) -> Result<RegionKeys, RegisterError> {
        let access = AccessFlags::LOCAL_WRITE;
        let region =
            Region { pd, access, addr: 0, length: u64::MAX, iova: 0, backing: Backing::Nothing, windows: 0 };
        let key =
            self.fill_slot(Entry::Region(region)).ok_or(RegisterError::TooManyKeys { max: self.max })?;
        Ok(RegionKeys { lkey: key, rkey: key })
    }

    /// Changes a region, all or nothing; its keys stay.
    ///
    /// # Errors
    /// There is none; windows are bound to it; what it would be cannot be registered. It is as it was.
    pub fn reregister(&mut self, lkey: u32, change: &RegionChange) -> Result<(), ReregisterError> {
        let region = self.region(lkey)?;
        if region.windows > 0 {
            return Err(ReregisterError::WindowsBound { lkey, windows: region.windows });
        }
        if region.backing == Backing::Nothing {
            return Err(ReregisterError::Null { lkey });
        }
        let (addr, length, iova) = change.memory.unwrap_or((region.addr, region.length, region.iova));
        let access = change.access.unwrap_or(region.access);
        let spec = RegionSpec { pd: change.pd.unwrap_or(region.pd), addr, length, iova, access };
        let changed = Region::new(spec)?;
        if let Some(region) = self.region_mut(lkey) {
            *region = changed;
        }
        Ok(())
    }

    /// Takes the region with `lkey` out. Its keys fail from now on.
    ///
    /// # Errors
    /// There is none; windows are bound to it (IBTA 10.6.7.2.6).
    pub fn deregister(&mut self, lkey: u32) -> Result<(), DeregisterError> {
        match self.region(lkey)?.windows {
            0 => Ok(self.revoke(lkey)?),
            windows => Err(DeregisterError::WindowsBound { lkey, windows }),
        }
    }

    /// Takes the region with `lkey` out, even from under windows, which are unbound.
    pub fn revoke(&mut self, lkey: u32) -> Result<(), KeyFault> {
        if self.region(lkey)?.windows > 0 {
            self.unbind_all_on(lkey);
        }
        self.vacate_slot(self.numbers.to_index(lkey >> 8));
        Ok(())
    }

    /// Checks a use of the memory that `sge` names by a QP of `pd`; where it is. Nothing may be accessed
    /// there when the length is 0.
    pub fn check_local(&self, pd: PdId, sge: &Sge, usage: LocalUse) -> Result<Place, LocalFault> {
        if sge.length == 0 {
            return Ok(Place::mapped(sge.addr));
        }
        let region = self.region_of(pd, sge.lkey)?;
        if usage == LocalUse::Write && !region.access.contains(AccessFlags::LOCAL_WRITE) {
            return Err(LocalFault::NotWritable { lkey: sge.lkey });
        }
        Ok(region.place_of(sge.addr, sge.length.into())?)
    }

    /// Checks a peer's use of `length` bytes at `va` through a QP, which needs all rights of `need`;
    /// where they are. Nothing may be accessed there when `length` is 0.
    pub fn check_remote(
        &self,
        user: KeyUser,
        rkey: u32,
        va: u64,
        length: u32,
        need: AccessFlags,
    ) -> Result<Place, RemoteFault> {
        if length == 0 {
            return Ok(Place::mapped(va));
        }
        match &self.slot(rkey)?.entry {
            Entry::Vacant => Err(KeyFault::Unknown { key: rkey }.into()),
            Entry::Region(region) => {
                check_pd(rkey, region.pd, user.pd)?;
                check_rights(rkey, region.access, need)?;
                Ok(region.place_of(va, length.into())?)
            }
            Entry::Window(window) => Ok(self.check_window(window, user, rkey, Some((va, length)), need)?.0),
        }
    }

    /// Checks a peer's FLUSH of the bytes of `range`, address and length, or of all that the key covers; where they are, and
    /// how many. Unlike other accesses, that of no bytes needs a key, too.
    pub fn check_flush(
        &self,
        user: KeyUser,
        rkey: u32,
        range: Option<(u64, u32)>,
        need: AccessFlags,
    ) -> Result<(Place, u64), RemoteFault> {
        match &self.slot(rkey)?.entry {
            Entry::Vacant => Err(KeyFault::Unknown { key: rkey }.into()),
            Entry::Region(region) => {
                check_pd(rkey, region.pd, user.pd)?;
                check_rights(rkey, region.access, need)?;
                let (va, length) =
                    range.map_or((region.iova, region.length), |(va, length)| (va, length.into()));
                Ok((region.place_of(va, length)?, length))
            }
            Entry::Window(window) => self.check_window(window, user, rkey, range, need),
        }
    }

    /// How many regions and windows there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The region that `key` stands for, if a QP of `pd` may use it.
    #[inline]
    fn region_of(&self, pd: PdId, key: u32) -> Result<&Region, KeyFault> {
        let region = self.region(key)?;
        check_pd(key, region.pd, pd)?;
        Ok(region)
    }

    /// The region that `key` stands for.
    #[inline]
    fn region(&self, key: u32) -> Result<&Region, KeyFault> {
        match &self.slot(key)?.entry {
            Entry::Region(region) => Ok(region),
            Entry::Window(_) => Err(KeyFault::Window { key }),
            Entry::Vacant => Err(KeyFault::Unknown { key }),
        }
    }

    /// The place that `key` leads to.
    #[inline]
    fn slot(&self, key: u32) -> Result<&Slot, KeyFault> {
        let index = self.numbers.to_index(key >> 8);
        let slot = self.slots.get(index as usize).ok_or(KeyFault::Unknown { key })?;
        if slot.key_byte == key as u8 { Ok(slot) } else { Err(KeyFault::Stale { key }) }
    }

    /// Puts `entry` into a vacant slot: a new one while few are vacant, else the one given up longest ago. Its key;
    /// `None` if the table is full.
    fn fill_slot(&mut self, entry: Entry) -> Option<u32> {
        let count = self.slots.len() as u32;
        let index = if self.vacant.len() >= REUSE_DISTANCE || count >= self.max {
            self.vacant.pop_front()?
        } else {
            self.slots.push(Slot { key_byte: self.key_bytes.first(), entry: Entry::Vacant });
            count
        };
        let slot = &mut self.slots[index as usize];
        slot.entry = entry;
        Some(self.numbers.of_index(index) << 8 | u32::from(slot.key_byte))
    }

    /// Gives a slot up.
    fn vacate_slot(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.entry = Entry::Vacant;
        slot.key_byte = KeyBytes::after(slot.key_byte);
        self.vacant.push_back(index);
    }
}

/// The key belongs to the protection domain that it is used in.
#[inline]
fn check_pd(key: u32, belongs_to: PdId, used_in: PdId) -> Result<(), KeyFault> {
    if belongs_to == used_in { Ok(()) } else { Err(KeyFault::OtherPd { key, used_in, belongs_to }) }
}

/// All rights that are needed were granted.
#[inline]
fn check_rights(rkey: u32, granted: AccessFlags, need: AccessFlags) -> Result<(), RemoteFault> {
    let missing = need.difference(granted);
    if missing.is_empty() { Ok(()) } else { Err(RemoteFault::MissingRights { rkey, missing, granted }) }
}

impl Region {
    /// What `spec` describes, checked.
    fn new(spec: RegionSpec) -> Result<Region, RegisterError> {
        let RegionSpec { pd, addr, length, iova, access } = spec;
        // Bits 20 to 29 are optional: a device that does not know one ignores it (ibv_reg_mr(3)).
        let access = access.difference(AccessFlags::from_bits_retain(OPTIONAL_ACCESS));
        let unknown = access.difference(AccessFlags::all());
        if !unknown.is_empty() {
            return Err(RegisterError::UnknownAccess { bits: unknown.bits() });
        }
        let remote_change = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
        if access.intersects(remote_change) && !access.contains(AccessFlags::LOCAL_WRITE) {
            return Err(RegisterError::NeedsLocalWrite { access });
        }
        let iova = if access.contains(AccessFlags::ZERO_BASED) { 0 } else { iova };
        for (what, start) in [("address", addr), ("iova", iova)] {
            if start.checked_add(length).is_none() {
                return Err(RegisterError::Wraps { what, start, length });
            }
        }
        let on_demand = access.contains(AccessFlags::ON_DEMAND);
        let backing = if on_demand { Backing::OnDemand } else { Backing::Mapped };
        Ok(Region { pd, access, addr, length, iova, backing, windows: 0 })
    }

    /// Where `va` is, if all of `length` bytes lie inside.
    #[inline]
    fn place_of(&self, va: u64, length: u64) -> Result<Place, RangeFault> {
        Ok(self.place(offset_in(self.iova, self.length, va, length)?))
    }

    /// The place so many bytes behind its beginning.
    #[inline]
    fn place(&self, offset: u64) -> Place {
        Place { addr: self.addr + offset, backing: self.backing }
    }
}

/// How far behind `start` the `length` bytes at `va` begin, if all of them lie in the `size` bytes there.
#[inline]
fn offset_in(start: u64, size: u64, va: u64, length: u64) -> Result<u64, RangeFault> {
    let outside = RangeFault { va, length, start, size };
    let offset = va.checked_sub(start).ok_or(outside)?;
    // Written without a sum: `va + length` wraps for an address near the top (linux-rdma 075b3a9b5).
    if offset > size || size - offset < length {
        return Err(outside);
    }
    Ok(offset)
}

/// `IBV_ACCESS_OPTIONAL_RANGE`.
const OPTIONAL_ACCESS: u32 = 0x3ff0_0000;
