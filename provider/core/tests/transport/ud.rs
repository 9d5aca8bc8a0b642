//! UD: who may send what to whom, what stands in front of a datagram, and multicast (transport.md 1.4).

use crate::arena::Arena;
use crate::end::{Batch, End, SOURCE_PORT, Setup, init, wr};
use crate::pair::{Fate, Pair};
use crate::workload::Chance;
use ferroce_core::{
    AsyncEvent, Counter, Ipv4Id, McastError, PacketMeta, PathMtu, PdId, QpAttr, QpAttrMask, QpState, QpType,
    Remote, SendFlags, SendOp, SendWr, Sge, Wc, WcFlags, WcOpcode, WcStatus,
};
use ferroce_wire::icrc::{self, IpContext};
use ferroce_wire::{Opcode, Packet, PacketHeader, Psn, Qpn};
use std::net::IpAddr;

const GRH: u32 = 40;
/// The Q_Key of [`Setup`]'s default.
const QKEY: u32 = 0x1111_1111;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn setup() -> Setup {
    Setup::of(QpType::Ud)
}

/// Two UD QPs in RTS.
fn pair() -> Pair {
    Pair::with(setup(), setup())
}

/// One in RTS.
fn end(host: u8) -> End {
    running(End::new(host, setup(), 1 << 16))
}

fn running(mut end: End) -> End {
    end.enter_rtr(ip("10.0.0.99"), Qpn::new(0));
    end.enter_rts();
    end
}

/// A signaled SEND of `len` bytes at offset 0x1000.
fn send(end: &End, wr_id: u64, len: u32, remote: Remote) -> SendWr {
    let sge = end.sge(0x1000, len);
    SendWr { remote, ..wr(wr_id, SendOp::Send, &[sge]) }
}

fn post_recv(end: &mut End, wr_id: u64, len: u32) {
    let sge = end.sge(0x8000, len);
    end.post_recv(0, wr_id, &[sge]);
}

/// A datagram as it would come from QPN 0x77.
fn datagram(dest: Qpn, qkey: u32, payload: usize) -> Vec<u8> {
    let header = PacketHeader::new(Opcode::UD_SEND_ONLY, dest, Psn::new(5)).deth(qkey, Qpn::new(0x77));
    let mut bytes = vec![0; header.packet_len(payload)];
    header.write(&mut bytes, payload).fill(0x5a);
    bytes
}

/// Hands a datagram to `end` that was sent from `from` to `to`.
fn deliver(end: &mut End, from: &str, to: &str, mut bytes: Vec<u8>) {
    let (from, to) = (ip(from), ip(to));
    icrc::seal(&crate::end::ip_context(from, to), &mut bytes);
    end.handle_packet_to(0, from, to, &bytes);
}

fn received(end: &mut End) -> Vec<(u64, WcStatus, u32)> {
    end.received().iter().map(|wc| (wc.wr_id, wc.status, wc.byte_len)).collect()
}

#[test]
fn a_datagram_arrives_with_its_sender_and_a_header() {
    let mut pair = pair();
    post_recv(&mut pair.b, 7, 100);
    pair.a.memory.put(0x1000, b"hello");
    let remote = pair.a.to(&pair.b);
    pair.a.post_send(0, send(&pair.a, 1, 5, remote));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
    let expected = Wc {
        wr_id: 7,
        status: WcStatus::Success,
        opcode: WcOpcode::Recv,
        vendor_err: 0,
        byte_len: GRH + 5,
        imm: [0; 4],
        invalidated_rkey: 0,
        qpn: pair.b.qpn,
        src_qp: pair.a.qpn,
        flags: WcFlags::GRH,
    };
    assert_eq!(pair.b.received(), [expected]);
    assert_eq!(pair.b.memory.get(0x8000 + 40, 5), b"hello");
    // W-21: the IPv4 header at offset 20.
    let area = pair.b.memory.get(0x8000, 40);
    assert_eq!(area[..20], [0; 20]);
    assert_eq!((area[20], &area[32..36], &area[36..]), (0x45, &[10, 0, 0, 1][..], &[10, 0, 0, 2][..]));
    assert_eq!(pair.b.asyncs, [], "COMM_EST is of connections");
    assert_eq!(pair.traced("ackreq"), 0, "handed case D2");
}

