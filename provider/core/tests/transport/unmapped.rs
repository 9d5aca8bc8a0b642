//! Memory that is registered and not there any more: the request fails, and nobody crashes.

use crate::arena::Arena;
use crate::end::{ALL_ACCESS, PD, wr};
use crate::shot::*;
use crate::solo::Solo;
use ferroce_core::{Counter, QpState, RegionKeys, RegionSpec, SendOp, Sge, WcStatus};
use ferroce_wire::{NakCode, Opcode};

/// From the arena's start to memory that does not exist.
const HOLE: u64 = 1 << 32;

fn with_hole() -> (Solo, RegionKeys) {
    let mut solo = Solo::new();
    let addr = Arena::BASE + HOLE;
    let spec = RegionSpec { pd: PD, addr, length: 4096, iova: addr, access: ALL_ACCESS };
    let keys = solo.end.device.register(spec).expect("a region");
    (solo, keys)
}

#[test]
fn a_peers_request_ends_in_a_remote_operational_error() {
    for kind in 0..4 {
        let (mut solo, RegionKeys { rkey, .. }) = with_hole();
        let request = match kind {
            0 => write_only(0, HOLE, rkey, 8),
            1 => fetch_add(0, HOLE, rkey, 1),
            2 => compare_swap(0, HOLE, rkey, 0, 1),
            _ => read_request(0, HOLE, rkey, 8),
        };
        solo.rx(request);
        // A READ counts as a message when its request is taken.
        let msn = u32::from(kind == 3);
        solo.tx(nak(0, msn, NakCode::RemoteOperationalError)).idle();
        assert_eq!(solo.end.state(), QpState::Err, "{kind}");
    }
}

#[test]
fn a_write_with_immediate_fails_its_receive_too() {
    let (mut solo, RegionKeys { rkey, .. }) = with_hole();
    solo.post_recv(7, 64)
        .rx(write_only(0, HOLE, rkey, 8).opcode(Opcode::RC_WRITE_ONLY_IMM).reth(HOLE, rkey, 8));
    solo.tx(nak(0, 0, NakCode::RemoteOperationalError)).idle();
    let received = solo.end.received();
    assert_eq!((received[0].wr_id, received[0].status), (7, WcStatus::LocQpOpErr));
}

#[test]
fn an_own_list_ends_in_a_local_protection_error() {
    let (mut solo, RegionKeys { lkey, .. }) = with_hole();
    let hole = Sge { addr: Arena::BASE + HOLE, length: 8, lkey };
    solo.end.post_send(0, wr(1, SendOp::Send, &[hole]));
    solo.idle();
    assert_eq!(solo.end.sent(), [(1, WcStatus::LocProtErr)]);
    let (mut solo, RegionKeys { lkey, .. }) = with_hole();
    let hole = Sge { addr: Arena::BASE + HOLE, length: 64, lkey };
    solo.end.post_recv(0, 7, &[hole]);
    solo.rx(send_only(0, 10)).tx(nak(0, 0, NakCode::RemoteOperationalError)).idle();
    assert_eq!(solo.end.received()[0].status, WcStatus::LocProtErr);
}

/// An RNR NAK that has not left yet is out of date when the request comes again and finds a receive.
#[test]
fn an_rnr_nak_that_waits_gives_way_to_the_acknowledgement() {
    let mut solo = Solo::new();
    solo.rx(send_only(0, 10)).post_recv(7, 64).rx(send_only(0, 10)).tx(ack(0, 1)).idle();
    assert_eq!(solo.end.received()[0].wr_id, 7);
    assert_eq!(solo.counter(Counter::OutOfSequence), 0);
    // And what comes behind is taken as if nothing had been.
    solo.post_recv(8, 64).rx(send_only(1, 10)).tx(ack(1, 2)).idle();
}
