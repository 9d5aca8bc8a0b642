//! The chores of the workspace: what `make` calls. Nothing here is part of the product that gets installed.

mod build;
mod command;
mod coverage;
mod demo;
mod install;
mod packages;
mod report;
mod setup;
mod testing;
mod workspace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::packages::Group;
use crate::workspace::Workspace;

#[derive(Parser)]
#[command(name = "xtask", about = "Build, install, demonstrate, test and measure Ferroce")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what this machine lacks, with the system's package manager
    Setup {
        /// What it is wanted for; each group includes the ones before it
        #[arg(value_enum, default_value_t = Group::Test)]
        group: Group,
    },
    /// Build the relocatable tree target/ferroce
    Build,
    /// Copy the built tree to PREFIX/lib/ferroce, with the command in PREFIX/bin
    Install {
        /// Where to install
        #[arg(long, default_value = "/usr/local")]
        prefix: PathBuf,
    },
    /// Build, then run unmodified perftest programs over RoCEv2 on this machine
    Demo,
    /// rustfmt and clippy, warnings are errors
    Lint,
    /// Lints, unit tests, and the tests with real applications
    Test,
    /// Compare captures of the same seeds, byte for byte: two runs each of a debug and of a release build
    Determinism,
    /// Measure goodput under loss, reordering and incast in virtual time, and write docs/src/goodput.md and its plots
    Goodput {
        /// Write nothing, and fail if what there is is out of date
        #[arg(long)]
        check: bool,
    },
    /// Which lines of the protocol crates tests reach, and why not the others; writes docs/src/coverage.md
    Coverage,
    /// Build, then measure bandwidth and latency beside raw UDP on this machine
    Bench {
        /// Options of the benchmark, behind a `--`; `-- --help` lists them
        #[arg(last = true)]
        options: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    let workspace = Workspace::locate()?;
    match chore {
        Chore::Setup { group } => setup::ensure(group),
        Chore::Build => {
            setup::ensure(Group::Build)?;
            build::tree(&workspace)
        }
        Chore::Install { prefix } => install::install(&workspace, &prefix),
        Chore::Demo => {
            setup::ensure(Group::Demo)?;
            build::tree(&workspace)?;
            demo::run(&workspace)
        }
        Chore::Lint => testing::lint(&workspace),
        Chore::Test => testing::test(&workspace),
        Chore::Determinism => testing::determinism(&workspace),
        Chore::Goodput { check } => testing::goodput(&workspace, check),
        Chore::Coverage => coverage::run(&workspace),
        Chore::Bench { options } => {
            setup::ensure(Group::Bench)?;
            build::tree(&workspace)?;
            testing::bench(&workspace, &options)
        }
    }
}
