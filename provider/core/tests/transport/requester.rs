//! The requester against a scripted responder (transport.md 2, 6.1 point 29).

use crate::arena::Arena;
use crate::end::{Setup, wr};
use crate::shot::*;
use crate::solo::{Solo, packets, psn};
use ferroce_core::{Counter, Payload, QpState, Remote, SendFlags, SendOp, SendWr, Sge, WcStatus};
use ferroce_wire::{NakCode, Opcode, Syndrome, rnr_timer_ns};

const READ: SendOp = SendOp::Read { va: Arena::BASE, rkey: RKEY };
const WRITE: SendOp = SendOp::Write { va: Arena::BASE, rkey: RKEY };
const FETCH_ADD: SendOp = SendOp::FetchAdd { va: Arena::BASE, rkey: RKEY, add: 3 };

/// The local ACK timeout of [`Setup`]'s default code 8.
const TIMEOUT: u64 = 4096 << 8;

fn ok(wr_ids: impl IntoIterator<Item = u64>) -> Vec<(u64, WcStatus)> {
    wr_ids.into_iter().map(|wr_id| (wr_id, WcStatus::Success)).collect()
}

#[test]
fn messages_are_split_and_ask_for_an_acknowledgement_at_their_end() {
    let mut solo = Solo::new();
    solo.post_send(1, packets(2) + 1).post(2, WRITE, packets(2)).post_send(3, 0);
    solo.tx(send_first(0)).tx(send_middle(1)).tx(send_last(2, 1));
    solo.tx(write_first(3, 0, RKEY, packets(2))).tx(write_last(4, MTU)).tx(send_only(5, 0)).idle();
}

#[test]
fn a_long_message_asks_several_times_in_a_window() {
    let mut solo = Solo::new();
    solo.post_send(1, packets(200));
    // The first window is 32 packets; a quarter of it goes without AckReq.
    for psn in 0..32 {
        let shot = if psn == 0 { send_first(0) } else { send_middle(psn) };
        solo.tx(if psn % 8 == 7 { shot.ask() } else { shot });
    }
    solo.idle().rx(ack(7, 0));
    assert_eq!(solo.skip(), 16, "one for each acknowledged packet, and one more");
}

#[test]
fn an_acknowledgement_completes_all_before_it() {
    let mut solo = Solo::new();
    for wr_id in 0..4 {
        solo.post_send(wr_id, 300);
    }
    assert_eq!(solo.skip(), 8);
    solo.rx(ack(2, 1));
    assert_eq!(solo.end.sent(), ok([0]));
    solo.rx(ack(7, 4));
    assert_eq!(solo.end.sent(), ok([1, 2, 3]));
    solo.at(10 * TIMEOUT).idle();
    assert_eq!(solo.counter(Counter::LocalAckTimeoutErr), 0);
}

/// MSN and credits may say anything (transport.md 6.1 point 29).
#[test]
fn msn_and_credits_do_not_matter() {
    for credits in 0..=31 {
        let mut solo = Solo::new();
        solo.post_send(1, 10).post_send(2, 10).skip();
        solo.rx(acknowledge(0, 0xff_ffff, Syndrome::Ack { credits })).rx(acknowledge(
            1,
            0,
            Syndrome::Ack { credits },
        ));
        assert_eq!(solo.end.sent(), ok([1, 2]));
    }
}

#[test]
fn acknowledgements_of_what_was_not_sent_are_ignored() {
    let mut solo = Solo::new();
    solo.rx(ack(0, 0)).rx(nak_seq(0, 0)).idle();
    solo.post_send(1, packets(2)).skip();
    solo.rx(ack(2, 1)).rx(ack(psn(-1), 1)).rx(nak_seq(psn(-5), 1)).rx(read_only(7, 4, 1)).idle();
    assert_eq!(solo.counter(Counter::DropGhostAck), 4);
    assert_eq!(solo.counter(Counter::DropStaleResponse), 2);
    assert_eq!(solo.end.sent(), []);
    solo.rx(ack(1, 1)).rx(ack(1, 1)).rx(ack(1, 1));
    assert_eq!(solo.end.sent(), ok([1]));
}

