//! Congestion control: marks that are answered with CNPs, and CNPs that slow a QP down.

use crate::arena::Arena;
use crate::end::{SOURCE_PORT, Setup};
use crate::pair::Pair;
use crate::shot::{RKEY, Shot, ack, read_request, send_only, write_only};
use crate::solo::{PEER, Solo, packets};
use ferroce_core::{
    Counter, Dcqcn, Ipv4Id, Nanos, PacketMeta, Path, Profile, QpState, QpType, Reacts, SendOp, WcStatus,
};
use ferroce_wire::{Opcode, Packet};
use std::net::IpAddr;

const CE: u8 = 3;
/// What 256 bytes take on a link with their headers, as the reaction point counts it.
const PACKET_BITS: u64 = (256 + 82) * 8;

fn reacting() -> Setup {
    let dcqcn = Dcqcn { reacts: Reacts::OffHost, ..Dcqcn::default() };
    Setup { profile: Profile { dcqcn, ..Profile::default() }, ..Setup::default() }
}

/// The peer sends a packet that a switch has marked.
fn rx_marked(solo: &mut Solo, shot: &Shot) {
    rx_marked_from(solo, PEER, shot);
}

fn rx_marked_from(solo: &mut Solo, src: IpAddr, shot: &Shot) {
    let bytes = shot.bytes(src, solo.end.address, solo.end.qpn);
    let meta = PacketMeta {
        src,
        dst: solo.end.address,
        source_port: SOURCE_PORT,
        traffic_class: 0x68 | CE,
        icrc_checked: false,
        ip_id: Ipv4Id::Seen(0),
        continues: false,
    };
    solo.end.device.handle_packet(solo.now, &meta, &bytes, &solo.end.memory);
    solo.end.collect();
}

/// What it sends now, as opcodes, with the traffic class of each.
fn sent(solo: &mut Solo) -> Vec<(Opcode, u8)> {
    let packets = solo.end.transmit_with_paths(solo.now);
    packets
        .iter()
        .map(|(Path { traffic_class, .. }, bytes)| (parse(bytes).opcode(), *traffic_class))
        .collect()
}

fn parse(bytes: &[u8]) -> Packet<'_> {
    Packet::parse(bytes).expect("a packet")
}

fn cnp() -> Shot {
    ack(0, 0).opcode(Opcode::CNP)
}

/// CA17-44: what a CNP is made of.
#[test]
fn a_mark_is_answered_with_a_cnp() {
    let mut solo = Solo::new();
    solo.post_recv(1, 64);
    rx_marked(&mut solo, &send_only(0, 16).header(|header| header.pkey(0x7fff)));
    let packets = solo.end.transmit_with_paths(0);
    let opcodes: Vec<_> = packets.iter().map(|(_, bytes)| parse(bytes).opcode()).collect();
    assert_eq!(opcodes, [Opcode::CNP, Opcode::RC_ACKNOWLEDGE], "the message is acknowledged as ever");
    let (path, bytes) = &packets[0];
    assert_eq!((path.dst, path.traffic_class), (PEER, 48 << 2 | 2));
    let bth = parse(bytes).bth();
    assert_eq!((bth.dest_qpn(), bth.psn().value(), bth.pkey()), (crate::solo::PEER_QPN, 0, 0x7fff));
    assert!(bth.becn() && !bth.mig_req() && !bth.solicited() && !bth.ack_req());
    assert_eq!((bytes.len(), &bytes[12..28]), (32, &[0; 16][..]), "16 reserved bytes");
    assert_eq!(solo.counter(Counter::NpEcnMarkedRocePackets), 1);
    assert_eq!(solo.counter(Counter::NpCnpSent), 1);
    assert_eq!(solo.end.received().len(), 1);
}

#[test]
fn cnps_keep_their_distance_and_every_mark_is_counted() {
    let mut solo = Solo::new();
    for psn in 0..100 {
        solo.now = u64::from(psn) * 1_000;
        let write = write_only(psn, 0, solo.rkey(), 16);
        rx_marked(&mut solo, &write);
        let expected = if psn % 4 == 0 { vec![Opcode::CNP] } else { vec![] };
        let opcodes: Vec<_> = sent(&mut solo).into_iter().map(|(opcode, _)| opcode).collect();
        assert_eq!(opcodes, [expected, vec![Opcode::RC_ACKNOWLEDGE]].concat(), "at {} ns", solo.now);
    }
    assert_eq!(solo.counter(Counter::NpEcnMarkedRocePackets), 100);
    assert_eq!(solo.counter(Counter::NpCnpSent), 25);
}

