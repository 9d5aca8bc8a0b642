//! Running other programs.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use ferroce_pair::display;

use crate::report;

/// Shows a command, runs it with our own standard streams, and fails when it fails.
///
/// # Errors
/// When the program cannot be started or does not exit with status 0.
pub fn run(command: &mut Command) -> Result<()> {
    let text = display(command);
    report::shell(&text);
    let status = command.status().with_context(|| format!("cannot start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` failed ({status})");
    }
    Ok(())
}

/// Cargo, as it started us, in the given folder.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    cargo
}
