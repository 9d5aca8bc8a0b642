use super::*;
use proptest::prelude::*;

const PD: PdId = PdId(1);
const OTHER: PdId = PdId(2);
const USER: KeyUser = KeyUser { pd: PD, qpn: Qpn::new(17) };
const ALL_RIGHTS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

fn spec(addr: u64, length: u64, access: AccessFlags) -> RegionSpec {
    RegionSpec { pd: PD, addr, length, iova: addr, access }
}

/// The address that a peer's use leads to.
pub(super) fn remote_addr(
    regions: &Regions,
    user: KeyUser,
    rkey: u32,
    va: u64,
    length: u32,
    need: AccessFlags,
) -> Result<u64, RemoteFault> {
    regions.check_remote(user, rkey, va, length, need).map(|place| place.addr)
}

/// The address that the use of an element leads to.
pub(super) fn local_addr(regions: &Regions, pd: PdId, sge: &Sge, usage: LocalUse) -> Result<u64, LocalFault> {
    regions.check_local(pd, sge, usage).map(|place| place.addr)
}

fn sge(lkey: u32, addr: u64, length: u32) -> Sge {
    Sge { addr, length, lkey }
}

#[test]
fn a_region_is_usable_from_its_first_byte_to_its_last() {
    let mut regions = Regions::new(1);
    let keys = regions.register(spec(0x1000, 0x100, ALL_RIGHTS)).unwrap();
    assert_eq!(keys.lkey, keys.rkey);
    let local = |addr, length| local_addr(&regions, PD, &sge(keys.lkey, addr, length), LocalUse::Write);
    assert_eq!(local(0x1000, 0x100), Ok(0x1000));
    assert_eq!(local(0x10ff, 1), Ok(0x10ff));
    for (va, length) in [(0xfff, 1), (0x1000, 0x101), (0x1100, 1), (0x10ff, 2), (0x1001, u32::MAX)] {
        let fault = RangeFault { va, length: length.into(), start: 0x1000, size: 0x100 };
        assert_eq!(local(va, length), Err(LocalFault::Range(fault)));
        let remote = remote_addr(&regions, USER, keys.rkey, va, length, AccessFlags::REMOTE_READ);
        assert_eq!(remote, Err(RemoteFault::Range(fault)));
    }
}

#[test]
fn addresses_are_translated_from_the_iova() {
    let mut regions = Regions::new(1);
    let shifted = RegionSpec { iova: 0xffff_ffff_ffff_0000, ..spec(0x5000, 0x100, ALL_RIGHTS) };
    let key = regions.register(shifted).unwrap().rkey;
    let remote = |va| remote_addr(&regions, USER, key, va, 8, AccessFlags::REMOTE_WRITE);
    assert_eq!(remote(0xffff_ffff_ffff_0010), Ok(0x5010));
    assert!(remote(0x5010).is_err());
    let zero = RegionSpec { iova: 0x5000, ..spec(0x5000, 0x100, ALL_RIGHTS | AccessFlags::ZERO_BASED) };
    let key = regions.register(zero).unwrap().rkey;
    assert_eq!(remote_addr(&regions, USER, key, 0xf8, 8, AccessFlags::REMOTE_WRITE), Ok(0x50f8));
    assert!(remote_addr(&regions, USER, key, 0x5000, 8, AccessFlags::REMOTE_WRITE).is_err());
}

#[test]
fn a_range_that_wraps_at_64_bits_is_outside() {
    // rxe wrote out of bounds: linux-rdma 075b3a9b5, 44f01e39b, 8ce17f2c2.
    let mut regions = Regions::new(1);
    let top = u64::MAX - 0x3ff;
    let low = regions.register(spec(0, 0x1000, ALL_RIGHTS)).unwrap().rkey;
    let high = regions.register(spec(top - 0x1000, 0x1000, ALL_RIGHTS)).unwrap().rkey;
    for key in [low, high] {
        for va in [top, u64::MAX] {
            let result = remote_addr(&regions, USER, key, va, 0x400, AccessFlags::REMOTE_WRITE);
            assert!(matches!(result, Err(RemoteFault::Range(_))), "{va:#x}: {result:?}");
        }
    }
}

