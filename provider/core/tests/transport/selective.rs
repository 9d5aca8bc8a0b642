//! Selective repeat between two ends that agreed on it, and that nobody else ever sees it.

use crate::end::{Setup, wr};
use crate::loss::mixed;
use crate::pair::{Fate, Pair, Way};
use crate::shot::{
    RKEY, ack, nak_seq, read_only, rnr_nak, send_first, send_last, send_middle, send_only, write_only,
};
use crate::solo::{Solo, packets};
use crate::workload::{Job, Workload, arena_for, bad_link};
use ferroce_core::{
    Counter, Counters, PathMtu, Profile, QpState, QpType, SelectiveRepeatError, SendOp, WcStatus,
};
use ferroce_wire::{Opcode, Packet, PacketHeader};
use proptest::prelude::*;

fn able() -> Profile {
    Profile { selective_repeat: true, ..Profile::default() }
}

fn agreed() -> Setup {
    Setup { selective: true, profile: able(), mtu: PathMtu::Mtu256, retry_cnt: 7, ..Setup::default() }
}

fn pair_for(jobs: usize, a: Setup, b: Setup) -> Pair {
    let wrapping = |setup| Setup { sq_psn: 0xff_fff0, rq_psn: 0xff_fff0, ..setup };
    Pair::sized(wrapping(a), wrapping(b), arena_for(jobs))
}

fn counters(pair: &Pair) -> &Counters {
    pair.a.device.counters()
}

/// Drops the request packets of a that have these numbers, counted from 0 as they are sent.
fn lose(numbers: &'static [usize]) -> impl FnMut(Way, &Packet<'_>) -> Fate {
    let mut sent = 0;
    move |way, packet| {
        let counts = way == Way::AtoB && packet.opcode().is_request();
        sent += usize::from(counts);
        if counts && numbers.contains(&(sent - 1)) { Fate::Drop } else { Fate::Pass }
    }
}

#[test]
fn only_what_was_lost_is_sent_again() {
    for job in [Job::Write(16_000), Job::Send(16_000)] {
        let mut pair = pair_for(1, agreed(), agreed());
        pair.rule(lose(&[3, 9, 10, 30]));
        Workload::new(vec![job], vec![]).run(&mut pair);
        assert_eq!(counters(&pair).get(Counter::RetransmittedPackets), 4, "{job:?}");
        assert_eq!(counters(&pair).get(Counter::LocalAckTimeoutErr), 0);
        assert_eq!(pair.b.device.counters().get(Counter::DuplicateRequest), 0);
        assert_eq!(pair.b.device.counters().get(Counter::DropOutOfSequence), 0);
    }
}

#[test]
fn what_is_lost_again_is_missed_again_without_a_timeout() {
    let mut pair = pair_for(1, agreed(), agreed());
    // The third packet, and its repetition, which follows the first window.
    let mut seen = 0;
    pair.rule(move |way, packet| {
        let is_it = way == Way::AtoB && packet.bth().psn().value() == 0xff_fff2;
        seen += u32::from(is_it);
        if is_it && seen < 3 { Fate::Drop } else { Fate::Pass }
    });
    Workload::new(vec![Job::Write(16_000)], vec![]).run(&mut pair);
    assert_eq!(counters(&pair).get(Counter::RetransmittedPackets), 2);
    assert_eq!(counters(&pair).get(Counter::LocalAckTimeoutErr), 0);
}

#[test]
fn a_little_reordering_costs_nothing() {
    for late in [1, 2] {
        let mut pair = pair_for(1, agreed(), agreed());
        let mut seen = 0;
        pair.rule(move |way, _| {
            seen += u32::from(way == Way::AtoB);
            if way == Way::AtoB && seen % 7 == 5 { Fate::Late(late) } else { Fate::Pass }
        });
        Workload::new(vec![Job::Send(16_000)], vec![]).run(&mut pair);
        assert_eq!(counters(&pair).get(Counter::LocalAckTimeoutErr), 0);
        // Bursts leave in one moment here, so all of a burst overtakes; but nothing is sent more than twice.
        let late_ones = pair.traced("Late") as u64;
        assert!(counters(&pair).get(Counter::RetransmittedPackets) <= late_ones);
    }
}

