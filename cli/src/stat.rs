//! `ferroce stat`: the counters of the processes that use Ferroce now, read from the keeper's board.

mod snapshot;

use std::io;
use std::thread;
use std::time::Duration;

use clap::Args;
use ferroce_keeper::{KeeperError, KeeperOptions, clients};
use thiserror::Error;

use crate::note;
use crate::output::{self, Reader};

use snapshot::Snapshot;

/// Show the counters of the processes that use Ferroce now
///
/// Shows your own processes of this network namespace. Counters have the names of mlx5's and of the IB port counters
/// where those exist. In a pipe: PID, program, counter and value, with tabs between them, one counter a line.
#[derive(Args, Debug)]
pub struct StatArgs {
    /// Show counters that are zero too
    #[arg(long)]
    all: bool,
    /// Print one JSON array, with every counter
    #[arg(long)]
    json: bool,
    /// Look again every so many seconds, and show the rates
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,
}

/// Why there are no counters to show.
#[derive(Debug, Error)]
pub enum StatError {
    /// The keeper could not be asked.
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    /// stdout did not take them.
    #[error("cannot print the counters")]
    Output(#[from] io::Error),
}

/// Prints the counters, once or until it is interrupted.
///
/// # Errors
/// [`StatError`].
pub fn stat(args: &StatArgs) -> Result<(), StatError> {
    let options = KeeperOptions::from_env()?;
    let mut before = None;
    loop {
        let now = Snapshot::of(clients(&options)?);
        show(args, &now, before.as_ref())?;
        let Some(seconds) = args.watch else { return Ok(()) };
        before = Some(now);
        thread::sleep(Duration::from_secs(seconds));
    }
}

fn show(args: &StatArgs, now: &Snapshot, before: Option<&Snapshot>) -> io::Result<()> {
    if args.json {
        return output::print_json(now);
    }
    let reader = Reader::of_stdout();
    if args.watch.is_some() && reader == Reader::Person {
        console::Term::stdout().clear_screen()?;
    }
    if now.is_empty() {
        note("note", "none of your processes uses Ferroce now");
    }
    output::print(&now.text(reader, args.all, before))
}
