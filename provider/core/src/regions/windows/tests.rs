use super::super::tests::{local_addr, remote_addr};
use super::*;
use crate::{DeregisterError, LocalFault, LocalUse, RangeFault, RegionSpec, RegisterError, Sge};

const PD: PdId = PdId(1);
const USER: KeyUser = KeyUser { pd: PD, qpn: Qpn::new(17) };
const OTHER_QP: KeyUser = KeyUser { qpn: Qpn::new(18), ..USER };
const OTHER_PD: KeyUser = KeyUser { pd: PdId(2), ..USER };
const READ: AccessFlags = AccessFlags::REMOTE_READ;
const WRITE: AccessFlags = AccessFlags::REMOTE_WRITE;
const BINDABLE: AccessFlags = AccessFlags::LOCAL_WRITE.union(AccessFlags::MW_BIND);
/// Where the region lies, and what its users call that.
const ADDR: u64 = 0x10_0000;
const IOVA: u64 = 0x5000;

/// A table with one region of 0x1000 bytes that gives nobody anything but windows; its key.
fn with_region(access: AccessFlags) -> (Regions, u32) {
    let mut regions = Regions::new(1);
    let spec = RegionSpec { pd: PD, addr: ADDR, length: 0x1000, iova: IOVA, access };
    let lkey = regions.register(spec).unwrap().lkey;
    (regions, lkey)
}

fn bind(lkey: u32, length: u64, access: AccessFlags) -> MwBind {
    MwBind { lkey, addr: IOVA + 0x100, length, access }
}

fn unbind() -> MwBind {
    MwBind::default()
}

/// The key after `rkey`, as `ibv_inc_rkey` makes it.
fn next(rkey: u32) -> u32 {
    rkey & !0xff | (rkey + 1) & 0xff
}

/// What a read of 8 bytes at the window's start comes to.
fn read(regions: &Regions, user: KeyUser, rkey: u32) -> Result<u64, RemoteFault> {
    remote_addr(regions, user, rkey, IOVA + 0x100, 8, READ)
}

#[test]
fn a_window_covers_its_part_of_the_region_and_gives_its_own_rights() {
    for mw_type in [MwType::Type1, MwType::Type2] {
        let (mut regions, lkey) = with_region(BINDABLE);
        let rkey = next(regions.alloc_window(PD, mw_type).unwrap());
        regions.bind(USER, rkey, &bind(lkey, 0x10, READ)).unwrap();
        let check = |va, length, need| remote_addr(&regions, USER, rkey, va, length, need);
        assert_eq!(check(IOVA + 0x100, 0x10, READ), Ok(ADDR + 0x100));
        assert_eq!(check(IOVA + 0x10f, 1, READ), Ok(ADDR + 0x10f));
        let missing = RemoteFault::MissingRights { rkey, missing: WRITE, granted: READ };
        assert_eq!(check(IOVA + 0x100, 1, WRITE), Err(missing));
        for (va, length) in [(IOVA + 0xff, 1), (IOVA + 0x100, 0x11), (IOVA + 0x110, 1), (u64::MAX, 8)] {
            let outside = RangeFault { va, length: length.into(), start: IOVA + 0x100, size: 0x10 };
            assert_eq!(check(va, length, READ), Err(outside.into()));
        }
        // The region itself gives its peers nothing.
        assert!(remote_addr(&regions, USER, lkey, IOVA, 1, READ).is_err());
    }
}

#[test]
fn a_type_1_window_serves_its_whole_protection_domain() {
    let (mut regions, lkey) = with_region(BINDABLE);
    let rkey = regions.alloc_window(PD, MwType::Type1).unwrap();
    assert_eq!(read(&regions, USER, rkey), Err(KeyFault::Unbound { key: rkey }.into()));
    let rkey = next(rkey);
    regions.bind(USER, rkey, &bind(lkey, 8, READ)).unwrap();
    assert!(read(&regions, OTHER_QP, rkey).is_ok());
    let other_pd = KeyFault::OtherPd { key: rkey, used_in: OTHER_PD.pd, belongs_to: PD };
    assert_eq!(read(&regions, OTHER_PD, rkey), Err(other_pd.into()));
}

