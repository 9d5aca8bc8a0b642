//! Many processes behind one address: eight pairs of different tools at once, and what becomes of the others when some
//! are killed.
//!
//! `FERROCE_TEST_SEED` chooses who is killed; the seed of a run is printed.

use std::thread;

use ferroce_tests::PATIENCE;
use ferroce_tests::pair::{Pair, Running};
use ferroce_tests::perftest::rows;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::{listening, remark, stat};

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

/// Starts all of them for so long that they certainly run at the same time.
fn start_crowd(sandbox: &Sandbox) -> Vec<Running> {
    thread::scope(|scope| {
        let starts = CROWD.map(|(tool, options, _)| {
            scope.spawn(move || Pair::new(tool, &format!("{options} -D 12 -f 1")).start(sandbox))
        });
        starts.into_iter().map(|start| start.join().expect("the pair starts")).collect()
    })
}

/// Waits until every process has a slot and every client has sent a good number of packets.
fn wait_until_all_are_busy(sandbox: &Sandbox, crowd: &[Running]) {
    let is_busy = |processes: &[stat::Process]| {
        let sent = |pid| {
            let process = processes.iter().find(|process| process.pid == u64::from(pid));
            process.and_then(|process| process.counters.get("port_xmit_packets").copied()).unwrap_or(0)
        };
        crowd.iter().all(|pair| sent(pair.client.pid()) >= BUSY)
    };
    let (processes, busy) = stat::wait_for(sandbox, is_busy, PATIENCE);
    assert!(busy, "not all clients send: {processes:#?}");
    assert_eq!(processes.len(), 2 * crowd.len(), "{processes:#?}");
}

/// Nobody has a slot any more, and the keeper leaves the port when its time has come.
fn assert_nothing_leaked(sandbox: &Sandbox) {
    let (processes, empty) = stat::wait_for(sandbox, <[_]>::is_empty, PATIENCE);
    assert!(empty, "slots that did not return: {processes:#?}");
    let free = listening::wait_until_udp_is_free(sandbox.holder_pid(), ROCE_PORT, PATIENCE);
    assert!(free, "the keeper stays without clients");
}

#[test]
fn eight_pairs_share_one_address() {
    let sandbox = Sandbox::new();
    let crowd = start_crowd(&sandbox);
    wait_until_all_are_busy(&sandbox, &crowd);
    let finished: Vec<_> = crowd.into_iter().map(Running::finish).collect();
    for pair in &finished {
        pair.assert_success();
        assert!(rows(&pair.client.stdout).iter().all(|row| row.iterations > 0), "{pair}");
        assert_eq!(rows(&pair.client.stdout).len(), 1, "{pair}");
    }
    assert_nothing_leaked(&sandbox);
}

#[test]
fn killed_processes_take_only_their_peers_with_them() {
    let seed =
        std::env::var("FERROCE_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_260_101);
    remark(format_args!("FERROCE_TEST_SEED={seed}"));
    let victims = choose(seed);
    let sandbox = Sandbox::new();
    let mut crowd = start_crowd(&sandbox);
    wait_until_all_are_busy(&sandbox, &crowd);
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
    let victims: Vec<_> = (0..KILLED)
        .map(|_| Victim { pair: pairs.swap_remove(next(pairs.len())), is_server: next(2) == 0 })
        .collect();
    remark(format_args!("{victims:?}"));
    victims
}

const ROCE_PORT: u16 = 4791;
/// Packets that show that a client is past its start.
const BUSY: u64 = 100;
