//! D23 of the list of faults met elsewhere: loss, duplication and reordering between two hosts, on real sockets. Needs
//! tap interfaces; says so and skips where the system gives none. With `FERROCE_TEST_FULL=1` each run takes 30 seconds.

use ferroce_tests::PATIENCE;
use ferroce_tests::fault_link::{FaultLink, Faults};
use ferroce_tests::is_full;
use ferroce_tests::pair::Pair;
use ferroce_tests::perftest::rows;
use ferroce_tests::turn::Turn;
use ferroce_tests::{announce, remark};

const CLEAN: Faults = Faults { drop: 0.0, duplicate: 0.0, reorder: 0.0 };
const ONE_PER_CENT_EACH: Faults = Faults { drop: 1.0, duplicate: 1.0, reorder: 1.0 };
const NOTHING_PASSES: Faults = Faults { drop: 100.0, ..CLEAN };

fn link(seed: u64) -> Option<FaultLink> {
    if let Some(obstacle) = FaultLink::obstacle() {
        announce(format_args!("skipped: {obstacle}"));
        return None;
    }
    Some(FaultLink::new(seed))
}

fn seconds() -> u32 {
    if is_full() { 30 } else { 4 }
}

/// Runs a pair over the faulty wire, GID 1 being IPv4 and GID 2 IPv6, and makes sure that there were faults.
fn run_over_faults(seed: u64, tool: &str, options: &str) -> Option<ferroce_tests::pair::Finished> {
    let _turn = Turn::wait();
    let mut link = link(seed)?;
    link.set(ONE_PER_CENT_EACH);
    let finished = Pair::new(tool, options).start_between(link.far(), link.near()).finish();
    let counts = link.counts();
    remark(format_args!("seed {seed}: {counts:?}"));
    finished.assert_success();
    for (what, count) in
        [("drop", counts.dropped), ("duplicate", counts.duplicated), ("reorder", counts.reordered)]
    {
        assert!(count > 0, "nothing to {what}: {counts:?}\n{finished}");
    }
    Some(finished)
}

#[test]
fn ib_write_bw_finishes_over_a_faulty_wire_ipv4() {
    let options = format!("-x 1 -D {} -f 0", seconds());
    if let Some(finished) = run_over_faults(1, "ib_write_bw", &options) {
        assert!(rows(&finished.client.stdout).iter().any(|row| row.iterations > 0), "{finished}");
    }
}

#[test]
fn ib_write_bw_finishes_over_a_faulty_wire_ipv6() {
    let options = format!("-x 2 -D {} -f 0", seconds());
    if let Some(finished) = run_over_faults(2, "ib_write_bw", &options) {
        assert!(rows(&finished.client.stdout).iter().any(|row| row.iterations > 0), "{finished}");
    }
}

#[test]
fn ib_read_bw_finishes_over_a_faulty_wire() {
    run_over_faults(3, "ib_read_bw", "-x 1 -n 300");
}

#[test]
fn ib_atomic_bw_finishes_over_a_faulty_wire() {
    run_over_faults(4, "ib_atomic_bw", "-x 1 -n 2000");
}

/// ibv_rc_pingpong looks at every byte.
#[test]
fn data_is_right_after_a_faulty_wire() {
    run_over_faults(5, "ibv_rc_pingpong", "-g 1 -c -s 65536 -m 1024 -n 200");
    run_over_faults(6, "ibv_rc_pingpong", "-g 2 -c -s 10000 -m 256 -n 200");
}

#[test]
fn a_dead_wire_ends_in_retry_exceeded() {
    let _turn = Turn::wait();
    let Some(mut link) = link(7) else { return };
    link.set(CLEAN);
    let running = Pair::new("ib_write_bw", "-x 1 -D 60").start_between(link.far(), link.near());
    while link.counts().datagrams < 1000 {
        assert!(!running.client.has_ended(), "{}", running.client.output_so_far());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    link.set(NOTHING_PASSES);
    let client = running.client.finish(PATIENCE);
    assert!(!client.was_stuck, "it waits for ever\n{client}");
    assert!(client.output().contains("status 12"), "not RETRY_EXC\n{client}");
}