#[test]
fn nak_restarts_from_its_psn() {
    let mut solo = Solo::new();
    solo.post_send(1, 300).post_send(2, packets(2) + 10);
    assert_eq!(solo.skip(), 5);
    solo.rx(nak_seq(3, 1)).tx(send_middle(3)).tx(send_last(4, 10)).idle();
    assert_eq!(solo.end.sent(), ok([1]));
    // More news of the same loss.
    solo.rx(nak_seq(3, 1)).rx(nak_seq(3, 1)).idle();
    solo.rx(ack(4, 2));
    assert_eq!(solo.end.sent(), ok([2]));
    assert_eq!(solo.counter(Counter::PacketSeqErr), 3);
    assert_eq!(solo.counter(Counter::RetransmittedPackets), 2);
}

/// Payload is read again, and RETHs stand only where the opcode has one (handed case D9).
#[test]
fn a_write_resumed_in_the_middle_goes_on_where_it_was() {
    let mut solo = Solo::new();
    solo.post(1, WRITE, packets(4)).skip();
    solo.end.memory.put(0x1000 + 512, &[7; 256]);
    solo.rx(nak_seq(2, 0));
    assert_eq!(solo.tx_payload(), [7; 256]);
    solo.tx(write_last(3, MTU)).idle();
}

#[test]
fn an_acknowledgement_during_the_repetition_shortens_it() {
    let mut solo = Solo::new();
    for wr_id in 0..3 {
        solo.post_send(wr_id, 10);
    }
    assert_eq!(solo.skip(), 3);
    solo.end.device.handle_timeout(TIMEOUT);
    solo.rx(ack(1, 2)).tx(send_only(2, 10)).idle();
    assert_eq!(solo.end.sent(), ok([0, 1]));
}

#[test]
fn silence_ends_in_retry_exceeded_after_one_timeout_more_than_retries() {
    for retry_cnt in [0, 3, 7] {
        let mut solo = Solo::with(Setup { retry_cnt, ..Setup::default() });
        solo.post_send(1, 10).post_send(2, 10);
        assert_eq!(solo.skip(), 2);
        let timeout =
            |in_a_row| [TIMEOUT, 2 * TIMEOUT].get(usize::from(in_a_row)).copied().unwrap_or(2 * (4096 << 16));
        let mut due = 0;
        for retry in 0..retry_cnt {
            due += timeout(retry);
            solo.at(due - 1).idle().at(due).tx(send_only(0, 10)).tx(send_only(1, 10)).idle();
        }
        due += timeout(retry_cnt);
        solo.at(due - 1).idle();
        assert_eq!(solo.end.sent(), []);
        solo.at(due).idle();
        assert_eq!(solo.end.sent(), [(1, WcStatus::RetryExcErr), (2, WcStatus::WrFlushErr)]);
        assert_eq!(solo.end.state(), QpState::Err);
        assert_eq!(solo.counter(Counter::LocalAckTimeoutErr), u64::from(retry_cnt) + 1);
        assert_eq!(solo.end.asyncs, []);
        solo.end.assert_reason("no acknowledgement before the local ACK timeout");
    }
}

#[test]
fn progress_gives_the_retries_back() {
    let mut solo = Solo::with(Setup { retry_cnt: 2, ..Setup::default() });
    solo.post_send(1, packets(10)).skip();
    for psn in 0..9 {
        solo.at(solo.now + TIMEOUT).skip();
        solo.at(solo.now + 2 * TIMEOUT).skip();
        solo.rx(ack(psn, 0));
    }
    solo.rx(ack(9, 1));
    assert_eq!(solo.end.sent(), ok([1]));
}

#[test]
fn a_timeout_of_zero_waits_for_ever() {
    let mut solo = Solo::with(Setup { timeout: 0, ..Setup::default() });
    solo.post_send(1, 10).skip();
    assert_eq!(solo.end.device.poll_timeout(), None);
}

/// Handed case D7: not before the time, for every code, and the ACK timeout rests meanwhile.
#[test]
fn an_rnr_wait_lasts_as_long_as_its_code_says() {
    for code in 0..=31 {
        let mut solo = Solo::with(Setup { timeout: 1, rnr_retry: 7, ..Setup::default() });
        solo.post_send(1, 10).post_send(2, 10).skip();
        solo.rx(rnr_nak(0, 0, code));
        // rxe sends this one as well.
        solo.rx(nak_seq(0, 0)).rx(rnr_nak(0, 0, code)).idle();
        let over = solo.now + rnr_timer_ns(code);
        solo.at(over - 1).idle().at(over).tx(send_only(0, 10)).tx(send_only(1, 10)).idle();
        assert_eq!(solo.counter(Counter::LocalAckTimeoutErr), 0);
    }
}

