//! `ferroce vopr`: the fuzzer of the transport, many seeds at once.

mod farm;
mod findings;
mod judge;
mod span;
mod worker;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use ferroce_core::Nanos;
use ferroce_emulator::vopr::PlanError;
use thiserror::Error;

use farm::Farm;

/// Fuzz the transport: random work on a simulated network, against a model of what must come of it
///
/// Each seed makes a plan: hosts, connections, work requests, state changes, deaths of processes, and faults on the
/// wire. Then the faults end, and everything must come to an end. The same seed always does the same. What breaks a
/// rule is shrunk to as few steps as will do, and written to a plan and a capture; the exit status is 1 then.
#[derive(Args, Debug)]
pub struct VoprArgs {
    /// The first seed [default: a fresh one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many seeds [default: 1 with --seed, 1000 without, no end with --for]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// How long the random part of each seed lasts, in simulated time
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = span::parse_ns)]
    time: Nanos,
    /// Begin no seed after so long, in real time
    #[arg(long = "for", value_name = "TIME", value_parser = span::parse)]
    limit: Option<Duration>,
    /// Processes at once [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Count the seeds that break a rule, and do not stop at the first
    #[arg(long)]
    keep_going: bool,
    /// Where the plan and the capture of a failure go
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Carry out a plan that was written earlier
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "count", "time", "limit", "jobs", "keep_going"])]
    replay: Option<PathBuf>,
    /// With --replay: write what was on the links to this file, as pcapng
    #[arg(long, value_name = "FILE", requires = "replay")]
    capture: Option<PathBuf>,
    /// Take every so many seeds, and write records for another process
    #[arg(long, value_name = "STRIDE", hide = true, requires = "seed")]
    worker: Option<u64>,
    /// Read a plan from stdin and write its fault
    #[arg(long, hide = true)]
    judge: bool,
}

/// Why the fuzzer could not do its work.
#[derive(Debug, Error)]
pub enum VoprError {
    /// A child process.
    #[error("cannot run a part of the work in a process of its own")]
    Child(#[source] io::Error),
    /// What a child process wrote.
    #[error("a child process of the fuzzer wrote {0:?}, which is no record")]
    Record(String),
    /// A file.
    #[error("{}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        #[source]
        error: io::Error,
    },
    /// A plan that does not read.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// stdout or stdin.
    #[error("cannot print")]
    Output(#[from] io::Error),
}

/// Runs seeds, or a plan. The exit status is 1 if a rule was broken.
///
/// # Errors
/// [`VoprError`].
pub fn vopr(args: &VoprArgs) -> Result<ExitCode, VoprError> {
    if args.judge {
        return worker::judge().map(|()| ExitCode::SUCCESS);
    }
    if let (Some(stride), Some(first)) = (args.worker, args.seed) {
        return worker::work(first, stride, args.time).map(|()| ExitCode::SUCCESS);
    }
    if let Some(path) = &args.replay {
        return findings::replay(path, args.capture.as_deref());
    }
    let farm = Farm {
        first: args.seed.unwrap_or_else(fresh_seed),
        count: args.count.unwrap_or(match (args.limit, args.seed) {
            (Some(_), _) => u64::MAX,
            (None, Some(_)) => 1,
            (None, None) => DEFAULT_COUNT,
        }),
        jobs: args.jobs.unwrap_or_else(processors),
        time_ns: args.time,
        limit: args.limit,
        keeps_going: args.keep_going,
    };
    let harvest = farm.run()?;
    findings::show(&farm, &harvest, &args.dir)
}

/// A seed that is another one each time.
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Seconds, so that it is short enough to type; a thousand seeds each.
    since.as_secs() * DEFAULT_COUNT
}

fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Seeds, where nobody says how many.
const DEFAULT_COUNT: u64 = 1_000;
