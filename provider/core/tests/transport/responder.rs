//! The responder against a scripted requester (transport.md 3, 6.1).

use crate::arena::Arena;
use crate::end::{ALL_ACCESS, Setup};
use crate::shot::*;
use crate::solo::{Solo, packets, psn};
use ferroce_core::{AccessFlags, AsyncEvent, Counter, PdId, QpState, RegionSpec, WcOpcode, WcStatus};
use ferroce_wire::{NakCode, Opcode, Qpn};

fn statuses(solo: &mut Solo) -> Vec<(u64, WcStatus)> {
    solo.end.received().iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

#[test]
fn one_acknowledgement_covers_all_that_came_before_it_was_sent() {
    let mut solo = Solo::new();
    for wr_id in 0..3 {
        solo.post_recv(wr_id, 100).rx(send_only(wr_id as u32, 10));
    }
    solo.tx(ack(2, 3)).idle();
    assert_eq!(solo.counter(Counter::AckDeferred), 2);
}

#[test]
fn a_packet_without_ack_req_is_not_acknowledged() {
    let mut solo = Solo::new();
    solo.post_recv(0, 1000).rx(send_first(0)).idle().rx(send_last(1, 5)).tx(ack(1, 1)).idle();
}

#[test]
fn an_acknowledgement_in_the_middle_carries_the_old_msn() {
    Solo::new().post_recv(0, 1000).rx(send_first(0).ask()).tx(ack(0, 0)).rx(send_last(1, 5)).tx(ack(1, 1));
}

#[test]
fn a_gap_is_answered_by_one_nak_until_it_is_filled() {
    let mut solo = Solo::new();
    solo.post_recv(0, 1000).post_recv(1, 1000);
    solo.rx(send_only(1, 10)).tx(nak_seq(0, 0));
    solo.rx(send_only(2, 10)).rx(send_only(1, 10)).idle();
    solo.rx(send_only(0, 10)).tx(ack(0, 1));
    assert_eq!(solo.counter(Counter::OutOfSequence), 1);
    assert_eq!(solo.counter(Counter::DropOutOfSequence), 2);
    solo.rx(send_only(2, 10)).tx(nak_seq(1, 1));
    assert_eq!(solo.end.received().len(), 1);
    solo.end.assert_reason("PSN 1 arrived where 0 was expected");
}

#[test]
fn a_packet_that_fills_the_gap_before_the_nak_left_moves_the_nak_on() {
    let mut solo = Solo::new();
    solo.post_recv(0, 1000).post_recv(1, 1000);
    solo.rx(send_only(1, 10)).rx(send_only(0, 10)).tx(nak_seq(1, 1)).idle();
    solo.rx(send_only(1, 10)).tx(ack(1, 2)).idle();
}

#[test]
fn duplicates_are_answered_but_a_nak_is_not_repeated_meanwhile() {
    let mut solo = Solo::new();
    solo.post_recv(0, 1000).rx(send_only(0, 10)).tx(ack(0, 1));
    solo.rx(send_only(2, 10)).tx(nak_seq(1, 1));
    solo.rx(send_only(0, 10)).tx(ack(0, 1)).rx(send_only(3, 10)).idle();
}

#[test]
fn a_duplicate_send_is_acknowledged_with_the_newest_psn_and_not_executed() {
    let mut solo = Solo::new();
    solo.post_recv(0, 1000).post_recv(1, 1000).post_recv(2, 1000);
    solo.rx(send_only(0, 10)).rx(send_only(1, 10)).tx(ack(1, 2));
    solo.rx(send_only(0, 10)).tx(ack(1, 2)).rx(send_only(1, 10)).rx(send_only(0, 10)).tx(ack(1, 2)).idle();
    assert_eq!(solo.end.received().len(), 2);
    assert_eq!(solo.counter(Counter::DuplicateRequest), 3);
}

/// rxe acknowledges with PSN 0xffffff here (transport.md X-34).
#[test]
fn the_newest_psn_counts_reads_and_begins_before_rq_psn() {
    let mut solo = Solo::with(Setup { rq_psn: 5, ..Setup::default() });
    solo.rx(write_only(4, 0, solo.rkey(), 4)).tx(ack(4, 0));
    let rkey = solo.rkey();
    solo.rx(read_request(5, 0, rkey, packets(3)))
        .tx(read_first(5, 1))
        .tx(read_middle(6))
        .tx(read_last(7, MTU, 1));
    solo.rx(write_only(4, 0, rkey, 4)).tx(ack(7, 1));
}

#[test]
fn the_halves_of_the_circle_meet_where_the_specification_says() {
    let half = 1 << 23;
    let mut solo = Solo::with(Setup { rq_psn: 100, ..Setup::default() });
    solo.rx(send_only(psn(100 - half), 1)).tx(ack(99, 0));
    solo.rx(send_only(psn(100 + half - 1), 1)).tx(nak_seq(100, 0));
}

#[test]
fn numbers_wrap() {
    let mut solo = Solo::with(Setup { rq_psn: 0xff_ffff, ..Setup::default() });
    let rkey = solo.rkey();
    solo.post_recv(0, 1000);
    solo.rx(send_first(0xff_ffff)).rx(send_last(0, 1)).tx(ack(0, 1));
    solo.rx(send_only(0xff_ffff, 1)).tx(ack(0, 1));
    let mut solo = Solo::with(Setup { rq_psn: 0xff_ffff, ..Setup::default() });
    solo.rx(read_request(0xff_ffff, 0, rkey, packets(2)))
        .tx(read_first(0xff_ffff, 1))
        .tx(read_last(0, MTU, 1));
    solo.rx(fetch_add(1, 0, rkey, 1)).tx(atomic_ack(1, 2, 0));
    solo.rx(send_only(3, 1)).tx(nak_seq(2, 2));
}

#[test]
fn a_read_is_answered_before_what_came_after_it() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.post_recv(0, 100);
    solo.rx(read_request(0, 0, rkey, packets(2))).rx(send_only(2, 10)).rx(fetch_add(3, 64, rkey, 1));
    solo.tx(read_first(0, 1)).tx(read_last(1, MTU, 1)).tx(atomic_ack(3, 3, 0)).idle();
    solo.rx(write_only(4, 0, rkey, 4)).tx(ack(4, 4)).idle();
}

