//! `ferroce run`: puts our library in front of the system's and becomes the application.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use ferroce::Device;
use ferroce_port::interfaces;
use thiserror::Error;

use crate::note;
use crate::program;
use crate::tree::{Tree, TreeError};

/// Run a program over RoCEv2 in software, in place of an RDMA card
#[derive(Args, Debug, Default)]
#[command(override_usage = "ferroce run [OPTIONS] [--] CMD [ARGS]…", after_help = HELP)]
pub struct RunArgs {
    /// Show the program only this interface's device; may be given several times [default: every interface]
    #[arg(long, value_name = "IFNAME", value_delimiter = ',')]
    device: Vec<String>,
    /// What to write to stderr: error, warn, info, debug, trace, or a filter such as ferroce_core=debug
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Write the log to this file instead of stderr
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Why the program was not started.
#[derive(Debug, Error)]
pub enum RunError {
    /// Our own files are not usable.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// No such interface.
    #[error("no network interface {wanted} here; there are: {present}")]
    Interface {
        /// What --device named.
        wanted: String,
        /// The interfaces there are, with commas between them.
        present: String,
    },
    /// The system does not tell its interfaces.
    #[error("cannot list the network interfaces")]
    Interfaces(#[source] io::Error),
    /// A relative log file needs a current folder.
    #[error("cannot make the path of the log file absolute")]
    LogFile(#[source] io::Error),
    /// The system did not start it.
    #[error("cannot run {}", .program.display())]
    Exec {
        /// The program.
        program: PathBuf,
        /// What execvp(3) said.
        #[source]
        source: io::Error,
    },
}

impl RunError {
    /// As shells and env(1) have it: 127 not found, 126 found but not runnable, 125 our own failure.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Exec { .. } => 126,
            _ => 125,
        }
    }
}

/// Becomes the program; returns only if that fails. Signals and the exit status are then the program's own.
pub fn run(args: &RunArgs) -> RunError {
    let (program, arguments) = args.command.split_first().expect("clap requires a command");
    let mut command = Command::new(program);
    command.args(arguments);
    match prepare(args, &mut command) {
        Ok(()) => RunError::Exec { program: program.into(), source: command.exec() },
        Err(error) => error,
    }
}

fn prepare(args: &RunArgs, command: &mut Command) -> Result<(), RunError> {
    let search_path = env::var_os(LD_LIBRARY_PATH);
    if env::var_os("FERROCE").is_some_and(|value| value == "off") {
        if let Ok(tree) = Tree::locate() {
            set(command, LD_LIBRARY_PATH, without(search_path.as_deref(), &tree.library_folder()));
        }
        return Ok(());
    }
    let tree = Tree::locate()?;
    let folder = tree.library_folder();
    command.env(LD_LIBRARY_PATH, prepended(search_path.as_deref(), &folder));
    if env::var_os(KEEPER_BIN).is_none() {
        command.env(KEEPER_BIN, tree.keeper());
    }
    if !args.device.is_empty() {
        command.env("FERROCE_DEVICES", device_list(&args.device)?);
    }
    if let Some(level) = &args.log {
        command.env("FERROCE_LOG", level);
    }
    if let Some(file) = &args.log_file {
        // The program may change its folder before the library opens the file.
        command.env("FERROCE_LOG_FILE", std::path::absolute(file).map_err(RunError::LogFile)?);
    }
    warn_about_obstacles(command.get_program());
    Ok(())
}

fn warn_about_obstacles(program: &OsStr) {
    let Some(path) = program::resolve(program, env::var_os("PATH").as_deref()) else { return };
    if let Some(obstacle) = program::obstacle(&path) {
        note("warning", format_args!("{} {}", path.display(), obstacle.explanation()));
    }
}

/// The list for FERROCE_DEVICES of what --device named.
fn device_list(names: &[String]) -> Result<String, RunError> {
    let present = interfaces::list().map_err(RunError::Interfaces)?;
    let present: Vec<_> = present.into_iter().map(|interface| interface.name).collect();
    let wanted: Vec<_> = names.iter().map(|name| interface_of(name)).collect();
    match wanted.iter().find(|wanted| !present.iter().any(|name| name == *wanted)) {
        Some(&absent) => Err(RunError::Interface { wanted: absent.into(), present: present.join(", ") }),
        None => Ok(wanted.join(",")),
    }
}

/// The interface, given its own name or its device's.
fn interface_of(name: &str) -> &str {
    name.strip_prefix(Device::PREFIX).unwrap_or(name)
}

/// The search path with `folder` at its head, once.
fn prepended(search_path: Option<&OsStr>, folder: &Path) -> OsString {
    let mut result = folder.as_os_str().to_owned();
    if let Some(rest) = without(search_path, folder) {
        result.push(":");
        result.push(rest);
    }
    result
}

/// The search path without `folder`; None when nothing is left. An empty path means none, but an empty entry inside
/// one means the current folder, ld.so(8), and stays.
fn without(search_path: Option<&OsStr>, folder: &Path) -> Option<OsString> {
    let search_path = search_path.filter(|path| !path.is_empty())?;
    let others: Vec<_> = env::split_paths(search_path).filter(|entry| entry != folder).collect();
    if others.is_empty() {
        return None;
    }
    Some(env::join_paths(others).expect("entries of a split path have no separator in them"))
}

fn set(command: &mut Command, name: &str, value: Option<OsString>) {
    match value {
        Some(value) => command.env(name, value),
        None => command.env_remove(name),
    };
}

const LD_LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
const KEEPER_BIN: &str = "FERROCE_KEEPER_BIN";

const HELP: &str = "\
Environment:
  FERROCE=off        pass through: the program gets the system's library
  FERROCE_DEVICES, FERROCE_LOG, FERROCE_LOG_FILE
                     as --device, --log and --log-file, which win over them

Exit status: that of CMD; 127 if CMD is not found, 126 if it cannot be run, 125 if ferroce itself fails.

Examples:
  ferroce run -- ibv_rc_pingpong -g 0
  ferroce run --device lo --log debug -- ib_send_lat localhost";

#[cfg(test)]
mod tests {
    use super::*;

    fn prepended_to(path: &str) -> OsString {
        prepended(Some(OsStr::new(path)), Path::new("/f/lib"))
    }

    #[test]
    fn our_library_comes_first_and_the_rest_of_the_path_stays() {
        assert_eq!(prepended(None, Path::new("/f/lib")), "/f/lib");
        assert_eq!(prepended_to(""), "/f/lib", "an empty entry would mean the current folder");
        assert_eq!(prepended_to("/a:/b"), "/f/lib:/a:/b");
        assert_eq!(prepended_to("/a:"), "/f/lib:/a:", "the current folder was asked for and stays");
    }

    #[test]
    fn a_run_inside_a_run_adds_nothing() {
        assert_eq!(prepended_to("/f/lib"), "/f/lib");
        assert_eq!(prepended_to("/f/lib:/a"), "/f/lib:/a");
        assert_eq!(prepended_to("/a:/f/lib"), "/f/lib:/a");
    }

    #[test]
    fn devices_are_named_by_interface_or_by_device() {
        assert_eq!(device_list(&["ferroce_lo".into(), "lo".into()]).unwrap(), "lo,lo");
        let error = device_list(&["lo".into(), "ferroce_absent0".into()]).unwrap_err();
        assert!(error.to_string().starts_with("no network interface absent0 here; there are: "), "{error}");
    }
}
