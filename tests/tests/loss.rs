//! D23 of the list of faults met elsewhere: loss, duplication and reordering between two hosts, on real sockets. Needs
//! tap interfaces. With `FERROCE_TEST_FULL=1` the runs that last a time last 30 seconds.

use std::process::ExitCode;

use ferroce_tests::fault_link::{Counts, FaultLink, Faults};
use ferroce_tests::pair::{Finished, Pair};
use ferroce_tests::perftest::rows;
use ferroce_tests::turn::Turn;
use ferroce_tests::{PATIENCE, announce, is_full, matrix};

const ONE_PER_CENT_EACH: Faults = Faults { drop: 1.0, duplicate: 1.0, reorder: 1.0, among: u64::MAX };
const NOTHING_PASSES: Faults = Faults { drop: 100.0, duplicate: 0.0, reorder: 0.0, among: u64::MAX };

/// Tool and options; GID 1 is IPv4, and GID 2, which GID 0 is link-local for, IPv6.
const RUNS: [(&str, &str, &str); 7] = [
    ("writes_finish/ipv4", "ib_write_bw", "-x 1 -D SECONDS -f 0"),
    ("writes_finish/ipv6", "ib_write_bw", "-x 2 -D SECONDS -f 0"),
    ("sends_finish/ipv4", "ib_send_bw", "-x 1 -n 300"),
    ("reads_finish/ipv4", "ib_read_bw", "-x 1 -n 300"),
    ("reads_finish/ipv6", "ib_read_bw", "-x 2 -n 300"),
    ("atomics_finish/ipv4", "ib_atomic_bw", "-x 1 -n 2000"),
    ("atomics_finish/ipv6", "ib_atomic_bw", "-x 2 -n 2000"),
];

fn main() -> ExitCode {
    let obstacle = FaultLink::obstacle();
    let mut trials = Vec::new();
    let mut add = |name: &str, body: Box<dyn FnOnce() + Send>| {
        trials.push(matrix::row_unless(obstacle.as_deref(), name, body));
    };
    for (seed, (name, tool, options)) in (1..).zip(RUNS) {
        let options = options.replace("SECONDS", if is_full() { "30" } else { "4" });
        add(name, Box::new(move || finish_over_faults(seed, tool, &options)));
    }
    add("data_is_right/ipv4", Box::new(|| data_is_right(11, "-g 1 -s 65536 -m 1024")));
    add("data_is_right/ipv6", Box::new(|| data_is_right(12, "-g 2 -s 65536 -m 1024")));
    add("a_dead_wire_ends_in_retry_exceeded", Box::new(a_dead_wire_ends_in_retry_exceeded));
    matrix::run(trials)
}

fn finish_over_faults(seed: u64, tool: &str, options: &str) {
    let finished = run(seed, ONE_PER_CENT_EACH, tool, options);
    let rows = rows(&finished.client.stdout);
    assert!(rows.len() == 1 && rows[0].iterations > 0, "{finished}");
}

/// `ibv_rc_pingpong -c` looks at every byte. Its 400 messages take 25,600 packets at least.
fn data_is_right(seed: u64, options: &str) {
    let faults = Faults { among: 20_000, ..ONE_PER_CENT_EACH };
    run(seed, faults, "ibv_rc_pingpong", &format!("{options} -c -n 200"));
}

/// Runs a pair over the faulty wire, and makes sure that there were faults of each kind.
fn run(seed: u64, faults: Faults, tool: &str, options: &str) -> Finished {
    let _turn = Turn::wait();
    let mut link = FaultLink::new(seed);
    link.set(faults);
    let finished = Pair::new(tool, options).start_between(link.far(), link.near()).finish();
    let counts = link.counts();
    finished.assert_success();
    let Counts { dropped, duplicated, reordered, .. } = counts;
    assert!(dropped > 0 && duplicated > 0 && reordered > 0, "{counts:?}\n{finished}");
    announce(format_args!("{tool} {options}: seed {seed}, {counts:?}"));
    finished
}

fn a_dead_wire_ends_in_retry_exceeded() {
    let _turn = Turn::wait();
    let mut link = FaultLink::new(0);
    let running = Pair::new("ib_write_bw", "-x 1 -D 60").start_between(link.far(), link.near());
    while link.counts().datagrams < 1000 {
        assert!(!running.client.has_ended(), "{}", running.client.output_so_far());
        // The wire is asked for its counts; it does not tell by itself.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    link.set(NOTHING_PASSES);
    let client = running.client.finish(PATIENCE);
    assert!(!client.was_stuck, "it waits for ever\n{client}");
    assert!(client.output().contains("status 12"), "not RETRY_EXC\n{client}");
}
