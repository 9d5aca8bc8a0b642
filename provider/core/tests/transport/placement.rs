//! The memory placement extensions: FLUSH and ATOMIC_WRITE (Annex A19).

use crate::arena::Arena;
use crate::end::{ALL_ACCESS, End, PD, Setup, wr};
use crate::pair::{Fate, Pair};
use crate::shot::{Shot, nak, read_only, write_only};
use crate::solo::Solo;
use ferroce_core::{
    AccessFlags, AsyncEvent, Counter, Flush, FlushPlacement, MwBind, MwType, Payload, QpState, QpType,
    RegionKeys, RegionSpec, SendFlags, SendOp, SendWr, WcOpcode, WcStatus,
};
use ferroce_wire::{Feth, FlushSelectivity, NakCode, Opcode, Operation};

const FLUSH_BOTH: AccessFlags = AccessFlags::FLUSH_GLOBAL.union(AccessFlags::FLUSH_PERSISTENT);
const GLOBAL: FlushPlacement = FlushPlacement::GLOBAL;
const PERSISTENT: FlushPlacement = FlushPlacement::PERSISTENT;

fn setup() -> Setup {
    Setup { access: ALL_ACCESS | FLUSH_BOTH, ..Setup::default() }
}

/// A region over the first 4096 bytes of an end's arena.
fn region(end: &mut End, access: AccessFlags) -> RegionKeys {
    let spec = RegionSpec { pd: PD, addr: Arena::BASE, length: 4096, iova: Arena::BASE, access };
    end.device.register(spec).expect("a region")
}

fn flush_op(rkey: u32, offset: u64, length: Option<u32>, placement: FlushPlacement) -> SendOp {
    SendOp::Flush { va: Arena::BASE + offset, rkey, flush: Flush { placement, length } }
}

/// A FLUSH of an imagined peer.
fn flush_shot(psn: u32, rkey: u32, feth: Feth, length: u32) -> Shot {
    let shot = write_only(psn, 0, rkey, 0).opcode(Opcode::RC_FLUSH);
    shot.header(|header| header.feth(feth).reth(Arena::BASE + 64, rkey, length))
}

fn atomic_write_shot(psn: u32, offset: u64, rkey: u32) -> Shot {
    let shot = write_only(psn, offset, rkey, 8).opcode(Opcode::RC_ATOMIC_WRITE);
    shot.header(|header| header.reth(Arena::BASE + offset, rkey, 8))
}

fn flush_responder() -> (Solo, u32) {
    let mut solo = Solo::with(setup());
    let rkey = region(&mut solo.end, ALL_ACCESS | FLUSH_BOTH).rkey;
    (solo, rkey)
}

#[test]
fn a_flush_reaches_what_it_names() {
    for (length, placement, expected) in [
        (Some(100), GLOBAL, (64, 100, false)),
        (Some(0), GLOBAL, (64, 0, false)),
        (Some(4032), PERSISTENT, (64, 4032, true)),
        (None, GLOBAL | PERSISTENT, (0, 4096, true)),
    ] {
        let mut pair = Pair::with(setup(), setup());
        let rkey = region(&mut pair.b, ALL_ACCESS | FLUSH_BOTH).rkey;
        pair.a.memory.put(0, b"flushed!");
        let source = pair.a.sge(0, 8);
        pair.a.post_send(0, wr(1, SendOp::Write { va: Arena::BASE + 64, rkey }, &[source]));
        pair.a.post_send(0, wr(2, flush_op(rkey, 64, length, placement), &[]));
        pair.run();
        let completions: Vec<_> = pair
            .a
            .completions
            .iter()
            .map(|completion| (completion.wc.opcode, completion.wc.byte_len))
            .collect();
        assert_eq!(completions, [(WcOpcode::RdmaWrite, 0), (WcOpcode::Flush, 0)]);
        assert_eq!(pair.a.sent(), [(1, WcStatus::Success), (2, WcStatus::Success)]);
        assert_eq!(pair.b.memory.flushed(), [expected]);
        assert!(pair.b.received().is_empty());
    }
}