#[test]
fn a_tail_that_was_lost_is_found_by_the_timeout_alone() {
    let mut pair = pair_for(1, agreed(), agreed());
    // The last of 63 packets, behind one that was sent again.
    pair.rule(lose(&[5, 63]));
    Workload::new(vec![Job::Write(16_000)], vec![]).run(&mut pair);
    assert_eq!(counters(&pair).get(Counter::LocalAckTimeoutErr), 1);
    assert_eq!(counters(&pair).get(Counter::RetransmittedPackets), 2);
}

fn gap_report(psn: u32, msn: u32, places: &[u32]) -> crate::shot::Shot {
    let mut bytes = vec![0; places.iter().max().map_or(0, |last| (last / 32 + 1) as usize * 4)];
    for place in places {
        bytes[(place - 1) as usize / 8] |= 1 << ((place - 1) % 8);
    }
    let mut shot = nak_seq(psn, msn);
    shot.payload = bytes;
    shot
}

/// Decision 0007: what the responder says.
#[test]
fn a_gap_is_reported_with_what_is_behind_it() {
    let mut solo = Solo::with(agreed());
    let rkey = solo.rkey();
    solo.rx(write_only(0, 0, rkey, 16)).tx(ack(0, 1)).idle();
    solo.rx(write_only(2, 32, rkey, 16)).tx(gap_report(1, 1, &[1]));
    assert_eq!(solo.end.memory.get(32, 1), [0], "it is not executed");
    solo.rx(write_only(10, 96, rkey, 16));
    let report = solo.tx_payload();
    assert_eq!(report, [1, 1, 0, 0]);
    solo.rx(write_only(2, 32, rkey, 16)).tx(gap_report(1, 1, &[1, 9]));
    solo.rx(write_only(1, 16, rkey, 16)).tx(gap_report(3, 3, &[7]));
    for psn in 3..9 {
        solo.rx(write_only(psn, 64, rkey, 16)).skip();
    }
    solo.rx(write_only(9, 64, rkey, 16)).tx(ack(10, 11)).idle();
    let bytes: Vec<u8> = (0..16).collect();
    for offset in [0, 16, 32, 64, 96] {
        assert_eq!(solo.end.memory.get(offset, 16), bytes, "at {offset}");
    }
}

#[test]
fn what_is_too_far_ahead_is_dropped_and_naked() {
    let mut solo = Solo::with(agreed());
    let rkey = solo.rkey();
    solo.rx(write_only(513, 0, rkey, 16)).tx(nak_seq(0, 0)).idle();
    solo.rx(write_only(512, 0, rkey, 16));
    assert_eq!(solo.tx_payload().len(), 64);
    assert_eq!(solo.counter(Counter::OutOfSequence), 2);
}

/// And what the requester makes of it.
#[test]
fn holes_are_filled_once_and_bitmaps_without_meaning_do_no_harm() {
    let mut solo = Solo::with(Setup { selective: true, profile: able(), ..Setup::default() });
    solo.post_send(1, packets(8)).tx(send_first(0));
    for psn in 1..7 {
        solo.tx(send_middle(psn));
    }
    solo.tx(send_last(7, 256)).idle();
    solo.rx(gap_report(1, 0, &[1, 3])).tx(send_middle(1).ask()).tx(send_middle(3).ask()).idle();
    // The same again, more than was sent, and what is older.
    solo.rx(gap_report(1, 0, &[1, 3])).idle();
    solo.rx(gap_report(1, 0, &[400, 511])).idle();
    solo.rx(gap_report(0, 0, &[1])).idle();
    // The second of the two has arrived, and the first has not.
    solo.rx(gap_report(1, 0, &[1, 2, 3])).tx(send_middle(1).ask()).idle();
    solo.rx(ack(7, 1));
    assert_eq!(solo.end.sent(), [(1, WcStatus::Success)]);
    assert_eq!(
        solo.end.device.snapshot(solo.end.qpn).and_then(|qp| qp.requester).map(|it| it.in_flight),
        Some(0)
    );
}

