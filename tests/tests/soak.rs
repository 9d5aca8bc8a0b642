//! Perftest's tools again and again, in one network namespace, so that what one leaves behind meets the next. Two
//! rounds, two hundred with `FERROCE_TEST_FULL=1`, or `FERROCE_TEST_ROUNDS`.

use std::process::ExitCode;
use std::time::Instant;

use ferroce_tests::pair::Pair;
use ferroce_tests::perftest::rows;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::{PATIENCE, announce, is_full, matrix, stat, trials};

fn main() -> ExitCode {
    matrix::run(trials![rounds_without_one_failure])
}

/// Every tool with its own defaults, but for WRITE's five thousand iterations, and the iterations that gives.
const ROUND: [(&str, u64); 13] = [
    ("ib_send_bw", 1000),
    ("ib_send_bw -e", 1000),
    ("ib_send_bw -s 33 -q 16", 16_000),
    ("ib_write_bw -n 1000", 1000),
    ("ib_write_bw -s 1025 -m 1024", 5000),
    ("ib_read_bw", 1000),
    ("ib_atomic_bw -A FETCH_AND_ADD", 1000),
    ("ib_atomic_bw -A CMP_AND_SWAP", 1000),
    ("ib_send_lat", 1000),
    ("ib_send_lat -e", 1000),
    ("ib_write_lat", 1000),
    ("ib_read_lat", 1000),
    ("ib_atomic_lat", 1000),
];

fn rounds_without_one_failure() {
    let asked: Option<u32> = std::env::var("FERROCE_TEST_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds = asked.unwrap_or(if is_full() { 200 } else { 2 });
    let sandbox = Sandbox::new();
    let start = Instant::now();
    for round in 1..=rounds {
        for (version, gid) in [("IPv4", 1), ("IPv6", 0)] {
            for (run, iterations) in ROUND {
                let (tool, options) = run.split_once(' ').unwrap_or((run, ""));
                let finished = Pair::new(tool, &format!("{options} -x {gid}")).run(&sandbox);
                finished.assert_success();
                let counted: Vec<_> =
                    rows(&finished.client.stdout).iter().map(|row| row.iterations).collect();
                assert_eq!(counted, [iterations], "round {round}, {version}\n{finished}");
            }
        }
        let elapsed = start.elapsed().as_secs();
        announce(format_args!("round {round} of {rounds}, {elapsed} s"));
    }
    let (left, empty) = stat::wait_for(&sandbox, <[_]>::is_empty, PATIENCE);
    assert!(empty, "slots that did not return: {left:#?}");
}