#[test]
fn an_atomic_write_puts_8_bytes_in_place() {
    for inline in [false, true] {
        let mut pair = Pair::new();
        pair.a.memory.put(0, &0x0102_0304_0506_0708u64.to_ne_bytes());
        let op = SendOp::AtomicWrite { va: Arena::BASE + 40, rkey: pair.b.keys.rkey };
        let source = pair.a.sge(0, 8);
        let mut request = wr(1, op, &[source]);
        if inline {
            request.payload = Payload::Inline(0x0102_0304_0506_0708u64.to_ne_bytes().into_iter().collect());
        }
        pair.a.post_send(0, request);
        pair.run();
        assert_eq!(pair.a.completions[0].wc.opcode, WcOpcode::AtomicWrite);
        assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
        assert_eq!(pair.b.memory.get(40, 8), 0x0102_0304_0506_0708u64.to_ne_bytes());
        assert_eq!(pair.b.memory.get(48, 8), [0; 8]);
    }
}

#[test]
fn the_packets_are_those_of_the_annex() {
    let mut solo = Solo::with(setup());
    let flush = Flush { placement: PERSISTENT, length: Some(96) };
    solo.end.post_send(0, wr(1, SendOp::Flush { va: Arena::BASE + 64, rkey: 7, flush }, &[]));
    solo.tx(flush_shot(0, 7, Feth::new(FlushSelectivity::Range, false, true), 96)).idle();
    solo.rx(read_only(0, 0, 1));
    let all = Flush { placement: GLOBAL, length: None };
    solo.end.post_send(0, wr(2, SendOp::Flush { va: Arena::BASE + 64, rkey: 7, flush: all }, &[]));
    solo.tx(flush_shot(1, 7, Feth::new(FlushSelectivity::MemoryRegion, true, false), 0)).idle();
    solo.rx(read_only(1, 0, 2));
    let source = solo.end.sge(0, 8);
    solo.end.post_send(0, wr(3, SendOp::AtomicWrite { va: Arena::BASE + 8, rkey: 7 }, &[source]));
    solo.tx(atomic_write_shot(2, 8, 7)).idle();
    solo.rx(read_only(2, 0, 3));
    assert_eq!(solo.end.sent(), [1, 2, 3].map(|wr_id| (wr_id, WcStatus::Success)));
}

#[test]
fn they_count_as_outstanding_reads_and_a_fence_waits_for_them() {
    let mut solo = Solo::with(Setup { max_rd_atomic: 2, ..setup() });
    for wr_id in 1..=3 {
        solo.end.post_send(0, wr(wr_id, flush_op(7, 64, None, GLOBAL), &[]));
    }
    let feth = Feth::new(FlushSelectivity::MemoryRegion, true, false);
    solo.tx(flush_shot(0, 7, feth, 0)).tx(flush_shot(1, 7, feth, 0)).idle();
    solo.rx(read_only(0, 0, 1)).tx(flush_shot(2, 7, feth, 0)).idle();
    let source = solo.end.sge(0, 8);
    let fenced = SendWr { flags: SendFlags::SIGNALED | SendFlags::FENCE, ..wr(4, SendOp::Send, &[source]) };
    solo.end.post_send(0, fenced);
    solo.idle().rx(read_only(1, 0, 2)).idle();
    solo.rx(read_only(2, 0, 3));
    solo.tx_payload();
    let mut solo = Solo::with(Setup { max_rd_atomic: 0, ..setup() });
    solo.end.post_send(0, wr(1, flush_op(7, 0, None, GLOBAL), &[]));
    solo.idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::LocQpOpErr)]);
}

#[test]
fn responses_that_do_not_fit_are_bad() {
    let flush = |solo: &mut Solo| solo.end.post_send(0, wr(1, flush_op(7, 0, None, GLOBAL), &[]));
    for bad in [read_only(0, 4, 1), read_only(0, 4, 1).opcode(Opcode::RC_ATOMIC_ACK)] {
        let mut solo = Solo::with(setup());
        flush(&mut solo);
        solo.skip();
        solo.rx(bad);
        assert_eq!(solo.end.sent(), [(1, WcStatus::BadRespErr)]);
    }
}

#[test]
fn an_atomic_write_of_another_length_is_not_sent() {
    for length in [0, 4, 16] {
        let mut pair = Pair::new();
        let op = SendOp::AtomicWrite { va: Arena::BASE, rkey: pair.b.keys.rkey };
        let source = pair.a.sge(0, length);
        pair.a.post_send(0, wr(1, op, &[source]));
        pair.run();
        assert_eq!(pair.a.sent(), [(1, WcStatus::LocLenErr)]);
    }
    let mut pair = Pair::new();
    let op = SendOp::AtomicWrite { va: Arena::BASE, rkey: pair.b.keys.rkey };
    let foreign = ferroce_core::Sge { lkey: 99, ..pair.a.sge(0, 8) };
    pair.a.post_send(0, wr(1, op, &[foreign]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::LocProtErr)]);
}

