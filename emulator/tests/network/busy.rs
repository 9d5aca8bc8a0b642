//! A run in which everything happens that a capture can show.

use ferroce_core::SendOp;
use ferroce_emulator::rules::RandomFaults;
use ferroce_emulator::{Connection, EcnMarking, Fabric, FabricConfig, LinkConfig, Pfc, SwitchConfig};

/// Three endpoints around a switch with everything that makes chance or pauses, and faults besides.
pub fn run(seed: u64) -> Vec<u8> {
    let config = FabricConfig {
        seed,
        endpoints: 3,
        link: LinkConfig {
            jitter_ns: 500,
            loss_ppm: 5_000,
            rate_bps: 10_000_000_000,
            ..LinkConfig::default()
        },
        switch: Some(SwitchConfig {
            queue_bytes: 48 << 10,
            ecn: Some(EcnMarking { kmin_bytes: 8 << 10, kmax_bytes: 32 << 10, pmax_ppm: 300_000 }),
            pfc: Some(Pfc {
                priorities: 1 << 3,
                xoff_bytes: 24 << 10,
                xon_bytes: 8 << 10,
                headroom_bytes: 16 << 10,
            }),
            ..SwitchConfig::default()
        }),
        ..FabricConfig::default()
    };
    let mut fabric = Fabric::new(&config);
    fabric.network.start_capture();
    fabric.network.add_rule(RandomFaults {
        drop_ppm: 5_000,
        duplicate_ppm: 5_000,
        delay_ppm: 5_000,
        corrupt_ppm: 5_000,
        mark_ce_ppm: 5_000,
        reorder_ppm: 5_000,
        truncate_ppm: 5_000,
        most_delay_ns: 30_000,
        until_ns: 0,
    });
    let receiver = fabric.endpoint(2);
    for index in 0..2 {
        for traffic_class in [26 << 2 | 2, 0] {
            let connection =
                Connection { timeout: 8, traffic_class, ipv6: index == 1, ..Connection::default() };
            let [qp, peer] = fabric.connected_pair([fabric.endpoint(index), receiver], &connection);
            let (local, remote) = (fabric.buffer(qp.host, 200_000), fabric.buffer(receiver, 200_000));
            let rkey = remote.keys.rkey;
            fabric.post_send(qp, 10, SendOp::Write { va: remote.addr, rkey }, &[local.sge(0, 200_000)]);
            fabric.post_send(qp, 11, SendOp::Read { va: remote.addr, rkey }, &[local.sge(0, 30_000)]);
            fabric.post_send(qp, 12, SendOp::FetchAdd { va: remote.addr, rkey, add: 1 }, &[local.sge(0, 8)]);
            fabric.post_recv(peer, 20, &[remote.sge(0, 9_000)]);
            fabric.post_send(qp, 13, SendOp::SendImm { imm: [1, 2, 3, 4] }, &[local.sge(0, 9_000)]);
        }
    }
    assert!(fabric.network.run_until_idle(60_000_000_000), "it comes to rest within a minute");
    fabric.network.take_capture()
}