#[test]
fn a_duplicate_read_is_read_again_whole_or_from_the_middle() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.rx(read_request(0, 512, rkey, packets(3) + 7)).skip();
    solo.end.memory.put(512, &[9; 1024]);
    solo.rx(read_request(0, 512, rkey, packets(3) + 7));
    assert_eq!(solo.tx_payload(), [9; MTU]);
    solo.tx(read_middle(1)).tx(read_middle(2)).tx(read_last(3, 7, 1)).idle();
    solo.rx(read_request(2, 512 + 2 * 256, rkey, packets(1) + 7))
        .tx(read_first(2, 1))
        .tx(read_last(3, 7, 1))
        .idle();
    solo.rx(read_request(3, 512 + 3 * 256, rkey, 7)).tx(read_only(3, 7, 1)).idle();
    // A part that ends early.
    solo.rx(read_request(1, 512 + 256, rkey, 100)).tx(read_only(1, 100, 1)).idle();
}

#[test]
fn a_duplicate_read_of_something_else_is_dropped() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.rx(read_request(0, 512, rkey, packets(3))).skip();
    solo.rx(read_request(1, 512 + 256, rkey, packets(3))).idle();
    solo.rx(read_request(1, 512, rkey, packets(2))).idle();
    solo.rx(read_request(1, 512 + 256, rkey ^ 1, packets(2))).idle();
    solo.rx(read_request(psn(-1), 512, rkey, 10)).idle();
    assert_eq!(solo.counter(Counter::DropDuplicate), 4);
    assert_eq!(solo.end.state(), QpState::Rts);
}

#[test]
fn a_duplicate_read_whose_region_has_gone_is_refused() {
    let mut solo = Solo::new();
    let keys = solo.end.device.register(region(ALL_ACCESS)).expect("a region");
    solo.rx(read_request(0, 0, keys.rkey, packets(2))).skip();
    solo.end.device.deregister(keys.lkey).expect("the region");
    solo.rx(read_request(1, 256, keys.rkey, packets(1))).tx(nak(1, 1, NakCode::RemoteAccessError)).idle();
    assert_eq!(solo.end.state(), QpState::Err);
    assert_eq!(solo.end.asyncs, [AsyncEvent::QpAccessErr(solo.end.qpn)]);
}

