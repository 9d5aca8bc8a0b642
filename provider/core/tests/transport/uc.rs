//! UC: what arrives when packets are lost, and what does not; faults of either side (transport.md 3.9, S-2).

use crate::arena::Arena;
use crate::end::{Batch, Setup, wr};
use crate::pair::{Fate, Pair};
use crate::shot::*;
use crate::solo::{Solo, packets, psn};
use crate::workload::Chance;
use ferroce_core::{
    AccessFlags, AsyncEvent, Counter, PathMtu, QpAttr, QpAttrMask, QpState, QpType, SendFlags, SendOp, Sge,
    Transmit, WcOpcode, WcStatus,
};
use ferroce_wire::{Opcode, Packet, Service};
use std::cell::RefCell;
use std::rc::Rc;

const WRITE: SendOp = SendOp::Write { va: Arena::BASE, rkey: RKEY };

fn solo() -> Solo {
    Solo::with(Setup::of(QpType::Uc))
}

fn received(solo: &mut Solo) -> Vec<(u64, WcStatus, u32)> {
    solo.end.received().iter().map(|wc| (wc.wr_id, wc.status, wc.byte_len)).collect()
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + salt * 13) as u8).collect()
}

/// Handed case D2, transport.md X-12.
#[test]
fn messages_are_split_and_never_ask_for_an_acknowledgement() {
    let mut solo = solo();
    solo.post_send(1, packets(2) + 1).post(2, WRITE, packets(2)).post_send(3, 0);
    solo.tx(send_first(0)).tx(send_middle(1)).tx(send_last(2, 1));
    solo.tx(write_first(3, 0, RKEY, packets(2))).tx(write_last(4, MTU)).tx(send_only(5, 0)).idle();
    let ok = |wr_id| (wr_id, WcStatus::Success);
    assert_eq!(solo.end.sent(), [ok(1), ok(2), ok(3)]);
    assert_eq!(solo.end.device.poll_timeout(), None);
}

#[test]
fn a_request_completes_when_its_last_packet_has_left() {
    let mut solo = solo();
    solo.post_send(1, packets(3));
    let mut batch = Batch::with_room(2);
    assert_eq!(solo.end.device.poll_transmit(0, &solo.end.memory, &mut batch), Transmit::Blocked);
    assert_eq!(solo.end.sent(), []);
    solo.tx(send_last(2, MTU)).idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::Success)]);
}

#[test]
fn nothing_is_answered_whatever_is_asked() {
    let mut solo = solo();
    solo.post_recv(1, 100).rx_as_it_is(send_only(0, 10).in_service(Service::Uc).ask()).idle();
    assert_eq!(received(&mut solo), [(1, WcStatus::Success, 10)]);
    // Opcodes of another service, and answers.
    solo.rx_as_it_is(send_only(1, 10)).rx_as_it_is(ack(0, 1)).idle();
    assert_eq!(solo.counter(Counter::DropService), 2);
}

#[test]
fn messages_of_every_size_arrive_at_every_mtu() {
    for mtu in PathMtu::ALL {
        let bytes = mtu.bytes();
        for size in [0, 1, 33, bytes - 1, bytes, bytes + 1, 2 * bytes, 7 * bytes + 5] {
            let setup = Setup { mtu, sq_psn: 0xff_fffd, rq_psn: 0xff_fffd, ..Setup::of(QpType::Uc) };
            let mut pair = Pair::with(setup.clone(), setup);
            let message = pattern(size as usize, 0);
            pair.a.memory.put(64, &message);
            let target = pair.b.sge(0, 1 << 16);
            pair.b.post_recv(0, 7, &[target]);
            pair.b.post_recv(0, 8, &[target]);
            let source = pair.a.sge(64, size);
            pair.a.post_send(0, wr(1, SendOp::SendImm { imm: [1, 2, 3, 4] }, &[source]));
            let (va, rkey) = (Arena::BASE + (1 << 17), pair.b.keys.rkey);
            pair.a.post_send(0, wr(2, SendOp::WriteImm { va, rkey, imm: [5, 6, 7, 8] }, &[source]));
            pair.a.post_send(0, wr(3, SendOp::Write { va: va + (1 << 17), rkey }, &[source]));
            pair.run();
            let done: Vec<_> =
                pair.b.received().iter().map(|wc| (wc.wr_id, wc.opcode, wc.byte_len, wc.imm)).collect();
            let imm = [[1, 2, 3, 4], [5, 6, 7, 8]];
            let expected = [(7, WcOpcode::Recv, size, imm[0]), (8, WcOpcode::RecvRdmaWithImm, size, imm[1])];
            assert_eq!(done, expected);
            for at in [0, 1 << 17, 1 << 18] {
                assert_eq!(pair.b.memory.get(at, size as usize), message);
                assert_eq!(pair.b.memory.get(at + u64::from(size), 8), [0; 8]);
            }
            assert!(!pair.trace.iter().any(|line| line.contains("ackreq") || line.contains("BtoA")));
        }
    }
}

