//! Many processes behind one address: eight pairs of different tools at once, and what becomes of the others when some
//! are killed.
//!
//! `FERROCE_TEST_SEED` chooses who is killed; the seed of a run is printed.

use std::process::ExitCode;
use std::thread;

use ferroce_tests::pair::{Pair, Running};
use ferroce_tests::perftest::rows;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;
use ferroce_tests::{PATIENCE, announce, listening, matrix, stat, trials};

fn main() -> ExitCode {
    matrix::run(trials![
        eight_pairs_share_one_address,
        killed_processes_take_only_their_peers_with_them,
        a_killed_responder_is_found_out_by_its_requester,
    ])
}

/// Tool and options, and whether only its client sends requests.
const CROWD: [(&str, &str, bool); 8] = [
    ("ib_send_bw", "-x 1", true),
    ("ib_write_bw", "-x 0", true),
    ("ib_read_bw", "-x 1", true),
    ("ib_atomic_bw", "-x 0", true),
    ("ib_read_lat", "-x 1", true),
    ("ib_atomic_lat", "-x 0", true),
    ("ib_send_lat", "-x 1", false),
    ("ib_write_lat", "-x 0", false),
];
const KILLED: usize = 4;
/// A local ACK timeout of half a second, eight of them before RETRY_EXC: sixteen programs that poll, on two processors
/// with other things to do as well, keep each other waiting for long.
const PATIENT: &str = "-u 17";

fn eight_pairs_share_one_address() {
    let _turn = Turn::alone();
    let sandbox = Sandbox::new();
    for pair in busy_crowd(&sandbox, |_| false).into_iter().map(Running::finish) {
        pair.assert_success();
        let rows = rows(&pair.client.stdout);
        assert!(rows.len() == 1 && rows[0].iterations > 0, "{pair}");
    }
    assert_nothing_leaked(&sandbox);
}

fn killed_processes_take_only_their_peers_with_them() {
    let seed =
        std::env::var("FERROCE_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_260_101);
    let _turn = Turn::alone();
    let victims = choose(seed);
    announce(format_args!("FERROCE_TEST_SEED={seed}: {victims:?}"));
    let sandbox = Sandbox::new();
    let mut crowd = busy_crowd(&sandbox, |pair| victims.iter().any(|victim| victim.pair == pair));
    for victim in &victims {
        let pair = &mut crowd[victim.pair];
        if victim.is_server { pair.server.kill() } else { pair.client.kill() }
    }
    for (number, (pair, (tool, _, client_only))) in crowd.into_iter().zip(CROWD).enumerate() {
        match victims.iter().find(|victim| victim.pair == number) {
            None => pair.finish().assert_success(),
            Some(victim) if victim.is_server && client_only => assert_retry_exceeded(tool, pair),
            // It may wait for a message that nobody will send: perftest has no timeout of its own. Dropped, it ends.
            Some(_) => drop(pair),
        }
    }
    assert_nothing_leaked(&sandbox);
}

fn a_killed_responder_is_found_out_by_its_requester() {
    let _turn = Turn::alone();
    for (tool, options) in [("ib_write_bw", "-x 1"), ("ib_read_bw", "-x 0"), ("ib_atomic_bw", "-x 1")] {
        let sandbox = Sandbox::new();
        let mut pair = Pair::new(tool, &format!("{options} -D 600 -f 1")).start(&sandbox);
        assert!(are_all_busy(&sandbox, std::slice::from_ref(&pair)), "{}", pair.client.output_so_far());
        pair.server.kill();
        assert_retry_exceeded(tool, pair);
        assert_nothing_leaked(&sandbox);
    }
}

/// Eight pairs that all run at the same time, for a while yet; those that stay, for long.
fn busy_crowd(sandbox: &Sandbox, stays: impl Fn(usize) -> bool) -> Vec<Running> {
    // A machine with much else to do may take so long to start the last that the first has ended.
    for seconds in [12, 60] {
        let durations = std::array::from_fn(|pair| if stays(pair) { 600 } else { seconds });
        let crowd = start_crowd(sandbox, durations);
        if are_all_busy(sandbox, &crowd) {
            return crowd;
        }
    }
    panic!("no crowd comes together");
}

fn start_crowd(sandbox: &Sandbox, durations: [u32; CROWD.len()]) -> Vec<Running> {
    thread::scope(|scope| {
        let mut starts = Vec::new();
        for ((tool, options, _), seconds) in CROWD.into_iter().zip(durations) {
            let options = format!("{options} -D {seconds} -f 1 {PATIENT}");
            starts.push(scope.spawn(move || Pair::new(tool, &options).start(sandbox)));
        }
        starts.into_iter().map(|start| start.join().expect("the pair starts")).collect()
    })
}

/// Waits until all have a slot and every client has sent a good number of packets; false if one ends before all do so at once.
fn are_all_busy(sandbox: &Sandbox, crowd: &[Running]) -> bool {
    let has_ended = || crowd.iter().any(|pair| pair.client.has_ended());
    let is_busy = |processes: &[stat::Process]| {
        let sent = |pair: &Running| stat::counter(processes, pair.client.pid(), "port_xmit_packets");
        processes.len() == 2 * crowd.len() && crowd.iter().all(|pair| sent(pair) >= BUSY)
    };
    let (processes, _) = stat::wait_for(sandbox, |seen| is_busy(seen) || has_ended(), PATIENCE);
    is_busy(&processes) && !has_ended()
}

/// Nobody has a slot any more, and the keeper leaves the port when its time has come.
fn assert_nothing_leaked(sandbox: &Sandbox) {
    let (processes, empty) = stat::wait_for(sandbox, <[_]>::is_empty, PATIENCE);
    assert!(empty, "slots that did not return: {processes:#?}");
    let free = listening::wait_until_udp_is_free(sandbox.holder_pid(), ROCE_PORT, PATIENCE);
    assert!(free, "the keeper stays without clients");
}

/// A requester whose responder was killed gives up after its retries.
fn assert_retry_exceeded(tool: &str, pair: Running) {
    let client = pair.client.finish(PATIENCE);
    assert!(!client.was_stuck, "{tool} waits for ever\n{client}");
    assert!(client.output().contains("status 12"), "not RETRY_EXC\n{client}");
}

/// Who is killed.
#[derive(Debug)]
struct Victim {
    pair: usize,
    is_server: bool,
}

/// Different pairs, and of each the server or the client, as the seed says.
fn choose(seed: u64) -> Vec<Victim> {
    let mut state = seed;
    let mut next = move |bound: usize| {
        // Knuth's 64-bit linear congruential generator; its high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let mut pairs: Vec<_> = (0..CROWD.len()).collect();
    (0..KILLED)
        .map(|_| Victim { pair: pairs.swap_remove(next(pairs.len())), is_server: next(2) == 0 })
        .collect()
}

const ROCE_PORT: u16 = 4791;
/// Packets that show that a client is past its start.
const BUSY: u64 = 100;
