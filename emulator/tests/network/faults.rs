//! Every fault that a rule can make, and every way to say which packets it is for.

use ferroce_core::{Counter, Nanos, SendOp, WcStatus};
use ferroce_emulator::rules::{Action, HexBytes, Kind, PsnSpan, RandomFaults, Script, ScriptRule, Seen};
use ferroce_emulator::{Connection, Fabric, FabricConfig, QpRef, SwitchConfig};
use ferroce_wire::{Opcode, PacketHeader, Psn};
use std::cell::RefCell;
use std::rc::Rc;

const PACKETS: u32 = 6;
const MTU: u32 = 4096;

/// Two endpoints and a message of six packets that is to get through.
struct Bench {
    fabric: Fabric,
    qps: [QpRef; 2],
    /// One line for each packet as it was sent.
    trace: Rc<RefCell<Vec<String>>>,
}

impl Bench {
    fn new(rules: impl IntoIterator<Item = ScriptRule>) -> Bench {
        Bench::on(Fabric::new(&FabricConfig::default()), rules)
    }

    fn on(mut fabric: Fabric, rules: impl IntoIterator<Item = ScriptRule>) -> Bench {
        let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
        // 1 ms, so that a timeout is far behind a NAK.
        let connection = Connection { psns: [0xff_fffe, 77], timeout: 8, ..Connection::default() };
        let qps = fabric.connected_pair(hosts, &connection);
        let trace = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&trace);
        fabric.network.add_rule(move |seen: &Seen<'_>| {
            let (packet, address) = (seen.packet?, seen.address?);
            log.borrow_mut().push(format!("{} {} {}", packet.opcode(), address.psn, address.nth));
            None
        });
        fabric.network.add_script(&Script { rule: rules.into_iter().collect() });
        Bench { fabric, qps, trace }
    }

    /// Sends the message, and checks that it came whole, once.
    #[track_caller]
    fn run(&mut self) {
        let [a, b] = self.qps;
        let len = PACKETS * MTU;
        let [source, target] = [a.host, b.host].map(|host| self.fabric.buffer(host, len as usize));
        let message: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
        self.fabric.write(&source, 0, &message);
        self.fabric.post_recv(b, 1, &[target.sge(0, len)]);
        self.fabric.post_send(a, 3, SendOp::Send, &[source.sge(0, len)]);
        assert!(self.fabric.network.run_until_idle(Nanos::MAX));
        let (sent, received) = (self.fabric.take_sent(a), self.fabric.take_received(b));
        assert_eq!(sent.iter().map(|wc| (wc.wr_id, wc.status)).collect::<Vec<_>>(), [(3, WcStatus::Success)]);
        assert_eq!(received.iter().map(|wc| (wc.wr_id, wc.byte_len)).collect::<Vec<_>>(), [(1, len)]);
        assert_eq!(self.fabric.read(&target, 0, len as usize), message);
    }

    /// What a host's device counted.
    fn count(&self, end: usize, counter: Counter) -> u64 {
        self.fabric.counter(self.qps[end].host, counter)
    }

    /// How often a packet that begins so was sent.
    fn sent(&self, words: &str) -> usize {
        self.trace.borrow().iter().filter(|line| line.starts_with(words)).count()
    }
}

/// Packet `psn` of the message, the first time it passes.
fn first_time(psn: i32, action: Action) -> ScriptRule {
    ScriptRule {
        from: Some("a".into()),
        kind: Some(Kind::Request),
        qpn: Some(1),
        psn: Some(PsnSpan::One(psn)),
        nth: Some(1),
        ..ScriptRule::new(action)
    }
}

#[test]
fn a_dropped_packet_is_asked_for_and_sent_again() {
    let mut bench = Bench::new([first_time(2, Action::Drop)]);
    bench.run();
    assert_eq!(bench.fabric.network.link_stats(bench.fabric.link(0))[0].dropped, 1);
    assert_eq!((bench.count(0, Counter::PacketSeqErr), bench.count(0, Counter::LocalAckTimeoutErr)), (1, 0));
    assert_eq!(bench.count(1, Counter::OutOfSequence), 1);
    // Go-back-N: everything from the lost one on.
    let repeated: Vec<_> =
        (0..PACKETS as i32).map(|psn| bench.sent(&format!("RC_SEND_MIDDLE {psn} 2"))).collect();
    assert_eq!(repeated, [0, 0, 1, 1, 1, 0]);
    assert_eq!(bench.sent("RC_SEND_LAST 5 2"), 1);
}

#[test]
fn a_packet_may_be_lost_twice_and_others_with_it() {
    let second = ScriptRule { nth: Some(2), ..first_time(2, Action::Drop) };
    let mut bench = Bench::new([first_time(2, Action::Drop), second]);
    bench.run();
    assert_eq!(bench.sent("RC_SEND_MIDDLE 2 3"), 1);
    assert!(
        bench.count(0, Counter::LocalAckTimeoutErr) >= 1,
        "only a timeout tells about a repetition's loss"
    );
}