#[test]
fn rnr_retries_are_counted_and_seven_is_for_ever() {
    for rnr_retry in [0, 2, 7] {
        let mut solo = Solo::with(Setup { rnr_retry, ..Setup::default() });
        solo.post_send(1, 10).post_send(2, 10).skip();
        let rounds = if rnr_retry == 7 { 100 } else { rnr_retry };
        for _ in 0..rounds {
            let over = solo.now + 10_000;
            solo.rx(rnr_nak(0, 0, 1)).idle().at(over).tx(send_only(0, 10)).tx(send_only(1, 10));
        }
        assert_eq!(solo.end.sent(), []);
        if rnr_retry == 7 {
            continue;
        }
        solo.rx(rnr_nak(0, 0, 1)).idle();
        assert_eq!(solo.end.sent(), [(1, WcStatus::RnrRetryExcErr), (2, WcStatus::WrFlushErr)]);
        assert_eq!(solo.end.state(), QpState::Err);
    }
}

#[test]
fn an_rnr_nak_acknowledges_what_came_before() {
    let mut solo = Solo::new();
    solo.post(1, WRITE, 10).post_send(2, 10).post_send(3, 10).skip();
    solo.rx(rnr_nak(1, 1, 1));
    assert_eq!(solo.end.sent(), ok([1]));
    solo.at(10_000).tx(send_only(1, 10)).tx(send_only(2, 10)).idle();
}

#[test]
fn naks_end_the_wqe_they_name() {
    for (code, status) in [
        (NakCode::InvalidRequest, WcStatus::RemInvReqErr),
        (NakCode::RemoteAccessError, WcStatus::RemAccessErr),
        (NakCode::RemoteOperationalError, WcStatus::RemOpErr),
        (NakCode::InvalidRdRequest, WcStatus::BadRespErr),
        (NakCode::Reserved(5), WcStatus::BadRespErr),
    ] {
        let mut solo = Solo::new();
        let sge = solo.end.sge(0, 10);
        for wr_id in 0..4 {
            // An error makes a completion whether it is asked for or not.
            let mut request = wr(wr_id, SendOp::Send, &[sge]);
            request.flags = SendFlags::empty();
            solo.end.post_send(0, request);
        }
        solo.post_recv(9, 10).skip();
        solo.rx(nak(1, 1, code)).idle();
        assert_eq!(solo.end.completions[0].retires, 2);
        assert_eq!(solo.end.sent(), [(1, status), (2, WcStatus::WrFlushErr), (3, WcStatus::WrFlushErr)]);
        assert_eq!(solo.end.received()[0].status, WcStatus::WrFlushErr);
        assert_eq!(solo.end.state(), QpState::Err);
        // After that nothing is taken and nothing sent.
        solo.rx(ack(3, 4)).rx(send_only(0, 1)).at(100 * TIMEOUT).idle();
        assert_eq!(solo.end.device.poll_timeout(), None);
    }
}

#[test]
fn syndromes_without_a_meaning_are_bad_responses() {
    for syndrome in [0x40, 0x5f, 0x80, 0xff] {
        let mut solo = Solo::new();
        solo.post_send(1, 10).skip();
        solo.rx(acknowledge(0, 1, Syndrome::from_u8(syndrome)));
        assert_eq!(solo.end.sent(), [(1, WcStatus::BadRespErr)]);
    }
}

#[test]
fn a_read_is_answered_packet_by_packet_and_acknowledges_what_came_before() {
    let mut solo = Solo::new();
    solo.post_send(1, 10).post(2, READ, packets(2) + 5).post_send(3, 10);
    solo.tx(send_only(0, 10)).tx(read_request(1, 0, RKEY, packets(2) + 5)).tx(send_only(4, 10)).idle();
    solo.rx(read_first(1, 2));
    assert_eq!(solo.end.sent(), ok([1]));
    solo.rx(read_middle(2)).rx(read_last(3, 5, 2));
    assert_eq!(solo.end.sent(), ok([2]));
    solo.rx(ack(4, 3));
    assert_eq!(solo.end.sent(), ok([3]));
    assert_eq!(solo.end.memory.get(0x1000 + 512, 5), [0, 1, 2, 3, 4]);
}

