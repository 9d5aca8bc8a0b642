//! Connections between two connection managers, over networks that lose and double what they carry.

mod support;

use ferroce_cm::limits::MAX_BACKLOG;
use ferroce_cm::{CmCallError, CmCounter, Event, Orphan, duration_ns};
use ferroce_wire::cm::{self, RejectReason};
use ferroce_wire::mad::{Mad, MadHeader};
use proptest::prelude::*;
use support::{Fate, Pair, SECOND, Side, accept_params, connect_params, route};

/// The first message of a name and a side is lost.
fn losing_first(side: Side, name: &'static str) -> Pair {
    let mut lost = false;
    Pair::with_fate(move |from, what| {
        let is_it = !lost && (from, what) == (side, name);
        lost |= is_it;
        if is_it { Fate::Drop } else { Fate::Pass }
    })
}

#[test]
fn a_connection_is_made_and_ended() {
    let mut pair = Pair::new();
    let listener = pair.listen(1);
    let (ours, theirs) = pair.establish();
    let Event::Request { listener: reached, request, .. } = &pair.events_b[0] else {
        panic!("{:?}", pair.events_b)
    };
    assert_eq!(*reached, listener);
    assert_eq!((request.responder_resources, request.initiator_depth), (3, 4));
    assert!(request.private_data[36..].starts_with(b"hello"));
    let Event::Reply { reply, .. } = &pair.events_a[0] else { panic!("{:?}", pair.events_a) };
    assert_eq!((reply.responder_resources, reply.initiator_depth, reply.remote_qpn), (1, 2, 0x2_0022));
    assert!(reply.private_data.starts_with(b"welcome"));
    assert!(
        matches!(&pair.events_b[1], Event::Established { private_data, .. } if private_data.starts_with(b"rtu"))
    );

    pair.a.disconnect(pair.now, ours, &[]).unwrap();
    pair.settle();
    assert_eq!(pair.events_b.last(), Some(&Event::Disconnected { id: theirs, timed_out: false }));
    pair.b.disconnect(pair.now, theirs, &[]).unwrap();
    pair.settle();
    assert_eq!(pair.events_a.last(), Some(&Event::Disconnected { id: ours, timed_out: false }));
    pair.run_for(3 * SECOND);
    assert_eq!(pair.events_a.last(), Some(&Event::TimewaitExit { id: ours }));
    assert_eq!(pair.events_b.last(), Some(&Event::TimewaitExit { id: theirs }));
    pair.a.destroy(pair.now, ours);
    pair.b.destroy(pair.now, theirs);
    assert_eq!((pair.a.connections(), pair.b.connections()), (0, 0));
    assert_eq!((pair.a.poll_timeout(), pair.b.poll_timeout()), (None, None));
}

/// What either side programs into its queue pair is what the other said.
#[test]
fn queue_pairs_are_told_what_the_other_side_said() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (ours, theirs) = pair.establish();
    let a = pair.a.qp_settings(ours).unwrap();
    let b = pair.b.qp_settings(theirs).unwrap();
    assert_eq!((a.dest_qpn, b.dest_qpn), (0x2_0022, 0x1_0011));
    assert_eq!((a.rq_psn, a.sq_psn), (b.sq_psn, b.rq_psn));
    assert_eq!((a.sq_psn, b.sq_psn), (0x22_2222, 0x11_1111));
    assert_eq!((a.timeout, b.timeout, a.path_mtu, b.path_mtu), (19, 19, 5, 5));
    assert_eq!((a.retry_count, b.retry_count, a.rnr_retry, b.rnr_retry), (7, 7, 5, 6));
    assert_eq!((a.max_rd_atomic, a.max_dest_rd_atomic), (2, 1));
    assert_eq!((b.max_rd_atomic, b.max_dest_rd_atomic), (1, 2));
    assert_eq!((b.route.local, b.route.peer), (a.route.peer, a.route.local));
}

#[test]
fn nobody_listening_is_an_invalid_service_id() {
    let mut pair = Pair::new();
    let id = pair.a.connect(pair.now, &connect_params()).unwrap();
    pair.settle();
    let Some(Event::Rejected { id: rejected, reason, .. }) = pair.events_a.first() else {
        panic!("{:?}", pair.events_a)
    };
    assert_eq!((*rejected, *reason), (id, RejectReason::INVALID_SERVICE_ID));
    assert_eq!(pair.b.counters().value(CmCounter::NobodyListens), 1);
    assert_eq!(pair.b.connections(), 0);
}

