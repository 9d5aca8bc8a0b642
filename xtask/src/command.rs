//! Running other programs.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

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

/// The first executable of that name in PATH or in the system folders that an ordinary user's PATH lacks on Debian.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// The command as one would type it.
pub fn display(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().filter(|_| program.ends_with("cargo")).unwrap_or(program.as_os_str());
    std::iter::once(program).chain(command.get_args()).map(quote).collect::<Vec<_>>().join(" ")
}

fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/opt/rust/bin/cargo");
        command.args(["test", "--workspace", "it's", "", "a b"]);
        assert_eq!(display(&command), r"cargo test --workspace 'it'\''s' '' 'a b'");
    }

    #[test]
    fn a_program_in_a_system_folder_is_found() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-anywhere"), None);
    }
}
