//! Every operation over a link that loses nothing.

use crate::arena::Arena;
use crate::end::{PD, Setup, wr};
use crate::pair::Pair;
use ferroce_core::{
    AccessFlags, PathMtu, Payload, RegionChange, RegionSpec, Remote, SendFlags, SendOp, SendWr, Sge, WcFlags,
    WcOpcode, WcStatus,
};

/// Bytes that differ from place to place.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// Message sizes around the borders of packets (handed case D20).
fn sizes(mtu: u32) -> Vec<u32> {
    vec![0, 1, 2, 3, 33, mtu - 1, mtu, mtu + 1, 1025, 2 * mtu - 1, 2 * mtu, 2 * mtu + 1, 7 * mtu + 5]
}

fn each_mtu_and_size(mut test: impl FnMut(Pair, u32)) {
    for mtu in PathMtu::ALL {
        let setup = Setup { mtu, sq_psn: 0xff_fffd, rq_psn: 0xff_fffd, ..Setup::default() };
        for size in sizes(mtu.bytes()) {
            test(Pair::with(setup.clone(), setup.clone()), size);
        }
    }
}

#[test]
fn sends_of_every_size_arrive_at_every_mtu() {
    each_mtu_and_size(|mut pair, size| {
        let message = pattern(size as usize);
        pair.a.memory.put(64, &message);
        let target = pair.b.sge(128, 1 << 16);
        pair.b.post_recv(0, 7, &[target]);
        let source = pair.a.sge(64, size);
        pair.a.post_send(0, wr(1, SendOp::Send, &[source]));
        pair.run();
        assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
        let received = pair.b.received();
        assert_eq!(received.len(), 1);
        assert_eq!((received[0].wr_id, received[0].byte_len, received[0].opcode), (7, size, WcOpcode::Recv));
        assert_eq!(pair.b.memory.get(128, size as usize), message);
        assert_eq!(pair.b.memory.get(128 + u64::from(size), 8), [0; 8]);
    });
}

#[test]
fn writes_of_every_size_arrive_at_every_mtu() {
    each_mtu_and_size(|mut pair, size| {
        let message = pattern(size as usize);
        pair.a.memory.put(64, &message);
        let source = pair.a.sge(64, size);
        let op = SendOp::Write { va: Arena::BASE + 200, rkey: pair.b.keys.rkey };
        pair.a.post_send(0, wr(1, op, &[source]));
        pair.run();
        assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
        assert!(pair.b.received().is_empty());
        assert_eq!(pair.b.memory.get(200, size as usize), message);
        assert_eq!(pair.b.memory.get(200 + u64::from(size), 8), [0; 8]);
    });
}

#[test]
fn reads_of_every_size_arrive_at_every_mtu() {
    each_mtu_and_size(|mut pair, size| {
        let message = pattern(size as usize);
        pair.b.memory.put(64, &message);
        let target = pair.a.sge(300, size);
        let op = SendOp::Read { va: Arena::BASE + 64, rkey: pair.b.keys.rkey };
        pair.a.post_send(0, wr(1, op, &[target]));
        pair.run();
        assert_eq!(pair.a.completions[0].wc.byte_len, size);
        assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
        assert_eq!(pair.a.memory.get(300, size as usize), message);
        assert_eq!(pair.a.memory.get(300 + u64::from(size), 8), [0; 8]);
    });
}

#[test]
fn immediate_data_and_solicitation_reach_the_receiver() {
    let mut pair = Pair::new();
    let target = pair.b.sge(0, 100);
    pair.b.post_recv(0, 1, &[target]);
    pair.b.post_recv(0, 2, &[target]);
    let source = pair.a.sge(0, 10);
    let mut first = wr(1, SendOp::SendImm { imm: [1, 2, 3, 4] }, &[source]);
    first.flags |= SendFlags::SOLICITED;
    pair.a.post_send(0, first);
    let op = SendOp::WriteImm { va: Arena::BASE + 500, rkey: pair.b.keys.rkey, imm: [5, 6, 7, 8] };
    let source = pair.a.sge(0, 3000);
    pair.a.post_send(0, wr(2, op, &[source]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert!(pair.b.completions[0].solicited && !pair.b.completions[1].solicited);
    let received = pair.b.received();
    assert_eq!(
        (received[0].imm, received[0].opcode, received[0].byte_len),
        ([1, 2, 3, 4], WcOpcode::Recv, 10)
    );
    assert_eq!(
        (received[1].imm, received[1].opcode, received[1].byte_len),
        ([5, 6, 7, 8], WcOpcode::RecvRdmaWithImm, 3000)
    );
    assert_eq!(received[0].flags, WcFlags::WITH_IMM);
}

#[test]
fn a_write_of_no_bytes_needs_no_key_even_with_immediate() {
    let mut pair = Pair::new();
    pair.b.post_recv(0, 1, &[]);
    pair.a.post_send(0, wr(1, SendOp::Write { va: 1, rkey: 99 }, &[]));
    pair.a.post_send(0, wr(2, SendOp::Read { va: 1, rkey: 99 }, &[]));
    pair.a.post_send(0, wr(3, SendOp::WriteImm { va: 1, rkey: 99, imm: [0; 4] }, &[]));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success), (2, WcStatus::Success), (3, WcStatus::Success)]);
    assert_eq!(pair.b.received()[0].byte_len, 0);
}