#[test]
fn a_request_may_be_refused_with_the_applications_words() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (_, theirs) = pair.request();
    pair.b.reject(pair.now, theirs, RejectReason::CONSUMER_DEFINED, b"not you").unwrap();
    pair.settle();
    let Some(Event::Rejected { reason, private_data, .. }) = pair.events_a.last() else {
        panic!("{:?}", pair.events_a)
    };
    assert_eq!(*reason, RejectReason::CONSUMER_DEFINED);
    assert!(private_data.starts_with(b"not you"));
    let again = pair.b.accept(pair.now, theirs, &accept_params()).unwrap_err();
    assert!(matches!(again, CmCallError::State { state: "ended", .. }), "{again}");
}

#[test]
fn a_full_backlog_refuses_for_lack_of_resources() {
    let mut pair = Pair::new();
    pair.listen(2);
    let params = |qpn| ferroce_cm::ConnectParams { qpn, ..connect_params() };
    for qpn in [1, 2, 3] {
        pair.a.connect(pair.now, &params(qpn)).unwrap();
    }
    pair.settle();
    let reasons = pair.events_a.iter().map(|event| match event {
        Event::Rejected { reason, .. } => *reason,
        other => panic!("{other:?}"),
    });
    assert_eq!(reasons.collect::<Vec<_>>(), [RejectReason::NO_RESOURCES]);
    let first = pair.requested();
    pair.b.taken(first);
    pair.a.connect(pair.now, &params(4)).unwrap();
    pair.settle();
    assert_eq!(pair.events_a.len(), 1, "a place became free");
    assert_eq!(pair.b.counters().value(CmCounter::NoRoom), 1);
}

/// A flood of requests from one peer that never goes on fills a backlog and nothing else.
#[test]
fn a_flood_of_requests_costs_a_backlog() {
    let mut pair = Pair::new();
    pair.listen(0);
    for qpn in 0..2 * MAX_BACKLOG {
        pair.a.connect(pair.now, &ferroce_cm::ConnectParams { qpn, ..connect_params() }).unwrap();
        pair.settle();
    }
    assert_eq!(pair.b.connections(), MAX_BACKLOG as usize);
    assert_eq!(pair.b.counters().value(CmCounter::NoRoom), u64::from(MAX_BACKLOG));
}

#[test]
fn a_lost_request_is_repeated_after_the_kernels_time() {
    let mut pair = losing_first(Side::A, "REQ");
    pair.listen(1);
    pair.a.connect(pair.now, &connect_params()).unwrap();
    pair.settle();
    assert_eq!(pair.a.poll_timeout(), Some(1 + 2 * duration_ns(18) + duration_ns(20)));
    pair.run_for(7 * SECOND);
    assert_eq!(pair.sent_by(Side::A), ["REQ", "REQ"]);
    assert!(matches!(pair.events_b[..], [Event::Request { .. }]));
}

#[test]
fn a_lost_reply_is_repeated() {
    let mut pair = losing_first(Side::B, "REP");
    pair.listen(1);
    let (_, theirs) = pair.request();
    pair.b.accept(pair.now, theirs, &accept_params()).unwrap();
    pair.run_for(5 * SECOND);
    assert_eq!(pair.sent_by(Side::B), ["REP", "REP"]);
    assert!(matches!(pair.events_a[..], [Event::Reply { .. }]));
}

#[test]
fn a_lost_rtu_comes_again_with_the_repeated_reply() {
    let mut pair = losing_first(Side::A, "RTU");
    pair.listen(1);
    let (ours, theirs) = pair.request();
    pair.b.accept(pair.now, theirs, &accept_params()).unwrap();
    pair.settle();
    pair.a.establish(pair.now, ours, &[]).unwrap();
    pair.run_for(5 * SECOND);
    assert_eq!(pair.sent_by(Side::A), ["REQ", "RTU", "RTU"]);
    assert_eq!(pair.sent_by(Side::B), ["REP", "REP"]);
    assert!(matches!(pair.events_b[..], [Event::Request { .. }, Event::Established { .. }]));
}

/// The first packet of the connection says what the RTU would have said.
#[test]
fn a_packet_establishes_a_connection_whose_rtu_was_lost() {
    let mut pair = losing_first(Side::A, "RTU");
    pair.listen(1);
    let (ours, theirs) = pair.request();
    pair.b.accept(pair.now, theirs, &accept_params()).unwrap();
    pair.settle();
    pair.a.establish(pair.now, ours, &[]).unwrap();
    pair.settle();
    pair.b.notify_established(pair.now, theirs);
    pair.run_for(60 * SECOND);
    assert!(matches!(pair.events_b[..], [Event::Request { .. }, Event::Established { .. }]));
    assert_eq!(pair.sent_by(Side::B), ["REP"]);
}