#[test]
fn a_gap_that_is_reported_costs_no_retry_and_a_timeout_does() {
    let mut solo = Solo::with(Setup { selective: true, profile: able(), retry_cnt: 0, ..Setup::default() });
    solo.post_send(1, packets(8));
    assert_eq!(solo.skip(), 8);
    solo.rx(gap_report(0, 0, &[3]))
        .tx(send_first(0).ask())
        .tx(send_middle(1).ask())
        .tx(send_middle(2).ask())
        .idle();
    // What was sent again after it has arrived.
    solo.rx(gap_report(0, 0, &[1, 3])).tx(send_first(0).ask()).idle();
    solo.rx(gap_report(0, 0, &[1, 2, 3])).idle();
    assert_eq!(solo.end.sent(), []);
    solo.at(solo.now + 10_000_000);
    assert_eq!(solo.end.sent(), [(1, WcStatus::RetryExcErr)]);
}

#[test]
fn an_rnr_wait_begins_anew_with_the_oldest() {
    let mut solo = Solo::with(Setup { selective: true, profile: able(), ..Setup::default() });
    solo.post_send(1, 10).post_send(2, 10).post_send(3, 10).skip();
    solo.rx(gap_report(1, 1, &[1])).tx(send_only(1, 10)).idle();
    solo.rx(rnr_nak(1, 1, 1)).idle();
    solo.rx(gap_report(1, 1, &[1])).idle();
    solo.at(solo.now + 10_000).tx(send_only(1, 10)).tx(send_only(2, 10)).idle();
    solo.rx(ack(2, 3));
    assert_eq!(solo.end.sent(), [1, 2, 3].map(|wr_id| (wr_id, WcStatus::Success)));
}

#[test]
fn a_receive_that_is_missing_behind_a_gap_is_waited_for() {
    let mut pair =
        pair_for(1, Setup { min_rnr_timer: 1, ..agreed() }, Setup { min_rnr_timer: 1, ..agreed() });
    pair.rule(lose(&[0]));
    let sge = pair.a.sge(0, 100);
    for wr_id in 0..3 {
        pair.a.post_send(0, wr(wr_id, SendOp::Send, &[sge]));
    }
    let into = pair.b.sge(4096, 100);
    pair.b.post_recv(0, 0, &[into]);
    pair.run_until(50_000);
    assert_eq!(pair.b.received().len(), 1, "the others found no receive WQE");
    for wr_id in 1..3 {
        pair.b.post_recv(pair.now, wr_id, &[into]);
    }
    pair.run();
    assert_eq!(pair.a.sent(), [0, 1, 2].map(|wr_id| (wr_id, WcStatus::Success)));
    assert!(counters(&pair).get(Counter::RnrNakRetryErr) > 0);
}

#[test]
fn memory_that_goes_away_fails_the_request_in_its_turn() {
    let mut solo = Solo::with(Setup { selective: true, profile: able(), ..Setup::default() });
    solo.post(1, SendOp::Write { va: 0, rkey: RKEY }, 16).post_send(2, packets(3)).skip();
    solo.end.device.deregister(solo.end.keys.lkey).expect("the region");
    solo.rx(gap_report(0, 0, &[2, 3])).idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(solo.end.state(), QpState::Err);
}

/// What each end sends, byte for byte, over a link that loses, repeats, delays and damages.
fn transcript(setup: Setup, seed: u64) -> Vec<String> {
    let mut pair = pair_for(40, setup.clone(), setup);
    pair.rule(bad_link(seed, 20));
    pair.keep_bytes();
    Workload::new(mixed(seed, 40), mixed(seed + 1, 40)).run(&mut pair);
    std::mem::take(&mut pair.trace)
}

/// Nobody who has not agreed sees any of it: a device that could do it sends the same bytes at the same moments as
/// one that cannot.
#[test]
fn a_peer_without_it_gets_the_same_bytes_as_ever() {
    let never = |profile| Setup { profile, mtu: PathMtu::Mtu1024, retry_cnt: 7, ..Setup::default() };
    for seed in 1..12 {
        let (able, unable) = (transcript(never(able()), seed), transcript(never(Profile::default()), seed));
        assert!(able == unable, "seed {seed}");
        assert!(able.iter().any(|line| line.contains("Drop")));
        assert!(able.iter().all(|line| !is_gap_report(line)), "seed {seed}");
    }
    let repeating = transcript(Setup { mtu: PathMtu::Mtu1024, ..agreed() }, 1);
    assert!(repeating.iter().any(|line| is_gap_report(line)), "it would have been seen");
}