#[test]
fn a_key_of_another_protection_domain_is_refused() {
    let mut regions = Regions::new(1);
    let key = regions.register(spec(0x1000, 0x100, ALL_RIGHTS)).unwrap().rkey;
    let fault = KeyFault::OtherPd { key, used_in: OTHER, belongs_to: PD };
    let read = AccessFlags::REMOTE_READ;
    assert_eq!(local_addr(&regions, OTHER, &sge(key, 0x1000, 1), LocalUse::Read), Err(fault.into()));
    assert_eq!(remote_addr(&regions, KeyUser { pd: OTHER, ..USER }, key, 0x1000, 1, read), Err(fault.into()));
    assert_eq!(regions.invalidate(KeyUser { pd: OTHER, ..USER }, Type2::B, key), Err(fault.into()));
}

#[test]
fn every_needed_right_must_be_there() {
    // rxe was content with any one of them: linux-rdma 7017b89b6.
    let mut regions = Regions::new(1);
    let granted = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let key = regions.register(spec(0x1000, 0x100, granted)).unwrap().rkey;
    let need = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    assert_eq!(
        remote_addr(&regions, USER, key, 0x1000, 1, need),
        Err(RemoteFault::MissingRights { rkey: key, missing: AccessFlags::REMOTE_READ, granted })
    );
    assert_eq!(remote_addr(&regions, USER, key, 0x1000, 1, AccessFlags::REMOTE_WRITE), Ok(0x1000));
}

#[test]
fn without_local_write_the_device_only_reads() {
    let mut regions = Regions::new(1);
    let key = regions.register(spec(0x1000, 0x100, AccessFlags::REMOTE_READ)).unwrap().lkey;
    assert_eq!(local_addr(&regions, PD, &sge(key, 0x1000, 4), LocalUse::Read), Ok(0x1000));
    assert_eq!(
        local_addr(&regions, PD, &sge(key, 0x1000, 4), LocalUse::Write),
        Err(LocalFault::NotWritable { lkey: key })
    );
}

#[test]
fn zero_bytes_need_no_key() {
    // rxe refused or crashed: linux-rdma ff79dd0a5, 039603b36.
    let regions = Regions::new(1);
    assert!(remote_addr(&regions, USER, 0xdead_beef, u64::MAX, 0, AccessFlags::REMOTE_WRITE).is_ok());
    assert!(local_addr(&regions, PD, &sge(0xdead_beef, u64::MAX, 0), LocalUse::Write).is_ok());
}

#[test]
fn an_empty_region_has_keys_and_no_bytes() {
    let mut regions = Regions::new(1);
    let key = regions.register(spec(0x1000, 0, ALL_RIGHTS)).unwrap().rkey;
    assert!(remote_addr(&regions, USER, key, 0x1000, 1, AccessFlags::REMOTE_READ).is_err());
    assert_eq!(regions.deregister(key), Ok(()));
}

#[test]
fn rights_that_contradict_or_mean_nothing_are_refused() {
    let mut regions = Regions::new(1);
    let mut register = |access| regions.register(spec(0x1000, 0x100, access)).map(|_| ());
    for access in [AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_ATOMIC | AccessFlags::REMOTE_READ] {
        assert_eq!(register(access), Err(RegisterError::NeedsLocalWrite { access }));
    }
    for bit in [10, 19, 30, 31] {
        let access = AccessFlags::from_bits_retain(1 << bit);
        assert_eq!(register(access), Err(RegisterError::UnknownAccess { bits: 1 << bit }));
    }
    for bit in 20..30 {
        assert_eq!(register(AccessFlags::from_bits_retain(1 << bit)), Ok(()), "optional bit {bit}");
    }
    assert_eq!(register(AccessFlags::empty()), Ok(()));
    assert_eq!(register(ALL_RIGHTS | AccessFlags::MW_BIND | AccessFlags::HUGETLB), Ok(()));
}

#[test]
fn regions_past_the_end_of_the_address_space_are_refused() {
    let mut regions = Regions::new(1);
    let wraps = |what, start, length| Err(RegisterError::Wraps { what, start, length });
    assert_eq!(regions.register(spec(u64::MAX, 1, ALL_RIGHTS)), wraps("address", u64::MAX, 1));
    let high_iova = RegionSpec { iova: u64::MAX - 9, ..spec(0x1000, 10, ALL_RIGHTS) };
    assert_eq!(regions.register(high_iova), wraps("iova", u64::MAX - 9, 10));
    assert!(regions.is_empty());
}

#[test]
fn the_table_is_full_at_its_limit_and_has_room_again_afterwards() {
    let mut regions = Regions::with_limit(1, 3);
    let keys: Vec<u32> =
        (0..3).map(|n| regions.register(spec(n << 12, 1, ALL_RIGHTS)).unwrap().lkey).collect();
    let one_more = spec(0x9000, 1, ALL_RIGHTS);
    assert_eq!(regions.register(one_more), Err(RegisterError::TooManyKeys { max: 3 }));
    regions.deregister(keys[1]).unwrap();
    let key = regions.register(one_more).unwrap().lkey;
    assert_eq!(key >> 8, keys[1] >> 8);
    assert_ne!(key, keys[1]);
    assert_eq!(regions.len(), 3);
}