#[test]
fn a_type_1_window_is_bound_again_and_unbound_by_a_bind_of_no_bytes() {
    let (mut regions, lkey) = with_region(BINDABLE);
    let first = next(regions.alloc_window(PD, MwType::Type1).unwrap());
    regions.bind(USER, first, &bind(lkey, 8, READ)).unwrap();
    let second = next(first);
    regions.bind(USER, second, &bind(lkey, 8, WRITE)).unwrap();
    assert_eq!(read(&regions, USER, first), Err(KeyFault::Stale { key: first }.into()));
    assert!(remote_addr(&regions, USER, second, IOVA + 0x100, 8, WRITE).is_ok());
    let fault = DeregisterError::WindowsBound { lkey, windows: 1 };
    assert_eq!(regions.deregister(lkey), Err(fault));
    let third = next(second);
    regions.bind(USER, third, &unbind()).unwrap();
    for key in [second, third] {
        assert!(remote_addr(&regions, USER, key, IOVA + 0x100, 8, WRITE).is_err());
    }
    assert_eq!(regions.invalidate(USER, Type2::B, third), Err(InvalidateFault::Type1 { rkey: third }));
    assert_eq!(regions.deregister(lkey), Ok(()));
}

#[test]
fn a_type_2_window_serves_the_qp_that_bound_it() {
    let (mut regions, lkey) = with_region(BINDABLE);
    let rkey = regions.alloc_window(PD, MwType::Type2).unwrap();
    // The consumer may well choose the same key byte again (linux-rdma 923e04a33).
    regions.bind(USER, rkey, &bind(lkey, 8, READ)).unwrap();
    assert!(read(&regions, USER, rkey).is_ok());
    let other_qp = KeyFault::OtherQp { key: rkey, used_by: OTHER_QP.qpn, bound_to: USER.qpn };
    assert_eq!(read(&regions, OTHER_QP, rkey), Err(other_qp.into()));
    assert_eq!(
        regions.bind(USER, next(rkey), &bind(lkey, 8, READ)),
        Err(BindFault::Bound { rkey: next(rkey) })
    );
    assert_eq!(
        regions.invalidate(USER, Type2::B, next(rkey)),
        Err(KeyFault::Stale { key: next(rkey) }.into())
    );
    assert!(read(&regions, USER, rkey).is_ok());
    regions.invalidate(USER, Type2::B, rkey).unwrap();
    assert_eq!(read(&regions, USER, rkey), Err(KeyFault::Unbound { key: rkey }.into()));
    assert_eq!(regions.invalidate(USER, Type2::B, rkey), Err(KeyFault::Unbound { key: rkey }.into()));
    regions.bind(OTHER_QP, rkey ^ 0x80, &bind(lkey, 8, READ)).unwrap();
    assert!(read(&regions, OTHER_QP, rkey ^ 0x80).is_ok());
}

#[test]
fn what_a_type_2_window_belongs_to_decides_who_may_invalidate_it() {
    let (mut regions, lkey) = with_region(BINDABLE);
    let rkey = regions.alloc_window(PD, MwType::Type2).unwrap();
    regions.bind(USER, rkey, &bind(lkey, 8, READ)).unwrap();
    let other_pd = KeyFault::OtherPd { key: rkey, used_in: OTHER_PD.pd, belongs_to: PD };
    for belongs_to in [Type2::A, Type2::B] {
        assert_eq!(regions.invalidate(OTHER_PD, belongs_to, rkey), Err(other_pd.into()));
    }
    let other_qp = KeyFault::OtherQp { key: rkey, used_by: OTHER_QP.qpn, bound_to: USER.qpn };
    assert_eq!(regions.invalidate(OTHER_QP, Type2::A, rkey), Err(other_qp.into()));
    assert!(read(&regions, USER, rkey).is_ok());
    regions.invalidate(OTHER_QP, Type2::B, rkey).unwrap();
    regions.bind(USER, rkey, &bind(lkey, 8, READ)).unwrap();
    regions.invalidate(USER, Type2::A, rkey).unwrap();
}