/// A NAK with a payload, in a trace with bytes: BTH, AETH and ICRC take 20.
fn is_gap_report(line: &str) -> bool {
    let bytes = line.rsplit(' ').next().expect("the bytes come last");
    let opcode = PacketHeader::new(Opcode::RC_ACKNOWLEDGE, Default::default(), Default::default());
    bytes.starts_with("11") && bytes.len() > 2 * opcode.packet_len(0)
}

/// Whoever is wrong about the peer loses nothing but the gain.
#[test]
fn one_end_alone_goes_back_n() {
    let plain = Setup { mtu: PathMtu::Mtu256, retry_cnt: 7, ..Setup::default() };
    for (a, b) in [(agreed(), plain.clone()), (plain.clone(), agreed())] {
        let mut pair = pair_for(40, a, b);
        pair.rule(bad_link(3, 20));
        Workload::new(mixed(5, 40), mixed(6, 40)).run(&mut pair);
    }
}

#[test]
fn it_is_agreed_upon_before_rtr_or_not_at_all() {
    let mut solo = Solo::new();
    assert_eq!(solo.end.device.repeat_selectively(solo.end.qpn), Err(SelectiveRepeatError::Off));
    let mut solo = Solo::with(Setup { profile: able(), ..Setup::default() });
    let qpn = solo.end.qpn;
    let late = SelectiveRepeatError::Connected { state: QpState::Rts };
    assert_eq!(solo.end.device.repeat_selectively(qpn), Err(late));
    let unknown = ferroce_wire::Qpn::new(qpn.value() + 1);
    let error = SelectiveRepeatError::UnknownQp { qpn: unknown };
    assert_eq!(solo.end.device.repeat_selectively(unknown), Err(error));
    for qp_type in [QpType::Uc, QpType::Ud] {
        let mut solo = Solo::with(Setup { profile: able(), ..Setup::of(qp_type) });
        let qpn = solo.end.qpn;
        let error = SelectiveRepeatError::Unreliable { qp_type };
        assert_eq!(solo.end.device.repeat_selectively(qpn), Err(error));
    }
    // A reset ends the agreement.
    let mut solo = Solo::with(agreed());
    solo.end.enter(0, QpState::Reset);
    solo.end.enter_init();
    solo.end.enter_rtr(crate::solo::PEER, crate::solo::PEER_QPN);
    let rkey = solo.rkey();
    solo.rx(write_only(2, 0, rkey, 16)).tx(nak_seq(0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Every byte, value and completion is right, whatever the link does.
    #[test]
    fn a_bad_link_loses_nothing(seed in any::<u64>(), one_in in 15u64..100) {
        let setup = Setup { mtu: PathMtu::Mtu1024, ..agreed() };
        let mut pair = pair_for(40, setup.clone(), setup);
        pair.rule(bad_link(seed, one_in));
        Workload::new(mixed(seed, 40), mixed(seed ^ 1, 40)).run(&mut pair);
    }
}

/// Found by the fuzzer: everything has arrived, but the acknowledgement is lost, and nothing is known to be missing.
#[test]
fn an_acknowledgement_that_was_lost_is_asked_for_again() {
    let mut solo = Solo::with(Setup { selective: true, profile: able(), ..Setup::default() });
    solo.post(1, SendOp::Read { va: 0, rkey: RKEY }, 100).post(2, SendOp::Write { va: 0, rkey: RKEY }, 16);
    assert_eq!(solo.skip(), 2);
    solo.rx(gap_report(0, 0, &[1]));
    assert_eq!(solo.skip(), 1, "the READ");
    solo.rx(read_only(0, 100, 1)).idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::Success)]);
    let timeout = solo.end.device.poll_timeout().expect("the WRITE is not acknowledged");
    solo.at(timeout);
    assert_eq!(solo.skip(), 1, "the WRITE");
    solo.rx(ack(1, 2));
    assert_eq!(solo.end.sent(), [(2, WcStatus::Success)]);
}
