//! Every operation moves the right bytes.

use crate::end::{Plan, pair};
use ferroce::Error;
use ferroce::core::{
    PathMtu, Payload, Remote, SelectiveRepeatError, SendFlags, SendOp, SendWr, WcFlags, WcOpcode,
};
use std::net::IpAddr;

const ADDRESSES: [&str; 2] = ["127.0.0.1", "::1"];

fn plan(gid: &str, mtu: PathMtu) -> Plan {
    Plan { gid: gid.parse::<IpAddr>().expect("an address"), mtu, ..Plan::default() }
}

fn fill(words: &mut [u64]) {
    for (i, word) in words.iter_mut().enumerate() {
        *word = 0x0102_0304_0506_0708u64.wrapping_mul(i as u64 + 1);
    }
}

#[test]
fn sends_of_every_size_around_the_mtu_arrive() {
    for gid in ADDRESSES {
        for mtu in PathMtu::ALL {
            let (mut a, b) = pair(plan(gid, mtu));
            fill(&mut a.buffer);
            let m = mtu.bytes();
            for length in [0, 1, 3, 33, m - 1, m, m + 1, 2 * m - 1, 2 * m + 1, 100_000] {
                b.recv(1, b.sge(0, 200_000)).expect("posted");
                a.send(2, SendOp::SendImm { imm: [1, 2, 3, 4] }, a.sge(0, length)).expect("posted");
                a.wait_success();
                let wc = b.wait_success();
                assert_eq!((wc.opcode, wc.byte_len, wc.imm), (WcOpcode::Recv, length, [1, 2, 3, 4]));
                assert_eq!(wc.flags, WcFlags::WITH_IMM);
                let bytes =
                    |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_ne_bytes()).collect() };
                let length = length as usize;
                assert!(bytes(&a.buffer)[..length] == bytes(&b.buffer)[..length], "{gid} {mtu:?} {length}");
            }
        }
    }
}

#[test]
fn writes_reads_and_atomics_work() {
    for gid in ADDRESSES {
        let (mut a, mut b) = pair(plan(gid, PathMtu::Mtu4096));
        fill(&mut a.buffer);
        let (va, rkey) = (b.addr(0), b.mr.rkey());
        a.send(1, SendOp::Write { va, rkey }, a.sge(0, 50_000)).expect("posted");
        assert_eq!(a.wait_success().opcode, WcOpcode::RdmaWrite);
        assert!(a.buffer[..6250] == b.buffer[..6250]);

        b.buffer[0] = 41;
        a.send(2, SendOp::Read { va, rkey }, a.sge(10_000, 50_000)).expect("posted");
        let wc = a.wait_success();
        assert_eq!((wc.opcode, wc.byte_len), (WcOpcode::RdmaRead, 50_000));
        assert!(a.buffer[10_000..16_250] == b.buffer[..6250]);

        a.send(3, SendOp::FetchAdd { va, rkey, add: 1 }, a.sge(20_000, 8)).expect("posted");
        assert_eq!(a.wait_success().opcode, WcOpcode::FetchAdd);
        assert_eq!((a.buffer[20_000], b.buffer[0]), (41, 42));
        let swap = SendOp::CompareSwap { va, rkey, compare: 42, swap: 7 };
        a.send(4, swap, a.sge(20_000, 8)).expect("posted");
        assert_eq!(a.wait_success().opcode, WcOpcode::CompSwap);
        assert_eq!((a.buffer[20_000], b.buffer[0]), (42, 7));
    }
}

#[test]
fn a_write_with_immediate_consumes_a_receive() {
    let (mut a, b) = pair(Plan::default());
    fill(&mut a.buffer);
    b.recv(9, b.sge(0, 0)).expect("posted");
    let op = SendOp::WriteImm { va: b.addr(5), rkey: b.mr.rkey(), imm: [0xde, 0xad, 0xbe, 0xef] };
    a.send(1, op, a.sge(0, 3000)).expect("posted");
    a.wait_success();
    let wc = b.wait_success();
    assert_eq!((wc.wr_id, wc.opcode, wc.byte_len), (9, WcOpcode::RecvRdmaWithImm, 3000));
    assert_eq!(wc.imm, [0xde, 0xad, 0xbe, 0xef]);
    assert!(b.buffer[5..380] == a.buffer[..375]);
}

#[test]
fn inline_data_is_what_it_was_when_posted() {
    let (a, b) = pair(Plan::default());
    b.recv(1, b.sge(0, 64)).expect("posted");
    let payload = Payload::Inline([0x5au8; 24].into_iter().collect());
    a.qp.post_send([SendWr {
        wr_id: 1,
        op: SendOp::Send,
        flags: SendFlags::SIGNALED,
        payload,
        remote: Remote::Peer,
    }])
    .expect("posted");
    a.wait_success();
    assert_eq!(b.wait_success().byte_len, 24);
    assert_eq!(b.buffer[..4], [0x5a5a_5a5a_5a5a_5a5a, 0x5a5a_5a5a_5a5a_5a5a, 0x5a5a_5a5a_5a5a_5a5a, 0]);
}

#[test]
fn a_thousand_messages_in_flight_arrive_in_order() {
    let (a, b) = pair(Plan::default());
    let (mut posted, mut sent, mut received, mut offered) = (0u64, 0u64, 0u64, 0u64);
    while received < 1000 {
        while offered < received + 16 && offered < 1000 {
            b.recv(offered, b.sge(0, 4096)).expect("posted");
            offered += 1;
        }
        while posted < sent + 16 && posted < 1000 {
            a.send(posted, SendOp::Send, a.sge(0, 3000)).expect("posted");
            posted += 1;
        }
        for wc in a.cq.poll(16).expect("no overrun") {
            assert_eq!(wc.wr_id, sent);
            sent += 1;
        }
        for wc in b.cq.poll(16).expect("no overrun") {
            assert_eq!((wc.wr_id, wc.byte_len), (received, 3000));
            received += 1;
        }
    }
}

#[test]
fn selective_repeat_is_off_unless_asked_for() {
    let (a, _) = pair(Plan::default());
    let error = a.qp.repeat_selectively().expect_err("it is off");
    assert!(matches!(error, Error::SelectiveRepeat(SelectiveRepeatError::Off)), "{error}");
}