#[test]
fn a_lost_acknowledgement_costs_a_timeout_and_no_second_delivery() {
    let ack = ScriptRule { from: Some("b".into()), times: Some(1), ..ScriptRule::new(Action::Drop) };
    let mut bench = Bench::new([ack]);
    bench.run();
    assert_eq!(bench.count(0, Counter::LocalAckTimeoutErr), 1);
    assert!(bench.count(1, Counter::DuplicateRequest) >= 1);
}

#[test]
fn a_delayed_packet_is_overtaken() {
    let mut bench = Bench::new([first_time(2, Action::Delay { ns: 50_000 })]);
    bench.run();
    assert_eq!((bench.count(1, Counter::OutOfSequence), bench.count(0, Counter::PacketSeqErr)), (1, 1));
    // It came after its repetition.
    assert!(bench.count(1, Counter::DuplicateRequest) >= 1);
}

#[test]
fn a_duplicate_is_seen_and_not_executed() {
    let mut bench = Bench::new([first_time(2, Action::Duplicate { copies: 3, after_ns: 100 })]);
    bench.run();
    assert_eq!(bench.count(1, Counter::DuplicateRequest), 3);
    assert_eq!(bench.count(0, Counter::RetransmittedPackets), 0);
}

#[test]
fn a_damaged_packet_counts_as_lost() {
    for bit in [Some(0), Some(20_000), None] {
        let mut bench = Bench::new([first_time(2, Action::Corrupt { bit })]);
        bench.run();
        // A bit of the opcode may make it no packet at all before its ICRC is looked at.
        let dropped = [Counter::DropIcrc, Counter::DropUnknownOpcode, Counter::DropMalformed];
        assert_eq!(dropped.map(|counter| bench.count(1, counter)).iter().sum::<u64>(), 1, "{bit:?}");
        assert_eq!(bench.count(0, Counter::PacketSeqErr), 1);
    }
}

#[test]
fn a_mark_reaches_the_receiver_and_harms_nothing() {
    let mut bench = Bench::new([first_time(2, Action::MarkCe)]);
    bench.run();
    assert_eq!(bench.count(1, Counter::NpEcnMarkedRocePackets), 1);
    assert_eq!((bench.count(1, Counter::DropIcrc), bench.count(0, Counter::RetransmittedPackets)), (0, 0));
}

#[test]
fn a_reordered_packet_comes_behind_so_many_others() {
    let arrivals = |packets| {
        let mut bench = Bench::new([first_time(3, Action::Reorder { packets, at_most_ns: 1_000_000 })]);
        bench.run();
        bench.count(1, Counter::OutOfSequence)
    };
    assert_eq!(arrivals(0), 0, "by none: it keeps its place");
    assert_eq!(arrivals(1), 2, "4 3 5: both 4 and 5 are ahead of what is expected");
    assert_eq!(arrivals(2), 1, "4 5 3: one NAK for the gap");
    // Nothing comes behind the last, so it waits out its time, which is shorter than the ACK timeout.
    let mut bench = Bench::new([first_time(5, Action::Reorder { packets: 9, at_most_ns: 300_000 })]);
    bench.run();
    assert_eq!((bench.count(1, Counter::OutOfSequence), bench.count(0, Counter::LocalAckTimeoutErr)), (0, 0));
    assert!(bench.fabric.network.now() > 300_000);
}

#[test]
fn a_replaced_packet_is_what_arrives() {
    // A request with another PSN, sealed: it is as good as a gap.
    let mut bench = Bench::new([]);
    let qpn = bench.qps[1].qpn;
    let header = PacketHeader::new(Opcode::RC_SEND_ONLY, qpn, Psn::new(0x1000));
    let mut packet = vec![0; header.packet_len(0)];
    header.write(&mut packet, 0);
    let replace = Action::Replace { payload: HexBytes(packet.clone().into()), seal: true };
    bench.fabric.network.add_script(&Script { rule: vec![first_time(5, replace)] });
    bench.run();
    assert_eq!((bench.count(1, Counter::OutOfSequence), bench.count(1, Counter::DropIcrc)), (1, 0));
    // The same without a seal.
    let mut bench =
        Bench::new([first_time(5, Action::Replace { payload: HexBytes(packet.into()), seal: false })]);
    bench.run();
    assert_eq!((bench.count(1, Counter::OutOfSequence), bench.count(1, Counter::DropIcrc)), (0, 1));
}

#[test]
fn a_truncated_packet_is_dropped_by_the_receiver() {
    for (len, counter) in
        [(15, Counter::DropMalformed), (0, Counter::DropMalformed), (100, Counter::DropIcrc)]
    {
        let mut bench = Bench::new([first_time(2, Action::Truncate { len })]);
        bench.run();
        assert_eq!(bench.count(1, counter), 1, "{len} bytes");
    }
}

