//! The key table: which memory an L_Key or R_Key stands for, and who may use it how.
//!
//! A key is 24 bits of number and 8 bits of key byte; L_Key and R_Key are the same value, as on most cards. The
//! number leads to a slot by arithmetic and an array index. The byte
//! changes each time the slot is given up, so that a key outlives its region only as a fault. Numbers and first
//! bytes come from a seed and follow no order that a peer could guess the next key by. It is no cryptography:
//! rights and protection domains are what protects memory.
//!
//! Every use of a key is checked here and nowhere else, in this order: key, protection domain, rights, range. A
//! use of zero bytes touches nothing, and its key is not looked at (IBTA C9-88; rxe learned it with linux-rdma
//! ff79dd0a5).

mod fault;
mod keys;
#[cfg(test)]
mod tests;

use crate::{AccessFlags, PdId, Sge};
pub use fault::{
    DeregisterError, InvalidateFault, KeyFault, LocalFault, RangeFault, RegisterError, RemoteFault,
};
use keys::{KeyBytes, Numbers};
use std::collections::VecDeque;

/// Most regions of a device (`max_mr`).
pub const MAX_REGIONS: u32 = 1 << 22;

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

/// The keys of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionKeys {
    /// For scatter/gather elements of one's own work requests.
    pub lkey: u32,
    /// For the peer's READs, WRITEs and atomics.
    pub rkey: u32,
}

/// What the device does with the memory of a scatter/gather element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalUse {
    /// Gathers from it, which every region allows.
    Read,
    /// Scatters to it, which needs LOCAL_WRITE.
    Write,
}

/// All regions of a device, by key.
#[derive(Clone, Debug)]
pub struct Regions {
    slots: Vec<Slot>,
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

/// What a key stands for. Memory windows share the key space with regions and will be a third kind.
#[derive(Clone, Debug)]
enum Entry {
    Vacant,
    Region(Region),
}

#[derive(Clone, Copy, Debug)]
struct Region {
    pd: PdId,
    access: AccessFlags,
    addr: u64,
    length: u64,
    iova: u64,
}

impl Regions {
    /// An empty table whose keys follow from `seed`, for at most [`MAX_REGIONS`].
    pub fn new(seed: u64) -> Self {
        Self::with_limit(seed, MAX_REGIONS)
    }

    /// The same for at most `max` regions, which must be below 2^24.
    pub fn with_limit(seed: u64, max: u32) -> Self {
        assert!(max < Numbers::COUNT, "a key has room for {} numbers, not {max}", Numbers::COUNT);
        Regions {
            slots: Vec::new(),
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
        let index = self.take_slot().ok_or(RegisterError::TooManyRegions { max: self.max })?;
        let slot = &mut self.slots[index as usize];
        slot.entry = Entry::Region(region);
        let key = self.numbers.of_index(index) << 8 | u32::from(slot.key_byte);
        Ok(RegionKeys { lkey: key, rkey: key })
    }

    /// Takes the region with `lkey` out. Its keys fail from now on.
    pub fn deregister(&mut self, lkey: u32) -> Result<(), DeregisterError> {
        self.region(lkey)?;
        let index = self.numbers.to_index(lkey >> 8);
        let slot = &mut self.slots[index as usize];
        slot.entry = Entry::Vacant;
        slot.key_byte = KeyBytes::after(slot.key_byte);
        self.vacant.push_back(index);
        Ok(())
    }

    /// Checks a use of the memory that `sge` names by a QP of `pd`; the host address. Nothing may be accessed
    /// there when the length is 0.
    pub fn check_local(&self, pd: PdId, sge: &Sge, usage: LocalUse) -> Result<u64, LocalFault> {
        if sge.length == 0 {
            return Ok(sge.addr);
        }
        let region = self.region_of(pd, sge.lkey)?;
        if usage == LocalUse::Write && !region.access.contains(AccessFlags::LOCAL_WRITE) {
            return Err(LocalFault::NotWritable { lkey: sge.lkey });
        }
        Ok(region.host_address(sge.addr, sge.length)?)
    }

    /// Checks a peer's use of `length` bytes at `va` through a QP of `pd`, which needs all rights of `need`; the
    /// host address. Nothing may be accessed there when `length` is 0.
    pub fn check_remote(
        &self,
        pd: PdId,
        rkey: u32,
        va: u64,
        length: u32,
        need: AccessFlags,
    ) -> Result<u64, RemoteFault> {
        if length == 0 {
            return Ok(va);
        }
        let region = self.region_of(pd, rkey)?;
        let missing = need.difference(region.access);
        if !missing.is_empty() {
            return Err(RemoteFault::MissingRights { rkey, missing, granted: region.access });
        }
        Ok(region.host_address(va, length)?)
    }

    /// Invalidates `rkey` for a QP of `pd`, as LOCAL_INV and SEND with invalidate ask for.
    ///
    /// # Errors
    /// Always, so far: only a type 2 memory window may be invalidated, never a region that `ibv_reg_mr(3)` made
    /// (linux-rdma f962208aa), and this device has no windows.
    pub fn invalidate(&mut self, pd: PdId, rkey: u32) -> Result<(), InvalidateFault> {
        self.region_of(pd, rkey)?;
        Err(InvalidateFault::UserRegion { rkey })
    }

    /// How many regions there are.
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
        if region.pd != pd {
            return Err(KeyFault::OtherPd { key, used_in: pd, belongs_to: region.pd });
        }
        Ok(region)
    }

    /// The region that `key` stands for.
    #[inline]
    fn region(&self, key: u32) -> Result<&Region, KeyFault> {
        let index = self.numbers.to_index(key >> 8);
        let slot = self.slots.get(index as usize).ok_or(KeyFault::Unknown { key })?;
        if slot.key_byte != key as u8 {
            return Err(KeyFault::Stale { key });
        }
        match &slot.entry {
            Entry::Region(region) => Ok(region),
            Entry::Vacant => Err(KeyFault::Unknown { key }),
        }
    }

    /// The index of a vacant slot: a new one while few are vacant, else the one given up longest ago.
    fn take_slot(&mut self) -> Option<u32> {
        let count = self.slots.len() as u32;
        if self.vacant.len() >= REUSE_DISTANCE || count >= self.max {
            return self.vacant.pop_front();
        }
        self.slots.push(Slot { key_byte: self.key_bytes.first(), entry: Entry::Vacant });
        Some(count)
    }
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
        let unsupported = access.difference(SUPPORTED_ACCESS);
        if !unsupported.is_empty() {
            return Err(RegisterError::UnsupportedAccess { access: unsupported });
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
        Ok(Region { pd, access, addr, length, iova })
    }

    /// The host address behind `va`, if all of `length` bytes lie inside.
    #[inline]
    fn host_address(&self, va: u64, length: u32) -> Result<u64, RangeFault> {
        let outside = RangeFault { va, length, iova: self.iova, region_length: self.length };
        let offset = va.checked_sub(self.iova).ok_or(outside)?;
        // Written without a sum: `va + length` wraps for an address near the top (linux-rdma 075b3a9b5).
        if offset > self.length || self.length - offset < u64::from(length) {
            return Err(outside);
        }
        Ok(self.addr + offset)
    }
}

/// `IBV_ACCESS_OPTIONAL_RANGE`.
const OPTIONAL_ACCESS: u32 = 0x3ff0_0000;

/// What a region can be registered with. Windows, huge pages and zero-based addresses cost nothing; a device
/// that does not report on-demand paging or FLUSH refuses their bits.
const SUPPORTED_ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::MW_BIND)
    .union(AccessFlags::ZERO_BASED)
    .union(AccessFlags::HUGETLB);