#[test]
fn a_silent_peer_is_unreachable_after_fifteen_repetitions() {
    let mut pair = Pair::with_fate(|_, _| Fate::Drop);
    let id = pair.a.connect(pair.now, &connect_params()).unwrap();
    pair.run_for(120 * SECOND);
    assert_eq!(pair.events_a, [Event::Unreachable { id }]);
    assert_eq!(pair.sent.len(), 16);
    assert_eq!(pair.a.poll_timeout(), None);
    pair.a.destroy(pair.now, id);
    assert_eq!(pair.a.connections(), 0);
}

#[test]
fn a_disconnection_that_nobody_answers_ends_all_the_same() {
    let mut pair = Pair::with_fate(|_, name| if name == "DREQ" { Fate::Drop } else { Fate::Pass });
    pair.listen(1);
    let (ours, _) = pair.establish();
    pair.a.disconnect(pair.now, ours, &[]).unwrap();
    pair.run_for(120 * SECOND);
    let events = &pair.events_a[1..];
    assert_eq!(events, [Event::Disconnected { id: ours, timed_out: true }, Event::TimewaitExit { id: ours }]);
}

#[test]
fn a_lost_drep_is_sent_again_from_timewait() {
    let mut pair = losing_first(Side::B, "DREP");
    pair.listen(1);
    let (ours, theirs) = pair.establish();
    pair.a.disconnect(pair.now, ours, &[]).unwrap();
    pair.settle();
    pair.b.disconnect(pair.now, theirs, &[]).unwrap();
    pair.b.destroy(pair.now, theirs);
    pair.run_for(20 * SECOND);
    assert_eq!(pair.events_a[1], Event::Disconnected { id: ours, timed_out: false });
    assert_eq!(pair.b.connections(), 0);
}

#[test]
fn both_sides_may_disconnect_at_once() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (ours, theirs) = pair.establish();
    pair.a.disconnect(pair.now, ours, &[]).unwrap();
    pair.b.disconnect(pair.now, theirs, &[]).unwrap();
    pair.run_for(5 * SECOND);
    for (events, id) in [(&pair.events_a[1..], ours), (&pair.events_b[2..], theirs)] {
        assert_eq!(events, [Event::Disconnected { id, timed_out: false }, Event::TimewaitExit { id }]);
    }
}

#[test]
fn a_request_that_comes_again_asks_for_patience() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (ours, theirs) = pair.request();
    // The application takes its time; the MRA keeps the peer from giving up.
    pair.run_for(60 * SECOND);
    assert_eq!(pair.sent_by(Side::B), ["MRA"]);
    assert_eq!(pair.sent_by(Side::A), ["REQ", "REQ"]);
    pair.b.accept(pair.now, theirs, &accept_params()).unwrap();
    pair.settle();
    assert!(matches!(pair.events_a[..], [Event::Reply { id, .. }] if id == ours));
}

#[test]
fn every_message_may_come_twice() {
    let mut pair = Pair::with_fate(|_, _| Fate::Twice);
    pair.listen(1);
    let (ours, theirs) = pair.establish();
    pair.a.disconnect(pair.now, ours, &[]).unwrap();
    pair.settle();
    pair.b.disconnect(pair.now, theirs, &[]).unwrap();
    pair.run_for(5 * SECOND);
    assert_eq!(pair.events_a.len(), 3, "{:?}", pair.events_a);
    assert_eq!(pair.events_b.len(), 4, "{:?}", pair.events_b);
}

/// The peer crashed and uses its queue pair again: the old connection is over, and its next try succeeds.
#[test]
fn a_queue_pair_that_is_connected_already_is_stale() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (_, theirs) = pair.establish();
    pair.a = Pair::new().a;
    let params = ferroce_cm::ConnectParams { ..connect_params() };
    let skipped = pair.a.connect(pair.now, &params).unwrap();
    pair.a.destroy(pair.now, skipped);
    while pair.a.poll_transmit().is_some() {}
    pair.a.connect(pair.now, &params).unwrap();
    pair.settle();
    let Some(Event::Rejected { reason, .. }) = pair.events_a.last() else { panic!("{:?}", pair.events_a) };
    assert_eq!(*reason, RejectReason::STALE_CONNECTION);
    assert_eq!(pair.events_b.last(), Some(&Event::Disconnected { id: theirs, timed_out: false }));
    pair.a.connect(pair.now, &params).unwrap();
    pair.settle();
    assert!(matches!(pair.events_b.last(), Some(Event::Request { .. })), "{:?}", pair.events_b);
}

