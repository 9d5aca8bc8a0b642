//! Many to one: marks, pauses, and what is lost without them.

use ferroce_core::{Counter, Dcqcn, Nanos, Profile, Reacts, SendOp, WcStatus};
use ferroce_emulator::{
    Connection, EcnMarking, EgressStats, Fabric, FabricConfig, LinkConfig, NicConfig, Pfc, ReceiveConfig,
    SwitchConfig,
};

/// Senders, and bytes that each of them writes to the last endpoint.
const SENDERS: usize = 8;
const BYTES: u32 = 1 << 20;
const RATE_BPS: u64 = 25_000_000_000;

/// What an incast came to.
struct Outcome {
    /// The switch's port towards the receiver.
    egress: EgressStats,
    /// The same for its ports towards the senders.
    towards_senders: Vec<EgressStats>,
    retransmitted: u64,
    marked: u64,
    /// CNPs that the receiver sent, and that senders acted on.
    cnps: [u64; 2],
    took_ns: Nanos,
}

/// Everybody writes to the last endpoint at once, until all is done.
fn incast(switch: SwitchConfig) -> Outcome {
    incast_of(BYTES, switch, Reacts::Never)
}

fn incast_of(bytes: u32, switch: SwitchConfig, reacts: Reacts) -> Outcome {
    let dcqcn = Dcqcn { reacts, line_rate_bps: RATE_BPS, ..Dcqcn::default() };
    let profile = Profile { dcqcn, ..Profile::default() };
    let config = FabricConfig {
        endpoints: SENDERS + 1,
        switch: Some(switch),
        link: LinkConfig { rate_bps: RATE_BPS, ..LinkConfig::default() },
        nic: NicConfig { profile, ..NicConfig::default() },
        ..FabricConfig::default()
    };
    let mut fabric = Fabric::new(&config);
    let receiver = fabric.endpoint(SENDERS);
    // A short timeout, since without flow control the end of a burst may be lost.
    let connection = Connection { timeout: 8, ..Connection::default() };
    let mut senders = Vec::new();
    for index in 0..SENDERS {
        let sender = fabric.endpoint(index);
        let [qp, _] = fabric.connected_pair([sender, receiver], &connection);
        let (source, target) =
            (fabric.buffer(sender, bytes as usize), fabric.buffer(receiver, bytes as usize));
        fabric.write(&source, 0, &vec![index as u8 + 1; bytes as usize]);
        let write = SendOp::Write { va: target.addr, rkey: target.keys.rkey };
        fabric.post_send(qp, index as u64, write, &[source.sge(0, bytes)]);
        senders.push((qp, target));
    }
    let mut left = SENDERS;
    while left > 0 {
        assert!(fabric.network.step(Nanos::MAX), "at rest with {left} left");
        for (qp, _) in &senders {
            for wc in fabric.take_sent(*qp) {
                assert_eq!(wc.status, WcStatus::Success);
                left -= 1;
            }
        }
    }
    let took_ns = fabric.network.now();
    for (index, (_, target)) in senders.iter().enumerate() {
        let written = fabric.read(target, 0, bytes as usize);
        assert!(written.iter().all(|byte| *byte == index as u8 + 1), "the bytes of sender {index}");
    }
    let switch = fabric.switch().expect("it was asked for");
    let of_senders =
        |counter| (0..SENDERS).map(|index| fabric.counter(fabric.endpoint(index), counter)).sum();
    Outcome {
        egress: fabric.network.egress_stats(switch, SENDERS),
        towards_senders: (0..SENDERS).map(|port| fabric.network.egress_stats(switch, port)).collect(),
        retransmitted: of_senders(Counter::RetransmittedPackets),
        cnps: [fabric.counter(receiver, Counter::NpCnpSent), of_senders(Counter::RpCnpHandled)],
        marked: fabric.counter(receiver, Counter::NpEcnMarkedRocePackets),
        took_ns,
    }
}

/// No faster than the receiver's link, and without losses not much slower.
fn least_ns() -> Nanos {
    SENDERS as u64 * u64::from(BYTES) * 8 / 25
}

#[test]
fn a_full_queue_drops_its_tail() {
    let outcome = incast(SwitchConfig { queue_bytes: 128 << 10, ..SwitchConfig::default() });
    assert!(outcome.egress.dropped > 0 && outcome.retransmitted > 0);
    assert!(outcome.egress.longest_queue_bytes <= 128 << 10);
    assert_eq!((outcome.egress.marked, outcome.marked), (0, 0));
    assert!(outcome.took_ns > least_ns());
}

#[test]
fn pauses_keep_everything() {
    let pfc = Pfc { xoff_bytes: 32 << 10, xon_bytes: 16 << 10, headroom_bytes: 32 << 10, ..Pfc::default() };
    let outcome = incast(SwitchConfig { queue_bytes: 128 << 10, pfc: Some(pfc), ..SwitchConfig::default() });
    assert_eq!((outcome.egress.dropped, outcome.retransmitted), (0, 0));
    assert!(outcome.towards_senders.iter().all(|port| port.pauses_sent > 0));
    // Less than a tenth is lost to pauses that last a little too long.
    assert!((least_ns()..least_ns() * 11 / 10).contains(&outcome.took_ns), "{} ns", outcome.took_ns);
}

