//! Links that lose, repeat, reorder and damage packets.

use crate::arena::Arena;
use crate::end::{Setup, wr};
use crate::pair::{Fate, Pair, Way};
use crate::workload::{Chance, Job, Workload, arena_for, bad_link};
use ferroce_core::{Counter, PathMtu, SendOp, WcStatus};
use ferroce_wire::{Opcode, Packet};
use proptest::prelude::*;

/// Drops the `n`-th packet of `opcode` (from 0) and nothing else.
fn drop_nth(opcode: Opcode, n: usize) -> impl FnMut(Way, &Packet<'_>) -> Fate {
    let mut seen = 0;
    move |_, packet| {
        if packet.opcode() != opcode {
            return Fate::Pass;
        }
        seen += 1;
        if seen == n + 1 { Fate::Drop } else { Fate::Pass }
    }
}

fn pair_for(jobs: usize, mtu: PathMtu) -> Pair {
    let setup = Setup { mtu, retry_cnt: 7, sq_psn: 0xff_fff0, rq_psn: 0xff_fff0, ..Setup::default() };
    Pair::sized(setup.clone(), setup, arena_for(jobs))
}

/// Every single loss of a packet of every kind, with what follows it (transport.md 6.1 points 29 and 35).
#[test]
fn any_single_loss_is_repaired() {
    let jobs = [
        Job::Send(3000),
        Job::WriteImm(3000),
        Job::Read(5000),
        Job::FetchAdd,
        Job::SendImm(10),
        Job::Write(2048),
    ];
    let mut lost = 0;
    for opcode in Opcode::all() {
        for n in 0..4 {
            let mut pair = pair_for(jobs.len(), PathMtu::Mtu1024);
            pair.rule(drop_nth(opcode, n));
            Workload::new(jobs.to_vec(), vec![]).run(&mut pair);
            lost += pair.traced("Drop");
        }
    }
    assert!(lost >= 18, "only {lost} packets were there to lose");
}

/// Handed case D4.
#[test]
fn an_atomic_whose_answer_was_lost_is_done_once() {
    let mut pair = pair_for(2, PathMtu::Mtu1024);
    pair.rule(drop_nth(Opcode::RC_ATOMIC_ACK, 0));
    Workload::new(vec![Job::FetchAdd, Job::FetchAdd], vec![]).run(&mut pair);
    assert_eq!(pair.b.device.counters().get(Counter::DuplicateRequest), 2);
}

/// Handed case D9.
#[test]
fn a_write_that_lost_a_middle_packet_arrives_whole() {
    let mut pair = pair_for(1, PathMtu::Mtu1024);
    pair.rule(drop_nth(Opcode::RC_WRITE_MIDDLE, 1));
    Workload::new(vec![Job::Write(4096)], vec![]).run(&mut pair);
    assert_eq!(pair.traced("nak"), 1);
    assert_eq!(pair.traced("RC_WRITE_FIRST"), 1);
    assert_eq!(pair.a.device.counters().get(Counter::LocalAckTimeoutErr), 0);
}

#[test]
fn a_request_out_of_order_costs_a_nak_and_no_timeout() {
    for late in [1, 2, 64] {
        let mut pair = pair_for(1, PathMtu::Mtu256);
        let mut seen = 0;
        pair.rule(move |way, _| {
            seen += u32::from(way == Way::AtoB);
            if way == Way::AtoB && seen == 5 { Fate::Late(late) } else { Fate::Pass }
        });
        Workload::new(vec![Job::Send(16_000)], vec![]).run(&mut pair);
        assert_eq!(pair.a.device.counters().get(Counter::LocalAckTimeoutErr), 0);
        assert_eq!(pair.a.device.counters().get(Counter::PacketSeqErr), 1);
    }
}

#[test]
fn packets_that_all_come_twice_change_nothing() {
    let mut pair = pair_for(60, PathMtu::Mtu1024);
    pair.rule(|_, _| Fate::Duplicate);
    Workload::new(mixed(1, 60), mixed(2, 60)).run(&mut pair);
    assert_eq!(pair.a.device.counters().get(Counter::LocalAckTimeoutErr), 0);
}

#[test]
fn damaged_packets_are_dropped_and_sent_again() {
    let mut pair = pair_for(1, PathMtu::Mtu1024);
    let mut seen = 0;
    pair.rule(move |_, _| {
        seen += 1;
        if seen == 3 { Fate::Corrupt } else { Fate::Pass }
    });
    Workload::new(vec![Job::Write(10_000)], vec![]).run(&mut pair);
    assert_eq!(pair.b.device.counters().get(Counter::DropIcrc), 1);
}

pub fn mixed(seed: u64, count: usize) -> Vec<Job> {
    let mut chance = Chance::new(seed);
    (0..count)
        .map(|_| {
            let len = (chance.next() % 12_000) as u32;
            match chance.next() % 6 {
                0 => Job::Send(len),
                1 => Job::SendImm(len),
                2 => Job::Write(len),
                3 => Job::WriteImm(len),
                4 => Job::Read(len),
                _ => Job::FetchAdd,
            }
        })
        .collect()
}