#[test]
fn addresses_of_a_type_2_window_may_count_from_zero() {
    let (mut regions, lkey) = with_region(BINDABLE);
    let zero_based = READ | AccessFlags::ZERO_BASED;
    let rkey = regions.alloc_window(PD, MwType::Type2).unwrap();
    regions.bind(USER, rkey, &bind(lkey, 16, zero_based)).unwrap();
    assert_eq!(remote_addr(&regions, USER, rkey, 8, 8, READ), Ok(ADDR + 0x108));
    assert!(remote_addr(&regions, USER, rkey, IOVA + 0x100, 8, READ).is_err());
    let type_1 = regions.alloc_window(PD, MwType::Type1).unwrap();
    assert_eq!(regions.bind(USER, type_1, &bind(lkey, 16, zero_based)), Err(BindFault::ZeroBased));
    let (mut regions, lkey) = with_region(BINDABLE | AccessFlags::ZERO_BASED);
    let type_1 = regions.alloc_window(PD, MwType::Type1).unwrap();
    let from_zero = MwBind { addr: 0, ..bind(lkey, 16, READ) };
    assert_eq!(regions.bind(USER, type_1, &from_zero), Err(BindFault::ZeroBased));
    let rkey = regions.alloc_window(PD, MwType::Type2).unwrap();
    regions.bind(USER, rkey, &MwBind { addr: 0x20, ..from_zero }).unwrap();
    assert_eq!(remote_addr(&regions, USER, rkey, 0x20, 8, READ), Ok(ADDR + 0x20));
}

#[test]
fn binds_that_break_a_rule_change_nothing() {
    let (mut regions, lkey) = with_region(BINDABLE);
    let plain = RegionSpec { pd: PD, addr: ADDR, length: 64, iova: IOVA, access: AccessFlags::LOCAL_WRITE };
    let unbindable = regions.register(plain).unwrap().lkey;
    let read_only = regions.register(RegionSpec { access: AccessFlags::MW_BIND, ..plain }).unwrap().lkey;
    let foreign = regions.register(RegionSpec { pd: PdId(2), access: BINDABLE, ..plain }).unwrap().lkey;
    let type_1 = regions.alloc_window(PD, MwType::Type1).unwrap();
    let type_2 = regions.alloc_window(PD, MwType::Type2).unwrap();
    let (good, unknown) = (bind(lkey, 8, READ), lkey ^ 0x100);
    for rkey in [type_1, type_2] {
        let key = next(rkey);
        let mut refused = |user, bind: MwBind| regions.bind(user, key, &bind).unwrap_err();
        // linux-rdma c81b0ce53
        let pd = KeyFault::OtherPd { key: foreign, used_in: PD, belongs_to: PdId(2) };
        assert_eq!(refused(USER, MwBind { lkey: foreign, ..good }), BindFault::Region(pd));
        let pd = KeyFault::OtherPd { key, used_in: PdId(2), belongs_to: PD };
        assert_eq!(refused(OTHER_PD, good), BindFault::Window(pd));
        let stale = BindFault::Region(KeyFault::Stale { key: lkey ^ 1 });
        assert_eq!(refused(USER, MwBind { lkey: lkey ^ 1, ..good }), stale);
        let region = refused(USER, MwBind { lkey: unknown, ..good });
        assert!(matches!(region, BindFault::Region(_)), "{region:?}");
        let window = BindFault::Region(KeyFault::Window { key: rkey });
        assert_eq!(refused(USER, MwBind { lkey: rkey, ..good }), window);
        let not_bindable = BindFault::NotBindable { lkey: unbindable };
        assert_eq!(refused(USER, MwBind { lkey: unbindable, ..good }), not_bindable);
        for access in [WRITE, AccessFlags::REMOTE_ATOMIC] {
            let not_writable = BindFault::NotWritable { lkey: read_only };
            assert_eq!(refused(USER, MwBind { lkey: read_only, access, ..good }), not_writable);
        }
        let local = AccessFlags::LOCAL_WRITE;
        assert_eq!(refused(USER, MwBind { access: local | READ, ..good }), BindFault::Access(local));
        let flush = AccessFlags::FLUSH_GLOBAL;
        let not_flushable = BindFault::NotFlushable { lkey, missing: flush };
        assert_eq!(refused(USER, MwBind { access: flush | READ, ..good }), not_flushable);
        // linux-rdma 8ce17f2c2: an address that wraps.
        for (addr, length) in [(IOVA - 1, 8), (IOVA + 0xff9, 8), (IOVA, 0x1001), (IOVA + 8, u64::MAX)] {
            let outside = RangeFault { va: addr, length, start: IOVA, size: 0x1000 };
            assert_eq!(refused(USER, MwBind { addr, length, ..good }), BindFault::Range(outside));
        }
        assert_eq!(read(&regions, USER, rkey), Err(KeyFault::Unbound { key: rkey }.into()));
        assert_eq!(read(&regions, USER, key), Err(KeyFault::Stale { key }.into()));
    }
    assert_eq!(regions.bind(USER, type_2, &unbind()), Err(BindFault::Empty));
    let no_window = BindFault::Window(KeyFault::Unknown { key: lkey });
    assert_eq!(regions.bind(USER, lkey, &good), Err(no_window));
    assert_eq!(regions.deregister(lkey), Ok(()));
}

