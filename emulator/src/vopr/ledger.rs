//! The memory of a host as the model sees it: which regions are registered, and which bytes somebody may write now.
//!
//! Each work request has places of its own that are never used again. A place is written from its first byte to its
//! last, each byte once; so every write that the device makes can be judged when it is made, without looking at what
//! it writes.

use super::Fault;
use crate::memory::{Access, AccessKind, HostMemory};
use crate::network::{HostId, VirtualNetwork};
use ferroce_core::{AccessFlags, PdId, RegionKeys, RegionSpec, Sge};
use std::collections::BTreeMap;

/// The memory of one host.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    regions: Vec<Region>,
    /// Regions by their first address.
    starts: BTreeMap<u64, usize>,
    /// Places that may be written, now or once, by their first address.
    places: BTreeMap<u64, Open>,
}

/// A region.
#[derive(Debug)]
struct Region {
    pd: PdId,
    access: AccessFlags,
    addr: u64,
    len: u64,
    used: u64,
    keys: RegionKeys,
    is_registered: bool,
}

/// Some bytes of a region that belong to one work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) addr: u64,
    pub(super) len: u32,
    pub(super) keys: RegionKeys,
    /// Where its region ends.
    pub(super) region_end: u64,
}

/// How a place may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// Once, from the first byte to the last.
    Once,
    /// Again from the first byte, when the message that was coming is lost (UC).
    Restartable,
    /// As a whole, by atomics.
    Word,
    /// Anywhere and again and again.
    Any,
}

#[derive(Debug)]
struct Open {
    len: u32,
    /// Bytes written so far; times, for a word.
    written: u32,
    usage: Use,
    is_open: bool,
}

impl Place {
    /// Its bytes as a list of `pieces` elements, with an empty one among them if there are more than two.
    pub(super) fn list(&self, pieces: u8, lkey: u32) -> Vec<Sge> {
        let pieces = u32::from(pieces.max(1));
        let share = self.len / pieces;
        let mut list = Vec::new();
        let mut offset = 0;
        for piece in 0..pieces {
            let length = if piece + 1 == pieces { self.len - offset } else { share };
            list.push(Sge { addr: self.addr + u64::from(offset), length, lkey });
            offset += length;
        }
        if pieces > 2 {
            list.insert(1, Sge { addr: 0, length: 0, lkey: 0 });
        }
        list
    }
}

impl Ledger {
    /// Finds room for `len` bytes in a region with exactly these rights.
    pub(super) fn place(
        &mut self,
        network: &mut VirtualNetwork,
        host: HostId,
        (pd, access): (PdId, AccessFlags),
        len: u32,
    ) -> Place {
        // A byte that belongs to nobody lies behind each place.
        let need = (u64::from(len) + 1).next_multiple_of(ALIGN);
        let has_room = |region: &Region| {
            (region.pd, region.access) == (pd, access)
                && region.is_registered
                && region.len - region.used >= need
        };
        let index = match self.regions.iter().rposition(has_room) {
            Some(index) => index,
            None => self.register(network, host, (pd, access), need.max(REGION_LEN)),
        };
        let region = &mut self.regions[index];
        let addr = region.addr + region.used;
        region.used += need;
        Place { addr, len, keys: region.keys, region_end: region.addr + region.len }
    }

    fn register(
        &mut self,
        network: &mut VirtualNetwork,
        host: HostId,
        (pd, access): (PdId, AccessFlags),
        len: u64,
    ) -> usize {
        let addr = network.alloc(host, len as usize);
        let keys = network
            .register(host, RegionSpec { pd, addr, length: len, iova: addr, access })
            .expect("rights that go together, in a table with room");
        self.starts.insert(addr, self.regions.len());
        self.regions.push(Region { pd, access, addr, len, used: 0, keys, is_registered: true });
        self.regions.len() - 1
    }

    /// One of the regions that are registered is not any more; its key.
    pub(super) fn deregister(&mut self, pick: u32) -> Option<u32> {
        // Those with windows on them stay.
        let may_go = |region: &Region| region.is_registered && !region.access.contains(AccessFlags::MW_BIND);
        let count = self.regions.iter().filter(|region| may_go(region)).count();
        let index = pick as usize % count.max(1);
        let region = self.regions.iter_mut().filter(|region| may_go(region)).nth(index)?;
        region.is_registered = false;
        Some(region.keys.lkey)
    }

