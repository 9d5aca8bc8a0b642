//! Captures: the same seed gives the same bytes.

use crate::busy::run;
use ferroce_core::{Nanos, SendOp};
use ferroce_emulator::{Connection, Fabric, FabricConfig};

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let (first, second, other) = (run(1), run(1), run(2));
    assert!(first.len() > 1_000_000, "{} bytes", first.len());
    assert!(first == second, "two runs of one seed differ");
    assert!(first != other, "two seeds do not differ");
}

#[test]
fn a_capture_can_be_taken_in_pieces_and_costs_nothing_when_off() {
    let mut fabric = Fabric::new(&FabricConfig::default());
    let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
    let [qp, _] = fabric.connected_pair(hosts, &Connection::default());
    let [local, remote] = hosts.map(|host| fabric.buffer(host, 64));
    let write = SendOp::Write { va: remote.addr, rkey: remote.keys.rkey };
    fabric.post_send(qp, 1, write, &[local.sge(0, 64)]);
    assert!(fabric.network.run_until_idle(Nanos::MAX));
    assert_eq!(fabric.network.take_capture(), []);
    fabric.network.start_capture();
    fabric.post_send(qp, 2, write, &[local.sge(0, 64)]);
    assert!(fabric.network.run_until_idle(Nanos::MAX));
    let first = fabric.network.take_capture();
    assert!(first.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));
    assert_eq!(fabric.network.take_capture(), []);
    fabric.post_send(qp, 3, write, &[local.sge(0, 64)]);
    assert!(fabric.network.run_until_idle(Nanos::MAX));
    let second = fabric.network.take_capture();
    assert!(!second.is_empty() && !second.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));
}
