//! Who reaches whom: switches in a row, several ways, loops, a host's own address, unknown ones.

use ferroce_core::{Nanos, Path, SendOp, WcStatus};
use ferroce_emulator::{
    Connection, Fabric, FabricConfig, HostConfig, HostId, LinkConfig, NicConfig, SwitchConfig, SwitchId,
    VirtualNetwork,
};
use std::net::{IpAddr, Ipv4Addr};

fn host(network: &mut VirtualNetwork, number: u8) -> HostId {
    let addresses = vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))];
    network.add_bare_host(HostConfig { name: format!("h{number}"), addresses, nic: NicConfig::default() })
}

fn switch(name: &str) -> SwitchConfig {
    SwitchConfig { name: name.into(), ..SwitchConfig::default() }
}

fn path(from: u8, dst: Ipv4Addr, source_port: u16) -> Path {
    Path {
        src: Ipv4Addr::new(10, 0, 0, from).into(),
        dst: dst.into(),
        interface: 0,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        source_port,
        receiver: None,
    }
}

/// Sends a datagram, and counts how many of them each host got.
fn reach(network: &mut VirtualNetwork, hosts: &[HostId], from: usize, dst: Ipv4Addr) -> Vec<usize> {
    network.send_datagram(hosts[from], &path(from as u8, dst, 0xc000), &[0; 28], true);
    assert!(network.run_until_idle(Nanos::MAX));
    hosts.iter().map(|host| std::iter::from_fn(|| network.poll_datagram(*host)).count()).collect()
}

/// Four switches in a square, with a host at each: two ways between opposite corners.
fn square() -> (VirtualNetwork, [HostId; 4], [SwitchId; 4]) {
    let mut network = VirtualNetwork::new(1);
    let hosts = [0, 1, 2, 3].map(|number| host(&mut network, number));
    let switches = ["s0", "s1", "s2", "s3"].map(|name| network.add_switch(switch(name)));
    for corner in 0..4 {
        network.connect(hosts[corner], switches[corner], LinkConfig::default()).expect("a port");
        network.connect(switches[corner], switches[(corner + 1) % 4], LinkConfig::default()).expect("a port");
    }
    (network, hosts, switches)
}

#[test]
fn frames_find_their_way_through_switches() {
    let (mut network, hosts, _) = square();
    for from in 0..4 {
        for to in 0..4 {
            let mut expected = vec![0; 4];
            expected[to] = 1;
            let dst = Ipv4Addr::new(10, 0, 0, to as u8);
            assert_eq!(reach(&mut network, &hosts, from, dst), expected, "{from} to {to}");
        }
    }
}

#[test]
fn equal_ways_share_the_connections() {
    let (mut network, hosts, switches) = square();
    for source_port in 0xc000..0xc064 {
        network.send_datagram(hosts[0], &path(0, Ipv4Addr::new(10, 0, 0, 2), source_port), &[0; 28], true);
        assert!(network.run_until_idle(Nanos::MAX));
    }
    assert_eq!(std::iter::from_fn(|| network.poll_datagram(hosts[2])).count(), 100);
    // Both neighbours of corner 0 lead to corner 2. The ports are those of the host and of the links to corners 1, 3.
    let frames = [0, 1, 2].map(|port| network.egress_stats(switches[0], port).frames);
    assert_eq!(frames.iter().sum::<u64>(), 100);
    assert!(frames[0] == 0 && frames[1] > 25 && frames[2] > 25, "{frames:?}");
}

#[test]
fn multicast_reaches_every_other_host_once_even_in_a_loop() {
    let (mut network, hosts, _) = square();
    assert_eq!(reach(&mut network, &hosts, 1, Ipv4Addr::new(239, 1, 2, 3)), [1, 0, 1, 1]);
}

#[test]
fn nobody_answers_for_an_unknown_address() {
    let (mut network, hosts, _) = square();
    assert_eq!(reach(&mut network, &hosts, 0, Ipv4Addr::new(10, 9, 9, 9)), [0; 4]);
    assert_eq!(network.host_stats(hosts[0]).unresolved, 1);
    // A host without a link reaches itself alone.
    let lonely = host(&mut network, 9);
    assert!(network.send_datagram(lonely, &path(9, Ipv4Addr::new(10, 0, 0, 1), 1), &[0; 28], true));
    assert!(network.run_until_idle(Nanos::MAX));
    assert!(network.poll_datagram(hosts[1]).is_none());
}

#[test]
fn a_host_has_one_link() {
    let mut network = VirtualNetwork::new(0);
    let (a, b, c) = (host(&mut network, 1), host(&mut network, 2), host(&mut network, 3));
    let link = network.connect(a, b, LinkConfig::default()).expect("a port");
    assert_eq!(network.link_name(link), "h1-h2");
    let error = network.connect(a, c, LinkConfig::default()).expect_err("it has a link");
    assert!(error.to_string().contains("h1 has one port"), "{error}");
    assert!(network.connect(c, c, LinkConfig::default()).is_err());
}

#[test]
fn a_connection_may_stay_on_its_host_and_may_use_ipv6() {
    for ipv6 in [false, true] {
        for ends in [[0, 0], [0, 1]] {
            let mut fabric = Fabric::new(&FabricConfig::default());
            let hosts = ends.map(|end| fabric.endpoint(end));
            let [a, b] = fabric.connected_pair(hosts, &Connection { ipv6, ..Connection::default() });
            let [source, target] = hosts.map(|host| fabric.buffer(host, 10_000));
            fabric.write(&source, 0, &[9; 10_000]);
            fabric.post_recv(b, 1, &[target.sge(0, 10_000)]);
            fabric.post_send(a, 2, SendOp::Send, &[source.sge(0, 10_000)]);
            assert!(fabric.network.run_until_idle(Nanos::MAX));
            assert_eq!(fabric.take_sent(a)[0].status, WcStatus::Success);
            assert_eq!(fabric.take_received(b)[0].byte_len, 10_000);
            assert_eq!(fabric.read(&target, 0, 10_000), [9; 10_000]);
            let crossed = fabric.network.link_stats(fabric.link(0)).map(|way| way.frames);
            assert_eq!(crossed == [0, 0], ends == [0, 0]);
        }
    }
}

#[test]
fn a_process_that_dies_takes_its_qps_along() {
    let mut fabric = Fabric::new(&FabricConfig::default());
    let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
    let connection = Connection { timeout: 8, retry_cnt: 2, ..Connection::default() };
    let [a, b] = fabric.connected_pair(hosts, &connection);
    let source = fabric.buffer(hosts[0], 64);
    fabric.network.restart(hosts[1]);
    assert_eq!(fabric.network.call(hosts[1], |device, _, _| device.qp_state(b.qpn)), None);
    fabric.post_send(a, 1, SendOp::Send, &[source.sge(0, 64)]);
    assert!(fabric.network.run_until_idle(Nanos::MAX));
    assert_eq!(fabric.take_sent(a)[0].status, WcStatus::RetryExcErr);
}

/// Else the peer of one that has died is taken for the peer of the one that comes.
#[test]
fn the_next_process_has_other_qpns() {
    let mut fabric = Fabric::new(&FabricConfig::default());
    let host = fabric.endpoint(0);
    let mut seen = Vec::new();
    // Enough for the numbers to begin anew once.
    for _ in 0..300 {
        let qpn = fabric.create_qp(host).qpn.value();
        assert!(seen.iter().rev().take(200).all(|before| before >> 16 != qpn.wrapping_sub(0x100) >> 16));
        seen.push(qpn.wrapping_sub(0x100));
        fabric.network.restart(host);
    }
}