#[test]
fn pass_shields_from_the_rules_behind_it() {
    let mut bench = Bench::new([first_time(2, Action::Pass), first_time(2, Action::Drop)]);
    bench.run();
    assert_eq!(bench.count(0, Counter::RetransmittedPackets), 0);
}

#[test]
fn each_condition_of_a_rule_selects() {
    let drops = |rule: ScriptRule| {
        let mut bench = Bench::new([rule]);
        bench.run();
        let [there, back] = bench.fabric.network.link_stats(bench.fabric.link(0));
        (there.dropped, back.dropped)
    };
    let once = || ScriptRule { times: Some(1), ..ScriptRule::new(Action::Drop) };
    assert_eq!(drops(ScriptRule { to: Some("a".into()), ..once() }), (0, 1));
    assert_eq!(drops(ScriptRule { from: Some("a".into()), ..once() }), (1, 0));
    assert_eq!(drops(ScriptRule { link: Some("a-b".into()), ..once() }), (1, 0));
    assert_eq!(drops(ScriptRule { link: Some("a-c".into()), ..once() }), (0, 0));
    assert_eq!(drops(ScriptRule { kind: Some(Kind::Response), ..once() }), (0, 1));
    assert_eq!(drops(ScriptRule { qpn: Some(2), ..once() }), (0, 0));
    assert_eq!(
        drops(ScriptRule { nth: Some(1), psn: Some(PsnSpan::Range(1, 3)), ..ScriptRule::new(Action::Drop) })
            .0,
        3
    );
    assert_eq!(drops(ScriptRule { after_ns: Some(1 << 40), ..once() }), (0, 0));
    assert_eq!(drops(ScriptRule { until_ns: Some(0), ..once() }), (0, 0));
    let opcode = |name: &str| Some(name.to_string().try_into().expect("an opcode"));
    assert_eq!(drops(ScriptRule { opcode: opcode("RC_ACKNOWLEDGE"), ..once() }), (0, 1));
    assert_eq!(drops(ScriptRule { opcode: opcode("RC_SEND_LAST"), ..once() }), (1, 0));
    assert_eq!(drops(ScriptRule { one_in: Some(1 << 60), ..ScriptRule::new(Action::Drop) }), (0, 0));
}

#[test]
fn a_rule_without_a_link_sees_a_packet_once_and_one_with_a_link_sees_it_there() {
    let star =
        || Fabric::new(&FabricConfig { switch: Some(SwitchConfig::default()), ..FabricConfig::default() });
    // Each packet passes two links, and is counted where it leaves its host.
    let third = ScriptRule { psn: Some(PsnSpan::One(2)), nth: Some(2), ..ScriptRule::new(Action::Drop) };
    let mut bench = Bench::on(star(), [third]);
    bench.run();
    assert_eq!(bench.count(0, Counter::RetransmittedPackets), 0);
    let mut bench =
        Bench::on(star(), [ScriptRule { link: Some("b-switch".into()), ..first_time(2, Action::Drop) }]);
    bench.run();
    assert_eq!(bench.count(0, Counter::RetransmittedPackets), 0, "`from` is the switch there");
    let there = ScriptRule {
        link: Some("b-switch".into()),
        from: Some("switch".into()),
        ..first_time(2, Action::Drop)
    };
    let mut bench = Bench::on(star(), [there]);
    bench.run();
    assert_eq!(bench.count(0, Counter::PacketSeqErr), 1);
}

#[test]
fn faults_by_chance_end_when_they_are_told_to() {
    let faults = RandomFaults {
        drop_ppm: 30_000,
        duplicate_ppm: 30_000,
        delay_ppm: 30_000,
        corrupt_ppm: 30_000,
        mark_ce_ppm: 30_000,
        reorder_ppm: 30_000,
        truncate_ppm: 30_000,
        most_delay_ns: 100_000,
        until_ns: 0,
    };
    for seed in 0..20 {
        let mut bench = Bench::on(Fabric::new(&FabricConfig { seed, ..FabricConfig::default() }), []);
        bench.fabric.network.add_rule(faults);
        for _ in 0..20 {
            bench.run();
        }
        assert!(bench.count(0, Counter::RetransmittedPackets) > 0, "seed {seed} has no faults");
    }
    let mut bench = Bench::new([]);
    bench.fabric.network.add_rule(RandomFaults { until_ns: 1, ..faults });
    bench.fabric.network.run_until(1);
    bench.run();
    assert_eq!(bench.count(0, Counter::RetransmittedPackets), 0);
}

#[test]
fn rules_can_be_taken_away() {
    let mut bench = Bench::new([ScriptRule::new(Action::Drop)]);
    bench.fabric.network.clear_rules();
    bench.run();
    assert_eq!(bench.count(0, Counter::RetransmittedPackets), 0);
}