#[test]
fn a_request_that_is_given_up_is_withdrawn() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (ours, theirs) = pair.request();
    pair.a.destroy(pair.now, ours);
    pair.settle();
    let Some(Event::Rejected { id, reason, .. }) = pair.events_b.last() else {
        panic!("{:?}", pair.events_b)
    };
    assert_eq!((*id, *reason), (theirs, RejectReason::TIMEOUT));
    assert_eq!(pair.a.connections(), 0);
}

#[test]
fn a_destroyed_connection_is_disconnected() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (ours, theirs) = pair.establish();
    pair.a.destroy(pair.now, ours);
    pair.settle();
    assert_eq!(pair.events_b.last(), Some(&Event::Disconnected { id: theirs, timed_out: false }));
    pair.b.destroy(pair.now, theirs);
    pair.run_for(5 * SECOND);
    assert_eq!((pair.a.connections(), pair.b.connections()), (0, 0));
    assert_eq!(pair.events_a.len(), 1, "nobody wanted to hear of it: {:?}", pair.events_a);
}

#[test]
fn somebody_else_ends_the_connection_of_a_process_that_is_gone() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (ours, theirs) = pair.establish();
    let orphan: Orphan = pair.a.orphan(ours).unwrap();
    pair.a = ferroce_cm::Cm::new(ferroce_cm::CmConfig { id_prefix: 0, id_bits: 20, seed: 0 });
    pair.a.end_orphan(pair.now, &orphan);
    pair.settle();
    assert_eq!(pair.events_b.last(), Some(&Event::Disconnected { id: theirs, timed_out: false }));
    pair.b.destroy(pair.now, theirs);
    pair.run_for(5 * SECOND);
    assert_eq!(pair.a.connections(), 0);
}

/// A side that lost all its memory answers at once, so that the other does not wait.
#[test]
fn who_knows_of_no_connection_says_so() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (ours, theirs) = pair.request();
    pair.a = Pair::new().a;
    pair.b.accept(pair.now, theirs, &accept_params()).unwrap();
    pair.settle();
    let Some(Event::Rejected { reason, .. }) = pair.events_b.last() else { panic!("{:?}", pair.events_b) };
    assert_eq!(*reason, RejectReason::INVALID_COMM_ID);
    let _ = ours;

    let mut pair = Pair::new();
    pair.listen(1);
    let (ours, _) = pair.establish();
    pair.b = Pair::new().b;
    pair.a.disconnect(pair.now, ours, &[]).unwrap();
    pair.settle();
    assert_eq!(pair.events_a.last(), Some(&Event::Disconnected { id: ours, timed_out: false }));
}

#[test]
fn an_alternate_path_is_refused() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (ours, theirs) = pair.establish();
    let lap = cm::Lap::default().with_local_comm_id(ours.0).with_remote_comm_id(theirs.0);
    let arrival = ferroce_cm::Route { local: route().peer, peer: route().local, ..route() };
    pair.b.handle_mad(pair.now, &arrival, &cm::encode(1, &lap));
    let answer = pair.b.poll_transmit().expect("an answer");
    let Ok(cm::Message::Apr(apr)) = cm::Message::parse(&answer.mad) else { panic!("{:?}", answer.mad) };
    assert_eq!(apr.status(), cm::AprStatus::NOT_SUPPORTED);
}

#[test]
fn messages_from_another_address_than_the_peers_do_nothing() {
    let mut pair = Pair::new();
    pair.listen(1);
    let (ours, theirs) = pair.establish();
    let dreq = cm::Dreq::default()
        .with_local_comm_id(ours.0)
        .with_remote_comm_id(theirs.0)
        .with_remote_qpn(accept_params().qpn);
    let stranger = ferroce_cm::Route { local: route().peer, peer: [10, 0, 0, 3].into(), ..route() };
    pair.b.handle_mad(pair.now, &stranger, &cm::encode(1, &dreq));
    pair.settle();
    assert!(matches!(pair.events_b.last(), Some(Event::Established { .. })), "{:?}", pair.events_b);
    assert_eq!(pair.b.counters().value(CmCounter::Strangers), 1);
}