/// rxe waits for the timeout (transport.md, rxe-and-rig 5); ConnectX asks at once, and so does this.
#[test]
fn a_hole_in_a_read_is_asked_for_at_once_and_once() {
    let mut solo = Solo::new();
    solo.post(1, READ, packets(5)).post_send(2, 10).skip();
    solo.rx(read_first(0, 1)).rx(read_middle(2));
    solo.tx(read_request(1, 256, RKEY, packets(4))).tx(send_only(5, 10)).idle();
    solo.rx(read_middle(3)).rx(read_last(4, MTU, 1)).idle();
    solo.rx(read_first(1, 1)).rx(read_middle(2)).rx(read_middle(3)).rx(read_last(4, MTU, 1)).rx(ack(5, 2));
    assert_eq!(solo.end.sent(), ok([1, 2]));
    assert_eq!(solo.counter(Counter::ImpliedNakSeqErr), 1);
}

#[test]
fn a_read_that_lost_its_first_or_last_response_is_asked_for_again() {
    let mut solo = Solo::new();
    solo.post(1, READ, packets(3)).skip();
    solo.rx(read_middle(1)).tx(read_request(0, 0, RKEY, packets(3))).rx(read_last(2, MTU, 1)).idle();
    solo.rx(read_first(0, 1)).rx(read_middle(1)).at(TIMEOUT - 1).idle();
    solo.at(TIMEOUT).tx(read_request(2, 512, RKEY, packets(1))).rx(read_only(2, MTU, 1));
    assert_eq!(solo.end.sent(), ok([1]));
}

#[test]
fn an_acknowledgement_beyond_a_read_says_that_its_response_was_lost() {
    for op in [READ, FETCH_ADD] {
        let mut solo = Solo::new();
        solo.post_send(1, 10).post(2, op, 8).post_send(3, 10);
        assert_eq!(solo.skip(), 3);
        solo.rx(ack(2, 3));
        assert_eq!(solo.end.sent(), ok([1]));
        assert_eq!(solo.skip(), 2);
        assert_eq!(solo.counter(Counter::ImpliedNakSeqErr), 1);
        // In place of the response itself it says the same.
        let mut solo = Solo::new();
        solo.post(1, op, 8).skip();
        solo.rx(ack(0, 1));
        assert_eq!((solo.end.sent(), solo.skip()), (vec![], 1));
    }
}

/// A NAK in the middle of a READ ends it; rxe tried again (transport.md ).
#[test]
fn a_nak_in_the_middle_of_a_read_ends_it() {
    for before in [0, 1] {
        let mut solo = Solo::new();
        solo.post_send(1, 10).post(2, READ, packets(5)).skip();
        solo.rx(read_first(1, 2));
        if before == 1 {
            solo.rx(read_middle(2));
        }
        solo.rx(nak(3, 2, NakCode::RemoteAccessError)).idle();
        assert_eq!(solo.end.sent(), [(1, WcStatus::Success), (2, WcStatus::RemAccessErr)]);
    }
}

#[test]
fn a_fatal_nak_behind_a_lost_read_response_does_not_complete_the_read() {
    let mut solo = Solo::new();
    solo.post(1, READ, 8).post_send(2, 10).skip();
    solo.rx(nak(1, 1, NakCode::InvalidRequest)).tx(read_request(0, 0, RKEY, 8)).tx(send_only(1, 10));
    assert_eq!(solo.end.sent(), []);
}