/// Transport.md 6.1 point 30: both versions of IP reach one QP.
#[test]
fn the_header_is_that_of_the_packets_ip_version() {
    let mut end = end(1);
    post_recv(&mut end, 1, 100);
    post_recv(&mut end, 2, 100);
    let qpn = end.qpn;
    deliver(&mut end, "fd00::1", "fd00::2", datagram(qpn, QKEY, 8));
    let area = end.memory.get(0x8000, 40);
    assert_eq!((area[0] >> 4, area[5], area[6], area[23], area[39]), (6, 8 + 20 + 8 + 4, 17, 1, 2));
    deliver(&mut end, "10.0.0.1", "10.0.0.2", datagram(qpn, QKEY, 8));
    let area = end.memory.get(0x8000, 40);
    assert_eq!((area[0], area[20] >> 4), (0, 4));
    assert_eq!(end.memory.get(0x8000 + 40, 8), [0x5a; 8]);
    let done = |wr_id| (wr_id, WcStatus::Success, GRH + 8);
    assert_eq!(received(&mut end), [done(1), done(2)]);
}

/// A socket hides the identification of an IPv4 packet, which the ICRC tells (design section 8).
#[test]
fn the_header_shows_the_identification_that_the_packet_was_sent_with() {
    let mut end = end(1);
    post_recv(&mut end, 1, 100);
    let (src, dst) = (ip("10.0.0.2"), ip("10.0.0.1"));
    let mut bytes = datagram(end.qpn, QKEY, 8);
    let id = 0xbeef;
    let context = IpContext::V4 { src: [10, 0, 0, 2], dst: [10, 0, 0, 1], id, source_port: SOURCE_PORT };
    icrc::seal(&context, &mut bytes);
    let mut meta = PacketMeta {
        src,
        dst,
        source_port: SOURCE_PORT,
        traffic_class: 0,
        icrc_checked: false,
        ip_id: Ipv4Id::Seen(0),
        continues: false,
    };
    end.device.handle_packet(0, &meta, &bytes, &end.memory);
    assert_eq!(end.device.counters().get(Counter::DropIcrc), 1);
    meta.ip_id = Ipv4Id::Guessed(0);
    end.device.handle_packet(0, &meta, &bytes, &end.memory);
    assert_eq!(received(&mut end), [(1, WcStatus::Success, GRH + 8)]);
    assert_eq!(end.memory.get(0x8000 + 24, 2), id.to_be_bytes());
}

#[test]
fn header_and_payload_are_scattered_over_the_list() {
    let mut pair = pair();
    let target = [pair.b.sge(0, 7), pair.b.sge(100, 40), pair.b.sge(200, 100)];
    pair.b.post_recv(0, 1, &target);
    pair.a.memory.put(0x1000, &[0x77; 60]);
    let remote = pair.a.to(&pair.b);
    pair.a.post_send(0, send(&pair.a, 1, 60, remote));
    pair.run();
    let memory = &pair.b.memory;
    let all = [memory.get(0, 7), memory.get(100, 40), memory.get(200, 53)].concat();
    assert_eq!(all[20], 0x45);
    assert_eq!(all[40..], [0x77; 60]);
}

#[test]
fn immediate_data_and_solicitation_reach_the_receiver() {
    let mut pair = pair();
    post_recv(&mut pair.b, 1, 100);
    let remote = pair.a.to(&pair.b);
    let mut request = SendWr { op: SendOp::SendImm { imm: [1, 2, 3, 4] }, ..send(&pair.a, 1, 0, remote) };
    request.flags |= SendFlags::SOLICITED;
    pair.a.post_send(0, request);
    pair.run();
    assert!(pair.b.completions[0].solicited);
    let wc = pair.b.received()[0];
    assert_eq!((wc.imm, wc.flags, wc.byte_len), ([1, 2, 3, 4], WcFlags::GRH | WcFlags::WITH_IMM, GRH));
}