    /// The keys of all regions that are registered.
    pub(super) fn registered(&self) -> Vec<u32> {
        let registered = self.regions.iter().filter(|region| region.is_registered);
        registered.map(|region| region.keys.lkey).collect()
    }

    /// A place may be written from now on.
    pub(super) fn open(&mut self, place: &Place, usage: Use) {
        if place.len > 0 {
            let open = Open { len: place.len, written: 0, usage, is_open: true };
            self.places.insert(place.addr, open);
        }
    }

    /// A place may not be written any more.
    pub(super) fn close(&mut self, addr: u64) {
        if let Some(place) = self.places.get_mut(&addr) {
            place.is_open = false;
        }
    }

    /// Bytes of a place that were written; 0 if it was never open.
    pub(super) fn written(&self, addr: u64) -> u32 {
        self.places.get(&addr).map_or(0, |place| place.written)
    }

    /// Judges what the device did to the memory.
    pub(super) fn check(&mut self, access: &Access) -> Result<(), Fault> {
        let Access { kind, addr, len } = *access;
        let region = self.starts.range(..=addr).next_back().map(|(_, index)| &self.regions[*index]);
        let Some(region) = region.filter(|region| addr + len as u64 <= region.addr + region.len) else {
            return Err(Fault::new(
                "memory",
                format!("{kind:?} of {len} bytes at {addr:#x}, outside every region"),
            ));
        };
        if !region.is_registered {
            let text = format!("{kind:?} of {len} bytes at {addr:#x} in a region that was deregistered");
            return Err(Fault::new("memory", text));
        }
        match kind {
            AccessKind::Read => Ok(()),
            AccessKind::Write => self.check_write(addr, len as u32),
            AccessKind::Atomic => self.check_atomic(addr),
        }
    }

    fn check_write(&mut self, addr: u64, len: u32) -> Result<(), Fault> {
        let (start, place) = self.place_at(addr, len)?;
        let offset = (addr - start) as u32;
        if place.usage == Use::Restartable && offset == 0 {
            place.written = 0;
        }
        if !place.is_open || place.usage == Use::Word {
            return Err(Fault::new(
                "memory",
                format!("{len} bytes written at {addr:#x}, where nobody may write now"),
            ));
        }
        if place.usage == Use::Any {
            return Ok(());
        }
        if offset != place.written {
            let text = format!(
                "{len} bytes written at offset {offset} of a place of {} bytes, of which {} were written",
                place.len, place.written
            );
            return Err(Fault::new("once", text));
        }
        place.written += len;
        Ok(())
    }

    fn check_atomic(&mut self, addr: u64) -> Result<(), Fault> {
        let (start, place) = self.place_at(addr, size_of::<u64>() as u32)?;
        if place.usage == Use::Any && place.is_open {
            return Ok(());
        }
        if start != addr || place.usage != Use::Word || !place.is_open {
            return Err(Fault::new("memory", format!("an atomic at {addr:#x}, where nobody may do one now")));
        }
        place.written += 1;
        Ok(())
    }

    /// The place that holds all of these bytes.
    fn place_at(&mut self, addr: u64, len: u32) -> Result<(u64, &mut Open), Fault> {
        let place = self.places.range_mut(..=addr).next_back();
        place
            .map(|(start, place)| (*start, place))
            .filter(|(start, place)| addr + u64::from(len) <= start + u64::from(place.len))
            .ok_or_else(|| {
                Fault::new("memory", format!("{len} bytes written at {addr:#x}, which belong to nobody"))
            })
    }

    /// The process died; nothing is left.
    pub(super) fn clear(&mut self) {
        *self = Ledger::default();
    }
}

/// The bytes of a message: they follow from its number, and no two messages are alike.
pub(super) fn pattern(number: u64, len: u32) -> Vec<u8> {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len as usize + size_of::<u64>());
    while bytes.len() < len as usize {
        // xorshift64
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend(word.to_le_bytes());
    }
    bytes.truncate(len as usize);
    bytes
}

/// Where `bytes` in memory differ from what they should be: the first one.
pub(super) fn difference(memory: &HostMemory, addr: u64, expected: &[u8]) -> Option<String> {
    match memory.get(addr, expected.len()) {
        Err(error) => Some(error.to_string()),
        Ok(bytes) if bytes == expected => None,
        Ok(bytes) => {
            let at = bytes.iter().zip(expected).position(|(is, should)| is != should)?;
            Some(format!("byte {at} of {} is {:#04x}, not {:#04x}", bytes.len(), bytes[at], expected[at]))
        }
    }
}