#[test]
fn responses_that_do_not_answer_the_request_are_bad() {
    let cases: Vec<(SendOp, u32, Vec<Shot>)> = vec![
        (READ, packets(2), vec![read_only(0, MTU, 1)]),
        (READ, packets(2), vec![read_middle(0)]),
        (READ, packets(2), vec![read_first(0, 1).len(MTU - 4)]),
        (READ, packets(2), vec![read_first(0, 1).len(MTU + 4)]),
        (READ, packets(2), vec![read_first(0, 1), read_middle(1)]),
        (READ, packets(2), vec![read_first(0, 1), read_only(1, MTU, 1)]),
        (READ, packets(2), vec![read_first(0, 1), read_last(1, 5, 1)]),
        (READ, packets(3), vec![read_first(0, 1), read_first(1, 1)]),
        (READ, 8, vec![atomic_ack(0, 1, 5)]),
        (READ, 8, vec![read_only(0, 8, 1).header(|header| header.aeth(Syndrome::RnrNak { timer: 1 }, 1))]),
        (FETCH_ADD, 8, vec![read_only(0, 8, 1)]),
        (FETCH_ADD, 8, vec![atomic_ack(0, 1, 5).header(|header| header.aeth(Syndrome::Reserved(0x40), 1))]),
        (SendOp::Send, 8, vec![read_only(0, 8, 1)]),
        (SendOp::Send, 8, vec![atomic_ack(0, 1, 5)]),
    ];
    for (number, (op, len, shots)) in cases.into_iter().enumerate() {
        let mut solo = Solo::new();
        solo.post(1, op, len).skip();
        for shot in shots {
            solo.rx(shot);
        }
        assert_eq!(solo.end.sent(), [(1, WcStatus::BadRespErr)], "case {number}");
        assert_eq!(solo.end.state(), QpState::Err);
        solo.end.assert_reason("makes no sense");
    }
}

#[test]
fn a_response_without_a_place_to_go_fails_after_the_peer_did_its_work() {
    for (op, response) in [(READ, read_only(0, 8, 1)), (FETCH_ADD, atomic_ack(0, 1, 5))] {
        for nak_first in [false, true] {
            let mut solo = Solo::new();
            let sge = Sge { lkey: solo.rkey() ^ 1, ..solo.end.sge(0, 8) };
            solo.end.post_send(0, wr(1, op, &[sge]));
            assert_eq!(solo.skip(), 1);
            // The remote side's verdict comes first (transport.md 2.7).
            let (shot, status) = match nak_first {
                true => (nak(0, 0, NakCode::RemoteAccessError), WcStatus::RemAccessErr),
                false => (response.clone(), WcStatus::LocProtErr),
            };
            solo.rx(shot);
            assert_eq!(solo.end.sent(), [(1, status)]);
        }
    }
}

#[test]
fn a_buffer_that_cannot_be_sent_fails_when_its_turn_to_complete_has_come() {
    for len in [10, packets(3)] {
        let mut solo = Solo::new();
        solo.post_send(1, 10);
        let mut sge = solo.end.sge(0, len);
        sge.addr += (1 << 20) - 8;
        let good = solo.end.sge(0, 300);
        solo.end.post_send(0, wr(2, SendOp::Send, &[good, sge]));
        solo.post_send(3, 10).tx(send_only(0, 10));
        if len == 10 {
            // The first packet can be sent: the bad element is in the last one.
            solo.skip();
        }
        assert_eq!(solo.end.sent(), []);
        solo.rx(ack(0, 1)).idle();
        let expected = [(1, WcStatus::Success), (2, WcStatus::LocProtErr), (3, WcStatus::WrFlushErr)];
        assert_eq!(solo.end.sent(), expected);
        solo.end.assert_reason("cannot be used");
    }
}

#[test]
fn messages_of_an_impossible_length_are_refused() {
    let mut solo = Solo::new();
    let sge = solo.end.sge(0, u32::MAX);
    solo.end.post_send(0, wr(1, SendOp::Send, &[sge, sge]));
    solo.idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::LocLenErr)]);
    let mut solo = Solo::new();
    solo.post(1, FETCH_ADD, 4).idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::LocLenErr)]);
    let mut solo = Solo::with(Setup { max_rd_atomic: 0, ..Setup::default() });
    solo.post(1, READ, 4).idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::LocQpOpErr)]);
}

#[test]
fn reads_beyond_the_limit_wait_and_nothing_passes_them() {
    let mut solo = Solo::with(Setup { max_rd_atomic: 2, ..Setup::default() });
    solo.post(1, READ, 8).post(2, FETCH_ADD, 8).post(3, READ, 8).post_send(4, 10);
    solo.tx(read_request(0, 0, RKEY, 8)).tx(fetch_add(1, 0, RKEY, 3)).idle();
    solo.rx(read_only(0, 8, 1)).tx(read_request(2, 0, RKEY, 8)).tx(send_only(3, 10)).idle();
}

