//! The five pingpongs of the system's ibverbs-utils, over IPv6 (GID 0) and IPv4 (GID 1), with and without events, in
//! many sizes and path MTUs, and with their check of the data where they have one.

use std::process::ExitCode;

use ferroce_tests::pair::{Finished, Pair};
use ferroce_tests::pingpong::{Summary, summary};
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;
use ferroce_tests::{PATIENCE, matrix};

/// A pingpong, less the one of XRC, which counts and prints nothing.
#[derive(Clone, Copy)]
struct Tool {
    program: &'static str,
    /// Bytes of its messages if it is not told otherwise.
    bytes: u64,
    options: fn() -> Vec<String>,
}

const TOOLS: [Tool; 4] = [
    Tool { program: "ibv_rc_pingpong", bytes: 4096, options: rc_options },
    Tool { program: "ibv_uc_pingpong", bytes: 4096, options: uc_options },
    // Its help says 2048.
    Tool { program: "ibv_ud_pingpong", bytes: 1024, options: ud_options },
    Tool { program: "ibv_srq_pingpong", bytes: 4096, options: srq_options },
];

/// Options of `ibv_xsrq_pingpong`; what it says of messages is that all of them came.
const XSRQ_OPTIONS: [&str; 7] =
    ["", "-e", "-n 1000", "-n 1000 -e -s 33", "-n 50 -s 65536 -m 4096", "-s 1025 -m 256", "-o"];

fn main() -> ExitCode {
    let mut rows = Vec::new();
    for (version, gid) in [("ipv6", 0), ("ipv4", 1)] {
        for tool in TOOLS {
            for options in (tool.options)() {
                let name = format!("{}/{version}/{}", tool.program, matrix::name(&options));
                let options = format!("-g {gid} {options}");
                rows.push(matrix::row(name, move || play(tool, &options)));
            }
        }
        for options in XSRQ_OPTIONS {
            let name = format!("{XSRQ}/{version}/{}", matrix::name(options));
            rows.push(matrix::row(name, move || play_xsrq(&format!("-g {gid} {options}"))));
        }
        rows.push(matrix::row(format!("{XSRQ}/{version}/three_clients"), move || {
            three_clients(&gid.to_string());
        }));
    }
    matrix::run(rows)
}

/// Every option by itself, sizes and MTUs each with the data checked, and some of them together.
fn rc_options() -> Vec<String> {
    // -t with -e would fail now and then: it takes two completions for one event, and then finds none for the next.
    let mut options = texts(&["", "-e", "-c", "-n 10000", "-n 10000 -e -c", "-N", "-N -c", "-t", "-t -c"]);
    // On-demand paging, of a range, of everything and with advice; device memory.
    options.extend(texts(&["-o -c", "-O -c", "-o -P -c", "-O -P -c", "-N -o -c", "-j -c"]));
    for size in [1, 2, 3, 33, 1023, 1024, 1025, 4096, 65536, 1_000_000] {
        // A megabyte a thousand times, each way and each byte looked at, takes long and shows nothing more.
        let exchanges = if size == 1_000_000 { " -n 200" } else { "" };
        options.push(format!("-c -s {size}{exchanges}"));
    }
    options.extend(every_mtu());
    options
}

/// One message is under way at a time, so that none has to be lost.
fn uc_options() -> Vec<String> {
    let mut options = texts(&["", "-e", "-c", "-n 10000 -e -c"]);
    options.extend([1, 3, 33, 1023, 1025, 65536].map(|size| format!("-c -s {size}")));
    options.extend(every_mtu());
    options
}

/// Datagrams up to the path MTU.
fn ud_options() -> Vec<String> {
    let mut options = texts(&["", "-e", "-c", "-n 10000 -e -c"]);
    options.extend([1, 3, 33, 1023, 2048, 4096].map(|size| format!("-c -s {size}")));
    options
}

/// The SRQ serves from one to many QPs, and is smaller than what is under way.
fn srq_options() -> Vec<String> {
    let mut options = texts(&[
        "",
        "-e",
        "-c",
        "-q 1 -c",
        "-q 64 -c",
        "-q 64 -e -c",
        "-q 32 -r 64 -c",
        "-n 10000 -c",
        "-o -c",
    ]);
    options.extend([1, 33, 1025, 65536].map(|size| format!("-c -s {size}")));
    options.extend(every_mtu());
    options
}

fn every_mtu() -> impl Iterator<Item = String> {
    [256, 512, 1024, 2048, 4096]
        .into_iter()
        .flat_map(|mtu| [format!("-c -m {mtu}"), format!("-c -e -m {mtu} -s {} -n 300", 3 * mtu + 1)])
}

fn texts(options: &[&str]) -> Vec<String> {
    options.iter().copied().map(String::from).collect()
}

fn play(tool: Tool, options: &str) {
    let _turn = Turn::wait();
    let finished = Pair::new(tool.program, options).run(&Sandbox::new());
    finished.assert_success();
    let number = |option: &str, default: u64| {
        let mut words = options.split_whitespace().skip_while(|word| *word != option);
        words.nth(1).map_or(default, |word| word.parse().expect("a number"))
    };
    let (size, iterations) = (number("-s", tool.bytes), number("-n", 1000));
    // It counts a message once for each direction.
    let expected = Summary { bytes: 2 * size * iterations, iterations };
    for side in [&finished.client, &finished.server] {
        assert_eq!(summary(&side.stdout), Some(expected), "{finished}");
    }
}

fn play_xsrq(options: &str) {
    let _turn = Turn::wait();
    let finished = Pair::new(XSRQ, options).run(&Sandbox::new());
    finished.assert_success();
    assert_each_says_success(&finished);
}

/// One SRQ of the server receives for the connections of all three.
fn three_clients(gid: &str) {
    let _turn = Turn::alone();
    let sandbox = Sandbox::new();
    let options = ["-g", gid, "-n", "100"];
    let running = Pair::new(XSRQ, &options.join(" ")).server_options("-c 3").start(&sandbox);
    // The pair got the sandbox's first port, which is the tool's own.
    let others = [(); 2].map(|()| sandbox.application(XSRQ, &[&options[..], &["127.0.0.1"]].concat()));
    let finished = running.finish();
    finished.assert_success();
    assert_each_says_success(&finished);
    for client in others {
        let ended = client.finish(PATIENCE);
        ended.assert_success();
        assert_eq!(ended.stdout.lines().last(), Some("success"), "{ended}");
    }
}

fn assert_each_says_success(finished: &Finished) {
    for side in [&finished.client, &finished.server] {
        assert_eq!(side.stdout.lines().last(), Some("success"), "{finished}");
    }
}

const XSRQ: &str = "ibv_xsrq_pingpong";
