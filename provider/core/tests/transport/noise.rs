//! Packets that no requester and no responder would send. Nothing may break but the QP.

use crate::arena::Arena;
use crate::end::Setup;
use crate::shot::Shot;
use crate::solo::{Solo, packets};
use ferroce_core::{QpState, QpType, SendOp, Srqn};
use ferroce_wire::{Opcode, PacketHeader, Psn, Qpn, Service, Syndrome};
use proptest::prelude::*;

/// Any packet with an opcode of these services.
fn any_shot(services: &'static [Service]) -> impl Strategy<Value = Shot> {
    // They follow from the seed, so they are the same in every device of a test.
    let key = Solo::new().rkey();
    let srqn = Solo::with(Setup::of(QpType::XrcTgt)).end.srqn.map_or(0, Srqn::value);
    let opcodes: Vec<_> = Opcode::all().filter(|opcode| services.contains(&opcode.service())).collect();
    let psn = prop_oneof![8 => -3..12i64, 1 => any::<i64>()];
    let len = prop_oneof![4 => Just(256usize), 4 => 0..20usize, 1 => 0..600usize];
    let word = prop_oneof![Just(0u64), Just(Arena::BASE), Just(u64::MAX - 255), any::<u64>()];
    let size = prop_oneof![Just(0u32), Just(256), Just(512), Just(u32::MAX), any::<u32>()];
    (prop::sample::select(opcodes), psn, len, word, size, any::<u8>(), any::<[bool; 4]>()).prop_map(
        move |(opcode, psn, len, va, size, syndrome, [good_key, ask, solicited, plain])| {
            let rkey = if good_key { key } else { size };
            let syndrome = if plain { Syndrome::ACK } else { Syndrome::from_u8(syndrome) };
            let header = PacketHeader::new(opcode, Qpn::new(0), Psn::new(psn as u32))
                .ack_req(ask)
                .solicited(solicited)
                .reth(va, rkey, size)
                .atomic_eth(va, rkey, 1, 2)
                .aeth(syndrome, size)
                .atomic_ack_eth(va)
                .imm([1, 2, 3, 4])
                .ieth(rkey)
                .xrceth(if good_key { srqn } else { size })
                .deth(if good_key { QKEY } else { size }, Qpn::new(size));
            Shot { header, payload: vec![0x5a; len] }
        },
    )
}

/// The Q_Key of [`Setup`]'s default.
const QKEY: u32 = 0x1111_1111;

fn solo() -> Solo {
    let mut solo = Solo::with(Setup { retry_cnt: 7, ..Setup::default() });
    let read = SendOp::Read { va: Arena::BASE, rkey: 1 };
    let add = SendOp::FetchAdd { va: Arena::BASE, rkey: 1, add: 1 };
    solo.post_send(1, packets(3)).post(2, read, packets(3)).post(3, add, 8).post_send(4, 5).post(5, read, 0);
    for wr_id in 0..4 {
        solo.post_recv(wr_id, 600);
    }
    solo
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_packets_leave_a_device_that_works(
        shots in prop::collection::vec((any_shot(&[Service::Rc]), any::<bool>()), 1..40),
    ) {
        let mut solo = solo();
        for (shot, pause) in &shots {
            solo.rx(shot.clone());
            if *pause {
                let later = solo.now + 1_500_000;
                solo.at(later).skip();
            }
        }
        // Each request completes once at most, in order, and everything comes to rest.
        solo.skip();
        let later = solo.now + (1 << 34);
        solo.at(later).skip();
        let sent: Vec<_> = solo.end.sent().iter().map(|(wr_id, _)| *wr_id).collect();
        prop_assert!(sent.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", sent);
        let received: Vec<_> = solo.end.received().iter().map(|wc| wc.wr_id).collect();
        prop_assert!(received.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", received);
        prop_assert!(solo.end.state() == QpState::Err || sent.len() == 5, "{:?}", sent);
        prop_assert_eq!(solo.end.device.poll_timeout(), None);
    }

    /// The QPs of the other services: each receive WQE completes once at most, in order, and nothing is sent but
    /// answers of XRC.
    #[test]
    fn any_packets_leave_a_receiver_that_works(
        shots in prop::collection::vec(any_shot(&[Service::Uc, Service::Ud, Service::Xrc]), 1..40),
        qp_type in prop::sample::select(vec![QpType::Uc, QpType::Ud, QpType::XrcTgt]),
        srq in any::<bool>(),
    ) {
        let mut solo = Solo::with(Setup { srq: srq && qp_type != QpType::XrcTgt, ..Setup::of(qp_type) });
        for wr_id in 0..6 {
            solo.post_recv(wr_id, if wr_id % 3 == 2 { 30 } else { 600 });
        }
        for shot in shots {
            solo.rx_as_it_is(shot);
        }
        let sent = solo.skip();
        prop_assert!(sent == 0 || qp_type == QpType::XrcTgt);
        let received: Vec<_> = solo.end.received().iter().map(|wc| wc.wr_id).collect();
        prop_assert!(received.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", received);
        prop_assert_eq!(solo.end.device.poll_timeout(), None);
        if solo.end.state() != QpState::Err && qp_type != QpType::XrcTgt {
            let left = 6 - received.len();
            solo.end.enter(0, QpState::Err);
            let flushed = if srq { 0 } else { left };
            let late = solo.end.received().len();
            // Of an SRQ's, only one that a message holds.
            prop_assert!(late == flushed || srq && late <= 1, "{late} of {left}");
        }
    }

    #[test]
    fn any_bytes_are_dropped(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut solo = solo();
        solo.skip();
        solo.rx_bytes(&bytes).idle();
    }
}