/// Length of a region, unless a message needs more.
const REGION_LEN: u64 = 16 << 10;
/// Places begin at multiples of this, so that a word may lie anywhere.
const ALIGN: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Fabric, FabricConfig};

    const PD: PdId = PdId(1);

    fn ledger() -> (Fabric, Ledger, Place) {
        let mut fabric = Fabric::new(&FabricConfig::default());
        let mut ledger = Ledger::default();
        let host = fabric.endpoint(0);
        let place = ledger.place(&mut fabric.network, host, (PD, AccessFlags::LOCAL_WRITE), 100);
        (fabric, ledger, place)
    }

    fn write(ledger: &mut Ledger, addr: u64, len: usize) -> Result<(), std::borrow::Cow<'static, str>> {
        ledger.check(&Access { kind: AccessKind::Write, addr, len }).map_err(|fault| fault.rule)
    }

    #[test]
    fn a_place_is_written_once_from_its_beginning() {
        let (_, mut ledger, place) = ledger();
        assert_eq!(write(&mut ledger, place.addr, 10), Err("memory".into()), "not open yet");
        ledger.open(&place, Use::Once);
        assert_eq!(write(&mut ledger, place.addr + 10, 10), Err("once".into()), "it skips bytes");
        assert_eq!(write(&mut ledger, place.addr, 60), Ok(()));
        assert_eq!(write(&mut ledger, place.addr, 60), Err("once".into()), "a second time");
        assert_eq!(write(&mut ledger, place.addr + 60, 41), Err("memory".into()), "beyond its end");
        assert_eq!(write(&mut ledger, place.addr + 60, 40), Ok(()));
        assert_eq!(ledger.written(place.addr), 100);
        ledger.close(place.addr);
        assert_eq!(write(&mut ledger, place.addr + 100, 1), Err("memory".into()));
    }

    #[test]
    fn a_lost_message_begins_anew_where_that_is_allowed() {
        let (_, mut ledger, place) = ledger();
        ledger.open(&place, Use::Restartable);
        assert_eq!(write(&mut ledger, place.addr, 60), Ok(()));
        assert_eq!(write(&mut ledger, place.addr, 30), Ok(()));
        assert_eq!(write(&mut ledger, place.addr + 60, 30), Err("once".into()));
        assert_eq!(write(&mut ledger, place.addr + 30, 30), Ok(()));
    }

    #[test]
    fn memory_is_out_of_reach_without_a_region() {
        let (mut fabric, mut ledger, place) = ledger();
        let host = fabric.endpoint(0);
        let other = ledger.place(&mut fabric.network, host, (PD, AccessFlags::REMOTE_READ), 8);
        assert_ne!(place.keys, other.keys, "other rights, another region");
        let read = |ledger: &mut Ledger, addr, len| {
            ledger.check(&Access { kind: AccessKind::Read, addr, len }).map_err(|fault| fault.rule)
        };
        assert_eq!(read(&mut ledger, place.addr, 100), Ok(()));
        assert_eq!(read(&mut ledger, place.region_end - 1, 2), Err("memory".into()));
        assert_eq!(ledger.deregister(7), Some(other.keys.lkey), "the second of two");
        assert_eq!(read(&mut ledger, other.addr, 8), Err("memory".into()));
        assert_eq!(ledger.registered(), [place.keys.lkey]);
        ledger.open(&place, Use::Word);
        let atomic = Access { kind: AccessKind::Atomic, addr: place.addr, len: 8 };
        assert_eq!(ledger.check(&atomic), Ok(()));
        assert_eq!(write(&mut ledger, place.addr, 8), Err("memory".into()), "a word is for atomics");
    }

    #[test]
    fn a_list_covers_its_place() {
        let (_, _, place) = ledger();
        for pieces in 0..5 {
            let list = place.list(pieces, 1);
            assert_eq!(list.iter().map(|sge| sge.length).sum::<u32>(), 100);
            assert_eq!(list.len(), [1, 1, 2, 4, 5][usize::from(pieces)]);
        }
        assert_eq!(pattern(1, 20).len(), 20);
        assert_ne!(pattern(1, 20), pattern(2, 20));
        assert_eq!(pattern(1, 20)[..], pattern(1, 40)[..20]);
    }
}