#[test]
fn each_datagram_takes_a_psn_and_goes_where_its_request_says() {
    let mut end = end(1);
    let there = |end: &End, host: u8, qpn| end.to_address(IpAddr::from([10, 0, 0, host]), Qpn::new(qpn), 9);
    for (wr_id, host, qpn) in [(1, 2, 0x55), (2, 3, 0x66), (3, 2, 0x57)] {
        let remote = there(&end, host, qpn);
        end.post_send(0, send(&end, wr_id, 10, remote));
    }
    let sent: Vec<_> = end
        .transmit_with_paths(0)
        .iter()
        .map(|(path, bytes)| {
            let packet = Packet::parse(bytes).expect("a packet");
            let deth = packet.deth().expect("a DETH");
            assert_eq!((deth.source_qpn(), deth.qkey()), (end.qpn, 9));
            (path.dst, packet.bth().dest_qpn().value(), packet.bth().psn().value(), packet.opcode())
        })
        .collect();
    let to = |host: u8, qpn, psn| (IpAddr::from([10, 0, 0, host]), qpn, psn, Opcode::UD_SEND_ONLY);
    assert_eq!(sent, [to(2, 0x55, 0), to(3, 0x66, 1), to(2, 0x57, 2)]);
    assert_eq!(end.sent().len(), 3);
}

/// W-22.
#[test]
fn a_wrong_qkey_is_dropped_and_counted() {
    let mut end = end(1);
    post_recv(&mut end, 1, 100);
    let qpn = end.qpn;
    deliver(&mut end, "10.0.0.2", "10.0.0.1", datagram(qpn, QKEY ^ 1, 8));
    deliver(&mut end, "10.0.0.2", "10.0.0.1", datagram(qpn, 0, 8));
    assert_eq!(received(&mut end), []);
    assert_eq!(end.device.counters().get(Counter::DropQkey), 2);
    end.assert_reason("Q_Key 0x11111110");
    // It may change while the QP runs.
    end.modify(0, QpAttr { qp_state: QpState::Rts, qkey: 5, ..QpAttr::default() }, QpAttrMask::QKEY);
    deliver(&mut end, "10.0.0.2", "10.0.0.1", datagram(qpn, 5, 8));
    assert_eq!(received(&mut end), [(1, WcStatus::Success, GRH + 8)]);
}

/// IBTA 10.2.5.
#[test]
fn a_controlled_qkey_stands_for_the_senders_own() {
    let mut end = end(1);
    let remote = end.to_address(ip("10.0.0.2"), Qpn::new(0x55), 0x8000_0001);
    end.post_send(0, send(&end, 1, 8, remote));
    let packets = end.transmit(0);
    assert_eq!(Packet::parse(&packets[0]).expect("a packet").deth().expect("a DETH").qkey(), QKEY);
}

/// W-24, transport.md X-13.
#[test]
fn a_receive_that_is_too_small_drops_the_datagram_and_stays() {
    let mut pair = pair();
    post_recv(&mut pair.b, 1, GRH + 9);
    let remote = pair.a.to(&pair.b);
    for (wr_id, len) in [(1, 10), (2, 9)] {
        pair.a.post_send(0, send(&pair.a, wr_id, len, remote.clone()));
    }
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert_eq!(received(&mut pair.b), [(1, WcStatus::Success, GRH + 9)]);
    assert_eq!(pair.b.device.counters().get(Counter::RespLocalLengthError), 1);
    assert_eq!(pair.b.state(), QpState::Rts);
}

#[test]
fn a_datagram_without_a_receive_is_dropped() {
    let mut pair = pair();
    let remote = pair.a.to(&pair.b);
    pair.a.post_send(0, send(&pair.a, 1, 10, remote));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
    assert_eq!(pair.b.device.counters().get(Counter::OutOfBuffer), 1);
    assert_eq!((pair.b.state(), pair.b.asyncs.len()), (QpState::Rts, 0));
}