#[test]
fn a_message_that_loses_a_packet_is_dropped_and_its_receive_serves_the_next() {
    // Any packet of a message of three, then a whole one.
    for lost in 0..3 {
        let mut solo = solo();
        solo.post_recv(1, 1000).post_recv(2, 1000);
        let message = [send_first(0), send_middle(1), send_last(2, 5)];
        for (n, shot) in message.into_iter().enumerate() {
            if n != lost {
                solo.rx(shot);
            }
        }
        assert_eq!(received(&mut solo), []);
        solo.rx(send_only(3, 9)).rx(send_only(4, 8)).idle();
        assert_eq!(
            received(&mut solo),
            [(1, WcStatus::Success, 9), (2, WcStatus::Success, 8)],
            "lost {lost}"
        );
        assert_eq!(solo.counter(Counter::OutOfSequence), 1);
        let dropped = [2, 1, 0][lost];
        assert_eq!(solo.counter(Counter::DropUcMessage), dropped);
        assert_eq!(solo.end.state(), QpState::Rts);
        assert_eq!(solo.end.asyncs, []);
    }
}

#[test]
fn a_message_may_begin_after_any_gap() {
    let mut solo = solo();
    for wr_id in 0..4 {
        solo.post_recv(wr_id, 1000);
    }
    // Ahead, behind, twice, and half the circle away.
    for (wr_id, at) in [100, 7, 7, psn(7 - (1 << 23))].into_iter().enumerate() {
        solo.rx(send_first(at)).rx(send_last(psn(i64::from(at) + 1), 1));
        assert_eq!(received(&mut solo), [(wr_id as u64, WcStatus::Success, MTU as u32 + 1)]);
    }
    solo.end.assert_reason("PSN 100 arrived where 0 was expected");
}

#[test]
fn opcodes_out_of_sequence_drop_the_message_and_begin_a_new_one() {
    let mut solo = solo();
    solo.post_recv(1, 1000).post_recv(2, 1000).post_recv(3, 1000);
    let rkey = solo.rkey();
    // A LAST is missing although no PSN is: the new message is whole.
    solo.rx(send_first(0)).rx(send_only(1, 3));
    assert_eq!(received(&mut solo), [(1, WcStatus::Success, 3)]);
    // Of another operation.
    solo.rx(send_first(2)).rx(write_last(3, 5)).rx(send_last(4, 5));
    solo.rx(write_first(5, 0, rkey, 300)).rx(send_last(6, 44)).rx(write_last(7, 44));
    assert_eq!(received(&mut solo), []);
    assert_eq!(solo.counter(Counter::DropUcMessage), 4);
    solo.rx(send_only(8, 4)).rx(send_only(9, 5)).idle();
    assert_eq!(received(&mut solo), [(2, WcStatus::Success, 4), (3, WcStatus::Success, 5)]);
}

#[test]
fn a_write_with_immediate_that_lost_its_last_packet_does_not_complete() {
    let mut solo = solo();
    let rkey = solo.rkey();
    solo.post_recv(1, 0);
    solo.rx(write_first(0, 0, rkey, 300)).rx(write_only(2, 512, rkey, 10));
    solo.rx(write_first(3, 0, rkey, 600)).rx(write_last(5, 88).opcode(Opcode::RC_WRITE_LAST_IMM).len(88));
    assert_eq!(received(&mut solo), []);
    solo.rx(write_only(6, 0, rkey, 10).opcode(Opcode::RC_WRITE_ONLY_IMM).reth(0, rkey, 10)).idle();
    assert_eq!(received(&mut solo), [(1, WcStatus::Success, 10)]);
}

