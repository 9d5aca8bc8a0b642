//! Receivers with too few receives: RNR NAKs happen, as both sides' counters show, and the sender gets through.

use std::process::ExitCode;

use ferroce_tests::pair::Pair;
use ferroce_tests::perftest::rows;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;
use ferroce_tests::{PATIENCE, matrix, stat};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for (version, gid) in [("ipv4", 1), ("ipv6", 0)] {
        for options in
            ["-r 1 -D 4 -f 0", "-r 2 -s 8 -D 4 -f 0", "-r 8 -s 33 -e -n 50000", "-r 4 -q 4 -D 4 -f 0"]
        {
            let name = format!("{version}/{}", matrix::name(options));
            let options = format!("-x {gid} {options}");
            trials.push(matrix::row(name, move || get_through(&options)));
        }
    }
    matrix::run(trials)
}

fn get_through(options: &str) {
    let _turn = Turn::wait();
    let sandbox = Sandbox::new();
    let pair = Pair::new("ib_send_bw", options).start(&sandbox);
    let (client, server) = (pair.client.pid(), pair.server.pid());
    let have_counted = |seen: &[stat::Process]| {
        stat::counter(seen, client, "rnr_nak_retry_err") > 0
            && stat::counter(seen, server, "send_rnr_err") > 0
    };
    let (seen, counted) =
        stat::wait_for(&sandbox, |seen| have_counted(seen) || pair.client.has_ended(), PATIENCE);
    let finished = pair.finish();
    finished.assert_success();
    assert!(counted && have_counted(&seen), "no RNR NAK: {seen:#?}\n{finished}");
    let rows = rows(&finished.client.stdout);
    assert!(matches!(rows.as_slice(), [row] if row.iterations > 0), "{finished}");
}