#[test]
fn atomics_return_the_value_before() {
    let mut pair = Pair::new();
    pair.b.memory.put(64, &40u64.to_ne_bytes());
    let (va, rkey) = (Arena::BASE + 64, pair.b.keys.rkey);
    let first = pair.a.sge(0, 8);
    pair.a.post_send(0, wr(1, SendOp::FetchAdd { va, rkey, add: 2 }, &[first]));
    let second = pair.a.sge(8, 8);
    pair.a.post_send(0, wr(2, SendOp::CompareSwap { va, rkey, compare: 42, swap: 7 }, &[second]));
    let third = pair.a.sge(16, 8);
    pair.a.post_send(0, wr(3, SendOp::CompareSwap { va, rkey, compare: 42, swap: 8 }, &[third]));
    pair.run();
    assert_eq!(pair.a.completions.iter().map(|c| c.wc.byte_len).collect::<Vec<_>>(), [8, 8, 8]);
    assert_eq!(pair.a.sent().len(), 3);
    let words: Vec<_> = [0, 8, 16].iter().map(|at| pair.a.memory.get(*at, 8)).collect();
    assert_eq!(words, [40u64, 42, 7].map(|word| word.to_ne_bytes().to_vec()));
    assert_eq!(pair.b.memory.get(64, 8), 7u64.to_ne_bytes());
}

#[test]
fn lists_are_gathered_and_scattered_in_order() {
    let mut pair = Pair::new();
    let message = pattern(5000);
    pair.a.memory.put(0, &message[..7]);
    pair.a.memory.put(1000, &message[7..2100]);
    pair.a.memory.put(9000, &message[2100..]);
    let source = [pair.a.sge(0, 7), pair.a.sge(5, 0), pair.a.sge(1000, 2093), pair.a.sge(9000, 2900)];
    let target = [pair.b.sge(0, 1), pair.b.sge(100, 4000), pair.b.sge(8000, 999)];
    pair.b.post_recv(0, 1, &target);
    pair.a.post_send(0, wr(1, SendOp::Send, &source));
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
    let memory = &pair.b.memory;
    let arrived = [memory.get(0, 1), memory.get(100, 4000), memory.get(8000, 999)].concat();
    assert_eq!(arrived, message);
}

#[test]
fn inline_data_needs_no_key() {
    let mut pair = Pair::new();
    let target = pair.b.sge(0, 3000);
    pair.b.post_recv(0, 1, &[target]);
    let message = pattern(2500);
    pair.a.post_send(
        0,
        SendWr {
            wr_id: 1,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED | SendFlags::INLINE,
            payload: Payload::Inline(message.as_slice().into()),
            remote: Remote::Peer,
        },
    );
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
    assert_eq!(pair.b.memory.get(0, 2500), message);
}

#[test]
fn a_completion_retires_the_unsignaled_ones_before_it() {
    let mut pair = Pair::new();
    let target = pair.b.sge(0, 100);
    let source = pair.a.sge(0, 10);
    for wr_id in 0..6 {
        pair.b.post_recv(0, wr_id, &[target]);
        let mut request = wr(wr_id, SendOp::Send, &[source]);
        if wr_id % 3 != 2 {
            request.flags = SendFlags::empty();
        }
        pair.a.post_send(0, request);
    }
    pair.run();
    let completions: Vec<_> = pair.a.completions.iter().map(|c| (c.wc.wr_id, c.retires)).collect();
    assert_eq!(completions, [(2, 3), (5, 3)]);
    assert_eq!(pair.b.received().len(), 6);
}

#[test]
fn sq_sig_all_signals_everything() {
    let mut pair = Pair::with(Setup { sq_sig_all: true, ..Setup::default() }, Setup::default());
    for wr_id in 0..3 {
        let mut request = wr(wr_id, SendOp::Write { va: 0, rkey: 0 }, &[]);
        request.flags = SendFlags::empty();
        pair.a.post_send(0, request);
    }
    pair.run();
    assert_eq!(pair.a.sent().len(), 3);
}