#[test]
fn a_message_without_a_receive_is_dropped_whole() {
    let mut solo = solo();
    let rkey = solo.rkey();
    solo.rx(send_first(0)).post_recv(1, 1000).rx(send_middle(1)).rx(send_last(2, 1)).idle();
    assert_eq!(received(&mut solo), []);
    solo.rx(send_only(3, 7));
    assert_eq!(received(&mut solo), [(1, WcStatus::Success, 7)]);
    // A WRITE with immediate needs it at its end; the data before is in memory.
    solo.rx(write_first(4, 0, rkey, 300))
        .rx(write_last(5, 44).opcode(Opcode::RC_WRITE_LAST_IMM).len(44))
        .idle();
    assert_eq!(received(&mut solo), []);
    assert_eq!(solo.counter(Counter::OutOfBuffer), 2);
    assert_eq!(solo.end.memory.get(255, 2), [255, 0]);
}

/// Class D: every fault of a request is dropped, and the QP serves the next message (transport.md 3.5, P-29).
#[test]
fn faulty_requests_are_dropped_without_a_word() {
    /// What the reason says, and the packet, made with the right R_Key.
    type Case = (&'static str, fn(u32) -> Shot);
    let cases: [Case; 10] = [
        ("is stale", |rkey| write_only(0, 0, rkey ^ 1, 10)),
        ("R_Key: ", |rkey| write_only(0, 1 << 30, rkey, 10)),
        ("announced 10 bytes", |rkey| write_only(0, 0, rkey, 20).reth(0, rkey, 10)),
        ("announced 256 bytes", |rkey| write_first(0, 0, rkey, 256)),
        ("path MTU is 256", |_| send_only(0, 257)),
        ("path MTU is 256", |_| send_first(0).len(100)),
        ("receive WQE of 100", |_| send_only(0, 101)),
        ("longer than", |rkey| write_first(0, 0, rkey, u32::MAX)),
        ("", |_| send_middle(0)),
        ("", |_| send_last(0, 1)),
    ];
    for (reason, shot) in cases {
        let mut solo = solo();
        let rkey = solo.rkey();
        solo.post_recv(1, 100).rx(shot(rkey)).idle();
        assert_eq!(received(&mut solo), [], "{reason}");
        let quiet = solo.end.asyncs.is_empty() && solo.end.state() == QpState::Rts;
        assert!(quiet && solo.counter(Counter::DropUcMessage) == 1, "{reason}");
        match reason {
            "" => assert_eq!(solo.end.reasons, [""; 0]),
            reason => solo.end.assert_reason(reason),
        }
        solo.rx(send_only(1, 100));
        assert_eq!(received(&mut solo), [(1, WcStatus::Success, 100)], "{reason}");
    }
}

#[test]
fn a_write_that_the_qp_does_not_allow_is_dropped() {
    let mut solo = Solo::with(Setup { access: AccessFlags::REMOTE_READ, ..Setup::of(QpType::Uc) });
    let rkey = solo.rkey();
    solo.rx(write_only(0, 0, rkey, 10)).idle();
    assert_eq!(solo.end.memory.get(0, 10), [0; 10]);
    assert_eq!(solo.counter(Counter::DropUcMessage), 1);
    solo.end.assert_reason("REMOTE_WRITE");
}

#[test]
fn a_region_that_goes_during_a_write_ends_the_message() {
    let mut solo = solo();
    let rkey = solo.rkey();
    solo.post_recv(1, 0).rx(write_first(0, 0, rkey, 600));
    let lkey = solo.end.keys.lkey;
    solo.end.device.deregister(lkey).expect("the region");
    solo.rx(write_middle(1)).rx(write_last(2, 88)).idle();
    assert_eq!(solo.end.memory.get(256, 256), [0; 256]);
    assert_eq!((solo.end.state(), solo.counter(Counter::DropUcMessage)), (QpState::Rts, 2));
}

/// Class A.
#[test]
fn a_receive_with_a_bad_key_takes_the_qp_to_the_error_state() {
    let mut solo = solo();
    let bad = Sge { lkey: 1, ..solo.end.sge(0, 100) };
    solo.end.post_recv(0, 1, &[bad]);
    solo.post_recv(2, 100).rx(send_only(0, 10)).idle();
    let statuses: Vec<_> = solo.end.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(statuses, [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(solo.end.state(), QpState::Err);
}

/// S-2, transport.md 4.2.
#[test]
fn a_request_that_fails_takes_the_qp_to_sqe_and_back() {
    let mut solo = solo();
    let bad = Sge { lkey: 1, ..solo.end.sge(0, 600) };
    solo.post_send(1, 10);
    let mut unsignaled = wr(2, SendOp::Send, &[bad]);
    unsignaled.flags = SendFlags::empty();
    solo.end.post_send(0, unsignaled);
    solo.post_send(3, 10).tx(send_only(0, 10)).idle();
    assert_eq!(solo.end.state(), QpState::Sqe);
    let expected = [(1, WcStatus::Success), (2, WcStatus::LocProtErr), (3, WcStatus::WrFlushErr)];
    assert_eq!(solo.end.sent(), expected);
    // What is posted is flushed; what arrives is received.
    solo.post_send(4, 10).post_recv(5, 100).rx(send_only(0, 10)).idle();
    assert_eq!(solo.end.sent(), [(4, WcStatus::WrFlushErr)]);
    assert_eq!(received(&mut solo), [(5, WcStatus::Success, 10)]);
    assert_eq!(solo.end.asyncs, []);
    let attr = QpAttr { qp_state: QpState::Rts, cur_qp_state: QpState::Sqe, ..QpAttr::default() };
    solo.end.modify(0, attr, QpAttrMask::CUR_STATE);
    solo.post_send(6, 10).tx(send_only(1, 10)).idle();
    assert_eq!(solo.end.sent(), [(6, WcStatus::Success)]);
}

/// transport.md X-24.
#[test]
fn operations_that_the_service_does_not_have_fail() {
    let ops = [
        SendOp::Read { va: Arena::BASE, rkey: RKEY },
        SendOp::FetchAdd { va: Arena::BASE, rkey: RKEY, add: 1 },
        SendOp::CompareSwap { va: Arena::BASE, rkey: RKEY, compare: 0, swap: 1 },
        SendOp::SendInv { rkey: RKEY },
    ];
    for op in ops {
        let mut solo = solo();
        solo.post(1, op, 8).idle();
        assert_eq!(solo.end.sent(), [(1, WcStatus::LocQpOpErr)], "{op:?}");
        assert_eq!(solo.end.state(), QpState::Sqe);
        solo.end.assert_reason(op.name());
    }
}

#[test]
fn a_message_that_is_too_long_fails_before_its_first_packet() {
    let mut solo = solo();
    solo.post_send(1, u32::MAX).idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::LocLenErr)]);
}