/// C-2: what is wrong with the packet otherwise does not matter, as long as it is the peer's.
#[test]
fn packets_that_are_not_executed_are_answered_too() {
    let [duplicate, ahead, stale] = [write_only(0, 0, 0, 16), write_only(7, 0, 0, 16), ack(5, 0)];
    for shot in [duplicate, ahead, stale] {
        let mut solo = Solo::new();
        let first = write_only(0, 0, solo.rkey(), 16);
        solo.rx(first).skip();
        rx_marked(&mut solo, &shot);
        assert_eq!(sent(&mut solo)[0].0, Opcode::CNP, "{shot:?}");
    }
}

#[test]
fn strangers_get_no_cnp() {
    let mut solo = Solo::new();
    rx_marked_from(&mut solo, IpAddr::from([10, 0, 0, 98]), &write_only(0, 0, RKEY, 16));
    rx_marked(&mut solo, &write_only(0, 0, RKEY, 16).header(|header| header.pkey(0x1234)));
    rx_marked(&mut solo, &cnp());
    solo.idle();
    solo.end.enter(0, QpState::Err);
    rx_marked(&mut solo, &write_only(0, 0, RKEY, 16));
    solo.idle();
    assert_eq!(solo.counter(Counter::NpCnpSent), 0);
}

#[test]
fn a_notification_point_that_is_off_is_silent() {
    let dcqcn = Dcqcn { notifies: false, ..Dcqcn::default() };
    let mut solo = Solo::with(Setup { profile: Profile { dcqcn, ..Profile::default() }, ..Setup::default() });
    let write = write_only(0, 0, solo.rkey(), 16);
    rx_marked(&mut solo, &write);
    assert_eq!(sent(&mut solo), [(Opcode::RC_ACKNOWLEDGE, 0)]);
    assert_eq!(solo.counter(Counter::NpEcnMarkedRocePackets), 1);
}

#[test]
fn uc_answers_marks_and_datagrams_do_not() {
    let mut solo = Solo::with(Setup::of(QpType::Uc));
    let shot = write_only(0, 0, solo.rkey(), 16).in_service(ferroce_wire::Service::Uc);
    rx_marked(&mut solo, &shot);
    assert_eq!(sent(&mut solo), [(Opcode::CNP, 48 << 2 | 2)]);
    let mut solo = Solo::with(Setup::of(QpType::Ud));
    solo.post_recv(1, 128);
    let qkey = solo.end.setup.qkey;
    let datagram = send_only(0, 16)
        .opcode(Opcode::UD_SEND_ONLY)
        .header(|header| header.deth(qkey, crate::solo::PEER_QPN).ack_req(false))
        .len(16);
    rx_marked(&mut solo, &datagram);
    assert_eq!(solo.end.received().len(), 1);
    solo.idle();
}

#[test]
fn only_what_reacts_says_it_is_ecn_capable() {
    for (setup, class) in [(Setup::default(), 0), (reacting(), 2)] {
        let mut solo = Solo::with(setup);
        solo.post_send(1, 16);
        assert_eq!(sent(&mut solo), [(Opcode::RC_SEND_ONLY, class)]);
        let attr = solo.end.device.query_qp(solo.end.qpn).expect("the QP");
        assert_eq!(attr.av.map(|av| av.traffic_class), Some(0), "what was asked for is reported");
    }
}

/// W-47, and the first cut: half the line rate.
#[test]
fn a_cnp_spaces_packets_out_and_touches_nothing_else() {
    let mut solo = Solo::with(reacting());
    solo.post_send(1, packets(4));
    solo.rx(cnp());
    assert_eq!(solo.counter(Counter::RpCnpHandled), 1);
    let rate = rate(&solo).expect("it is held back");
    assert_eq!(rate, 100_000_000_000 - 100_000_000_000 * 1023 / 2048);
    let gap = |count: u64| (count * PACKET_BITS * 1_000_000_000).div_ceil(rate);
    for packet in 0..4 {
        assert_eq!(solo.skip(), 1, "packet {packet} at {} ns", solo.now);
        assert_eq!(solo.skip(), 0);
        if packet < 3 {
            let next = gap(packet + 1);
            assert_eq!(solo.end.device.poll_timeout(), Some(next));
            solo.now = next;
            solo.end.device.handle_timeout(next);
        }
    }
    solo.rx(ack(3, 1));
    assert_eq!(solo.end.sent(), [(1, WcStatus::Success)]);
}