#[test]
fn rights_of_the_qp_and_of_the_region_are_told_apart() {
    let op = |rkey, placement| flush_op(rkey, 64, Some(8), placement);
    for (of_qp, of_region, placement, status) in [
        (FLUSH_BOTH, FLUSH_BOTH, GLOBAL | PERSISTENT, WcStatus::Success),
        (AccessFlags::FLUSH_GLOBAL, FLUSH_BOTH, GLOBAL, WcStatus::Success),
        (AccessFlags::FLUSH_GLOBAL, FLUSH_BOTH, PERSISTENT, WcStatus::RemInvReqErr),
        (ALL_ACCESS, FLUSH_BOTH, GLOBAL, WcStatus::RemInvReqErr),
        (FLUSH_BOTH, AccessFlags::FLUSH_GLOBAL, PERSISTENT, WcStatus::RemAccessErr),
        (FLUSH_BOTH, AccessFlags::FLUSH_PERSISTENT, GLOBAL, WcStatus::RemAccessErr),
        (FLUSH_BOTH, ALL_ACCESS, GLOBAL, WcStatus::RemAccessErr),
    ] {
        let mut pair = Pair::with(setup(), Setup { access: of_qp, ..Setup::default() });
        let rkey = region(&mut pair.b, of_region).rkey;
        pair.a.post_send(0, wr(1, op(rkey, placement), &[]));
        pair.run();
        assert_eq!(pair.a.sent(), [(1, status)], "{of_qp:?} {of_region:?} {placement:?}");
        assert_eq!(pair.b.memory.flushed().len(), usize::from(status == WcStatus::Success));
    }
    for (of_qp, of_region, status) in [
        (AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_WRITE, WcStatus::Success),
        (AccessFlags::REMOTE_ATOMIC, AccessFlags::REMOTE_WRITE, WcStatus::RemInvReqErr),
        (AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_ATOMIC, WcStatus::RemAccessErr),
    ] {
        let mut pair = Pair::with(Setup::default(), Setup { access: of_qp, ..Setup::default() });
        let rkey = region(&mut pair.b, of_region | AccessFlags::LOCAL_WRITE).rkey;
        let source = pair.a.sge(0, 8);
        pair.a.post_send(0, wr(1, SendOp::AtomicWrite { va: Arena::BASE, rkey }, &[source]));
        pair.run();
        assert_eq!(pair.a.sent(), [(1, status)], "{of_qp:?} {of_region:?}");
    }
}

#[test]
fn a_flush_needs_a_key_and_a_range_even_of_no_bytes() {
    for (rkey_flip, offset, length) in
        [(1, 64, Some(8)), (1, 64, Some(0)), (1, 0, None), (0, 4090, Some(8)), (0, 4097, Some(0))]
    {
        let mut pair = Pair::with(setup(), setup());
        let rkey = region(&mut pair.b, FLUSH_BOTH).rkey ^ rkey_flip;
        pair.a.post_send(0, wr(1, flush_op(rkey, offset, length, GLOBAL), &[]));
        pair.run();
        assert_eq!(pair.a.sent(), [(1, WcStatus::RemAccessErr)], "{rkey_flip} {offset} {length:?}");
        assert_eq!(pair.b.asyncs.last(), Some(&AsyncEvent::QpAccessErr(pair.b.qpn)));
        assert_eq!(pair.b.memory.flushed(), []);
    }
}

#[test]
fn a_flush_through_a_window_covers_the_window() {
    let mut pair = Pair::with(setup(), setup());
    let lkey = region(&mut pair.b, FLUSH_BOTH | AccessFlags::MW_BIND).lkey;
    let rkey = pair.b.device.alloc_mw(PD, MwType::Type2).expect("a window");
    let bind = MwBind { lkey, addr: Arena::BASE + 256, length: 128, access: AccessFlags::FLUSH_GLOBAL };
    pair.b.post_send(0, wr(1, SendOp::BindMw { rkey, bind }, &[]));
    pair.run();
    pair.a.post_send(pair.now, wr(1, flush_op(rkey, 0, None, GLOBAL), &[]));
    pair.a.post_send(pair.now, wr(2, flush_op(rkey, 300, Some(84), GLOBAL), &[]));
    pair.a.post_send(pair.now, wr(3, flush_op(rkey, 300, Some(85), GLOBAL), &[]));
    pair.run();
    assert_eq!(pair.b.memory.flushed(), [(256, 128, false), (300, 84, false)]);
    let statuses = [(1, WcStatus::Success), (2, WcStatus::Success), (3, WcStatus::RemAccessErr)];
    assert_eq!(pair.a.sent(), statuses);
}