///
#[test]
fn sqd_finishes_the_message_under_way_and_begins_no_other() {
    let mut solo = solo();
    solo.post_send(1, packets(3)).post_send(2, 10);
    let mut batch = Batch::with_room(1);
    solo.end.device.poll_transmit(0, &solo.end.memory, &mut batch);
    let attr = QpAttr { qp_state: QpState::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    solo.end.modify(0, attr, QpAttrMask::EN_SQD_ASYNC_NOTIFY);
    assert!(solo.end.device.query_qp(solo.end.qpn).expect("the QP").sq_draining);
    solo.end.collect();
    assert_eq!(solo.end.asyncs, []);
    solo.tx(send_middle(1)).tx(send_last(2, MTU)).idle();
    assert_eq!(solo.end.asyncs, [AsyncEvent::SqDrained(solo.end.qpn)]);
    assert!(!solo.end.device.query_qp(solo.end.qpn).expect("the QP").sq_draining);
    solo.post_recv(5, 100).rx(send_only(0, 10)).idle();
    assert_eq!(received(&mut solo), [(5, WcStatus::Success, 10)]);
    solo.end.modify(0, QpAttr { qp_state: QpState::Rts, ..QpAttr::default() }, QpAttrMask::empty());
    solo.tx(send_only(3, 10)).idle();
}

#[test]
fn the_error_state_flushes_both_queues_and_the_message_under_way() {
    let mut solo = solo();
    solo.post_recv(1, 1000).post_recv(2, 10).post_send(3, packets(2)).rx(send_first(0));
    let mut batch = Batch::with_room(1);
    solo.end.device.poll_transmit(0, &solo.end.memory, &mut batch);
    solo.end.enter(0, QpState::Err);
    solo.idle().rx(send_last(1, 1)).post_recv(4, 10).post_send(5, 10).idle();
    let flushed = |wr_id| (wr_id, WcStatus::WrFlushErr);
    assert_eq!(solo.end.sent(), [flushed(3), flushed(5)]);
    let statuses: Vec<_> = solo.end.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(statuses, [flushed(1), flushed(2), flushed(4)]);
}

#[test]
fn reset_forgets_everything_and_the_qp_serves_again() {
    let mut solo = solo();
    solo.post_recv(1, 1000).post_send(2, packets(2)).rx(send_first(0));
    let mut batch = Batch::with_room(1);
    solo.end.device.poll_transmit(0, &solo.end.memory, &mut batch);
    solo.end.enter(0, QpState::Reset);
    solo.idle();
    assert_eq!(solo.end.completions.len(), 0);
    solo.end.enter_init();
    solo.end.setup.rq_psn = 100;
    solo.end.setup.sq_psn = 200;
    solo.end.enter_rtr(crate::solo::PEER, crate::solo::PEER_QPN);
    assert_eq!(solo.end.state(), QpState::Rtr);
    solo.post_recv(4, 1000).rx(send_only(100, 10)).idle();
    assert_eq!(solo.end.asyncs, [AsyncEvent::CommEst(solo.end.qpn)]);
    solo.end.enter_rts();
    solo.post_send(5, 10).tx(send_only(200, 10)).idle();
    assert_eq!(received(&mut solo), [(4, WcStatus::Success, 10)]);
    assert_eq!(solo.counter(Counter::OutOfSequence), 0);
}

/// A queue that was long gives its memory back after a rest, and nothing else has a deadline.
#[test]
fn a_long_queue_rests() {
    let mut solo = solo();
    for wr_id in 0..1000 {
        solo.post_send(wr_id, 0);
    }
    assert_eq!(solo.skip(), 1000);
    assert!(solo.end.device.poll_timeout().is_some());
    solo.at(1 << 40).idle();
    assert_eq!(solo.end.device.poll_timeout(), None);
}

/// What arrives over a link that loses, repeats, reorders and damages packets is whole messages, unmixed; and no
/// message that lost nothing is missing when every packet comes once and in order.
#[test]
fn what_a_bad_link_lets_through_is_whole() {
    const MESSAGES: u64 = 400;
    for seed in 0..8 {
        let setup = Setup { sq_psn: 0xff_ff00, rq_psn: 0xff_ff00, ..Setup::of(QpType::Uc) };
        let mut pair = Pair::sized(setup.clone(), setup, 1 << 21);
        let lossless = Rc::new(RefCell::new(true));
        let mut bad = crate::workload::bad_link(seed, 60);
        let mut chance = Chance::new(seed);
        let only_loss = seed % 2 == 0;
        let seen = Rc::clone(&lossless);
        pair.rule(move |way, packet: &Packet<'_>| {
            let fate = match only_loss {
                true if chance.one_in(30) => Fate::Drop,
                true => Fate::Pass,
                false => bad(way, packet),
            };
            *seen.borrow_mut() &= fate == Fate::Pass;
            fate
        });
        let slot = 5000;
        let mut whole = Vec::new();
        for n in 0..MESSAGES {
            let size = (n * 37 % 4000) as u32;
            pair.a.memory.put(0, &pattern(size as usize, n as usize));
            let target = pair.b.sge(n * slot, slot as u32);
            pair.b.post_recv(pair.now, n, &[target]);
            let source = pair.a.sge(0, size);
            pair.a.post_send(pair.now, wr(n, SendOp::SendImm { imm: (n as u32).to_be_bytes() }, &[source]));
            *lossless.borrow_mut() = true;
            pair.run();
            if *lossless.borrow() {
                whole.push(n);
            }
        }
        assert_eq!(pair.a.sent().len() as u64, MESSAGES);
        let mut arrived = Vec::new();
        for (place, wc) in pair.b.received().iter().enumerate() {
            assert_eq!((wc.wr_id, wc.status), (place as u64, WcStatus::Success), "in order, none left out");
            let n = u64::from(u32::from_be_bytes(wc.imm));
            assert_eq!(u64::from(wc.byte_len), n * 37 % 4000);
            let bytes = pair.b.memory.get(place as u64 * slot, wc.byte_len as usize);
            assert_eq!(bytes, pattern(wc.byte_len as usize, n as usize), "message {n}");
            arrived.push(n);
        }
        assert!(whole.len() > 100 && whole.iter().all(|n| arrived.contains(n)));
        assert!(arrived.len() < MESSAGES as usize);
        if only_loss {
            assert_eq!(arrived, whole);
        }
        assert_eq!((pair.a.state(), pair.b.state()), (QpState::Rts, QpState::Rts));
    }
}
