//! A started program whose output is collected and which never outlives this value.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::command::display;

/// A running program; it is killed when dropped.
pub struct Program {
    process: Process,
    exit: OwnedFd,
    text: String,
    stdout: Reader,
    stderr: Reader,
}

/// A child that is killed, and waited for, when dropped.
struct Process(Child);

/// A thread that reads an output to its end.
type Reader = JoinHandle<io::Result<Vec<u8>>>;

impl Program {
    /// Starts it, with nothing on its standard input.
    ///
    /// # Errors
    /// When the system does not start it.
    pub fn start(mut command: Command) -> Result<Program> {
        let text = display(&command);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{text}`"))?;
        let mut process = Process(child);
        // Nobody has waited for the child yet, so its process id is its own.
        let exit = pidfd_open(Pid::from_child(&process.0), PidfdFlags::empty())
            .context("this kernel has no pidfd_open(2): Linux 5.3 or newer is needed")?;
        let stdout = collect(process.0.stdout.take().context("the program's stdout is not piped")?);
        let stderr = collect(process.0.stderr.take().context("the program's stderr is not piped")?);
        Ok(Program { process, exit, text, stdout, stderr })
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn has_ended(&self) -> Result<bool> {
        self.ends_by(Instant::now())
    }

    /// Waits until it ends and returns what it wrote to stdout.
    ///
    /// # Errors
    /// When it does not end in time or not with status 0; the text holds all that it wrote.
    pub fn finish(mut self, deadline: Instant) -> Result<String> {
        if !self.ends_by(deadline)? {
            bail!("{}", self.failure("it did not end in time"));
        }
        let status = self.process.0.wait()?;
        if !status.success() {
            bail!("{}", self.failure(&format!("it failed ({status})")));
        }
        let stdout = self.stdout.join().map_err(|_| anyhow::anyhow!("a reader of output panicked"))??;
        String::from_utf8(stdout).with_context(|| format!("`{}` wrote no text", self.text))
    }

    /// Ends it if it still runs, and puts all that it wrote under a headline.
    pub fn failure(self, what: &str) -> String {
        drop(self.process);
        let output = [self.stdout, self.stderr].map(|reader| match reader.join() {
            Ok(Ok(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            // What can't be read any more is missing in a message that is about something else.
            _ => String::new(),
        });
        format!("{what}: `{}`\n{}", self.text, output.concat().trim_end())
    }

    fn ends_by(&self, deadline: Instant) -> Result<bool> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).context("the deadline is too far away")?;
            match poll(&mut [PollFd::new(&self.exit, PollFlags::IN)], Some(&timeout)) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for a program's end"),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has been waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> Reader {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::start(command).unwrap()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_program_that_succeeds_returns_its_stdout() {
        assert_eq!(shell("echo out; echo err >&2").finish(soon()).unwrap(), "out\n");
    }

    #[test]
    fn a_failure_holds_both_outputs_and_the_status() {
        let error = shell("echo out; echo err >&2; exit 3").finish(soon()).unwrap_err().to_string();
        assert!(error.starts_with("it failed (exit status: 3): `sh -c "), "{error}");
        assert!(error.ends_with("\nout\nerr"), "{error}");
    }

    #[test]
    fn a_program_that_goes_on_is_killed() {
        let program = shell("exec sleep 1000");
        assert!(!program.has_ended().unwrap());
        let error = program.finish(Instant::now()).unwrap_err().to_string();
        assert!(error.starts_with("it did not end in time"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = Program::start(Command::new("/nonexistent/program")).err().unwrap();
        assert!(error.to_string().contains("/nonexistent/program"), "{error}");
    }
}