#[test]
fn keys_do_not_run_out_and_stale_ones_fail() {
    // linux-rdma: an index pool that lost entries ended after some ten thousand regions.
    let mut regions = Regions::new(1);
    let mut before = None;
    for n in 0..70_000u64 {
        let key = regions.register(spec(n << 12, 0x100, ALL_RIGHTS)).unwrap().rkey;
        if let Some(stale) = before.replace(key) {
            let result = remote_addr(&regions, USER, stale, (n - 1) << 12, 1, AccessFlags::REMOTE_WRITE);
            assert_eq!(result, Err(KeyFault::Stale { key: stale }.into()));
        }
        assert_eq!(remote_addr(&regions, USER, key, n << 12, 1, AccessFlags::REMOTE_WRITE), Ok(n << 12));
        regions.deregister(key).unwrap();
        assert_eq!(regions.deregister(key), Err(KeyFault::Stale { key }.into()));
    }
    assert!(regions.is_empty());
    assert!(regions.slots.len() <= REUSE_DISTANCE, "the table grew to {}", regions.slots.len());
}

#[test]
fn a_key_stays_unused_for_a_quarter_of_a_million_deregistrations() {
    let mut regions = Regions::new(9);
    let first = regions.register(spec(0, 1, ALL_RIGHTS)).unwrap().lkey;
    regions.deregister(first).unwrap();
    for _ in 0..250_000 {
        let key = regions.register(spec(0, 1, ALL_RIGHTS)).unwrap().lkey;
        assert_ne!(key, first);
        regions.deregister(key).unwrap();
    }
}

#[test]
fn the_seed_decides_the_keys() {
    let keys = |seed| {
        let mut regions = Regions::new(seed);
        (0..50).map(move |n| regions.register(spec(n << 12, 1, ALL_RIGHTS)).unwrap().rkey).collect::<Vec<_>>()
    };
    assert_eq!(keys(5), keys(5));
    assert_ne!(keys(5), keys(6));
    assert!(keys(5).iter().all(|&key| key & 0xff != 0));
}

#[test]
fn a_user_region_cannot_be_invalidated() {
    // rxe allowed it: linux-rdma f962208aa.
    let mut regions = Regions::new(1);
    let key = regions.register(spec(0x1000, 0x100, ALL_RIGHTS)).unwrap().rkey;
    assert_eq!(regions.invalidate(USER, Type2::B, key), Err(InvalidateFault::UserRegion { rkey: key }));
    assert!(remote_addr(&regions, USER, key, 0x1000, 1, AccessFlags::REMOTE_READ).is_ok());
    regions.deregister(key).unwrap();
    assert_eq!(regions.invalidate(USER, Type2::B, key), Err(KeyFault::Stale { key }.into()));
}

#[test]
fn memory_may_be_paged_in_on_demand_or_be_all_of_it() {
    let mut regions = Regions::new(1);
    let access = ALL_RIGHTS | AccessFlags::ON_DEMAND;
    let all = regions.register(spec(0, u64::MAX, access)).unwrap();
    for addr in [0, 0x1234_5678, 1 << 60] {
        let place = Place { addr, backing: Backing::OnDemand };
        assert_eq!(regions.check_remote(USER, all.rkey, addr, 8, AccessFlags::REMOTE_WRITE), Ok(place));
        assert_eq!(regions.check_local(PD, &sge(all.lkey, addr, 8), LocalUse::Write), Ok(place));
    }
    assert!(remote_addr(&regions, USER, all.rkey, u64::MAX, 8, AccessFlags::REMOTE_READ).is_err());
    let mapped = regions.register(spec(0x1000, 8, ALL_RIGHTS)).unwrap();
    let place = regions.check_local(PD, &sge(mapped.lkey, 0x1000, 8), LocalUse::Read);
    assert_eq!(place, Ok(Place::mapped(0x1000)));
}