/// Handed case D8, transport.md X-19.
#[test]
fn a_fence_waits_for_reads_and_atomics_only() {
    let mut solo = Solo::new();
    solo.post(1, READ, 8);
    let sge = solo.end.sge(0, 10);
    let mut fenced = wr(2, SendOp::Send, &[sge]);
    fenced.flags |= SendFlags::FENCE;
    solo.end.post_send(0, fenced.clone());
    solo.post(3, WRITE, 10).tx(read_request(0, 0, RKEY, 8)).idle();
    solo.rx(read_only(0, 8, 1)).tx(send_only(1, 10)).tx(write_only(2, 0, RKEY, 10)).idle();
    // Behind SENDs and WRITEs that are not acknowledged a fence does not wait.
    fenced.wr_id = 4;
    solo.end.post_send(0, fenced);
    solo.tx(send_only(3, 10)).idle();
}

#[test]
fn the_solicited_bit_stands_on_the_last_packet_of_what_consumes_a_receive() {
    let mut solo = Solo::new();
    let write_imm = SendOp::WriteImm { va: Arena::BASE, rkey: RKEY, imm: [1; 4] };
    for (wr_id, op) in [(1, SendOp::Send), (2, WRITE), (3, write_imm)] {
        let sge = solo.end.sge(0, packets(1) + 8);
        let mut request = wr(wr_id, op, &[sge]);
        request.flags |= SendFlags::SOLICITED;
        solo.end.post_send(0, request);
    }
    solo.tx(send_first(0)).tx(send_last(1, 8).header(|header| header.solicited(true)));
    solo.tx(write_first(2, 0, RKEY, packets(1) + 8)).tx(write_last(3, 8));
    solo.tx(write_first(4, 0, RKEY, packets(1) + 8));
    let last = write_last(5, 8).opcode(Opcode::RC_WRITE_LAST_IMM);
    solo.tx(last.header(|header| header.imm([1; 4]).solicited(true))).idle();
}

#[test]
fn a_local_invalidate_waits_for_all_before_it_and_fails_on_a_region() {
    let mut solo = Solo::new();
    let rkey = solo.rkey();
    solo.post_send(1, 10);
    let request = SendWr {
        wr_id: 2,
        op: SendOp::LocalInv { rkey },
        flags: SendFlags::SIGNALED,
        payload: Payload::Sges(Default::default()),
        remote: Remote::Peer,
    };
    solo.end.post_send(0, request);
    solo.post_send(3, 10).tx(send_only(0, 10)).idle();
    assert_eq!(solo.end.sent(), []);
    solo.rx(ack(0, 1)).idle();
    let expected = [(1, WcStatus::Success), (2, WcStatus::LocQpOpErr), (3, WcStatus::WrFlushErr)];
    assert_eq!(solo.end.sent(), expected);
}

#[test]
fn numbers_wrap() {
    let mut solo = Solo::with(Setup { sq_psn: 0xff_ffff, ..Setup::default() });
    solo.post_send(1, 300).post(2, READ, packets(2)).post(3, FETCH_ADD, 8);
    solo.tx(send_first(0xff_ffff))
        .tx(send_last(0, 44))
        .tx(read_request(1, 0, RKEY, 512))
        .tx(fetch_add(3, 0, RKEY, 3));
    solo.rx(nak_seq(0xff_ffff, 0)).tx(send_first(0xff_ffff));
    assert_eq!(solo.skip(), 3);
    solo.rx(nak_seq(0, 0)).tx(send_last(0, 44));
    assert_eq!(solo.skip(), 2);
    solo.rx(read_first(1, 2)).rx(read_last(2, MTU, 2)).rx(atomic_ack(3, 3, 1));
    assert_eq!(solo.end.sent(), ok([1, 2, 3]));
    let mut solo = Solo::with(Setup { sq_psn: 0xff_ffff, ..Setup::default() });
    solo.post(1, READ, packets(3)).skip();
    solo.rx(read_first(0xff_ffff, 1)).rx(read_last(1, MTU, 1)).tx(read_request(0, 256, RKEY, 512));
    solo.rx(read_first(0, 1)).rx(read_last(1, MTU, 1));
    assert_eq!(solo.end.sent(), ok([1]));
}

#[test]
fn a_cnp_touches_nothing() {
    let mut solo = Solo::new();
    solo.post_send(1, 10).skip();
    let cnp = ack(0, 0).opcode(Opcode::CNP);
    solo.rx(cnp).idle();
    assert_eq!(solo.counter(Counter::RpCnpIgnored), 1);
    assert_eq!(solo.end.sent(), []);
}
