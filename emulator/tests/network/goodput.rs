//! What loss costs a requester that goes back N, and one that repeats selectively.

use ferroce_core::{Counter, Nanos, Profile, SendOp, WcStatus};
use ferroce_emulator::{Connection, Fabric, FabricConfig, LinkConfig, NicConfig};

const BYTES: u32 = 32 << 20;

/// Writes over 100 Gb/s with a round trip of 10 µs; bytes that arrived for every thousand that fit in the time, and
/// retransmissions.
fn goodput(loss_ppm: u32, seed: u64) -> (u64, u64) {
    goodput_of(loss_ppm, seed, false)
}

fn goodput_of(loss_ppm: u32, seed: u64, selective_repeat: bool) -> (u64, u64) {
    let link = LinkConfig { delay_ns: 5_000, loss_ppm, ..LinkConfig::default() };
    let nic =
        NicConfig { profile: Profile { selective_repeat, ..Profile::default() }, ..NicConfig::default() };
    let mut fabric = Fabric::new(&FabricConfig { seed, link, nic, ..FabricConfig::default() });
    let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
    let connection = Connection { timeout: 6, selective_repeat, ..Connection::default() };
    let [qp, _] = fabric.connected_pair(hosts, &connection);
    let [source, target] = hosts.map(|host| fabric.buffer(host, BYTES as usize));
    let write = SendOp::Write { va: target.addr, rkey: target.keys.rkey };
    // Each is 1 MiB.
    for wr_id in 0..u64::from(BYTES >> 20) {
        fabric.post_send(qp, wr_id, write, &[source.sge(wr_id << 20, 1 << 20)]);
    }
    let mut done = 0;
    while done < BYTES >> 20 {
        assert!(fabric.network.step(Nanos::MAX));
        for wc in fabric.take_sent(qp) {
            assert_eq!(wc.status, WcStatus::Success);
            done += 1;
        }
    }
    let possible = fabric.network.now() * 100 / 8;
    (u64::from(BYTES) * 1000 / possible, fabric.counter(hosts[0], Counter::RetransmittedPackets))
}

#[test]
fn goodput_falls_as_loss_rises() {
    let (whole, none) = goodput(0, 1);
    assert_eq!(none, 0);
    // The headers take one in fifty.
    assert!(whole > 960, "{whole}/1000 without loss");
    let steps = [100, 1_000, 10_000, 50_000].map(|loss_ppm| goodput(loss_ppm, 1));
    assert!(steps.iter().all(|(_, repeated)| *repeated > 0), "{steps:?}");
    assert!(
        whole > steps[0].0 && steps.windows(2).all(|pair| pair[0].0 > pair[1].0),
        "{whole} then {steps:?}"
    );
}

#[test]
fn selective_repeat_sends_little_more_than_was_lost() {
    for loss_ppm in [1_000, 10_000] {
        let [(back_n, all), (selective, lost)] =
            [false, true].map(|selective| goodput_of(loss_ppm, 1, selective));
        assert!(selective > back_n, "{selective} and {back_n} of 1000 at {loss_ppm} ppm");
        // 8192 packets, and what is lost of those sent again.
        let expected = u64::from(loss_ppm) * 8192 / 1_000_000;
        assert!(
            lost < 2 * expected + 16 && lost < all / 3,
            "{lost} and {all} sent again, {expected} expected"
        );
    }
    assert_eq!(goodput_of(0, 1, true), goodput_of(0, 1, false));
}