#[test]
fn a_window_needs_no_writable_region_to_be_read() {
    let (mut regions, lkey) = with_region(AccessFlags::MW_BIND);
    let rkey = regions.alloc_window(PD, MwType::Type2).unwrap();
    regions.bind(USER, rkey, &bind(lkey, 8, READ)).unwrap();
    assert!(read(&regions, USER, rkey).is_ok());
}

#[test]
fn the_key_of_a_window_is_no_local_key() {
    let (mut regions, lkey) = with_region(BINDABLE);
    let rkey = regions.alloc_window(PD, MwType::Type1).unwrap();
    regions.bind(USER, rkey, &bind(lkey, 8, READ | WRITE)).unwrap();
    let sge = Sge { addr: IOVA + 0x100, length: 8, lkey: rkey };
    let fault = LocalFault::Key(KeyFault::Window { key: rkey });
    assert_eq!(local_addr(&regions, PD, &sge, LocalUse::Read), Err(fault));
    assert_eq!(regions.deregister(rkey), Err(KeyFault::Window { key: rkey }.into()));
}

#[test]
fn a_region_that_is_revoked_unbinds_its_windows() {
    let (mut regions, lkey) = with_region(BINDABLE);
    let rkeys = [MwType::Type1, MwType::Type2].map(|mw_type| {
        let rkey = regions.alloc_window(PD, mw_type).unwrap();
        regions.bind(USER, rkey, &bind(lkey, 8, READ)).unwrap();
        rkey
    });
    assert_eq!(regions.deregister(lkey), Err(DeregisterError::WindowsBound { lkey, windows: 2 }));
    regions.revoke(lkey).unwrap();
    for rkey in rkeys {
        assert_eq!(read(&regions, USER, rkey), Err(KeyFault::Unbound { key: rkey }.into()));
        regions.dealloc_window(rkey).unwrap();
    }
    assert!(regions.is_empty());
}

#[test]
fn a_window_goes_bound_or_not_and_its_keys_with_it() {
    let (mut regions, lkey) = with_region(BINDABLE);
    for mw_type in [MwType::Type1, MwType::Type2] {
        let rkey = regions.alloc_window(PD, mw_type).unwrap();
        regions.bind(USER, next(rkey), &bind(lkey, 8, READ)).unwrap();
        // Any of its keys names it.
        regions.dealloc_window(rkey).unwrap();
        for key in [rkey, next(rkey), next(next(rkey))] {
            assert!(read(&regions, USER, key).is_err());
            assert!(regions.bind(USER, key, &bind(lkey, 8, READ)).is_err());
        }
        assert_eq!(regions.dealloc_window(rkey), Err(KeyFault::Unknown { key: rkey }));
    }
    assert_eq!(regions.deregister(lkey), Ok(()));
}

#[test]
fn a_qp_that_goes_leaves_no_window_to_the_next_with_its_number() {
    let (mut regions, lkey) = with_region(BINDABLE);
    let bound = [USER, OTHER_QP, USER].map(|user| {
        let rkey = regions.alloc_window(PD, MwType::Type2).unwrap();
        regions.bind(user, rkey, &bind(lkey, 8, READ)).unwrap();
        (user, rkey)
    });
    regions.unbind_all_of(USER.qpn);
    let alive = bound.map(|(user, rkey)| read(&regions, user, rkey).is_ok());
    assert_eq!(alive, [false, true, false]);
    assert_eq!(regions.deregister(lkey), Err(DeregisterError::WindowsBound { lkey, windows: 1 }));
}

#[test]
fn regions_and_windows_share_the_keys() {
    // rxe's ranges overlapped: linux-rdma 4c80434aa.
    let mut regions = Regions::with_limit(3, 2000);
    let spec = RegionSpec { pd: PD, addr: ADDR, length: 64, iova: IOVA, access: BINDABLE };
    let mut numbers = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        assert!(numbers.insert(regions.register(spec).unwrap().rkey >> 8));
        assert!(numbers.insert(regions.alloc_window(PD, MwType::Type1).unwrap() >> 8));
    }
    assert_eq!(regions.alloc_window(PD, MwType::Type2), Err(AllocMwError { max: 2000 }));
    assert_eq!(regions.register(spec), Err(RegisterError::TooManyKeys { max: 2000 }));
    assert_eq!(regions.len(), 2000);
}
