//! Whose packets go out, in which order, when there are many QPs or little room.

use crate::end::{Batch, End, Setup, wr};
use crate::shot::*;
use crate::solo::{PEER, PEER_QPN, Solo, packets};
use ferroce_core::{Path, Profile, QpAttr, QpAttrMask, SendOp, Transmit, TransmitSink};
use ferroce_wire::{Packet, Qpn};
use std::net::IpAddr;

/// A device with `count` QPs in RTS, to different peers' QPNs.
fn many(count: u32) -> (End, Vec<Qpn>) {
    let profile = Profile { first_window_packets: 64, ..Profile::default() };
    let mut end = End::new(1, Setup { profile, ..Setup::default() }, 1 << 16);
    let mut qpns = Vec::new();
    for number in 0..count {
        if number > 0 {
            end.qpn = end.device.create_qp(crate::end::init(&end.setup)).expect("a QP");
            end.enter_init();
        }
        end.enter_rtr(PEER, Qpn::new(1000 + number));
        end.enter_rts();
        qpns.push(end.qpn);
    }
    (end, qpns)
}

/// The peers' QPNs, less 1000, of packets in the order sent; runs as (QP, packets).
fn runs(packets: &[Vec<u8>]) -> Vec<(u32, usize)> {
    let mut runs: Vec<(u32, usize)> = Vec::new();
    for bytes in packets {
        let qp = Packet::parse(bytes).expect("a packet").bth().dest_qpn().value() - 1000;
        match runs.last_mut() {
            Some((last, count)) if *last == qp => *count += 1,
            _ => runs.push((qp, 1)),
        }
    }
    runs
}

#[test]
fn qps_take_turns_of_a_burst() {
    let (mut end, qpns) = many(3);
    for (number, qpn) in qpns.iter().enumerate() {
        end.qpn = *qpn;
        let sge = end.sge(0, 1024 * if number == 1 { 5 } else { 64 });
        end.post_send(0, wr(1, SendOp::Send, &[sge]));
    }
    assert_eq!(runs(&end.transmit(0)), [(0, 60), (1, 5), (2, 60), (0, 4), (2, 4)]);
}

#[test]
fn a_full_sink_loses_nothing_and_leaves_the_turn_to_others() {
    let (mut end, qpns) = many(3);
    for qpn in &qpns {
        end.qpn = *qpn;
        let sge = end.sge(0, 1024 * 40);
        end.post_send(0, wr(1, SendOp::Send, &[sge]));
    }
    let mut sent = Vec::new();
    let mut first = Vec::new();
    for room in [7, 1, 30, 1, 1000] {
        let mut batch = Batch::with_room(room);
        let result = end.device.poll_transmit(0, &end.memory, &mut batch);
        assert_eq!(result, if room == 1000 { Transmit::Idle } else { Transmit::Blocked });
        first.push(runs(&batch.packets)[0].0);
        sent.extend(batch.packets);
    }
    assert_eq!(first[..4], [0, 1, 2, 0]);
    for qp in 0..3 {
        let psns: Vec<_> = sent
            .iter()
            .map(|bytes| Packet::parse(bytes).expect("a packet"))
            .filter(|packet| packet.bth().dest_qpn().value() == 1000 + qp)
            .map(|packet| packet.bth().psn().value())
            .collect();
        assert_eq!(psns, (0..40).collect::<Vec<_>>());
    }
}

/// A sink that holds one path back.
struct Picky {
    held: IpAddr,
    batch: Batch,
}

impl TransmitSink for Picky {
    fn reserve(&mut self, path: &Path, len: usize) -> Option<&mut [u8]> {
        if path.dst == self.held { None } else { self.batch.reserve(path, len) }
    }

    fn commit(&mut self) {
        self.batch.commit();
    }
}