/// rxe answered duplicates with what memory held then (transport.md X-21).
#[test]
fn a_duplicate_atomic_returns_the_first_value_and_changes_nothing() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.rx(fetch_add(0, 64, rkey, 5)).tx(atomic_ack(0, 1, 0));
    solo.rx(compare_swap(1, 64, rkey, 5, 70)).tx(atomic_ack(1, 2, 5));
    solo.rx(fetch_add(0, 64, rkey, 5)).tx(atomic_ack(0, 1, 0));
    solo.rx(compare_swap(1, 64, rkey, 5, 70)).tx(atomic_ack(1, 2, 5)).idle();
    assert_eq!(solo.end.memory.get(64, 8), 70u64.to_ne_bytes());
    // Not the same request.
    solo.rx(compare_swap(0, 64, rkey, 5, 70)).rx(fetch_add(0, 72, rkey, 5)).idle();
}

#[test]
fn only_as_many_atomics_are_kept_as_may_be_outstanding() {
    let mut solo = Solo::with(Setup { max_dest_rd_atomic: 2, ..Setup::default() });
    let rkey = solo.rkey();
    for psn in 0..3 {
        solo.rx(fetch_add(psn, 64, rkey, 1)).tx(atomic_ack(psn, psn + 1, psn.into()));
    }
    solo.rx(fetch_add(0, 64, rkey, 1)).idle();
    solo.rx(fetch_add(1, 64, rkey, 1)).tx(atomic_ack(1, 2, 1)).idle();
    assert_eq!(solo.counter(Counter::DropDuplicate), 1);
}

#[test]
fn more_reads_than_allowed_are_refused() {
    for limit in [0, 1, 2] {
        let mut solo = Solo::with(Setup { max_dest_rd_atomic: limit, ..Setup::default() });
        let rkey = solo.rkey();
        for psn in 0..=u32::from(limit) {
            solo.rx(read_request(psn, 0, rkey, 8));
        }
        for psn in 0..u32::from(limit) {
            solo.tx(read_only(psn, 8, psn + 1));
        }
        solo.tx(nak(limit.into(), limit.into(), NakCode::InvalidRequest)).idle();
        assert_eq!(solo.end.state(), QpState::Err);
        solo.end.assert_reason("max_dest_rd_atomic");
    }
}

/// A duplicate, late on its way, of a READ whose answer the requester has: the new READ is within the limit.
#[test]
fn a_read_that_is_answered_again_is_not_outstanding() {
    let mut solo = Solo::with(Setup { max_dest_rd_atomic: 1, ..Setup::default() });
    let rkey = solo.rkey();
    solo.rx(read_request(0, 0, rkey, 8)).tx(read_only(0, 8, 1));
    solo.rx(read_request(0, 0, rkey, 8)).rx(read_request(1, 0, rkey, 8)).tx(read_only(1, 8, 2)).idle();
}

#[test]
fn a_send_without_a_receive_is_put_off_and_comes_again() {
    let mut solo = Solo::with(Setup { min_rnr_timer: 12, ..Setup::default() });
    solo.rx(send_only(0, 10)).tx(rnr_nak(0, 0, 12));
    // Not answered by a sequence NAK, as rxe would (transport.md P-7).
    solo.rx(send_only(1, 10)).rx(send_only(2, 10)).idle();
    solo.rx(send_only(0, 10)).tx(rnr_nak(0, 0, 12));
    solo.post_recv(1, 100).post_recv(2, 100);
    solo.rx(send_only(0, 10)).rx(send_only(1, 10)).tx(ack(1, 2)).idle();
    assert_eq!(solo.counter(Counter::OutOfBuffer), 2);
    assert_eq!(solo.end.state(), QpState::Rts);
    assert_eq!(statuses(&mut solo), [(1, WcStatus::Success), (2, WcStatus::Success)]);
}

#[test]
fn a_write_with_immediate_without_a_receive_does_not_complete() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    let last = write_last(1, 10).opcode(Opcode::RC_WRITE_LAST_IMM);
    solo.rx(write_first(0, 0x100, rkey, packets(1) + 10)).rx(last.clone()).tx(rnr_nak(1, 0, 1));
    assert_eq!(solo.end.memory.get(0x200, 10), [0; 10]);
    solo.post_recv(7, 0).rx(last).tx(ack(1, 1));
    let received = solo.end.received();
    assert_eq!((received[0].opcode, received[0].byte_len), (WcOpcode::RecvRdmaWithImm, 266));
    assert_eq!(solo.end.memory.get(0x200, 4), [0, 1, 2, 3]);
}

