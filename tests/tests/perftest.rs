//! Debian's perftest, as it comes from the package: every tool that RC has, each with every option of the matrix below
//! that it takes, over IPv4 and IPv6. The programs run as a user without privilege.
//!
//! By default iterations are fewer where the tools' own number takes long. `FERROCE_TEST_FULL=1` leaves the tools their
//! own, runs durations of ten seconds, and every queue depth from 1 to 1024.

use std::process::ExitCode;
use std::time::Duration;

use ferroce_tests::pair::{Finished, Pair};
use ferroce_tests::perftest::{Row, all_sizes, rows};
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;
use ferroce_tests::{is_full, matrix};

/// A program and what it does by default.
#[derive(Clone, Copy)]
struct Tool {
    program: &'static str,
    /// Options that make it another tool.
    flavour: &'static str,
    kind: Kind,
    bytes: u64,
    iterations: u64,
    /// Options it refuses.
    refuses: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bandwidth,
    Latency,
}

/// One set of options.
struct Variant {
    options: String,
    /// Iterations where the tool's own number takes long.
    quick: Option<u64>,
    expected: Expected,
}

/// What the table has to show.
#[derive(Clone)]
enum Expected {
    /// One row, of the tool's own size.
    Default,
    /// One row of this size.
    Size(u64),
    /// A row for every power of two.
    AllSizes,
    /// One row of the tool's own size, however many iterations it got through.
    Duration,
}

/// RDMA WRITE has no completions at the receiver to wait for, an atomic has one size, and only perftest's bandwidth
/// tests know several QPs and both directions.
const WRITE: &[&str] = &["-e"];
const WRITE_LAT: &[&str] = &["-e", "-b", "-q"];
const LAT: &[&str] = &["-b", "-q"];
const ATOMIC: &[&str] = &["-a", "-s"];
const ATOMIC_LAT: &[&str] = &["-a", "-s", "-b", "-q"];

#[rustfmt::skip]
const TOOLS: [Tool; 10] = [
    tool("ib_send_bw", "", Kind::Bandwidth, 65536, 1000, &[]),
    tool("ib_write_bw", "", Kind::Bandwidth, 65536, 5000, WRITE),
    tool("ib_read_bw", "", Kind::Bandwidth, 65536, 1000, &[]),
    tool("ib_atomic_bw", "-A FETCH_AND_ADD", Kind::Bandwidth, 8, 1000, ATOMIC),
    tool("ib_atomic_bw", "-A CMP_AND_SWAP", Kind::Bandwidth, 8, 1000, ATOMIC),
    tool("ib_send_lat", "", Kind::Latency, 2, 1000, LAT),
    tool("ib_write_lat", "", Kind::Latency, 2, 1000, WRITE_LAT),
    tool("ib_read_lat", "", Kind::Latency, 2, 1000, LAT),
    tool("ib_atomic_lat", "-A FETCH_AND_ADD", Kind::Latency, 8, 1000, ATOMIC_LAT),
    tool("ib_atomic_lat", "-A CMP_AND_SWAP", Kind::Latency, 8, 1000, ATOMIC_LAT),
];

const fn tool(
    program: &'static str,
    flavour: &'static str,
    kind: Kind,
    bytes: u64,
    iterations: u64,
    refuses: &'static [&'static str],
) -> Tool {
    Tool { program, flavour, kind, bytes, iterations, refuses }
}

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for tool in TOOLS {
        for variant in variants().into_iter().filter(|variant| tool.takes(variant)) {
            for (version, gid) in [("ipv4", 1), ("ipv6", 0)] {
                let name = name(tool, version, &variant.options);
                let (options, iterations) = variant.command_line(tool, gid);
                let expected = variant.expected.clone();
                trials.push(matrix::row(name, move || measure(tool, &options, iterations, &expected)));
            }
        }
    }
    matrix::run(trials)
}

fn variants() -> Vec<Variant> {
    let variant = |options: &str, quick, expected| Variant { options: options.to_owned(), quick, expected };
    let duration = if is_full() { "-D 10" } else { "-D 2 -f 0" };
    let mut variants = vec![
        variant("", None, Expected::Default),
        variant("-a", Some(20), Expected::AllSizes),
        variant("-s 33", None, Expected::Size(33)),
        variant("-s 1025 -m 1024", None, Expected::Size(1025)),
        variant("-b", Some(1000), Expected::Default),
        variant("-e", None, Expected::Default),
        variant("-q 16", Some(200), Expected::Default),
        variant(duration, None, Expected::Duration),
    ];
    let depths: &[u32] = if is_full() { &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] } else { &[1, 1024] };
    variants
        .extend(depths.iter().map(|depth| variant(&format!("-t {depth}"), Some(1000), Expected::Default)));
    variants
}

impl Tool {
    fn takes(self, variant: &Variant) -> bool {
        // A latency test has one message under way, so the depth of its queue shows nothing.
        let is_depth = variant.options.starts_with("-t") && self.kind == Kind::Latency && !is_full();
        !is_depth && !variant.options.split_whitespace().any(|option| self.refuses.contains(&option))
    }
}

impl Variant {
    /// The options, and how many iterations a row then has.
    fn command_line(&self, tool: Tool, gid: u32) -> (String, u64) {
        let mut options = format!("{} -x {gid} {}", tool.flavour, self.options);
        match self.quick.filter(|_| !is_full()) {
            Some(quick) if quick < tool.iterations => {
                options.push_str(&format!(" -n {quick}"));
                (options, quick)
            }
            _ => (options, tool.iterations),
        }
    }
}

fn measure(tool: Tool, options: &str, iterations: u64, expected: &Expected) {
    let _turn = Turn::wait();
    let finished = Pair::new(tool.program, options).patience(PATIENCE).run(&Sandbox::new());
    finished.assert_success();
    check(tool, iterations, expected, &finished);
}

fn check(tool: Tool, iterations: u64, expected: &Expected, finished: &Finished) {
    let rows = rows(&finished.client.stdout);
    let sizes = match expected {
        Expected::Default | Expected::Duration => vec![tool.bytes],
        Expected::Size(bytes) => vec![*bytes],
        Expected::AllSizes => all_sizes(),
    };
    let shown: Vec<_> = rows.iter().map(|row| row.bytes).collect();
    assert_eq!(shown, sizes, "sizes of the table\n{finished}");
    for row in &rows {
        let counted = match expected {
            Expected::Duration => row.iterations > 0,
            // In both directions together, or over all QPs.
            _ => row.iterations >= iterations && row.iterations % iterations == 0,
        };
        assert!(counted, "{} iterations, not {iterations}\n{finished}", row.iterations);
        assert!(is_measured(tool, row), "a column is not a measurement: {row:?}\n{finished}");
    }
}

/// Not every column is a number above 0: a peak is not measured over a duration, on a busy machine the bandwidth of small
/// messages, or the rate of large ones, rounds to nothing, and perftest takes the root of a small negative variance.
fn is_measured(tool: Tool, row: &Row) -> bool {
    let columns = if tool.kind == Kind::Bandwidth { 3 } else { 2 };
    row.values.len() >= columns && row.values.iter().any(|value| *value > 0.0)
}

fn name(tool: Tool, version: &str, options: &str) -> String {
    let flavour = tool.flavour.trim_start_matches("-A ");
    let options = if options.is_empty() { "default" } else { options };
    format!("{}/{version}/{}", tool.program, matrix::name(&format!("{flavour} {options}")))
}

/// Five thousand messages of each of 23 sizes, up to 8 MiB, take minutes.
const PATIENCE: Duration = Duration::from_secs(600);
