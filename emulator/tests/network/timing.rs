//! Latency and bandwidth come out as arithmetic says.

use ferroce_core::{Counter, Nanos, SendOp, WcStatus};
use ferroce_emulator::{Connection, Fabric, FabricConfig, LinkConfig, NicConfig, SwitchConfig};

/// Ethernet, IPv4, UDP and BTH, ICRC; and FCS, preamble and gap.
const OVERHEAD: u64 = 14 + 20 + 8 + 12 + 4 + 24;
/// The same with a RETH.
const OVERHEAD_RETH: u64 = OVERHEAD + 16;
/// An ACK: it has an AETH.
const ACK: u64 = OVERHEAD + 4;

fn fabric(rate_bps: u64, delay_ns: Nanos) -> Fabric {
    let link = LinkConfig { rate_bps, delay_ns, ..LinkConfig::default() };
    Fabric::new(&FabricConfig { link, ..FabricConfig::default() })
}

/// Nanoseconds that `bytes` take, in the whole, at `rate_bps`.
fn time(bytes: u64, rate_bps: u64) -> u64 {
    (bytes * 8 * 1_000_000_000).div_ceil(rate_bps)
}

#[test]
fn a_send_and_its_acknowledgement_take_rate_and_delay() {
    for (rate, delay) in [(1_000_000_000, 5_000), (100_000_000_000, 1_000), (400_000_000_000, 50_000)] {
        let mut fabric = fabric(rate, delay);
        let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
        let [a, b] = fabric.connected_pair(hosts, &Connection::default());
        let [source, target] = hosts.map(|host| fabric.buffer(host, 4096));
        fabric.write(&source, 0, &[7; 1000]);
        fabric.post_recv(b, 1, &[target.sge(0, 4096)]);
        fabric.post_send(a, 2, SendOp::Send, &[source.sge(0, 1000)]);

        let arrives = time(1000 + OVERHEAD, rate) + delay;
        fabric.network.run_until(arrives - 1);
        assert!(fabric.take_received(b).is_empty(), "not yet");
        fabric.network.run_until(arrives);
        assert_eq!(fabric.take_received(b).len(), 1);
        assert_eq!(fabric.read(&target, 0, 1000), [7; 1000]);

        let acknowledged = arrives + time(ACK, rate) + delay;
        fabric.network.run_until(acknowledged - 1);
        assert!(fabric.take_sent(a).is_empty(), "not yet");
        fabric.network.run_until(acknowledged);
        assert_eq!(fabric.take_sent(a)[0].status, WcStatus::Success);
        assert!(fabric.network.run_until_idle(Nanos::MAX));
    }
}

#[test]
fn a_long_write_runs_at_the_rate_of_the_link() {
    for (rate, delay, len) in [(10_000_000_000, 2_000, 1u32 << 20), (400_000_000_000, 500, 64 << 20)] {
        let mut fabric = fabric(rate, delay);
        let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
        let [a, _] = fabric.connected_pair(hosts, &Connection::default());
        let [source, target] = hosts.map(|host| fabric.buffer(host, len as usize));
        let write = SendOp::Write { va: target.addr, rkey: target.keys.rkey };
        fabric.post_send(a, 1, write, &[source.sge(0, len)]);
        let packets = u64::from(len / 4096);
        let bytes = u64::from(len) + packets * OVERHEAD + 16;
        let expected = time(bytes, rate) + delay + time(ACK, rate) + delay;
        // Each of the two ways rounds up to a nanosecond once.
        fabric.network.run_until(expected - 2);
        assert!(fabric.take_sent(a).is_empty());
        fabric.network.run_until(expected);
        assert_eq!(fabric.take_sent(a).len(), 1);
        let stats = fabric.network.egress_stats(hosts[0], 0);
        assert_eq!((stats.frames, stats.bytes), (packets, bytes));
    }
}

#[test]
fn a_read_takes_one_round_trip() {
    let (rate, delay) = (10_000_000_000, 20_000);
    let mut fabric = fabric(rate, delay);
    let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
    let [a, _] = fabric.connected_pair(hosts, &Connection::default());
    let [local, remote] = hosts.map(|host| fabric.buffer(host, 4096));
    fabric.post_send(a, 1, SendOp::Read { va: remote.addr, rkey: remote.keys.rkey }, &[local.sge(0, 4096)]);
    let expected = time(OVERHEAD_RETH, rate) + delay + time(4096 + OVERHEAD + 4, rate) + delay;
    fabric.network.run_until(expected - 1);
    assert!(fabric.take_sent(a).is_empty());
    fabric.network.run_until(expected);
    assert_eq!(fabric.take_sent(a).len(), 1);
}