#[test]
fn a_null_region_has_every_address_and_is_no_ones_to_reach() {
    let mut regions = Regions::new(1);
    let keys = regions.register_null(PD).unwrap();
    for usage in [LocalUse::Read, LocalUse::Write] {
        let place = regions.check_local(PD, &sge(keys.lkey, 0xffff_0000, 1 << 20), usage).unwrap();
        assert_eq!(place.backing, Backing::Nothing);
        assert!(local_addr(&regions, OTHER, &sge(keys.lkey, 0, 8), usage).is_err());
    }
    for need in [AccessFlags::REMOTE_READ, AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_ATOMIC] {
        assert!(matches!(
            remote_addr(&regions, USER, keys.rkey, 0x1000, 8, need),
            Err(RemoteFault::MissingRights { .. })
        ));
    }
    let nothing = RegionChange::default();
    assert_eq!(regions.reregister(keys.lkey, &nothing), Err(ReregisterError::Null { lkey: keys.lkey }));
    assert_eq!(regions.deregister(keys.lkey), Ok(()));
}

#[test]
fn a_region_is_changed_in_each_part_alone_and_keeps_its_keys() {
    let mut regions = Regions::new(1);
    let read = AccessFlags::REMOTE_READ;
    let key = regions.register(RegionSpec { iova: 0x9000, ..spec(0x1000, 0x100, read) }).unwrap().rkey;
    let other = KeyUser { pd: OTHER, ..USER };
    let pd = RegionChange { pd: Some(OTHER), ..RegionChange::default() };
    regions.reregister(key, &pd).unwrap();
    assert!(remote_addr(&regions, USER, key, 0x9000, 8, read).is_err());
    assert_eq!(remote_addr(&regions, other, key, 0x9000, 8, read), Ok(0x1000));
    let memory = RegionChange { memory: Some((0x5000, 0x10, 0x5000)), ..RegionChange::default() };
    regions.reregister(key, &memory).unwrap();
    assert!(remote_addr(&regions, other, key, 0x9000, 8, read).is_err());
    assert_eq!(remote_addr(&regions, other, key, 0x5008, 8, read), Ok(0x5008));
    assert!(remote_addr(&regions, other, key, 0x5008, 9, read).is_err());
    let access = RegionChange { access: Some(ALL_RIGHTS - read), ..RegionChange::default() };
    regions.reregister(key, &access).unwrap();
    assert!(remote_addr(&regions, other, key, 0x5000, 8, read).is_err());
    assert_eq!(remote_addr(&regions, other, key, 0x5000, 8, AccessFlags::REMOTE_WRITE), Ok(0x5000));
    let zero_based = RegionChange { access: Some(read | AccessFlags::ZERO_BASED), ..RegionChange::default() };
    regions.reregister(key, &zero_based).unwrap();
    assert_eq!(remote_addr(&regions, other, key, 8, 8, read), Ok(0x5008));
}

#[test]
fn a_change_that_is_refused_leaves_the_region_as_it_was() {
    let mut regions = Regions::new(1);
    let key = regions.register(spec(0x1000, 0x100, ALL_RIGHTS | AccessFlags::MW_BIND)).unwrap().lkey;
    let bad_rights =
        RegionChange { access: Some(AccessFlags::REMOTE_WRITE), pd: Some(OTHER), ..RegionChange::default() };
    let bad_memory =
        RegionChange { memory: Some((u64::MAX, 2, 0)), pd: Some(OTHER), ..RegionChange::default() };
    for change in [bad_rights, bad_memory] {
        assert!(matches!(regions.reregister(key, &change), Err(ReregisterError::Register(_))));
    }
    let stale = ReregisterError::Key(KeyFault::Stale { key: key ^ 1 });
    assert_eq!(regions.reregister(key ^ 1, &RegionChange::default()), Err(stale));
    let rkey = regions.alloc_window(PD, MwType::Type1).unwrap();
    let bind = MwBind { lkey: key, addr: 0x1000, length: 8, access: AccessFlags::REMOTE_READ };
    regions.bind(USER, rkey, &bind).unwrap();
    let bound = ReregisterError::WindowsBound { lkey: key, windows: 1 };
    let smaller = RegionChange { memory: Some((0x1000, 4, 0x1000)), ..RegionChange::default() };
    assert_eq!(regions.reregister(key, &smaller), Err(bound));
    assert_eq!(remote_addr(&regions, USER, key, 0x1000, 0x100, AccessFlags::REMOTE_WRITE), Ok(0x1000));
}

#[derive(Clone, Debug)]
enum Action {
    Register(RegionSpec),
    Deregister(prop::sample::Index),
    /// The key of a region dead or alive, its bits flipped by the mask, then an access relative to the region.
    Use {
        region: prop::sample::Index,
        flip: u32,
        pd: PdId,
        from: i64,
        length: u32,
        need: AccessFlags,
    },
}