#[test]
fn opcodes_out_of_sequence_are_refused() {
    let rkey = Solo::new().rkey();
    let cases: [(&[Shot], Shot); 6] = [
        (&[], send_middle(0).ask()),
        (&[], write_last(0, 1)),
        (&[send_first(0)], send_only(1, 1)),
        (&[send_first(0)], write_middle(1)),
        (&[write_first(0, 0, rkey, 700)], send_middle(1)),
        (&[write_first(0, 0, rkey, 700)], read_request(1, 0, rkey, 8)),
    ];
    for (before, bad) in cases {
        let mut solo = Solo::new();
        solo.post_recv(1, 4000).post_recv(2, 4000);
        for shot in before {
            solo.rx(shot.clone()).idle();
        }
        solo.rx(bad).tx(nak(before.len() as u32, 0, NakCode::InvalidRequest)).idle();
        assert_eq!(solo.end.state(), QpState::Err);
        let held = before.first().is_some_and(|shot| shot.header.opcode() == Opcode::RC_SEND_FIRST);
        let first = if held { WcStatus::RemInvReqErr } else { WcStatus::WrFlushErr };
        assert_eq!(statuses(&mut solo), [(1, first), (2, WcStatus::WrFlushErr)]);
        let events = if held { vec![] } else { vec![AsyncEvent::QpReqErr(solo.end.qpn)] };
        assert_eq!(solo.end.asyncs, events);
        // In ERR nothing is answered.
        solo.rx(send_only(0, 1)).idle();
        assert_eq!(solo.counter(Counter::DropState), 1);
    }
}

#[test]
fn packets_of_a_wrong_length_are_refused() {
    let rkey = Solo::new().rkey();
    let cases: [(&[Shot], Shot, &str); 11] = [
        (&[], send_first(0).len(MTU - 4), "path MTU is 256"),
        (&[], send_first(0).len(MTU + 4), "path MTU is 256"),
        (&[], send_only(0, MTU + 1), "path MTU is 256"),
        (&[send_first(0)], send_middle(1).len(4), "path MTU is 256"),
        (&[send_first(0)], send_last(1, 0), "path MTU is 256"),
        (&[], write_first(0, 0, rkey, 1000).len(MTU - 4), "path MTU is 256"),
        (&[], write_only(0, 0, rkey, 8).len(12), "announced 8 bytes and the packets carried 12"),
        (&[], write_first(0, 0, rkey, packets(1)), "announced 256 bytes"),
        (&[write_first(0, 0, rkey, packets(2))], write_middle(1), "announced 512 bytes"),
        (&[write_first(0, 0, rkey, packets(2))], write_last(1, 255), "announced 512 bytes"),
        (&[], read_request(0, 0, rkey, (1 << 30) + 1), "longer than"),
    ];
    for (before, bad, reason) in cases {
        let mut solo = Solo::new();
        solo.post_recv(1, 4000);
        for shot in before {
            solo.rx(shot.clone());
        }
        solo.rx(bad).tx(nak(before.len() as u32, 0, NakCode::InvalidRequest)).idle();
        assert_eq!(solo.end.state(), QpState::Err);
        solo.end.assert_reason(reason);
    }
}

#[test]
fn a_pad_that_does_not_fit_the_length_is_refused() {
    let mut solo = Solo::new();
    solo.post_recv(1, 4000);
    let mut bytes = send_only(0, 5).bytes(crate::solo::PEER, solo.end.address, solo.end.qpn);
    // Two bytes of pad where three belong.
    bytes[1] = bytes[1] & !0x30 | 0x20;
    bytes.pop();
    ferroce_wire::icrc::seal(&crate::end::ip_context(crate::solo::PEER, solo.end.address), &mut bytes);
    solo.rx_bytes(&bytes).tx(nak(0, 0, NakCode::InvalidRequest)).idle();
}

