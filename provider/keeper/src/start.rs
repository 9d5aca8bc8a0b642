//! Starting a keeper: finding its program, leaving it no trace of ours, and waiting until it listens.
//!
//! The program is run with `--detach`: it starts itself a second time in a session of its own and ends at once, so that
//! no process of the application's remains a parent, and `wait` calls of the application never meet the keeper. What it
//! has to say before it can be asked through its socket comes as one line through a pipe: [`READY`], or the reason why
//! it gave up.

use std::env;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{self, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use ferroce_port::wait::readable;

use crate::{KeeperError, KeeperOptions};

/// The line that says that somebody listens under the name now: this keeper, or another that was faster.
pub(crate) const READY: &str = "ready";
/// Longest line read from a keeper, in bytes.
const LINE_MAX: usize = 4096;
/// How long a keeper may take to start listening.
const START_SECONDS: u64 = 10;
/// The program's file name.
const PROGRAM: &str = "ferroce-keeper";
/// What of our environment a keeper gets to see. Above all not LD_PRELOAD and LD_LIBRARY_PATH, which are meant for the
/// application.
const ENVIRONMENT: [&str; 2] = ["FERROCE_KEEPER_LOG", "RUST_LOG"];

/// Starts a keeper and returns when somebody listens.
pub(crate) fn start_keeper(options: &KeeperOptions) -> Result<(), KeeperError> {
    let program = find_program(options)?;
    // It is started in another directory; a library found through a relative LD_LIBRARY_PATH has a relative neighbour.
    let program = path::absolute(&program).unwrap_or(program);
    let mut command = Command::new(&program);
    command
        .arg("--detach")
        .args(["--name", &options.socket_name()])
        .args(["--port", &options.port.to_string()])
        .args(["--idle-ms", &options.idle.as_millis().to_string()])
        .env_clear()
        .envs(ENVIRONMENT.iter().filter_map(|name| Some((name, env::var_os(name)?))))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child =
        command.spawn().map_err(|source| KeeperError::Spawn { program: program.clone(), source })?;
    let line = match child.stdout.take() {
        Some(mut pipe) => read_line(&mut pipe),
        None => Err(io::Error::other("no pipe")),
    };
    reap(&mut child, line.is_ok());
    match line {
        Ok(line) if line == READY => Ok(()),
        Ok(line) if line.is_empty() => {
            Err(KeeperError::Start { program, text: "it ended without a word".to_owned() })
        }
        Ok(text) => Err(KeeperError::Start { program, text }),
        Err(error) => Err(KeeperError::Start { program, text: error.to_string() }),
    }
}

/// The first line, without its end; what there is of it when the pipe ends before.
fn read_line(pipe: &mut ChildStdout) -> io::Result<String> {
    let deadline = Instant::now() + Duration::from_secs(START_SECONDS);
    let mut line = Vec::new();
    // Bounded by LINE_MAX and the deadline.
    while line.len() < LINE_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let text = format!("it did not start listening within {START_SECONDS} s");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        if readable(&[pipe.as_fd()], Some(left))?.is_empty() {
            continue;
        }
        let mut chunk = [0; 256];
        let count = match pipe.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        line.extend_from_slice(&chunk[..count]);
        if count == 0 || line.contains(&b'\n') {
            break;
        }
    }
    let text = String::from_utf8_lossy(&line);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Waits for the child, which has done its work once the keeper has spoken. Errors mean that the application has
/// waited for it already (a SIGCHLD handler, or SIGCHLD ignored).
fn reap(child: &mut Child, has_spoken: bool) {
    if !has_spoken {
        let _ = child.kill();
    }
    let _ = child.wait();
}

fn find_program(options: &KeeperOptions) -> Result<PathBuf, KeeperError> {
    let candidates = match &options.binary {
        Some(binary) => vec![binary.clone()],
        None => likely_places(options),
    };
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(KeeperError::ProgramMissing { tried: candidates }),
    }
}

fn likely_places(options: &KeeperOptions) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = options.binary_hint.iter().cloned().collect();
    // Canonical, so that a symbolic link to a program is followed to where its companions are.
    let directory = env::current_exe()
        .and_then(|path| path.canonicalize())
        .ok()
        .and_then(|path| path.parent().map(|directory| directory.to_owned()));
    if let Some(directory) = directory {
        places.push(directory.join(PROGRAM));
        places.push(directory.join("../libexec").join(PROGRAM));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_program_is_the_only_one_tried() {
        let binary = PathBuf::from("/nonexistent/keeper");
        let options = KeeperOptions { binary: Some(binary.clone()), ..KeeperOptions::default() };
        let Err(KeeperError::ProgramMissing { tried }) = find_program(&options) else {
            panic!("found something")
        };
        assert_eq!(tried, [binary]);
    }

    #[test]
    fn the_hint_comes_before_the_neighbourhood() {
        let hint = PathBuf::from("/proc/self/exe");
        let options = KeeperOptions { binary_hint: Some(hint.clone()), ..KeeperOptions::default() };
        assert_eq!(find_program(&options).unwrap(), hint);
    }

    #[test]
    fn a_program_that_says_nothing_is_an_error() {
        let options = KeeperOptions { binary: Some(PathBuf::from("/bin/true")), ..KeeperOptions::default() };
        let error = start_keeper(&options).unwrap_err().to_string();
        assert!(error.contains("/bin/true gave up: it ended without a word"), "{error}");
    }

    #[test]
    fn a_program_may_be_named_relative_to_the_working_directory() {
        let up: PathBuf = env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
        let options = KeeperOptions { binary: Some(up.join("bin/true")), ..KeeperOptions::default() };
        let error = start_keeper(&options).unwrap_err().to_string();
        assert!(error.contains("/bin/true gave up: it ended without a word"), "{error}");
    }

    #[test]
    fn a_program_that_cannot_run_is_an_error() {
        let options =
            KeeperOptions { binary: Some(PathBuf::from("/proc/self/stat")), ..KeeperOptions::default() };
        let error = start_keeper(&options).unwrap_err();
        assert!(matches!(error, KeeperError::Spawn { .. }), "{error}");
    }
}