#[test]
fn a_switch_stores_and_forwards() {
    let (rate, delay) = (10_000_000_000, 3_000);
    let link = LinkConfig { rate_bps: rate, delay_ns: delay, ..LinkConfig::default() };
    let config = FabricConfig { link, switch: Some(SwitchConfig::default()), ..FabricConfig::default() };
    let mut fabric = Fabric::new(&config);
    let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
    let [a, b] = fabric.connected_pair(hosts, &Connection::default());
    let [source, target] = hosts.map(|host| fabric.buffer(host, 4096));
    fabric.post_recv(b, 1, &[target.sge(0, 4096)]);
    fabric.post_send(a, 1, SendOp::Send, &[source.sge(0, 4096)]);
    let expected = 2 * (time(4096 + OVERHEAD, rate) + delay);
    fabric.network.run_until(expected - 1);
    assert!(fabric.take_received(b).is_empty());
    fabric.network.run_until(expected);
    assert_eq!(fabric.take_received(b).len(), 1);
}

#[test]
fn a_card_may_be_slower_than_its_link() {
    let nic = NicConfig { rate_bps: Some(1_000_000_000), ..NicConfig::default() };
    let mut fabric = Fabric::new(&FabricConfig { nic, ..FabricConfig::default() });
    let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
    let [a, b] = fabric.connected_pair(hosts, &Connection::default());
    let [source, target] = hosts.map(|host| fabric.buffer(host, 4096));
    fabric.post_recv(b, 1, &[target.sge(0, 4096)]);
    fabric.post_send(a, 1, SendOp::Send, &[source.sge(0, 4096)]);
    let expected = time(4096 + OVERHEAD, 1_000_000_000) + LinkConfig::default().delay_ns;
    fabric.network.run_until(expected - 1);
    assert!(fabric.take_received(b).is_empty());
    fabric.network.run_until(expected);
    assert_eq!(fabric.take_received(b).len(), 1);
}

#[test]
fn jitter_changes_the_delay_and_not_the_order() {
    let link = LinkConfig { jitter_ns: 20_000, ..LinkConfig::default() };
    let mut fabric = Fabric::new(&FabricConfig { link, seed: 3, ..FabricConfig::default() });
    let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
    let [a, b] = fabric.connected_pair(hosts, &Connection::default());
    let [source, target] = hosts.map(|host| fabric.buffer(host, 4096));
    for wr_id in 0..50 {
        fabric.post_recv(b, wr_id, &[target.sge(0, 64)]);
        fabric.post_send(a, wr_id, SendOp::Send, &[source.sge(0, 64)]);
    }
    let mut delays = Vec::new();
    let mut received = Vec::new();
    while fabric.network.step(Nanos::MAX) {
        for wc in fabric.take_received(b) {
            received.push(wc.wr_id);
            delays.push(fabric.network.now());
        }
    }
    assert_eq!(received, (0..50).collect::<Vec<_>>());
    let least = LinkConfig::default().delay_ns;
    assert!(delays.iter().all(|at| *at >= least) && delays[49] > least + 5_000, "{delays:?}");
    assert_eq!(fabric.counter(a.host, Counter::RetransmittedPackets), 0);
}

#[test]
fn a_retransmission_timeout_of_seconds_passes_at_once() {
    let mut fabric = fabric(100_000_000_000, 1_000);
    let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
    // 4.096 µs · 2^20: 4.3 s, and the second time twice that.
    let connection = Connection { timeout: 20, retry_cnt: 1, ..Connection::default() };
    let [a, _] = fabric.connected_pair(hosts, &connection);
    let source = fabric.buffer(hosts[0], 64);
    let link = fabric.link(0);
    fabric.network.set_link_up(link, false);
    fabric.post_send(a, 1, SendOp::Send, &[source.sge(0, 64)]);
    assert!(fabric.network.run_until_idle(Nanos::MAX));
    assert_eq!(fabric.take_sent(a)[0].status, WcStatus::RetryExcErr);
    assert_eq!(fabric.network.link_stats(link)[0].while_down, 2);
    assert!((12_884_901_888..12_885_000_000).contains(&fabric.network.now()), "{}", fabric.network.now());
}
