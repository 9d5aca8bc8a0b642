//! The same seed gives the same bytes: on two runs, and compiled for debugging and for speed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command;
use crate::report;
use crate::workspace::Workspace;

/// Compiles the emulator both ways, lets each write captures twice, and compares all of them byte for byte.
///
/// # Errors
/// When something does not compile or run, or two captures differ.
pub fn check(workspace: &Workspace) -> Result<()> {
    let mut first: Option<(String, Vec<u8>)> = None;
    for (name, flags) in [("debug", &[][..]), ("release", &["--release"])] {
        let mut cargo = command::cargo(&workspace.root);
        let build = ["build", "--locked", "--package", "ferroce-emulator", "--example", "captures"];
        command::run(cargo.args(build).args(flags))?;
        for run in ["first", "second"] {
            let title = format!("the {run} run of the {name} build");
            let capture = capture(workspace.target.join(name).join("examples/captures"))?;
            ensure!(!capture.is_empty(), "{title} sent nothing");
            match &first {
                None => first = Some((title, capture)),
                Some((other, bytes)) => compare((other, bytes), (&title, &capture))?,
            }
        }
    }
    let bytes = first.map_or(0, |(_, bytes)| bytes.len());
    report::line(format_args!("{SEEDS} seeds, {bytes} bytes of pcapng, the same four times"));
    Ok(())
}

fn capture(program: PathBuf) -> Result<Vec<u8>> {
    let mut command = Command::new(&program);
    let output = command.args(["1", SEEDS]).output();
    let output = output.with_context(|| format!("running {}", program.display()))?;
    ensure!(output.status.success(), "{} failed ({})", program.display(), output.status);
    Ok(output.stdout)
}

/// Fails if the captures differ, and leaves both for a person to look at.
fn compare(first: (&str, &[u8]), second: (&str, &[u8])) -> Result<()> {
    if first.1 == second.1 {
        return Ok(());
    }
    let folder = keep(first.1, second.1)?;
    let at = first.1.iter().zip(second.1).take_while(|(first, second)| first == second).count();
    bail!("{} and {} differ from byte {at} on: see {}", first.0, second.0, folder.display())
}

/// Writes both captures into a folder that stays.
fn keep(first: &[u8], second: &[u8]) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("ferroce-determinism-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("first.pcapng"), first)?;
    fs::write(folder.join("second.pcapng"), second)?;
    Ok(folder)
}

/// Seeds of the fuzzer; they send some hundred megabytes.
const SEEDS: &str = "50";
