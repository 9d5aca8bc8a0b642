//! A started program whose output is collected and which never outlives its test.

use std::fmt;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A running program. Dropping it kills it.
pub struct Program {
    command_line: String,
    child: Child,
    exit: OwnedFd,
    stdout: Stream,
    stderr: Stream,
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What to type to run it again.
    pub command_line: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Whether it had to be killed because it did not end by itself in time.
    pub was_stuck: bool,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Program {
    /// Starts `command`; `command_line` is what to type to run it by hand.
    ///
    /// # Panics
    /// When the system does not start it.
    pub fn start(mut command: Command, command_line: String) -> Program {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot start `{command_line}`: {error}"));
        let pid = Pid::from_child(&child);
        let exit =
            pidfd_open(pid, PidfdFlags::empty()).expect("our own child, not waited for yet, has a pidfd");
        let stdout = Stream::collect(child.stdout.take().expect("stdout was asked for"));
        let stderr = Stream::collect(child.stderr.take().expect("stderr was asked for"));
        Program { command_line, child, exit, stdout, stderr }
    }

    /// Its process id: everything between us and the program is exec(3).
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What to type to run it by hand.
    pub fn command_line(&self) -> &str {
        &self.command_line
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits until it ends; false if it runs on.
    pub fn ends_within(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).expect("patience is no longer than an i64 of seconds");
            match poll(&mut [PollFd::new(&self.exit, PollFlags::IN)], Some(&timeout)) {
                Ok(ready) => return ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("poll of a pidfd: {error}"),
            }
        }
    }

    /// Waits until its stdout or stderr holds `text`; false if it ends, or the time does, before that.
    pub fn says(&self, text: &str, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            if self.stdout.text().contains(text) || self.stderr.text().contains(text) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.has_ended() {
                // What it wrote before it ended counts, though the reader may be behind.
                return self.stdout.is_closed_with(text) || self.stderr.is_closed_with(text);
            }
            if left.is_zero() {
                return false;
            }
            // Two streams and an exit to watch; a look every now and then covers those that did not wake us.
            self.stderr.wait_for_more(left.min(LOOK_AGAIN));
        }
    }

    /// What it has written so far, stdout first.
    pub fn output_so_far(&self) -> String {
        format!("{}{}", self.stdout.text(), self.stderr.text())
    }

    /// Kills it with SIGKILL, if it still runs.
    pub fn kill(&mut self) {
        // Fails only when it has been waited for already.
        let _ = self.child.kill();
    }

    /// Waits until it ends, kills it if that takes longer than `patience`, and returns what became of it.
    pub fn finish(mut self, patience: Duration) -> Ended {
        let was_stuck = !self.ends_within(patience);
        if was_stuck {
            self.kill();
        }
        let status = self.child.wait().expect("the child was not waited for before");
        let streams = [&self.stdout, &self.stderr].map(|stream| stream.text_at_end());
        let [stdout, stderr] = streams.map(|text| {
            text.unwrap_or_else(|| {
                panic!("`{}` ended, but somebody else still holds its output open", self.command_line)
            })
        });
        Ended { command_line: self.command_line.clone(), status, was_stuck, stdout, stderr }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Stdout and stderr, one after the other.
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Whether it ended by itself with status 0.
    pub fn is_success(&self) -> bool {
        !self.was_stuck && self.status.success()
    }

    /// Fails the test unless it ended by itself with status 0.
    ///
    /// # Panics
    /// When it did not, with all that it wrote.
    #[track_caller]
    pub fn assert_success(&self) {
        assert!(self.is_success(), "{self}");
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match (self.was_stuck, self.status.code(), self.status.signal()) {
            (true, ..) => "did not end by itself and was killed".to_owned(),
            (_, Some(code), _) => format!("ended with status {code}"),
            (_, _, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
        };
        writeln!(f, "$ {}\n  {how}", self.command_line)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.trim().is_empty() {
                writeln!(f, "  {name}:")?;
                text.trim_end().lines().try_for_each(|line| writeln!(f, "    {line}"))?;
            }
        }
        Ok(())
    }
}

/// One output of a program, read by a thread as it comes.
struct Stream {
    shared: Arc<Shared>,
    closed: Mutex<Receiver<()>>,
}

#[derive(Default)]
struct Shared {
    text: Mutex<Vec<u8>>,
    grew: Condvar,
}

impl Stream {
    fn collect(mut source: impl Read + Send + 'static) -> Stream {
        let shared = Arc::new(Shared::default());
        let (close, closed) = channel::<()>();
        let ours = Arc::clone(&shared);
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = source.read(&mut chunk) {
                ours.text.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..length]);
                ours.grew.notify_all();
            }
            // The end is what the other side waits for.
            drop(close);
        });
        Stream { shared, closed: Mutex::new(closed) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shared.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    fn wait_for_more(&self, patience: Duration) {
        let text = self.shared.text.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.shared.grew.wait_timeout(text, patience));
    }

    /// All of it, once nobody can write any more; `None` if somebody keeps it open.
    fn text_at_end(&self) -> Option<String> {
        use std::sync::mpsc::RecvTimeoutError::Timeout;
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        match closed.recv_timeout(CLOSE_PATIENCE) {
            Err(Timeout) => None,
            _ => Some(self.text()),
        }
    }

    fn is_closed_with(&self, text: &str) -> bool {
        self.text_at_end().unwrap_or_else(|| self.text()).contains(text)
    }
}

/// How long after its program's end a pipe may stay open: only the reader is behind.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PATIENCE;

    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::start(command, format!("sh -c '{script}'"))
    }

    #[test]
    fn output_and_status_are_collected() {
        let ended = shell("echo out; echo err >&2; exit 3").finish(PATIENCE);
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(ended.status.code(), Some(3));
        assert!(
            ended.to_string().contains("$ sh -c 'echo out; echo err >&2; exit 3'\n  ended with status 3")
        );
    }

    #[test]
    fn a_stuck_program_is_killed_and_says_so() {
        let ended = shell("echo started; exec sleep 1000").finish(Duration::from_millis(200));
        assert!(ended.was_stuck && !ended.is_success());
        assert!(ended.to_string().contains("was killed"));
    }

    #[test]
    fn words_are_waited_for() {
        let program = shell("echo one >&2; exec sleep 1000");
        assert!(program.says("one", PATIENCE));
        assert!(!program.says("two", Duration::from_millis(50)));
        assert!(shell("echo last words").says("last words", PATIENCE));
        assert!(!shell("true").says("last words", PATIENCE));
    }
}