#[test]
fn a_path_that_is_held_back_does_not_hold_the_others_up() {
    let mut end = End::new(1, Setup::default(), 1 << 16);
    let held: IpAddr = "10.0.0.50".parse().expect("an address");
    end.enter_rtr(held, Qpn::new(1000));
    end.enter_rts();
    end.post_send(0, wr(1, SendOp::Send, &[]));
    end.qpn = end.device.create_qp(crate::end::init(&end.setup)).expect("a QP");
    end.enter_init();
    end.enter_rtr(PEER, Qpn::new(1001));
    end.enter_rts();
    end.post_send(0, wr(1, SendOp::Send, &[]));
    let mut sink = Picky { held, batch: Batch::default() };
    assert_eq!(end.device.poll_transmit(0, &end.memory, &mut sink), Transmit::Blocked);
    assert_eq!(runs(&sink.batch.packets), [(1, 1)]);
    assert_eq!(runs(&end.transmit(0)), [(0, 1)]);
}

#[test]
fn a_short_send_and_an_acknowledgement_leave_together_the_longer_first() {
    let mut solo = Solo::new();
    solo.post_recv(1, 100).rx(send_only(0, 10)).post_send(2, 16);
    solo.tx(send_only(0, 16)).tx(ack(0, 1)).idle();
}

#[test]
fn a_long_read_does_not_keep_requests_waiting() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.rx(read_request(0, 0, rkey, packets(200)));
    let mut batch = Batch::with_room(10);
    solo.end.device.poll_transmit(0, &solo.end.memory, &mut batch);
    solo.post_send(1, 10).tx(send_only(0, 10)).tx(read_middle(10));
}

/// A QP that waits for the sink has sent nothing that could time out.
#[test]
fn a_sink_without_room_costs_no_retries() {
    let mut solo = Solo::new();
    solo.post_send(1, packets(3));
    let mut batch = Batch::with_room(1);
    solo.end.device.poll_transmit(0, &solo.end.memory, &mut batch);
    let timeout = solo.end.device.poll_timeout().expect("the first packet's");
    solo.end.device.handle_timeout(timeout);
    assert_eq!(solo.end.device.poll_timeout(), None);
    let mut batch = Batch::with_room(0);
    assert_eq!(solo.end.device.poll_transmit(timeout, &solo.end.memory, &mut batch), Transmit::Blocked);
    assert_eq!(solo.end.device.poll_timeout(), None);
    solo.now = timeout;
    solo.tx(send_first(0)).tx(send_middle(1)).tx(send_last(2, MTU)).rx(ack(2, 1)).idle();
}

#[test]
fn a_path_that_changes_in_sqd_is_used_from_then_on() {
    let mut solo = Solo::new();
    let other: IpAddr = "10.0.0.77".parse().expect("an address");
    solo.end.enter(0, ferroce_core::QpState::Sqd);
    let av = Some(crate::end::address_vector(solo.end.address, other));
    solo.end.modify(
        0,
        QpAttr { qp_state: ferroce_core::QpState::Sqd, av, ..QpAttr::default() },
        QpAttrMask::AV,
    );
    solo.post_recv(1, 10).rx(send_only(0, 1)).idle();
    let packet = send_only(0, 1).bytes(other, solo.end.address, solo.end.qpn);
    solo.end.handle_packet(0, other, &packet);
    let sent = solo.end.transmit(0);
    let expected = ack(0, 1).bytes(solo.end.address, other, PEER_QPN);
    assert_eq!(sent, [expected]);
}

/// Found by the fuzzer: the owner was told to call at once, again and again.
#[test]
fn the_last_qp_takes_its_deadline_along() {
    let (mut end, _) = many(1);
    let sge = end.sge(0, 10);
    end.post_send(0, wr(1, SendOp::Send, &[sge]));
    end.transmit(0);
    let deadline = end.device.poll_timeout().expect("that of the acknowledgement");
    end.device.destroy_qp(end.qpn).expect("the QP");
    end.device.handle_timeout(deadline);
    assert_eq!(end.device.poll_timeout(), None);
}