#[test]
fn many_messages_of_all_kinds_complete_in_order() {
    let mut pair = Pair::new();
    let target = pair.b.sge(0x8000, 4096);
    let rkey = pair.b.keys.rkey;
    let mut receives = 0;
    for wr_id in 0..500u64 {
        let size = (wr_id * 37 % 4000) as u32;
        let local = pair.a.sge(0, size);
        let word = pair.a.sge(0x4000, 8);
        let (op, sge) = match wr_id % 5 {
            0 => (SendOp::Send, local),
            1 => (SendOp::Write { va: Arena::BASE, rkey }, local),
            2 => (SendOp::Read { va: Arena::BASE, rkey }, local),
            3 => (SendOp::FetchAdd { va: Arena::BASE + 0x7000, rkey, add: 1 }, word),
            _ => (SendOp::WriteImm { va: Arena::BASE, rkey, imm: [0; 4] }, local),
        };
        if matches!(wr_id % 5, 0 | 4) {
            pair.b.post_recv(0, receives, &[target]);
            receives += 1;
        }
        pair.a.post_send(0, wr(wr_id, op, &[sge]));
    }
    pair.run();
    let expected: Vec<_> = (0..500).map(|wr_id| (wr_id, WcStatus::Success)).collect();
    assert_eq!(pair.a.sent(), expected);
    assert_eq!(
        pair.b.received().iter().map(|wc| wc.wr_id).collect::<Vec<_>>(),
        (0..receives).collect::<Vec<_>>()
    );
    assert_eq!(pair.b.memory.get(0x7000, 8), 100u64.to_ne_bytes());
    assert_eq!(pair.traced("nak"), 0);
}

#[test]
fn a_null_region_swallows_what_comes_and_gives_zeros() {
    let mut pair = Pair::new();
    let message = pattern(3000);
    pair.a.memory.put(0, &message);
    let null = pair.b.device.register_null(PD).expect("a null region").lkey;
    let nowhere = Sge { addr: 77, length: 2000, lkey: null };
    let ends = [pair.b.sge(0, 500), nowhere, pair.b.sge(500, 500)];
    pair.b.post_recv(0, 7, &ends);
    let source = pair.a.sge(0, 3000);
    pair.a.post_send(0, wr(1, SendOp::Send, &[source]));
    pair.run();
    assert_eq!(pair.b.received()[0].byte_len, 3000);
    assert_eq!(pair.b.memory.get(0, 1000), [&message[..500], &message[2500..]].concat());
    let op = SendOp::Write { va: Arena::BASE, rkey: pair.a.keys.rkey };
    pair.b.post_send(pair.now, wr(2, op, &[nowhere]));
    pair.run();
    assert_eq!(pair.b.sent(), [(2, WcStatus::Success)]);
    assert_eq!(pair.a.memory.get(0, 3000), [&[0; 2000], &message[2000..]].concat());
}

#[test]
fn a_region_that_is_changed_while_it_is_read_is_read_as_it_is_then() {
    let mut pair = Pair::new();
    pair.b.memory.put(0, &[1; 3000]);
    pair.b.memory.put(8192, &[2; 3000]);
    let spec = RegionSpec {
        pd: PD,
        addr: Arena::BASE,
        length: 3000,
        iova: 0x5000,
        access: AccessFlags::REMOTE_READ,
    };
    let rkey = pair.b.device.register(spec).expect("a region").rkey;
    let target = pair.a.sge(0, 3000);
    let op = SendOp::Read { va: 0x5000, rkey };
    pair.a.post_send(0, wr(1, op, &[target]));
    let request = pair.a.transmit(0).remove(0);
    pair.b.handle_packet(0, pair.a.address, &request);
    // No response has been sent yet.
    let memory = RegionChange { memory: Some((Arena::BASE + 8192, 3000, 0x5000)), ..RegionChange::default() };
    pair.b.device.reregister(rkey, &memory).expect("the region");
    pair.run();
    assert_eq!(pair.a.sent(), [(1, WcStatus::Success)]);
    assert_eq!(pair.a.memory.get(0, 3000), [2; 3000]);
    // And one whose rights are taken away in the middle is refused.
    pair.a.post_send(pair.now, wr(2, op, &[target]));
    let request = pair.a.transmit(pair.now).remove(0);
    pair.b.handle_packet(pair.now, pair.a.address, &request);
    let rights = RegionChange { access: Some(AccessFlags::LOCAL_WRITE), ..RegionChange::default() };
    pair.b.device.reregister(rkey, &rights).expect("the region");
    pair.run();
    assert_eq!(pair.a.sent(), [(2, WcStatus::RemAccessErr)]);
}