#[test]
fn acknowledgements_do_not_wait_for_the_rate() {
    let mut solo = Solo::with(reacting());
    solo.post_send(1, packets(3));
    solo.rx(cnp());
    assert_eq!(solo.skip(), 1);
    solo.rx(write_only(0, 0, solo.rkey(), 16));
    assert_eq!(sent(&mut solo), [(Opcode::RC_ACKNOWLEDGE, 2)]);
}

#[test]
fn read_answers_keep_to_the_rate_and_what_is_behind_them_waits() {
    let mut solo = Solo::with(reacting());
    solo.rx(read_request(0, 0, solo.rkey(), packets(3))).rx(cnp());
    solo.rx(write_only(3, 0x4000, solo.rkey(), 16));
    let mut opcodes = Vec::new();
    while opcodes.len() < 4 {
        let now: Vec<_> = sent(&mut solo).into_iter().map(|(opcode, _)| opcode).collect();
        assert!(now.len() <= 2, "{now:?}");
        opcodes.extend(now);
        if let Some(at) = solo.end.device.poll_timeout() {
            solo.now = at;
            solo.end.device.handle_timeout(at);
        }
    }
    let expected = [
        Opcode::RC_READ_RESP_FIRST,
        Opcode::RC_READ_RESP_MIDDLE,
        Opcode::RC_READ_RESP_LAST,
        Opcode::RC_ACKNOWLEDGE,
    ];
    assert_eq!(opcodes, expected);
    assert!(solo.now > 0);
}

#[test]
fn cnps_of_strangers_and_to_qps_that_do_not_react_are_ignored() {
    let mut solo = Solo::with(reacting());
    let qpn = solo.end.qpn;
    let stranger = cnp().bytes(IpAddr::from([10, 0, 0, 98]), solo.end.address, qpn);
    solo.end.handle_packet(0, IpAddr::from([10, 0, 0, 98]), &stranger);
    let elsewhere = cnp().bytes(PEER, solo.end.address, ferroce_wire::Qpn::new(qpn.value() + 1));
    solo.rx_bytes(&elsewhere).rx(cnp().header(|header| header.pkey(0x1234)));
    assert_eq!((solo.counter(Counter::RpCnpIgnored), rate(&solo)), (3, None));
    solo.end.enter(0, QpState::Err);
    solo.rx(cnp());
    assert_eq!((solo.counter(Counter::RpCnpIgnored), rate(&solo)), (4, None));
    assert_eq!(solo.counter(Counter::RpCnpHandled), 0);
}

/// A QP that is destroyed or reset while it waits for its turn leaves nothing behind.
#[test]
fn a_reset_forgets_the_rate() {
    let mut solo = Solo::with(reacting());
    solo.post_send(1, packets(4)).rx(cnp());
    assert_eq!(solo.skip(), 1);
    solo.end.enter(0, QpState::Reset);
    assert_eq!(rate(&solo), None);
    let mut solo = Solo::with(reacting());
    solo.post_send(1, packets(4)).rx(cnp());
    assert_eq!(solo.skip(), 1);
    solo.end.device.destroy_qp(solo.end.qpn).expect("the QP");
    solo.end.device.handle_timeout(Nanos::MAX);
    assert_eq!(solo.end.device.poll_timeout(), None);
}

/// However slow a QP has become, its transfer ends, and no wait for the next packet is taken for a lost answer.
#[test]
fn a_slow_qp_does_not_time_out() {
    let mut setup = reacting();
    setup.profile.dcqcn.rate_to_set_on_first_cnp_bps = Some(1_000_000);
    setup.profile.dcqcn.rpg_time_reset_ns = 1_000_000_000;
    let mut pair = Pair::with(Setup { timeout: 1, ..setup }, Setup::default());
    let sge = pair.a.sge(0, 64 << 10);
    let write = SendOp::Write { va: Arena::BASE, rkey: pair.b.keys.rkey };
    pair.a.post_send(0, crate::end::wr(1, write, &[sge]));
    let bytes = cnp().bytes(pair.b.address, pair.a.address, pair.a.qpn);
    pair.a.handle_packet(0, pair.b.address, &bytes);
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
    let counters = pair.a.device.counters();
    assert_eq!(counters.get(Counter::LocalAckTimeoutErr), 0);
    assert_eq!(counters.get(Counter::RetransmittedPackets), 0);
    // 64 packets of 1024 bytes at 1 Mb/s take more than half a second.
    assert!(pair.now > 500_000_000, "{} ns", pair.now);
}

fn rate(solo: &Solo) -> Option<u64> {
    solo.end.device.snapshot(solo.end.qpn).expect("the QP").rate_bps
}