/// Class A.
#[test]
fn a_receive_with_a_bad_key_takes_the_qp_to_the_error_state() {
    let mut pair = pair();
    let bad = Sge { lkey: 1, ..pair.b.sge(0, 100) };
    pair.b.post_recv(0, 1, &[bad]);
    post_recv(&mut pair.b, 2, 100);
    let remote = pair.a.to(&pair.b);
    pair.a.post_send(0, send(&pair.a, 1, 10, remote));
    pair.run();
    let statuses: Vec<_> = pair.b.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(statuses, [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(pair.b.state(), QpState::Err);
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
}

/// W-23, as a card has it.
#[test]
fn a_datagram_fits_one_packet_of_the_ports_mtu() {
    let mut pair = pair();
    let mtu = PathMtu::Mtu4096.bytes();
    let target = pair.b.sge(0, GRH + mtu);
    pair.b.post_recv(0, 1, &[target]);
    let remote = pair.a.to(&pair.b);
    pair.a.post_send(0, send(&pair.a, 1, mtu, remote.clone()));
    pair.a.post_send(0, send(&pair.a, 2, mtu + 1, remote));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success), (2, WcStatus::LocLenErr)]);
    assert_eq!(received(&mut pair.b), [(1, WcStatus::Success, GRH + mtu)]);
    assert_eq!(pair.trace.len(), 1);
    assert_eq!(pair.a.state(), QpState::Sqe);
    pair.a.assert_reason("4097 bytes does not fit");
}

#[test]
fn packets_that_no_sender_would_send_are_dropped() {
    let mut end = end(1);
    let target = end.sge(0, 1 << 15);
    end.post_recv(0, 1, &[target]);
    let qpn = end.qpn;
    let (from, to) = ("10.0.0.2", "10.0.0.1");
    deliver(&mut end, from, to, datagram(qpn, QKEY, 4097));
    // Nine bytes, and no pad where three belong.
    let mut bytes = datagram(qpn, QKEY, 9);
    bytes[1] &= !0x30;
    bytes.truncate(bytes.len() - 3);
    deliver(&mut end, from, to, bytes);
    assert_eq!(end.device.counters().get(Counter::DropDatagram), 2);
    for opcode in [Opcode::RC_SEND_ONLY, Opcode::UC_SEND_ONLY, Opcode::RD_SEND_ONLY] {
        let header = PacketHeader::new(opcode, qpn, Psn::new(0));
        let mut bytes = vec![0; header.packet_len(8)];
        header.write(&mut bytes, 8);
        deliver(&mut end, from, to, bytes);
    }
    assert_eq!(end.device.counters().get(Counter::DropService), 3);
    let mut bytes = datagram(qpn, QKEY, 8);
    bytes[2..4].copy_from_slice(&[0x12, 0x34]);
    deliver(&mut end, from, to, bytes);
    assert_eq!(end.device.counters().get(Counter::DropPkey), 1);
    assert_eq!(received(&mut end), []);
    assert_eq!((end.state(), end.asyncs.len()), (QpState::Rts, 0));
}

/// Transport.md 2.7, X-24.
#[test]
fn requests_that_a_datagram_qp_cannot_do_fail() {
    let (va, rkey) = (Arena::BASE, 1);
    let ops = [
        SendOp::Write { va, rkey },
        SendOp::WriteImm { va, rkey, imm: [0; 4] },
        SendOp::Read { va, rkey },
        SendOp::CompareSwap { va, rkey, compare: 0, swap: 1 },
        SendOp::FetchAdd { va, rkey, add: 1 },
        SendOp::SendInv { rkey },
        SendOp::LocalInv { rkey },
    ];
    for op in ops {
        let mut pair = pair();
        let remote = pair.a.to(&pair.b);
        pair.a.post_send(0, SendWr { op, ..send(&pair.a, 1, 8, remote) });
        pair.run();
        assert_eq!(pair.a.sent(), [(1, WcStatus::LocQpOpErr)], "{op:?}");
        assert_eq!((pair.trace.len(), pair.a.state()), (0, QpState::Sqe));
    }
    let mut end = end(1);
    end.post_send(0, send(&end, 1, 8, Remote::Peer));
    assert!(end.transmit(0).is_empty());
    assert_eq!(end.sent(), [(1, WcStatus::LocQpOpErr)]);
    end.assert_reason("no address handle");
    let mut pair = pair();
    let Remote::Datagram { ah, qpn, qkey, source_port, receiver, .. } = pair.a.to(&pair.b) else {
        panic!("a datagram QP");
    };
    let remote = Remote::Datagram { ah, pd: PdId(9), qpn, qkey, source_port, receiver };
    pair.a.post_send(0, send(&pair.a, 1, 8, remote));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::LocQpOpErr)]);
    pair.a.assert_reason("belongs to PD 9");
}