#[test]
fn too_little_headroom_loses_what_was_under_way() {
    let pfc = Pfc { xoff_bytes: 32 << 10, xon_bytes: 16 << 10, headroom_bytes: 4 << 10, ..Pfc::default() };
    let outcome = incast(SwitchConfig { pfc: Some(pfc), ..SwitchConfig::default() });
    assert!(outcome.egress.dropped > 0 && outcome.retransmitted > 0);
}

#[test]
fn pauses_leave_other_priorities_alone() {
    // RoCE has priority 3 here; these are for priority 5.
    let pfc = Pfc { priorities: 1 << 5, ..Pfc::default() };
    let outcome = incast(SwitchConfig { queue_bytes: 128 << 10, pfc: Some(pfc), ..SwitchConfig::default() });
    assert!(outcome.egress.dropped > 0);
    assert!(outcome.towards_senders.iter().all(|port| port.pauses_sent == 0));
}

#[test]
fn a_long_queue_marks_what_joins_it() {
    let ecn = EcnMarking { kmin_bytes: 16 << 10, kmax_bytes: 64 << 10, pmax_ppm: 200_000 };
    let outcome = incast(SwitchConfig { queue_bytes: 16 << 20, ecn: Some(ecn), ..SwitchConfig::default() });
    assert_eq!((outcome.egress.dropped, outcome.retransmitted), (0, 0));
    assert!(outcome.egress.marked > 100, "{} marks", outcome.egress.marked);
    assert_eq!(outcome.marked, outcome.egress.marked, "each mark reaches the receiver");
    let short = incast(SwitchConfig {
        queue_bytes: 16 << 20,
        ecn: Some(EcnMarking { kmin_bytes: 16 << 20, kmax_bytes: 32 << 20, pmax_ppm: 1_000_000 }),
        ..SwitchConfig::default()
    });
    assert_eq!(short.egress.marked, 0);
}

#[test]
fn senders_that_react_keep_the_queue_short() {
    let ecn = EcnMarking { kmin_bytes: 16 << 10, kmax_bytes: 64 << 10, pmax_ppm: 200_000 };
    let switch = SwitchConfig { queue_bytes: 16 << 20, ecn: Some(ecn), ..SwitchConfig::default() };
    let [deaf, reacting] =
        [Reacts::Never, Reacts::Always].map(|reacts| incast_of(8 * BYTES, switch.clone(), reacts));
    assert!(deaf.cnps[0] > 0 && deaf.cnps[1] == 0, "{:?}", deaf.cnps);
    assert!(reacting.cnps[0] > 0 && reacting.cnps[1] == reacting.cnps[0], "{:?}", reacting.cnps);
    assert_eq!((reacting.egress.dropped, reacting.retransmitted), (0, 0));
    assert!(
        reacting.egress.marked < deaf.egress.marked / 2,
        "{} of {}",
        reacting.egress.marked,
        deaf.egress.marked
    );
}

#[test]
fn a_slow_receiver_pauses_its_neighbour_or_drops() {
    let run = |pfc| {
        let receive = ReceiveConfig { rate_bps: Some(5_000_000_000), buffer_bytes: 64 << 10, pfc };
        let nic = NicConfig { receive, ..NicConfig::default() };
        let mut fabric = Fabric::new(&FabricConfig { nic, ..FabricConfig::default() });
        let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
        let connection = Connection { timeout: 8, ..Connection::default() };
        let [qp, _] = fabric.connected_pair(hosts, &connection);
        let [source, target] = hosts.map(|host| fabric.buffer(host, BYTES as usize));
        let write = SendOp::Write { va: target.addr, rkey: target.keys.rkey };
        fabric.post_send(qp, 1, write, &[source.sge(0, BYTES)]);
        let mut sent = Vec::new();
        while sent.is_empty() {
            assert!(fabric.network.step(Nanos::MAX));
            sent = fabric.take_sent(qp);
        }
        assert_eq!(sent[0].status, WcStatus::Success);
        let stats = fabric.network.egress_stats(hosts[0], 0);
        (fabric.network.host_stats(hosts[1]).overrun, stats.pauses_received, fabric.network.now())
    };
    let (overrun, pauses, _) = run(None);
    assert!(overrun > 0 && pauses == 0);
    let (overrun, pauses, took_ns) =
        run(Some(Pfc { xoff_bytes: 32 << 10, xon_bytes: 16 << 10, ..Pfc::default() }));
    assert!(overrun == 0 && pauses > 0);
    let least = u64::from(BYTES) * 8 / 5;
    assert!((least..least * 21 / 20).contains(&took_ns), "{took_ns} ns");
}