/// Handed case D23, first half: 1 % each of loss, duplication, delay and damage, both ways.
#[test]
fn a_bad_link_delivers_everything_once_and_in_order() {
    for seed in 0..8 {
        let mut pair = pair_for(300, PathMtu::Mtu1024);
        pair.rule(bad_link(seed, 100));
        Workload::new(mixed(seed, 300), mixed(seed + 1000, 300)).run(&mut pair);
    }
}

/// Handed case D23, second half.
#[test]
fn a_dead_link_ends_after_one_timeout_more_than_retries() {
    let mut pair = pair_for(1, PathMtu::Mtu1024);
    let timeout = 4096 << pair.a.setup.timeout;
    pair.rule(|_, _| Fate::Drop);
    pair.a.post_send(0, wr(1, SendOp::Send, &[]));
    // The first is nominal, the second twice that, all others as long as ConnectX takes at least.
    let end = (1 + 2) * timeout + 6 * 2 * (4096 << 16);
    pair.run_until(end - 1);
    assert_eq!(pair.a.sent(), []);
    pair.run();
    assert_eq!(pair.now, end);
    assert_eq!(pair.a.sent(), [(1, WcStatus::RetryExcErr)]);
    assert_eq!(pair.trace.len(), 8);
}

/// Handed case D7, between two ends.
#[test]
fn a_slow_receiver_is_waited_for_as_long_as_it_takes() {
    let slow = Setup { min_rnr_timer: 14, ..Setup::default() };
    let mut pair = Pair::with(Setup { timeout: 1, ..Setup::default() }, slow);
    let source = pair.a.sge(0, 5000);
    pair.a.post_send(0, wr(1, SendOp::Send, &[source]));
    pair.run_until(100_000_000);
    assert_eq!(pair.a.device.counters().get(Counter::LocalAckTimeoutErr), 0);
    assert!((60..=100).contains(&pair.traced("rnr nak")), "{}", pair.traced("rnr nak"));
    let target = pair.b.sge(0, 5000);
    pair.b.post_recv(pair.now, 2, &[target]);
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
    assert_eq!(pair.b.received().len(), 1);
}

/// A window in flight that loses one packet is repaired by the NAK, without a timeout.
#[test]
fn a_stream_recovers_from_loss_without_timeouts() {
    let mut pair = Pair::sized(Setup::default(), Setup::default(), 1 << 22);
    let mut sent = 0;
    pair.rule(move |way, packet| {
        sent += u32::from(way == Way::AtoB);
        // Not the tail, and never a packet that was lost before.
        if way == Way::AtoB && sent % 211 == 0 && packet.bth().psn().value() < 3000 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    let (rkey, source) = (pair.b.keys.rkey, pair.a.sge(0, 1 << 20));
    for wr_id in 0..4 {
        pair.a.post_send(0, wr(wr_id, SendOp::Write { va: Arena::BASE, rkey }, &[source]));
    }
    pair.run();
    assert_eq!(pair.a.sent().len(), 4);
    let counters = pair.a.device.counters();
    assert!(counters.get(Counter::PacketSeqErr) >= 14);
    assert_eq!(counters.get(Counter::LocalAckTimeoutErr), 0);
    // Go-back-N with a window that shrinks: what is sent again stays a fraction.
    assert!(counters.get(Counter::RetransmittedPackets) < 1500);
}

fn job() -> impl Strategy<Value = Job> {
    let len = prop_oneof![Just(0), 1..300u32, 0..12_000u32];
    prop_oneof![
        len.clone().prop_map(Job::Send),
        len.clone().prop_map(Job::SendImm),
        len.clone().prop_map(Job::Write),
        len.clone().prop_map(Job::WriteImm),
        len.prop_map(Job::Read),
        Just(Job::FetchAdd),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is asked for over whatever link: every byte, every completion, once and in order.
    #[test]
    fn any_workload_over_any_link_completes(
        a in prop::collection::vec(job(), 0..40),
        b in prop::collection::vec(job(), 0..40),
        mtu in prop::sample::select(PathMtu::ALL.to_vec()),
        depth in 1..=5u8,
        faults in prop::sample::select(vec![20u64, 50, 200]),
        seed in any::<u64>(),
    ) {
        let setup = Setup {
            mtu,
            retry_cnt: 7,
            sq_psn: 0xff_ffe0,
            rq_psn: 0xff_ffe0,
            max_rd_atomic: depth,
            max_dest_rd_atomic: depth,
            ..Setup::default()
        };
        let mut pair = Pair::sized(setup.clone(), setup, arena_for(40));
        pair.rule(bad_link(seed, faults));
        Workload::new(a, b).run(&mut pair);
    }
}
