//! The program `ferroce-keeper`. Nobody needs to start it: the first process that needs it does.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use ferroce_keeper::IDLE_SECONDS;
use ferroce_keeper::server::{Keeper, ServeOptions};
use ferroce_port::process::{mark_all_close_on_exec, raise_open_file_limit, start_session};
use tracing_subscriber::EnvFilter;

const USAGE: &str = "\
ferroce-keeper: shares UDP port 4791 between the processes of one user in one network namespace.
Programs that use Ferroce start it when they need it, and it leaves when they are gone.

usage: ferroce-keeper --name NAME [--port PORT] [--idle-ms MS] [--detach]
  --name NAME    listen on the abstract Unix socket NAME
  --port PORT    UDP port to share (4791)
  --idle-ms MS   leave so long after the last client (5000)
  --detach       go on in a session of its own, and return at once

Set FERROCE_KEEPER_LOG to a file's absolute path for a log, RUST_LOG for its level.";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match Arguments::parse(&arguments) {
        Ok(Arguments { detach: true, .. }) => detach(&arguments),
        Ok(Arguments { options, .. }) => serve(options),
        Err(problem) => Err(format!("{problem}\n\n{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            tracing::error!(text, "ended");
            // The process that started us may have gone, and its pipe with it.
            let _ = writeln!(io::stdout(), "{text}");
            ExitCode::FAILURE
        }
    }
}

/// Starts this program once more, out of the reach of whoever started us, and lets it speak for us.
fn detach(arguments: &[String]) -> Result<(), String> {
    // Fails for the leader of a process group, as a shell makes of those it starts: then we are our own already.
    let _ = start_session();
    // Descriptors that the application forgot to mark must not stay open in the keeper.
    let _ = mark_all_close_on_exec();
    let program =
        own_program().ok_or("cannot find my own program: /proc is not mounted, and no path was given")?;
    Command::new(&program)
        .args(arguments.iter().filter(|argument| *argument != "--detach"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(|_| ())
        .map_err(|error| format!("cannot start {}: {error}", program.display()))
}

/// Where /proc is missing, as in many a chroot, it is the path that we were started by.
fn own_program() -> Option<PathBuf> {
    let given = || env::args_os().next().map(PathBuf::from).filter(|path| path.is_absolute());
    env::current_exe().ok().or_else(given)
}

fn serve(options: ServeOptions) -> Result<(), String> {
    start_log()?;
    if let Err(error) = raise_open_file_limit() {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let keeper = Keeper::listen(options).map_err(|error| error.to_string())?;
    // Whether it is us or somebody faster: somebody listens.
    let _ = writeln!(io::stdout(), "ready");
    match keeper {
        Some(keeper) => keeper.run().map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

fn start_log() -> Result<(), String> {
    let Some(path) = env::var_os("FERROCE_KEEPER_LOG").filter(|path| !path.is_empty()) else { return Ok(()) };
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|error| format!("FERROCE_KEEPER_LOG={}: {error}", path.display()))?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("debug"));
    tracing_subscriber::fmt().with_writer(Mutex::new(file)).with_ansi(false).with_env_filter(filter).init();
    Ok(())
}

struct Arguments {
    options: ServeOptions,
    detach: bool,
}

impl Arguments {
    fn parse(arguments: &[String]) -> Result<Arguments, String> {
        let (mut name, mut port, mut detach) = (None, ferroce_wire::ROCE_UDP_PORT, false);
        let mut idle = Duration::from_secs(IDLE_SECONDS);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--name" => name = Some(value()?.clone()),
                "--port" => port = number(argument, value()?)?,
                "--idle-ms" => idle = Duration::from_millis(number(argument, value()?)?),
                "--detach" => detach = true,
                other => return Err(format!("unknown argument {other}")),
            }
        }
        let name = name.ok_or("--name is missing")?;
        Ok(Arguments { options: ServeOptions { name, port, idle }, detach })
    }
}

fn number<T: std::str::FromStr>(argument: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{argument} {value}: not a number in range"))
}
