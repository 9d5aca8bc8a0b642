//! Installs what the machine lacks, after saying what and why. Touches no network when nothing is missing.

use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command;
use crate::packages::{self, Group, Need, PackageManager};
use crate::report;

/// Makes sure that everything `group` needs is there.
///
/// # Errors
/// When something is missing and cannot be installed from here; the text holds the command to run by hand.
pub fn ensure(group: Group) -> Result<()> {
    let missing: Vec<&Need> = packages::needs(group).filter(|need| !need.is_met()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    report::heading("this machine lacks:");
    for need in &missing {
        report::line(format_args!("    {:<16} for {}", need.name(), need.purpose));
    }
    install(&missing)?;
    let absent: Vec<_> = missing.iter().filter(|need| !need.is_met()).map(|need| need.name()).collect();
    if !absent.is_empty() {
        bail!("still missing after the installation: {}", absent.join(", "));
    }
    Ok(())
}

fn install(missing: &[&Need]) -> Result<()> {
    let Some(manager) = PackageManager::detect() else {
        bail!(
            "no known package manager here (apt, dnf, pacman): install the above by hand, then start again"
        );
    };
    let unknown: Vec<_> =
        missing.iter().filter(|need| need.packages(manager).is_empty()).map(|need| need.name()).collect();
    if !unknown.is_empty() {
        bail!(
            "your distribution has no package for {}: install by hand, then start again",
            unknown.join(", ")
        );
    }
    let packages: Vec<_> =
        missing.iter().flat_map(|need| need.packages(manager).split_whitespace()).collect();
    let script = manager.install_command(&packages);
    report::heading(format_args!("installing {}", packages.join(" ")));
    command::run(&mut as_root(&script)?)
}

/// The command that runs `script` as root.
fn as_root(script: &str) -> Result<Command> {
    if is_root() {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        return Ok(shell);
    }
    if ferroce_pair::find("sudo").is_none() {
        bail!(
            "installing needs root and there is no sudo. Have this run by root, then start again:\n  {script}"
        );
    }
    let mut sudo = Command::new("sudo");
    if !io::stdin().is_terminal() {
        // Nobody can type a password: fail at once, showing the command.
        sudo.arg("-n");
    }
    sudo.args(["sh", "-c", script]);
    Ok(sudo)
}

/// Whether this process runs as root: the owner of its own /proc entry is its effective user.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}
