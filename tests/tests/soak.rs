//! The quick part of perftest's tools again and again: `cargo test -p ferroce-tests --test soak -- --ignored`. Two
//! hundred rounds, or `FERROCE_TEST_ROUNDS`, in one network namespace, so that what one leaves behind meets the next.

use std::time::Instant;

use ferroce_tests::announce;
use ferroce_tests::pair::Pair;
use ferroce_tests::perftest::rows;
use ferroce_tests::sandbox::Sandbox;

/// Every tool with its own defaults, but for WRITE's five thousand iterations, and the iterations that gives.
const ROUND: [(&str, u64); 10] = [
    ("ib_send_bw", 1000),
    ("ib_write_bw -n 1000", 1000),
    ("ib_read_bw", 1000),
    ("ib_atomic_bw -A FETCH_AND_ADD", 1000),
    ("ib_atomic_bw -A CMP_AND_SWAP", 1000),
    ("ib_send_lat", 1000),
    ("ib_send_lat -e", 1000),
    ("ib_write_lat", 1000),
    ("ib_read_lat", 1000),
    ("ib_atomic_lat", 1000),
];

#[test]
#[ignore = "takes the better part of an hour"]
fn two_hundred_rounds_without_one_failure() {
    let rounds: u32 =
        std::env::var("FERROCE_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
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
}
