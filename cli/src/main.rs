//! The `ferroce` command: runs unmodified applications over Ferroce's libraries, and shows what they do.

mod conformance;
mod devices;
mod output;
mod program;
mod run;
mod stat;
mod tree;
mod vopr;

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "ferroce", version, about = "A RoCEv2 network card in software", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::RunArgs),
    Devices(devices::DevicesArgs),
    Stat(stat::StatArgs),
    Conformance(conformance::ConformanceArgs),
    Vopr(vopr::VoprArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => {
            let failure = run::run(&args);
            complain(&failure);
            ExitCode::from(failure.exit_status())
        }
        Command::Devices(args) => conclude(devices::devices(&args).map(|()| ExitCode::SUCCESS)),
        Command::Stat(args) => conclude(stat::stat(&args).map(|()| ExitCode::SUCCESS)),
        Command::Conformance(args) => conclude(conformance::conformance(&args)),
        Command::Vopr(args) => conclude(vopr::vopr(&args)),
    }
}

fn conclude(outcome: Result<ExitCode, impl Error + 'static>) -> ExitCode {
    match outcome {
        Ok(status) => status,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error and its causes on stderr.
fn complain(error: &dyn Error) {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        // Some errors have the text of their cause in their own already.
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    note("error", text);
}

/// Prints a remark on stderr, where it does not get into the output of the application.
fn note(kind: &str, text: impl Display) {
    // A closed stderr leaves nowhere to say so.
    let _ = writeln!(io::stderr().lock(), "ferroce: {kind}: {text}");
}

const EXAMPLES: &str = "\
Examples:
  ferroce run -- ibv_devinfo -v          the devices an application sees
  ferroce run -- ib_write_bw             a server; then in another terminal:
  ferroce run -- ib_write_bw localhost   its client
  ferroce devices                        devices and GIDs, in short
  ferroce stat --watch                   what running programs send, receive and lose
  ferroce conformance run --backend sim  check the transport against its rules
  ferroce vopr --count 10000             fuzz the transport over that many seeds";