#[test]
fn flushes_that_ask_for_nothing_or_for_what_is_not_defined_are_refused() {
    for feth in [
        Feth::new(FlushSelectivity::Range, false, false),
        Feth::new(FlushSelectivity::Reserved(2), true, false),
        Feth::new(FlushSelectivity::Reserved(3), true, true),
    ] {
        let (mut solo, rkey) = flush_responder();
        solo.rx(flush_shot(0, rkey, feth, 8)).tx(nak(0, 0, NakCode::InvalidRequest)).idle();
        assert_eq!(solo.end.state(), QpState::Err);
        assert_eq!(solo.end.memory.flushed(), []);
    }
}

#[test]
fn atomic_writes_that_are_misaligned_or_of_another_length_are_refused() {
    // rxe stored 8 bytes of its own when a peer sent none: linux-rdma 0dddafcdb.
    let rkey = Solo::new().rkey();
    let announcing = |length| {
        let shot = atomic_write_shot(0, 0, rkey);
        shot.header(|header| header.reth(Arena::BASE, rkey, length))
    };
    let bad = [
        atomic_write_shot(0, 4, rkey),
        atomic_write_shot(0, 0, rkey).len(0),
        atomic_write_shot(0, 0, rkey).len(4),
        atomic_write_shot(0, 0, rkey).len(12),
        announcing(0),
        announcing(16),
    ];
    for shot in bad {
        let mut solo = Solo::new();
        solo.rx(shot).tx(nak(0, 0, NakCode::InvalidRequest)).idle();
        assert_eq!(solo.end.asyncs.last(), Some(&AsyncEvent::QpReqErr(solo.end.qpn)));
        assert_eq!(solo.end.memory.get(0, 24), [0; 24]);
    }
}

#[test]
fn a_duplicate_is_answered_and_not_executed() {
    let (mut solo, rkey) = flush_responder();
    let feth = Feth::new(FlushSelectivity::Range, true, false);
    solo.rx(atomic_write_shot(0, 8, rkey)).tx(read_only(0, 0, 1));
    solo.rx(flush_shot(1, rkey, feth, 8)).tx(read_only(1, 0, 2)).idle();
    solo.end.memory.put(8, &[0xee; 8]);
    assert_eq!(solo.end.memory.flushed().len(), 1);
    solo.rx(atomic_write_shot(0, 8, rkey)).tx(read_only(0, 0, 1)).idle();
    solo.rx(flush_shot(1, rkey, feth, 8)).tx(read_only(1, 0, 2)).idle();
    assert_eq!(solo.end.memory.get(8, 8), [0xee; 8]);
    assert_eq!(solo.end.memory.flushed(), []);
    // Not the same requests.
    solo.rx(atomic_write_shot(0, 16, rkey)).rx(flush_shot(0, rkey, feth, 8)).idle();
    assert_eq!(solo.counter(Counter::DropDuplicate), 2);
    assert_eq!(solo.end.state(), QpState::Rts);
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    let mut pair = Pair::with(setup(), setup());
    let rkey = region(&mut pair.b, ALL_ACCESS | FLUSH_BOTH).rkey;
    let mut lost = 0;
    pair.rule(move |_, packet| {
        let is_answer = packet.opcode().operation() == Operation::ReadResponse;
        lost += u32::from(is_answer);
        if is_answer && lost <= 2 { Fate::Drop } else { Fate::Pass }
    });
    pair.a.memory.put(0, &[9; 8]);
    let source = pair.a.sge(0, 8);
    pair.a.post_send(0, wr(1, SendOp::AtomicWrite { va: Arena::BASE + 8, rkey }, &[source]));
    pair.a.post_send(0, wr(2, flush_op(rkey, 8, Some(8), PERSISTENT), &[]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert_eq!(pair.b.memory.get(8, 8), [9; 8]);
    assert_eq!(pair.b.memory.flushed(), [(8, 8, true)]);
}

#[test]
fn only_rc_has_them() {
    let flush = flush_op(7, 0, None, GLOBAL);
    for qp_type in [QpType::Uc, QpType::Ud, QpType::XrcIni, QpType::XrcTgt] {
        assert!(!flush.is_sent_by(qp_type));
        assert!(!SendOp::AtomicWrite { va: 0, rkey: 0 }.is_sent_by(qp_type));
    }
    assert!(flush.is_sent_by(QpType::Rc));
}
