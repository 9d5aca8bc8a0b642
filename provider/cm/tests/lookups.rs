//! Looking up datagram services.

mod support;

use ferroce_cm::{Answer, CmCounter, Event, ListenAddr, ListenScope};
use ferroce_wire::cm::{PortSpace, ServiceId, SidrStatus};
use support::{Fate, PORT, Pair, SECOND, Side, lookup_params, served};

fn listening(mut pair: Pair, backlog: u32) -> Pair {
    let service = ServiceId::of_port(PortSpace::Udp, PORT);
    pair.b.listen(ListenAddr { service, scope: ListenScope::Any }, backlog).expect("nobody else listens");
    pair
}

#[test]
fn a_service_is_found() {
    let mut pair = listening(Pair::new(), 1);
    let id = pair.a.resolve(pair.now, &lookup_params()).unwrap();
    pair.settle();
    let theirs = pair.requested();
    assert!(
        matches!(&pair.events_b[..], [Event::Lookup { lookup, .. }] if lookup.private_data[36..].starts_with(b"who"))
    );
    pair.b.answer(pair.now, theirs, &served()).unwrap();
    pair.settle();
    let [Event::Found { id: found, datagram }] = &pair.events_a[..] else { panic!("{:?}", pair.events_a) };
    assert_eq!(
        (*found, datagram.status, datagram.qpn, datagram.qkey),
        (id, SidrStatus::Valid, 0x77, 0x0123_4567)
    );
    assert!(datagram.private_data.starts_with(b"me"));
    pair.b.destroy(pair.now, theirs);
    pair.run_for(20 * SECOND);
    assert_eq!((pair.a.poll_timeout(), pair.b.poll_timeout()), (None, None));
}

#[test]
fn a_service_that_nobody_offers_is_not_supported() {
    let mut pair = Pair::new();
    pair.a.resolve(pair.now, &lookup_params()).unwrap();
    pair.settle();
    assert!(
        matches!(&pair.events_a[..], [Event::Found { datagram, .. }] if datagram.status == SidrStatus::ServiceNotSupported)
    );
}

#[test]
fn a_service_may_refuse() {
    let mut pair = listening(Pair::new(), 1);
    for refuse_by_leaving in [false, true] {
        pair.events_a.clear();
        pair.a.resolve(pair.now, &lookup_params()).unwrap();
        pair.settle();
        let theirs = pair.requested();
        if refuse_by_leaving {
            pair.b.destroy(pair.now, theirs);
        } else {
            pair.b.answer(pair.now, theirs, &Answer::Rejected { private_data: vec![] }).unwrap();
        }
        pair.settle();
        assert!(
            matches!(&pair.events_a[..], [Event::Found { datagram, .. }] if datagram.status == SidrStatus::Rejected)
        );
    }
}

#[test]
fn a_lost_answer_is_given_again() {
    let mut lost = false;
    let pair = Pair::with_fate(move |side, _| {
        let is_it = side == Side::B && !lost;
        lost |= is_it;
        if is_it { Fate::Drop } else { Fate::Pass }
    });
    let mut pair = listening(pair, 1);
    pair.a.resolve(pair.now, &lookup_params()).unwrap();
    pair.settle();
    let theirs = pair.requested();
    pair.b.answer(pair.now, theirs, &served()).unwrap();
    pair.run_for(5 * SECOND);
    assert_eq!(pair.sent_by(Side::B), ["SIDR_REP", "SIDR_REP"]);
    assert_eq!((pair.events_a.len(), pair.events_b.len()), (1, 1));
}

#[test]
fn a_silent_peer_is_unreachable() {
    let mut pair = Pair::with_fate(|_, _| Fate::Drop);
    let id = pair.a.resolve(pair.now, &lookup_params()).unwrap();
    pair.run_for(120 * SECOND);
    assert_eq!(pair.events_a, [Event::Unreachable { id }]);
    assert_eq!(pair.sent.len(), 16);
}

#[test]
fn a_full_backlog_leaves_a_lookup_to_its_next_try() {
    let mut pair = listening(Pair::new(), 1);
    pair.a.resolve(pair.now, &lookup_params()).unwrap();
    pair.a.resolve(pair.now, &lookup_params()).unwrap();
    pair.settle();
    assert_eq!(pair.events_b.len(), 1);
    assert_eq!(pair.b.counters().value(CmCounter::NoRoom), 1);
    let first = pair.requested();
    pair.b.answer(pair.now, first, &served()).unwrap();
    pair.run_for(5 * SECOND);
    assert_eq!(pair.events_b.len(), 2);
}
