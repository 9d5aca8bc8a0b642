//! `ferroce conformance`: the conformance suite on one of its backends.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use console::Term;
use ferroce_conformance::report::{self, TextReport};
use ferroce_conformance::{Backend, Case, Expectations, ExpectationsError, OpenError, backend, cases};
use thiserror::Error;

use crate::output;

/// Check Ferroce against the rules of the specification
#[derive(Args, Debug)]
pub struct ConformanceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    Run(RunArgs),
}

/// Run cases on a backend, and say how they went
///
/// The status is 1 when a case failed, or the backend cannot be had here.
#[derive(Args, Debug)]
struct RunArgs {
    /// What to run them on: sim (virtual cards in virtual time) or udp (sockets on the loopback interface)
    #[arg(long)]
    backend: String,
    /// Only cases with this in their name; with a *, only those whose whole name it matches
    #[arg(long, default_value = "")]
    filter: String,
    /// List the cases, with the rules that they are about, and run none
    #[arg(long)]
    list: bool,
    /// How to report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// How to report.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object
    Json,
    /// JUnit's XML
    Junit,
}

/// Why no case was run.
#[derive(Debug, Error)]
pub enum ConformanceError {
    /// No such backend.
    #[error("there is no backend called {0}: there are sim and udp")]
    UnknownBackend(String),
    /// No such case.
    #[error("no case has {0} in its name: --list shows their names")]
    NoCase(String),
    /// The backend's file is wrong.
    #[error(transparent)]
    Expectations(#[from] ExpectationsError),
    /// The backend cannot be had here.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// stdout did not take it.
    #[error("cannot print the report")]
    Output(#[from] io::Error),
}

/// Does what was asked; the status to end with.
///
/// # Errors
/// [`ConformanceError`].
pub fn conformance(args: &ConformanceArgs) -> Result<ExitCode, ConformanceError> {
    let Action::Run(args) = &args.action;
    let backend = backend::by_name(&args.backend)
        .ok_or_else(|| ConformanceError::UnknownBackend(args.backend.clone()))?;
    let cases = cases::filtered(&args.filter);
    if cases.is_empty() {
        return Err(ConformanceError::NoCase(args.filter.clone()));
    }
    if args.list {
        output::print(&list(&cases))?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_success = run(&*backend, &cases, args.format)?;
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line for each case: its name, and the rules that it is about.
fn list(cases: &[Case]) -> String {
    cases.iter().map(|case| format!("{}\t{}\n", case.name, case.rules.join(", "))).collect()
}

/// Runs the cases and reports; whether none failed.
fn run(backend: &dyn Backend, cases: &[Case], format: Format) -> Result<bool, ConformanceError> {
    let expectations = Expectations::of(backend.name())?;
    let mut progress = Progress { term: Term::stderr(), done: 0, of: cases.len() };
    let mut text = match format {
        Format::Text => Some(TextReport::begin(io::stdout(), backend.name(), cases.len())?),
        Format::Json | Format::Junit => None,
    };
    let mut written = Ok(());
    let ran = ferroce_conformance::run(backend, cases, &expectations, &mut |result| {
        progress.clear();
        if let (Some(text), Ok(())) = (&mut text, &written) {
            written = text.add(result);
        }
        progress.show(&result.name);
    });
    progress.clear();
    let report = ran?;
    written?;
    match (text, format) {
        (Some(text), _) => text.finish()?,
        (None, Format::Junit) => report::junit(&report, io::stdout())?,
        (None, _) => report::json(&report, io::stdout())?,
    }
    Ok(report.is_success())
}

/// One line on a terminal that says where the run is.
struct Progress {
    term: Term,
    done: usize,
    of: usize,
}

impl Progress {
    fn show(&mut self, name: &str) {
        self.done += 1;
        if io::stderr().is_terminal() {
            let line = format!("{:>6}  {}/{}  {name}", "", self.done, self.of);
            let width = usize::from(self.term.size().1);
            // It is only for looking at: a terminal that does not take it does no harm.
            let _ = self.term.write_str(&console::truncate_str(&line, width.saturating_sub(1), "…"));
        }
    }

    fn clear(&self) {
        if io::stderr().is_terminal() {
            let _ = self.term.clear_line();
        }
    }
}
