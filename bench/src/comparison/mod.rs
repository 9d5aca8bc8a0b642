//! The comparison: rounds in which each figure of an application and its limit are measured one right after the other.

mod figure;
mod machine;
mod measure;
mod perftest;
mod statistics;
mod table;

use std::env;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use ferroce_pair::User;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use figure::Figure;
use machine::Machine;
use measure::Setting;
use statistics::{Outcome, Round};

/// What to measure, and how long.
#[derive(Args)]
pub struct Options {
    /// Measure this figure; may be given several times [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Figure>,
    /// How often to measure each figure and its limit
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long one measurement of bandwidth takes
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Exchanges in one measurement of latency
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    exchanges: u32,
    /// Also write the result, with every round, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The built tree [default: FERROCE_TREE, else `ferroce` in cargo's target folder]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
}

/// The whole result, as it is written for machines.
#[derive(Serialize)]
struct Report {
    machine: Machine,
    setting: Setting,
    figures: Vec<Outcome>,
}

/// Measures and prints the table.
///
/// # Errors
/// When a program is missing or fails, or the file cannot be written. Never because of what was measured.
pub fn run(options: &Options, ipv6: bool) -> anyhow::Result<()> {
    let ferroce = command_of(options.tree.as_deref())?;
    let bench = env::current_exe().context("cannot find this program's own file")?;
    let setting = Setting {
        ipv6,
        rounds: options.rounds,
        seconds: options.seconds,
        exchanges: options.exchanges,
        user: User::choose(&[&ferroce, &bench]),
        ferroce,
        bench,
    };
    // Before minutes of measuring, not after them.
    let json = options.json.as_deref().map(create).transpose()?;
    let machine = Machine::look()?;
    let report = Report { machine, figures: measure_all(&chosen(&options.only), &setting)?, setting };
    if let Some(mut file) = json {
        serde_json::to_writer_pretty(&mut file, &report)?;
        writeln!(file).and_then(|()| file.flush()).context("cannot write the JSON file")?;
    }
    match write!(io::stdout().lock(), "{}", table::Page(&report)) {
        // The reader has seen enough, as of any command's output.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write"),
        _ => Ok(()),
    }
}

/// Runs the rounds, with progress where a person looks.
fn measure_all(figures: &[Figure], setting: &Setting) -> anyhow::Result<Vec<Outcome>> {
    let progress = progress_bar(u64::from(setting.rounds) * figures.len() as u64 * 2)?;
    let mut rounds = vec![Vec::new(); figures.len()];
    for round in 0..setting.rounds {
        for (figure, done) in figures.iter().zip(&mut rounds) {
            let measured = measure_round(*figure, setting, round % 2 == 1, &progress);
            done.push(measured.with_context(|| format!("{} failed", figure.title()))?);
        }
    }
    progress.finish_and_clear();
    Ok(figures.iter().zip(rounds).map(|(figure, rounds)| Outcome::new(*figure, rounds)).collect())
}

/// Every other round begins with the limit, so that a machine that gets slower or faster favours neither.
fn measure_round(
    figure: Figure,
    setting: &Setting,
    limit_first: bool,
    progress: &ProgressBar,
) -> anyhow::Result<Round> {
    let ferroce = || {
        progress.set_message(figure.title());
        let value = setting.measure(figure);
        progress.inc(1);
        value
    };
    let limit = || {
        progress.set_message(format!("{}: its limit", figure.title()));
        let value = setting.measure_limit(figure);
        progress.inc(1);
        value
    };
    if limit_first {
        let limit = limit()?;
        Ok(Round::new(ferroce()?, limit))
    } else {
        let ferroce = ferroce()?;
        Ok(Round::new(ferroce, limit()?))
    }
}

/// A bar that draws itself on stderr only if that is a terminal.
fn progress_bar(steps: u64) -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30.cyan} {pos}/{len} {msg} {eta:.dim}")?;
    Ok(ProgressBar::new(steps).with_style(style))
}

/// The figures asked for, each once, in the order of the table.
fn chosen(only: &[Figure]) -> Vec<Figure> {
    Figure::ALL.into_iter().filter(|figure| only.is_empty() || only.contains(figure)).collect()
}

/// The command `ferroce` of the built tree.
fn command_of(tree: Option<&Path>) -> anyhow::Result<PathBuf> {
    let tree = match (tree, env::var_os("FERROCE_TREE")) {
        (Some(tree), _) => tree.to_owned(),
        (None, Some(tree)) => tree.into(),
        // Beside the folder of the profile that this program lies in.
        (None, None) => env::current_exe()?.ancestors().nth(2).unwrap_or(Path::new("/")).join("ferroce"),
    };
    let command = std::path::absolute(tree.join("bin/ferroce"))?;
    if !command.is_file() {
        bail!("{} is missing: run `make build`, or name a built tree with --tree", command.display());
    }
    Ok(command)
}

fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_measured_once_and_in_their_order() {
        assert_eq!(chosen(&[]), Figure::ALL);
        assert_eq!(
            chosen(&[Figure::SendLat, Figure::Write64k, Figure::SendLat]),
            [Figure::Write64k, Figure::SendLat]
        );
    }

    #[test]
    fn a_tree_that_was_not_built_is_named() {
        let error = command_of(Some(Path::new("/nonexistent"))).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/bin/ferroce is missing: run `make build`"), "{error}");
    }
}
