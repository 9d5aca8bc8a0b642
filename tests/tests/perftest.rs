//! Debian's perftest, as it comes from the package: every tool with every service that it has, each with every option of
//! the matrix below that it takes, over IPv4 and IPv6. The programs run as a user without privilege.
//!
//! By default iterations are fewer where the tools' own number takes long. `FERROCE_TEST_FULL=1` leaves the tools their
//! own, runs durations of ten seconds, and every queue depth from 1 to 1024.
//!
//! UC and UD may lose messages, and the tools' servers wait for each of them. What could be lost there, unless the machine
//! stops one side for long, is a message without a receive WQE; so the tools send no more of them than their receive
//! queue holds at the beginning.

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
    service: Service,
    /// Options that make it another tool.
    flavour: &'static str,
    kind: Kind,
    bytes: u64,
    iterations: u64,
    /// Options it refuses.
    refuses: &'static [&'static str],
}

/// What its QPs are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Service {
    Rc,
    /// RC, with an SRQ that all QPs of the server take their receives from.
    Srq,
    Xrc,
    Uc,
    Ud,
    /// UD to a multicast group of IPv4 addresses. The loopback interface has no groups of IPv6.
    Multicast,
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
/// tests know several QPs and both directions. With a group there is one QP.
const WRITE: &[&str] = &["-e"];
const WRITE_LAT: &[&str] = &["-e", "-b", "-q"];
const LAT: &[&str] = &["-b", "-q"];
const ATOMIC: &[&str] = &["-a", "-s"];
const ATOMIC_LAT: &[&str] = &["-a", "-s", "-b", "-q"];
const ADD: &str = "-A FETCH_AND_ADD";
const SWAP: &str = "-A CMP_AND_SWAP";

#[rustfmt::skip]
const TOOLS: [Tool; 26] = [
    tool("ib_send_bw", Service::Rc, "", Kind::Bandwidth, 65536, 1000, &[]),
    tool("ib_write_bw", Service::Rc, "", Kind::Bandwidth, 65536, 5000, WRITE),
    tool("ib_read_bw", Service::Rc, "", Kind::Bandwidth, 65536, 1000, &[]),
    tool("ib_atomic_bw", Service::Rc, ADD, Kind::Bandwidth, 8, 1000, ATOMIC),
    tool("ib_atomic_bw", Service::Rc, SWAP, Kind::Bandwidth, 8, 1000, ATOMIC),
    tool("ib_send_lat", Service::Rc, "", Kind::Latency, 2, 1000, LAT),
    tool("ib_write_lat", Service::Rc, "", Kind::Latency, 2, 1000, WRITE_LAT),
    tool("ib_read_lat", Service::Rc, "", Kind::Latency, 2, 1000, LAT),
    tool("ib_atomic_lat", Service::Rc, ADD, Kind::Latency, 8, 1000, ATOMIC_LAT),
    tool("ib_atomic_lat", Service::Rc, SWAP, Kind::Latency, 8, 1000, ATOMIC_LAT),
    tool("ib_send_bw", Service::Srq, "", Kind::Bandwidth, 65536, 1000, &[]),
    tool("ib_send_lat", Service::Srq, "", Kind::Latency, 2, 1000, LAT),
    tool("ib_send_bw", Service::Xrc, "", Kind::Bandwidth, 65536, 1000, &[]),
    tool("ib_write_bw", Service::Xrc, "", Kind::Bandwidth, 65536, 5000, WRITE),
    tool("ib_read_bw", Service::Xrc, "", Kind::Bandwidth, 65536, 1000, &[]),
    tool("ib_atomic_bw", Service::Xrc, ADD, Kind::Bandwidth, 8, 1000, ATOMIC),
    tool("ib_send_lat", Service::Xrc, "", Kind::Latency, 2, 1000, LAT),
    tool("ib_write_lat", Service::Xrc, "", Kind::Latency, 2, 1000, WRITE_LAT),
    tool("ib_read_lat", Service::Xrc, "", Kind::Latency, 2, 1000, LAT),
    tool("ib_atomic_lat", Service::Xrc, SWAP, Kind::Latency, 8, 1000, ATOMIC_LAT),
    tool("ib_send_bw", Service::Uc, "", Kind::Bandwidth, 65536, 1000, &[]),
    tool("ib_write_bw", Service::Uc, "", Kind::Bandwidth, 65536, 5000, WRITE),
    tool("ib_send_lat", Service::Uc, "", Kind::Latency, 2, 1000, LAT),
    tool("ib_send_bw", Service::Ud, "", Kind::Bandwidth, DATAGRAM, 1000, &[]),
    tool("ib_send_lat", Service::Ud, "", Kind::Latency, 2, 1000, LAT),
    tool("ib_send_bw", Service::Multicast, "", Kind::Bandwidth, DATAGRAM, 1000, &["-q", "-b"]),
];

