//! What xtask prints. Colours only where a person looks: `console` drops them when stdout is not a terminal.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use console::style;
use indicatif::{ProgressBar, ProgressStyle};

/// Prints one line.
///
/// A closed pipe ends the output silently, as it would end any command's.
pub fn line(text: impl Display) {
    // What could be done about a failing stdout would itself have to be printed.
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Prints the heading of a step.
pub fn heading(text: impl Display) {
    line(format_args!("{} {}", style("==>").cyan().bold(), style(text).bold()));
}

/// Prints a shell command that is about to run.
pub fn shell(text: impl Display) {
    line(format_args!("{}", style(format_args!("$ {text}")).dim()));
}

/// Prints an error with its causes on stderr.
pub fn error(error: &anyhow::Error) {
    let label = style("error:").red().bold().for_stderr();
    let _ = writeln!(io::stderr().lock(), "{label} {error:#}");
}

/// A spinner with a message; invisible when stderr is not a terminal.
pub fn spinner(message: impl Into<String>) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(message.into());
    spinner.set_style(
        ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}")
            .expect("the template is a constant and valid"),
    );
    spinner.enable_steady_tick(SPINNER_TICK);
    spinner
}

const SPINNER_TICK: Duration = Duration::from_millis(100);