#[test]
fn a_message_longer_than_the_receive_is_refused() {
    let mut solo = Solo::new();
    solo.post_recv(1, 300).post_recv(2, 300);
    solo.rx(send_first(0)).rx(send_middle(1)).tx(nak(1, 0, NakCode::InvalidRequest)).idle();
    assert_eq!(statuses(&mut solo), [(1, WcStatus::LocLenErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(solo.end.asyncs, []);
    assert_eq!(solo.end.memory.get(0x8000 + 256, 44), [0; 44]);
    solo.end.assert_reason("at least 512 bytes came to a receive WQE of 300");
}

#[test]
fn a_receive_that_cannot_be_used_is_the_responders_fault() {
    for wrong_lkey in [true, false] {
        let mut solo = Solo::new();
        let mut sge = solo.end.sge(0, 300);
        if wrong_lkey {
            sge.lkey ^= 1;
        } else {
            sge.addr += (1 << 20) - 100;
        }
        solo.end.post_recv(0, 1, &[sge]);
        solo.rx(send_only(0, 200)).tx(nak(0, 0, NakCode::RemoteOperationalError)).idle();
        assert_eq!(statuses(&mut solo), [(1, WcStatus::LocProtErr)]);
        assert_eq!(solo.end.state(), QpState::Err);
    }
}

fn region(access: AccessFlags) -> RegionSpec {
    RegionSpec { pd: crate::end::PD, addr: Arena::BASE, length: 4096, iova: Arena::BASE, access }
}

#[test]
fn keys_that_do_not_give_the_right_are_refused() {
    let specs = [
        ("stale", region(ALL_ACCESS)),
        ("other PD", RegionSpec { pd: PdId(9), ..region(ALL_ACCESS) }),
        ("read only", region(AccessFlags::REMOTE_READ)),
        ("write only", region(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)),
        ("too small", RegionSpec { length: 100, ..region(ALL_ACCESS) }),
    ];
    for (name, spec) in specs {
        for (kind, may) in [(0, "write only"), (1, "read only"), (2, "")] {
            if name == may {
                continue;
            }
            let mut solo = Solo::new();
            let keys = solo.end.device.register(spec).expect("a region");
            let rkey = if name == "stale" { keys.rkey ^ 1 } else { keys.rkey };
            let request = match kind {
                0 => write_only(0, 0, rkey, 200),
                1 => read_request(0, 0, rkey, 200),
                _ => fetch_add(0, 96, rkey, 1),
            };
            solo.rx(request).tx(nak(0, 0, NakCode::RemoteAccessError)).idle();
            assert_eq!(solo.end.state(), QpState::Err, "{name}");
            assert_eq!(solo.end.asyncs, [AsyncEvent::QpAccessErr(solo.end.qpn)], "{name}");
            assert_eq!(solo.end.memory.get(0, 256), [0; 256], "{name}");
            assert_eq!(solo.counter(Counter::RespRemoteAccessErrors), 1);
        }
    }
}

/// Ranges that wrap at 2^64 (transport.md ).
#[test]
fn a_range_that_wraps_is_refused() {
    let start = 0xffff_ffff_ffff_fc00u64.wrapping_sub(Arena::BASE);
    let rkey = Solo::new().rkey();
    for request in [write_first(0, start, rkey, 0x400 + 256), read_request(0, start, rkey, 0x400)] {
        Solo::new().rx(request).tx(nak(0, 0, NakCode::RemoteAccessError)).idle();
    }
}

#[test]
fn a_qp_that_does_not_allow_the_operation_calls_it_invalid() {
    for (request, flag) in [
        (write_only(0, 0, 1, 8), AccessFlags::REMOTE_WRITE),
        (read_request(0, 0, 1, 8), AccessFlags::REMOTE_READ),
        (fetch_add(0, 0, 1, 1), AccessFlags::REMOTE_ATOMIC),
        (compare_swap(0, 0, 1, 1, 1), AccessFlags::REMOTE_ATOMIC),
    ] {
        let mut solo = Solo::with(Setup { access: ALL_ACCESS.difference(flag), ..Setup::default() });
        solo.rx(request).tx(nak(0, 0, NakCode::InvalidRequest)).idle();
        solo.end.assert_reason("qp_access_flags");
    }
}

#[test]
fn a_misaligned_atomic_is_invalid() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.rx(fetch_add(0, 4, rkey, 1)).tx(nak(0, 0, NakCode::InvalidRequest)).idle();
    assert_eq!(solo.end.asyncs, [AsyncEvent::QpReqErr(solo.end.qpn)]);
}

#[test]
fn a_write_with_immediate_and_a_bad_key_fails_the_receive_it_took() {
    let mut solo = Solo::new();
    let rkey = solo.rkey() ^ 1;
    solo.post_recv(1, 10);
    let shot = write_only(0, 0, rkey, 8).opcode(Opcode::RC_WRITE_ONLY_IMM).reth(0, rkey, 8);
    solo.rx(shot).tx(nak(0, 0, NakCode::RemoteAccessError)).idle();
    assert_eq!(statuses(&mut solo), [(1, WcStatus::LocAccessErr)]);
    assert_eq!(solo.end.asyncs, []);
}

/// Class J: the data is delivered and acknowledged, the error stays here.
#[test]
fn a_send_that_invalidates_what_it_may_not_fails_the_receiver() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.post_recv(1, 10).post_recv(2, 10);
    let shot = send_only(0, 8).opcode(Opcode::RC_SEND_ONLY_INV).header(|header| header.ieth(rkey));
    solo.rx(shot).tx(ack(0, 1)).idle();
    assert_eq!(statuses(&mut solo), [(1, WcStatus::RemInvReqErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(solo.end.state(), QpState::Err);
    assert_eq!(solo.end.memory.get(0x8000, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// rxe repeated such a READ for ever (transport.md X-17).
#[test]
fn a_region_that_goes_away_during_a_read_ends_it_with_a_nak_in_its_place() {
    let mut solo = Solo::with(Setup { max_dest_rd_atomic: 16, ..Setup::default() });
    let keys =
        solo.end.device.register(RegionSpec { length: 1 << 20, ..region(ALL_ACCESS) }).expect("a region");
    solo.rx(read_request(0, 0, keys.rkey, packets(2000)));
    let mut batch = crate::end::Batch::with_room(300);
    solo.end.device.poll_transmit(0, &solo.end.memory, &mut batch);
    assert_eq!(batch.packets.len(), 300);
    solo.end.device.deregister(keys.lkey).expect("the region");
    solo.tx(nak(300, 1, NakCode::RemoteAccessError)).idle();
    assert_eq!(solo.end.state(), QpState::Err);
}

#[test]
fn a_nak_waits_for_the_answers_of_reads_before_it() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.rx(read_request(0, 0, rkey, packets(2))).rx(write_only(2, 0, rkey ^ 1, 8));
    assert_eq!(solo.end.state(), QpState::Err);
    solo.tx(read_first(0, 1)).tx(read_last(1, MTU, 1)).tx(nak(2, 1, NakCode::RemoteAccessError)).idle();
}

#[test]
fn packets_that_are_not_for_the_qp_are_dropped_and_counted() {
    let mut solo = Solo::new();
    solo.post_recv(1, 100);
    let (me, qpn, peer) = (solo.end.address, solo.end.qpn, crate::solo::PEER);
    let good = send_only(0, 8);
    let wrong_key = good.clone().header(|header| header.pkey(0x1234)).bytes(peer, me, qpn);
    solo.rx_bytes(&wrong_key).rx_bytes(&good.bytes(peer, me, Qpn::new(qpn.value() + 1)));
    solo.rx_bytes(&good.bytes(peer, me, Qpn::new(0)));
    let mut version = good.bytes(peer, me, qpn);
    version[1] |= 1;
    let mut corrupt = good.bytes(peer, me, qpn);
    corrupt[20] ^= 4;
    let uc = send_only(0, 8).opcode(Opcode::UC_SEND_ONLY).bytes(peer, me, qpn);
    let xrc = send_only(0, 8).opcode(Opcode::XRC_SEND_ONLY).bytes(peer, me, qpn);
    let mut unknown = good.bytes(peer, me, qpn);
    unknown[0] = 0xff;
    for bytes in [version, corrupt, uc, xrc, unknown] {
        solo.rx_bytes(&bytes);
    }
    solo.rx_bytes(&good.bytes(peer, me, qpn)[..14]);
    let other = "10.0.0.7".parse().expect("an address");
    solo.end.handle_packet(0, other, &good.bytes(other, me, qpn));
    solo.idle();
    for (counter, count) in [
        (Counter::DropPkey, 1),
        (Counter::DropUnknownQpn, 2),
        (Counter::DropTransportVersion, 1),
        (Counter::DropIcrc, 1),
        (Counter::DropService, 2),
        (Counter::DropUnknownOpcode, 1),
        (Counter::DropMalformed, 1),
        (Counter::DropAddress, 1),
    ] {
        assert_eq!(solo.counter(counter), count, "{}", counter.name());
    }
    // M, reserved bits and limited membership of the default partition do not matter (D3).
    let mut odd = good.header(|header| header.mig_req(false).pkey(0x7fff).fecn(true)).bytes(peer, me, qpn);
    odd[4] |= 0x3f;
    odd[8] |= 0x7f;
    ferroce_wire::icrc::seal(&crate::end::ip_context(peer, me), &mut odd);
    solo.rx_bytes(&odd).tx(ack(0, 1));
    assert_eq!(solo.end.received().len(), 1);
}