const fn tool(
    program: &'static str,
    service: Service,
    flavour: &'static str,
    kind: Kind,
    bytes: u64,
    iterations: u64,
    refuses: &'static [&'static str],
) -> Tool {
    Tool { program, service, flavour, kind, bytes, iterations, refuses }
}

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for tool in TOOLS {
        for variant in variants().into_iter().filter(|variant| tool.takes(variant)) {
            for (version, gid) in [("ipv4", 1), ("ipv6", 0)] {
                if tool.service == Service::Multicast && version == "ipv6" {
                    continue;
                }
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

/// What the services besides RC are tried with, unless everything is asked for.
const BRIEF: [&str; 5] = ["", "-a", "-s 33", "-e", "-q 16"];

impl Tool {
    fn takes(self, variant: &Variant) -> bool {
        // A latency test has one message under way, so the depth of its queue shows nothing.
        let is_depth = variant.options.starts_with("-t") && self.kind == Kind::Latency && !is_full();
        let is_for_rc = !is_full() && self.service != Service::Rc && !BRIEF.contains(&&*variant.options);
        let is_too_long = matches!(&variant.expected, Expected::Size(bytes) if *bytes > self.largest())
            || (self.largest() == DATAGRAM && variant.options.contains("-m"));
        let is_refused = variant.options.split_whitespace().any(|option| self.refuses.contains(&option));
        !is_depth && !is_for_rc && !is_too_long && !is_refused
    }

    /// Messages to one QP that are not lost for want of a receive WQE.
    fn most_messages(self) -> u64 {
        match self.service {
            Service::Uc | Service::Ud | Service::Multicast if self.program == "ib_send_bw" => RECEIVES,
            _ => u64::MAX,
        }
    }

    /// Bytes of its largest message.
    fn largest(self) -> u64 {
        match self.service {
            Service::Ud | Service::Multicast => DATAGRAM,
            _ => u64::MAX,
        }
    }
}

impl Service {
    fn options(self) -> &'static str {
        match self {
            Service::Rc => "",
            Service::Srq => "--use-srq",
            Service::Xrc => "-c XRC",
            Service::Uc => "-c UC",
            Service::Ud => "-c UD",
            Service::Multicast => "-c UD -g -M 0:0:0:0:0:0:0:0:0:0:255:255:224:0:7:9",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Service::Rc => "",
            Service::Srq => "srq ",
            Service::Xrc => "xrc ",
            Service::Uc => "uc ",
            Service::Ud => "ud ",
            Service::Multicast => "multicast ",
        }
    }

    /// Where its programs run.
    fn sandbox(self) -> Sandbox {
        match self {
            // The files of its domains have fixed names.
            Service::Xrc => Sandbox::new().own_tmp(),
            _ => Sandbox::new(),
        }
    }
}

impl Variant {
    /// The options, and how many iterations a row then has.
    fn command_line(&self, tool: Tool, gid: u32) -> (String, u64) {
        let mut options = format!("{} {} -x {gid} {}", tool.service.options(), tool.flavour, self.options);
        let quick = self.quick.filter(|_| !is_full()).unwrap_or(tool.iterations);
        let iterations = quick.min(tool.most_messages()).min(tool.iterations);
        // A duration is instead of a number.
        if iterations < tool.iterations && !matches!(self.expected, Expected::Duration) {
            options.push_str(&format!(" -n {iterations}"));
        }
        (options, iterations)
    }
}

fn measure(tool: Tool, options: &str, iterations: u64, expected: &Expected) {
    let _turn = Turn::wait();
    let finished = Pair::new(tool.program, options).patience(PATIENCE).run(&tool.service.sandbox());
    finished.assert_success();
    check(tool, iterations, expected, &finished);
}

fn check(tool: Tool, iterations: u64, expected: &Expected, finished: &Finished) {
    let rows = rows(&finished.client.stdout);
    let sizes = match expected {
        Expected::Default | Expected::Duration => vec![tool.bytes],
        Expected::Size(bytes) => vec![*bytes],
        Expected::AllSizes => all_sizes().into_iter().filter(|bytes| *bytes <= tool.largest()).collect(),
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
    let service = tool.service.name();
    format!("{}/{version}/{}", tool.program, matrix::name(&format!("{service}{flavour} {options}")))
}

/// Largest datagram on the loopback interface: its path MTU.
const DATAGRAM: u64 = 4096;
/// Messages of a bandwidth test that find a receive WQE without the server's doing: its receive queue has 512.
const RECEIVES: u64 = 500;

/// Five thousand messages of each of 23 sizes, up to 8 MiB, take minutes.
const PATIENCE: Duration = Duration::from_secs(600);
