//! `ibv_rc_pingpong` of the system's ibverbs-utils, over IPv6 (GID 0) and IPv4 (GID 1), with and without events, in
//! every size and path MTU, and with its check of the data.

use std::process::ExitCode;

use ferroce_tests::matrix;
use ferroce_tests::pair::Pair;
use ferroce_tests::pingpong::{Summary, summary};
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;

fn main() -> ExitCode {
    let mut rows = Vec::new();
    for (version, gid) in [("ipv6", 0), ("ipv4", 1)] {
        for options in options() {
            let name = format!("{version}/{}", matrix::name(&options));
            let options = format!("-g {gid} {options}");
            rows.push(matrix::row(name, move || play(&options)));
        }
    }
    matrix::run(rows)
}

/// Every option by itself, sizes and MTUs each with the data checked, and some of them together.
fn options() -> Vec<String> {
    let mut options: Vec<String> =
        ["", "-e", "-c", "-n 10000", "-n 10000 -e -c", "-N", "-N -c"].map(String::from).into();
    for size in [1, 2, 3, 33, 1023, 1024, 1025, 4096, 65536, 1_000_000] {
        // A megabyte a thousand times, each way and each byte looked at, takes long and shows nothing more.
        let exchanges = if size == 1_000_000 { " -n 200" } else { "" };
        options.push(format!("-c -s {size}{exchanges}"));
    }
    for mtu in [256, 512, 1024, 2048, 4096] {
        options.push(format!("-c -m {mtu}"));
        options.push(format!("-c -e -m {mtu} -s {} -n 300", 3 * mtu + 1));
    }
    options
}

fn play(options: &str) {
    let _turn = Turn::wait();
    let finished = Pair::new("ibv_rc_pingpong", options).run(&Sandbox::new());
    finished.assert_success();
    let number = |option: &str, default: u64| {
        let mut words = options.split_whitespace().skip_while(|word| *word != option);
        words.nth(1).map_or(default, |word| word.parse().expect("a number"))
    };
    let (size, iterations) = (number("-s", 4096), number("-n", 1000));
    // It counts a message once for each direction.
    let expected = Summary { bytes: 2 * size * iterations, iterations };
    for side in [&finished.client, &finished.server] {
        assert_eq!(summary(&side.stdout), Some(expected), "{finished}");
    }
}