#[test]
fn sqe_flushes_sends_and_goes_on_receiving() {
    let mut pair = pair();
    let remote = pair.a.to(&pair.b);
    let bad = Sge { lkey: 1, ..pair.a.sge(0, 10) };
    pair.a.post_send(0, send(&pair.a, 1, 10, remote.clone()));
    pair.a.post_send(0, SendWr { remote: remote.clone(), ..wr(2, SendOp::Send, &[bad]) });
    pair.a.post_send(0, send(&pair.a, 3, 10, remote.clone()));
    pair.run();
    pair.a.post_send(0, send(&pair.a, 4, 10, remote.clone()));
    let flushed = |wr_id| (wr_id, WcStatus::WrFlushErr);
    let expected = [(1, WcStatus::Success), (2, WcStatus::LocProtErr), flushed(3), flushed(4)];
    assert_eq!(pair.a.sent(), expected);
    post_recv(&mut pair.a, 5, 100);
    let back = pair.b.to(&pair.a);
    pair.b.post_send(0, send(&pair.b, 6, 10, back));
    pair.run();
    assert_eq!(received(&mut pair.a), [(5, WcStatus::Success, GRH + 10)]);
    pair.a.modify(0, QpAttr { qp_state: QpState::Rts, ..QpAttr::default() }, QpAttrMask::empty());
    pair.a.post_send(0, send(&pair.a, 7, 10, remote));
    pair.run();
    assert_eq!(pair.a.sent(), [(7, WcStatus::Success)]);
}

#[test]
fn a_qp_receives_from_rtr_on_and_sends_from_rts_on() {
    let mut end = End::new(1, setup(), 1 << 16);
    let qpn = end.qpn;
    post_recv(&mut end, 1, 100);
    deliver(&mut end, "10.0.0.2", "10.0.0.1", datagram(qpn, QKEY, 8));
    assert_eq!(end.device.counters().get(Counter::DropState), 1);
    end.enter_rtr(ip("10.0.0.2"), Qpn::new(0));
    deliver(&mut end, "10.0.0.2", "10.0.0.1", datagram(qpn, QKEY, 8));
    assert_eq!(received(&mut end), [(1, WcStatus::Success, GRH + 8)]);
    let remote = end.to_address(ip("10.0.0.2"), Qpn::new(5), 1);
    end.post_send(0, send(&end, 2, 8, remote));
    assert!(end.transmit(0).is_empty());
    end.setup.sq_psn = 0xff_ffff;
    end.enter_rts();
    let packets = end.transmit(0);
    assert_eq!(Packet::parse(&packets[0]).expect("a packet").bth().psn(), Psn::new(0xff_ffff));
}