#[test]
fn requests_with_nonsense_in_them_are_refused() {
    let mut pair = Pair::new();
    pair.listen(1);
    let good = connect_params();
    let mut wrong = vec![
        ferroce_cm::ConnectParams { path_mtu: 0, ..good.clone() },
        ferroce_cm::ConnectParams { path_mtu: 6, ..good.clone() },
        ferroce_cm::ConnectParams { transport: cm::Transport::Rd, ..good.clone() },
        ferroce_cm::ConnectParams { private_data: vec![0xff; 92], ..good.clone() },
    ];
    for (qpn, params) in (1..).zip(&mut wrong) {
        pair.a.connect(pair.now, &ferroce_cm::ConnectParams { qpn, ..params.clone() }).unwrap();
    }
    pair.settle();
    assert_eq!(pair.b.counters().value(CmCounter::Malformed), wrong.len() as u64);
    assert_eq!((pair.b.connections(), pair.events_a.len()), (0, wrong.len()));
}

#[test]
fn too_much_private_data_is_an_error_before_anything_is_sent() {
    let mut pair = Pair::new();
    let params = ferroce_cm::ConnectParams { private_data: vec![0; 93], ..connect_params() };
    assert!(matches!(pair.a.connect(pair.now, &params), Err(CmCallError::PrivateData(_))));
    assert_eq!((pair.a.connections(), pair.a.poll_transmit()), (0, None));
}

#[test]
fn other_classes_versions_and_methods_are_counted() {
    let mut pair = Pair::new();
    for (class, version, method, attribute) in
        [(4, 1, 1, 0x10), (7, 1, 3, 0x10), (7, 2, 1, 0x10), (7, 2, 3, 0x1b)]
    {
        let header = MadHeader::new(class, version, method, 9, attribute);
        pair.b.handle_mad(1, &route(), &Mad::new(header, [0; Mad::BODY_LEN]));
    }
    assert_eq!(pair.b.counters().value(CmCounter::NotUnderstood), 4);
    assert_eq!(pair.b.poll_transmit(), None);
}

proptest! {
    /// Whatever the network loses and doubles, both sides learn of the end, and nothing is left.
    #[test]
    fn nothing_is_left_after_any_losses(seed in any::<u64>(), loss in 0u64..60) {
        let mut state = seed | 1;
        let mut pair = Pair::with_fate(move |_, _| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match (state >> 33) % 100 {
                chance if chance < loss => Fate::Drop,
                chance if chance < loss + 20 => Fate::Twice,
                _ => Fate::Pass,
            }
        });
        pair.listen(8);
        let ours = pair.a.connect(pair.now, &connect_params()).unwrap();
        let mut seen = (0, 0);
        for _ in 0..200 {
            pair.run_for(SECOND);
            let news = pair.events_b[seen.1..].to_vec();
            for event in news {
                if let Event::Request { id, .. } = event {
                    pair.b.accept(pair.now, id, &accept_params()).unwrap();
                }
                if let Event::Disconnected { id, .. } | Event::Rejected { id, .. } | Event::Unreachable { id } = event {
                    pair.b.destroy(pair.now, id);
                }
            }
            seen.1 = pair.events_b.len();
            let news = pair.events_a[seen.0..].to_vec();
            for event in news {
                if let Event::Reply { id, .. } = event {
                    pair.a.establish(pair.now, id, &[]).unwrap();
                    pair.a.disconnect(pair.now, id, &[]).unwrap();
                }
            }
            seen.0 = pair.events_a.len();
        }
        let ended = pair.events_a.iter().any(|event| {
            matches!(event, Event::Disconnected { .. } | Event::Unreachable { .. } | Event::Rejected { .. })
        });
        prop_assert!(ended, "{:?}", pair.events_a);
        pair.a.destroy(pair.now, ours);
        pair.run_for(10 * SECOND);
        prop_assert_eq!(pair.a.connections(), 0);
        prop_assert_eq!(pair.b.connections(), 0);
    }

    /// No datagram makes it panic, whatever is in it.
    #[test]
    fn arbitrary_bytes_are_dropped(attribute in 0x0eu16..0x1d, body in prop::array::uniform32(any::<u8>()), at in 0usize..200) {
        let mut pair = Pair::new();
        pair.listen(1);
        pair.establish();
        let mut bytes = [0; Mad::BODY_LEN];
        bytes[at..at + 32].copy_from_slice(&body);
        let header = MadHeader::new(MadHeader::CLASS_CM, 2, MadHeader::METHOD_SEND, 1, attribute);
        let arrival = ferroce_cm::Route { local: route().peer, peer: route().local, ..route() };
        pair.b.handle_mad(pair.now, &arrival, &Mad::new(header, bytes));
        pair.run_for(SECOND);
        prop_assert!(pair.b.connections() <= 2);
    }
}
