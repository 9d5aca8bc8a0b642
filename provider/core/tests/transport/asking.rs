//! Which requests ask for an acknowledgement.

use crate::arena::Arena;
use crate::end::wr;
use crate::shot::*;
use crate::solo::Solo;
use ferroce_core::{Counter, Payload, SendFlags, SendOp, SendWr, Sge, WcStatus};

/// The local ACK timeout of the default setup's code 8.
const TIMEOUT: u64 = 4096 << 8;

/// A SEND of 10 bytes whose completion nobody wants.
fn quiet(solo: &Solo, wr_id: u64) -> SendWr {
    SendWr { flags: SendFlags::empty(), ..wr(wr_id, SendOp::Send, &[solo.end.sge(0, 10)]) }
}

/// A solo that has posted `count` of them.
fn stream(count: u64) -> Solo {
    let mut solo = Solo::new();
    for wr_id in 0..count {
        let quiet = quiet(&solo, wr_id);
        solo.end.post_send(0, quiet);
    }
    solo
}

fn asks(psn: u32) -> Shot {
    send_only(psn, 10)
}

fn does_not_ask(psn: u32) -> Shot {
    send_only(psn, 10).header(|header| header.ack_req(false))
}

/// The first window is 32 packets, in each quarter of which one asks.
#[test]
fn in_a_stream_of_unsignaled_messages_some_ask_and_the_last() {
    let mut solo = stream(20);
    for psn in 0..20 {
        solo.tx(if psn % 8 == 7 || psn == 19 { asks(psn) } else { does_not_ask(psn) });
    }
    solo.idle().rx(ack(19, 20)).at(10 * TIMEOUT).idle();
    assert_eq!(solo.counter(Counter::LocalAckTimeoutErr), 0);
}

#[test]
fn a_full_window_has_some_in_it_that_ask() {
    let mut solo = stream(100);
    for psn in 0..32 {
        solo.tx(if psn % 8 == 7 { asks(psn) } else { does_not_ask(psn) });
    }
    solo.idle().rx(ack(7, 8));
    assert_eq!(solo.skip(), 16, "one for each acknowledged packet, and one more");
}

#[test]
fn a_signaled_message_asks() {
    let mut solo = Solo::new();
    solo.post_send(1, 10).post_send(2, 10).tx(asks(0)).tx(asks(1)).idle();
}

#[test]
fn a_message_before_one_that_may_have_to_wait_asks() {
    let read = SendOp::Read { va: Arena::BASE, rkey: RKEY };
    let none = Payload::Sges([].into_iter().collect());
    let fenced = |wr| SendWr { flags: SendFlags::FENCE, ..wr };
    let invalidation = |wr| SendWr { op: SendOp::LocalInv { rkey: 1 }, payload: none.clone(), ..wr };
    let reading = |wr| SendWr { op: read, ..wr };
    for next in [
        fenced(quiet(&Solo::new(), 1)),
        invalidation(quiet(&Solo::new(), 1)),
        reading(quiet(&Solo::new(), 1)),
    ] {
        let mut solo = stream(1);
        solo.end.post_send(0, next);
        solo.tx(asks(0));
    }
}

/// Otherwise the error would wait for an acknowledgement that nobody owes.
#[test]
fn a_message_before_one_that_fails_asks() {
    for bad in
        [Sge { addr: Arena::BASE, length: 1, lkey: 77 }, Sge { addr: u64::MAX, length: u32::MAX, lkey: 0 }]
    {
        let mut solo = stream(1);
        let bad = SendWr { payload: Payload::Sges([bad].into_iter().collect()), ..quiet(&solo, 1) };
        solo.end.post_send(0, bad);
        solo.tx(asks(0)).idle();
        assert_eq!(solo.end.sent(), []);
        solo.rx(ack(0, 1));
        let sent = solo.end.sent();
        assert!(matches!(sent[..], [(1, WcStatus::LocProtErr | WcStatus::LocLenErr)]), "{sent:?}");
    }
}

#[test]
fn after_a_timeout_every_message_asks_for_itself() {
    let mut solo = stream(3);
    solo.tx(does_not_ask(0)).tx(does_not_ask(1)).tx(asks(2)).at(TIMEOUT);
    solo.tx(asks(0)).tx(asks(1)).tx(asks(2)).idle();
}