fn region_spec() -> impl Strategy<Value = RegionSpec> {
    let start = || prop_oneof![0..0x4000u64, (u64::MAX - 0x4000)..=u64::MAX];
    (1..3u32, start(), 0..0x2000u64, start(), 0..16u32).prop_map(|(pd, addr, length, iova, access)| {
        RegionSpec { pd: PdId(pd), addr, length, iova, access: AccessFlags::from_bits_retain(access) }
    })
}

fn action() -> impl Strategy<Value = Action> {
    let flip = prop_oneof![8 => Just(0), 1 => (0..32u32).prop_map(|bit| 1 << bit), 1 => any::<u32>()];
    let need = (0..16u32).prop_map(AccessFlags::from_bits_retain);
    let length = prop_oneof![0..0x2100u32, any::<u32>()];
    prop_oneof![
        2 => region_spec().prop_map(Action::Register),
        1 => any::<prop::sample::Index>().prop_map(Action::Deregister),
        4 => (any::<prop::sample::Index>(), flip, 1..3u32, -0x100..0x2100i64, length, need).prop_map(
            |(region, flip, pd, from, length, need)| Action::Use { region, flip, pd: PdId(pd), from, length, need }
        ),
    ]
}

/// Every region ever registered: its key, what it was, whether it still is.
type Model = Vec<(u32, RegionSpec, bool)>;

/// Whether the model allows the access, and where it goes, in arithmetic too wide to wrap.
fn allowed(model: &Model, pd: PdId, key: u32, va: u64, length: u32, need: AccessFlags) -> Option<u64> {
    if length == 0 {
        return Some(va);
    }
    let (_, region, _) = model.iter().find(|(k, _, live)| *live && *k == key)?;
    let (va, iova, end) =
        (u128::from(va), u128::from(region.iova), u128::from(region.iova) + u128::from(region.length));
    let inside = va >= iova && va + u128::from(length) <= end;
    let rights = region.access.bits() & need.bits() == need.bits();
    (region.pd == pd && rights && inside).then(|| (u128::from(region.addr) + va - iova) as u64)
}

proptest! {
    #[test]
    fn behaves_as_a_list_of_regions(seed: u64, actions in prop::collection::vec(action(), 0..300)) {
        let mut regions = Regions::with_limit(seed, 20);
        let mut model = Model::new();
        for action in actions {
            match action {
                Action::Register(spec) => {
                    let live = model.iter().filter(|(_, _, live)| *live).count();
                    let access = spec.access.bits();
                    let good = (access & 0b1010 == 0 || access & 1 != 0)
                        && u128::from(spec.addr) + u128::from(spec.length) < 1 << 64
                        && u128::from(spec.iova) + u128::from(spec.length) < 1 << 64;
                    match regions.register(spec) {
                        Ok(keys) => {
                            prop_assert!(good && live < 20);
                            prop_assert!(!model.iter().any(|(k, _, live)| *live && *k == keys.lkey));
                            model.push((keys.lkey, spec, true));
                        }
                        Err(error) => {
                            let full = error == RegisterError::TooManyKeys { max: 20 };
                            prop_assert_eq!(full, good && live == 20, "{}", error);
                            prop_assert!(full || !good, "{}", error);
                        }
                    }
                }
                Action::Deregister(which) if !model.is_empty() => {
                    let at = which.index(model.len());
                    let key = model[at].0;
                    let holder = model.iter_mut().find(|(k, _, live)| *live && *k == key);
                    prop_assert_eq!(regions.deregister(key).is_ok(), holder.is_some());
                    if let Some(holder) = holder {
                        holder.2 = false;
                    }
                }
                Action::Use { region, flip, pd, from, length, need } if !model.is_empty() => {
                    let (key, spec, _) = model[region.index(model.len())];
                    let (key, va) = (key ^ flip, spec.iova.wrapping_add_signed(from));
                    let expected = allowed(&model, pd, key, va, length, need);
                    prop_assert_eq!(remote_addr(&regions, KeyUser { pd, ..USER }, key, va, length, need).ok(), expected);
                    for (usage, need) in
                        [(LocalUse::Read, AccessFlags::empty()), (LocalUse::Write, AccessFlags::LOCAL_WRITE)]
                    {
                        let expected = allowed(&model, pd, key, va, length, need);
                        prop_assert_eq!(local_addr(&regions, pd, &sge(key, va, length), usage).ok(), expected);
                    }
                }
                _ => {}
            }
            prop_assert_eq!(regions.len(), model.iter().filter(|(_, _, live)| *live).count());
        }
    }
}
