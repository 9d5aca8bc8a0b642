//! Datagrams at UDP port 4791 that no card would send: they are dropped and counted by reason, and nothing else changes.

use std::process::ExitCode;

use ferroce_tests::pair::Pair;
use ferroce_tests::perftest::rows;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;
use ferroce_tests::{PATIENCE, matrix, stat};

/// Sends each kind of garbage to every slot of the keeper, until it is killed. The top byte of the destination QPN is
/// the slot.
const SPRAY: &str = "
import random, socket, sys
family, address = (socket.AF_INET, '127.0.0.1') if sys.argv[1] == 'ipv4' else (socket.AF_INET6, '::1')
garbage = socket.socket(family, socket.SOCK_DGRAM)
random.seed(1)
def bth(slot, opcode=4, flags=0):
    return bytes([opcode, flags, 255, 255, 0, slot, random.randrange(256), random.randrange(256)]) + bytes(4)
while True:
    for slot in range(256):
        noise = random.randbytes(32)
        for datagram in (b'', bth(slot)[:9], bth(slot) + noise[:3], bth(slot, flags=1) + noise, bth(slot, opcode=0xff) + noise,
                         bth(slot, opcode=10) + noise[:8], bth(slot) + noise, noise):
            garbage.sendto(datagram, (address, 4791))
";

/// What counts it.
const REASONS: [&str; 4] = ["drop_malformed", "drop_transport_version", "drop_unknown_opcode", "drop_icrc"];

fn main() -> ExitCode {
    let row = |version: &'static str, gid: u32| {
        matrix::row(format!("is_dropped_and_counted/{version}"), move || is_dropped_and_counted(version, gid))
    };
    matrix::run(vec![row("ipv4", 1), row("ipv6", 0)])
}

fn is_dropped_and_counted(version: &str, gid: u32) {
    let _turn = Turn::alone();
    let sandbox = Sandbox::new();
    let pair = Pair::new("ib_send_bw", &format!("-x {gid} -D 6 -f 0")).start(&sandbox);
    let spray = sandbox.bystander("python3", &["-c", SPRAY, version]);
    let pids = [pair.client.pid(), pair.server.pid()];
    let have_counted = |seen: &[stat::Process]| {
        pids.iter().all(|pid| REASONS.iter().all(|reason| stat::counter(seen, *pid, reason) > 0))
    };
    let (seen, counted) =
        stat::wait_for(&sandbox, |seen| have_counted(seen) || pair.client.has_ended(), PATIENCE);
    drop(spray);
    let finished = pair.finish();
    finished.assert_success();
    assert!(counted && have_counted(&seen), "{seen:#?}\n{finished}");
    assert!(rows(&finished.client.stdout).iter().any(|row| row.iterations > 0), "{finished}");
}