#[test]
fn sqd_sends_the_datagram_that_waits_for_room_and_no_other() {
    let mut end = end(1);
    let remote = end.to_address(ip("10.0.0.2"), Qpn::new(5), 1);
    for wr_id in 0..3 {
        end.post_send(0, send(&end, wr_id, 8, remote.clone()));
    }
    let mut batch = Batch::with_room(1);
    end.device.poll_transmit(0, &end.memory, &mut batch);
    let attr = QpAttr { qp_state: QpState::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    end.modify(0, attr, QpAttrMask::EN_SQD_ASYNC_NOTIFY);
    end.collect();
    assert_eq!(end.asyncs, []);
    assert_eq!(end.transmit(0).len(), 1);
    assert_eq!(end.asyncs, [AsyncEvent::SqDrained(end.qpn)]);
    end.modify(0, QpAttr { qp_state: QpState::Rts, ..QpAttr::default() }, QpAttrMask::empty());
    assert_eq!(end.transmit(0).len(), 1);
}

#[test]
fn the_error_state_flushes_both_queues() {
    let mut end = end(1);
    let remote = end.to_address(ip("10.0.0.2"), Qpn::new(5), 1);
    post_recv(&mut end, 1, 100);
    end.post_send(0, send(&end, 2, 8, remote));
    end.enter(0, QpState::Err);
    assert!(end.transmit(0).is_empty());
    assert_eq!(end.sent(), [(2, WcStatus::WrFlushErr)]);
    assert_eq!(end.received()[0].status, WcStatus::WrFlushErr);
    let qpn = end.qpn;
    deliver(&mut end, "10.0.0.2", "10.0.0.1", datagram(qpn, QKEY, 8));
    assert_eq!(end.device.counters().get(Counter::DropState), 1);
}

/// Loss loses datagrams, repetition repeats them, and nothing else.
#[test]
fn a_bad_link_delivers_what_it_delivers() {
    let mut pair = Pair::sized(setup(), setup(), 1 << 20);
    let mut chance = Chance::new(3);
    pair.rule(move |_, _| match chance.next() % 8 {
        0 => Fate::Drop,
        1 => Fate::Duplicate,
        2 => Fate::Corrupt,
        3 => Fate::Late(5_000),
        _ => Fate::Pass,
    });
    let remote = pair.a.to(&pair.b);
    for n in 0..300u64 {
        let target = pair.b.sge(0x1_0000 + n * 1024, 512);
        pair.b.post_recv(0, n, &[target]);
        pair.b.post_recv(0, n, &[target]);
        pair.a.memory.put(0x1000, &n.to_be_bytes());
        pair.a.post_send(pair.now, send(&pair.a, n, 8, remote.clone()));
        pair.run_until(pair.now + 100);
    }
    pair.run();
    assert_eq!(pair.a.sent().len(), 300);
    let (lost, twice) = (pair.traced(" Drop") + pair.traced(" Corrupt"), pair.traced(" Duplicate"));
    assert!(lost > 30 && twice > 10);
    assert_eq!(pair.b.received().len(), 300 - lost + twice);
}

fn gid(text: &str) -> [u8; 16] {
    match ip(text) {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[test]
fn a_multicast_datagram_reaches_every_attached_qp_once() {
    let mut end = end(1);
    let first = end.qpn;
    end.qpn = end.device.create_qp(init(&end.setup)).expect("a QP");
    end.enter_init();
    let mut end = running(end);
    let second = end.qpn;
    for (group, qpn) in
        [("224.1.2.3", first), ("224.1.2.3", first), ("224.1.2.3", second), ("ff0e::5", second)]
    {
        end.device.attach_mcast(qpn, gid(group)).expect("a UD QP");
    }
    for qpn in [first, second] {
        end.qpn = qpn;
        for wr_id in 0..4 {
            post_recv(&mut end, wr_id, 100);
        }
    }
    let take = |end: &mut End| {
        let mut qpns: Vec<_> = end.received().iter().map(|wc| (wc.qpn, wc.byte_len)).collect();
        qpns.sort_by_key(|(qpn, _)| *qpn != first);
        qpns
    };
    let group = |payload| datagram(Qpn::MULTICAST, QKEY, payload);
    deliver(&mut end, "10.0.0.2", "224.1.2.3", group(8));
    assert_eq!(take(&mut end), [(first, GRH + 8), (second, GRH + 8)]);
    deliver(&mut end, "fd00::9", "ff0e::5", group(8));
    assert_eq!(take(&mut end), [(second, GRH + 8)]);
    assert_eq!(end.memory.get(0x8000 + 24, 2), [0xff, 0x0e]);
    deliver(&mut end, "10.0.0.2", "224.1.2.4", group(8));
    assert_eq!(take(&mut end), []);
    assert_eq!(end.device.counters().get(Counter::DropMulticast), 1);
    end.device.detach_mcast(first, gid("224.1.2.3")).expect("it is attached");
    deliver(&mut end, "10.0.0.2", "224.1.2.3", group(8));
    assert_eq!(take(&mut end), [(second, GRH + 8)]);
    end.device.destroy_qp(second).expect("the QP");
    deliver(&mut end, "10.0.0.2", "224.1.2.3", group(8));
    assert_eq!(end.device.counters().get(Counter::DropMulticast), 2);
}

/// A Q_Key protects a member, and a member without a receive misses out alone.
#[test]
fn members_of_a_group_fail_each_by_itself() {
    let mut end = end(1);
    let first = end.qpn;
    end.setup.qkey = 5;
    end.qpn = end.device.create_qp(init(&end.setup)).expect("a QP");
    end.enter_init();
    let mut end = running(end);
    for qpn in [first, end.qpn] {
        end.device.attach_mcast(qpn, gid("224.1.2.3")).expect("a UD QP");
    }
    post_recv(&mut end, 1, 100);
    deliver(&mut end, "10.0.0.2", "224.1.2.3", datagram(Qpn::MULTICAST, 5, 8));
    assert_eq!(received(&mut end), [(1, WcStatus::Success, GRH + 8)]);
    assert_eq!(end.device.counters().get(Counter::DropQkey), 1);
    deliver(&mut end, "10.0.0.2", "224.1.2.3", datagram(Qpn::MULTICAST, QKEY, 8));
    assert_eq!(end.device.counters().get(Counter::OutOfBuffer), 1);
}

#[test]
fn the_multicast_qpn_goes_with_the_address_of_a_group() {
    let mut end = end(1);
    end.device.attach_mcast(end.qpn, gid("224.1.2.3")).expect("a UD QP");
    post_recv(&mut end, 1, 100);
    let qpn = end.qpn;
    deliver(&mut end, "10.0.0.2", "224.1.2.3", datagram(qpn, QKEY, 8));
    assert_eq!(end.device.counters().get(Counter::DropAddress), 1);
    deliver(&mut end, "10.0.0.2", "10.0.0.1", datagram(Qpn::MULTICAST, QKEY, 8));
    assert_eq!(end.device.counters().get(Counter::DropMulticast), 1);
    assert_eq!(received(&mut end), []);
}

#[test]
fn a_member_hears_itself_unless_it_asked_not_to() {
    for block in [false, true] {
        let mut end = running(End::new(1, Setup { block_self_mcast: block, ..setup() }, 1 << 16));
        end.device.attach_mcast(end.qpn, gid("224.1.2.3")).expect("a UD QP");
        post_recv(&mut end, 1, 100);
        post_recv(&mut end, 2, 100);
        let remote = end.to_address(ip("224.1.2.3"), Qpn::MULTICAST, QKEY);
        end.post_send(0, send(&end, 1, 8, remote));
        let (path, bytes) = end.transmit_with_paths(0).remove(0);
        assert_eq!(path.dst, ip("224.1.2.3"));
        // The host's network hands a member of the group what was sent to it.
        end.handle_packet_to(0, path.src, path.dst, &bytes);
        assert_eq!(received(&mut end).len(), usize::from(!block));
        // A QP of the same number on another host is somebody else.
        let mut other = bytes.clone();
        icrc::seal(&crate::end::ip_context(ip("10.0.0.9"), path.dst), &mut other);
        end.handle_packet_to(0, ip("10.0.0.9"), path.dst, &other);
        assert_eq!(received(&mut end).len(), 1);
    }
}

#[test]
fn what_cannot_be_attached_is_named() {
    let mut end = end(1);
    let qpn = end.qpn;
    let group = gid("224.1.2.3");
    let device = &mut end.device;
    assert_eq!(device.detach_mcast(qpn, group), Err(McastError::NotAttached { qpn, gid: group }));
    let unicast = gid("10.0.0.1");
    assert_eq!(device.attach_mcast(qpn, unicast), Err(McastError::NotMulticast { gid: unicast }));
    let unknown = Qpn::new(5);
    assert_eq!(device.attach_mcast(unknown, group), Err(McastError::UnknownQp { qpn: unknown }));
    let rc = device.create_qp(init(&Setup::default())).expect("a QP");
    assert_eq!(device.attach_mcast(rc, group), Err(McastError::NotUd { qpn: rc }));
}
