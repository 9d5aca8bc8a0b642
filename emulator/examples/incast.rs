//! Eight endpoints write to a ninth at once: what the queue of the switch looks like without flow control, and with
//! pauses. Run it with `cargo run --release --example incast -p ferroce-emulator`.
#![allow(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use ferroce_core::{Counter, Nanos, SendOp};
use ferroce_emulator::{Connection, Fabric, FabricConfig, LinkConfig, NicConfig, Pfc, SwitchConfig};

const SENDERS: usize = 8;
const BYTES: u32 = 1 << 20;
/// How often the queue is looked at.
const SAMPLE_NS: Nanos = 20_000;

fn main() {
    let tail_drop = SwitchConfig { queue_bytes: 256 << 10, ..SwitchConfig::default() };
    let pfc = Pfc { xoff_bytes: 32 << 10, xon_bytes: 16 << 10, headroom_bytes: 32 << 10, ..Pfc::default() };
    let pauses = SwitchConfig { pfc: Some(pfc), ..tail_drop.clone() };
    for (title, switch) in [("Tail drop at 256 KiB", tail_drop), ("PFC", pauses)] {
        let run = incast(switch);
        println!("{title}: {SENDERS} × {} MiB to one port of 25 Gb/s", BYTES >> 20);
        println!("  queue, a column every {} µs, a row for each 64 KiB", SAMPLE_NS / 1000);
        draw(&run.queue);
        println!(
            "  all written after {} µs (a full link needs {} µs)",
            run.took_ns / 1000,
            least_ns() / 1000
        );
        println!("  dropped {}, sent again {}, pauses {}\n", run.dropped, run.repeated, run.pauses);
    }
}

struct Run {
    /// Bytes in the queue, sample by sample.
    queue: Vec<u64>,
    took_ns: Nanos,
    dropped: u64,
    repeated: u64,
    pauses: u64,
}

fn incast(switch: SwitchConfig) -> Run {
    let mut fabric = Fabric::new(&FabricConfig {
        endpoints: SENDERS + 1,
        link: LinkConfig { rate_bps: 25_000_000_000, ..LinkConfig::default() },
        nic: NicConfig::default(),
        switch: Some(switch),
        ..FabricConfig::default()
    });
    let receiver = fabric.endpoint(SENDERS);
    let mut qps = Vec::new();
    for index in 0..SENDERS {
        let sender = fabric.endpoint(index);
        let connection = Connection { timeout: 8, ..Connection::default() };
        let [qp, _] = fabric.connected_pair([sender, receiver], &connection);
        let [source, target] = [sender, receiver].map(|host| fabric.buffer(host, BYTES as usize));
        let write = SendOp::Write { va: target.addr, rkey: target.keys.rkey };
        fabric.post_send(qp, 1, write, &[source.sge(0, BYTES)]);
        qps.push(qp);
    }
    let switch = fabric.switch().expect("it was asked for");
    let mut queue = Vec::new();
    let mut left = SENDERS;
    while left > 0 {
        fabric.network.run_until(fabric.network.now() + SAMPLE_NS);
        // All of them have DSCP 26, which is priority 3.
        queue.push(fabric.network.queue_bytes(switch, SENDERS, 3));
        left -= qps.iter().map(|qp| fabric.take_sent(*qp).len()).sum::<usize>();
    }
    Run {
        queue,
        took_ns: fabric.network.now(),
        dropped: fabric.network.egress_stats(switch, SENDERS).dropped,
        repeated: (0..SENDERS)
            .map(|index| fabric.counter(fabric.endpoint(index), Counter::RetransmittedPackets))
            .sum(),
        pauses: (0..SENDERS).map(|port| fabric.network.egress_stats(switch, port).pauses_sent).sum(),
    }
}

fn least_ns() -> Nanos {
    SENDERS as u64 * u64::from(BYTES) * 8 / 25
}

/// A bar for each sample.
fn draw(samples: &[u64]) {
    const ROW: u64 = 64 << 10;
    const WIDTH: usize = 90;
    // A long run is shown by the longest queue of each stretch.
    let stretch = samples.len().div_ceil(WIDTH).max(1);
    let columns: Vec<u64> =
        samples.chunks(stretch).map(|stretch| stretch.iter().copied().max().unwrap_or(0)).collect();
    let rows = columns.iter().copied().max().unwrap_or(0).div_ceil(ROW).max(1);
    for row in (0..rows).rev() {
        let line: String = columns.iter().map(|bytes| block(bytes.saturating_sub(row * ROW), ROW)).collect();
        println!("  {:>5} KiB │{line}", (row + 1) * ROW / 1024);
    }
}

/// An eighth of a block for each eighth of `full`.
fn block(bytes: u64, full: u64) -> char {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    EIGHTHS[(bytes.min(full) * 8).div_ceil(full) as usize]
}
