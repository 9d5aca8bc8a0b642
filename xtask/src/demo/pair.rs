//! A perftest server and its client, each under `ferroce run`.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::listening;
use crate::command;
use crate::report;
use crate::setup;

/// What to run and how to explain it.
pub struct Pair {
    /// The heading.
    pub title: &'static str,
    /// The program of perftest.
    pub program: &'static str,
    /// Its options, the same on both sides.
    pub options: &'static [&'static str],
    /// What is about to happen.
    pub before: &'static str,
    /// What happened.
    pub after: &'static str,
}

/// A finished pair.
pub struct Run {
    /// As one would type it.
    pub server_command: String,
    /// As one would type it.
    pub client_command: String,
    /// What the client wrote.
    pub output: String,
}

/// Who the programs run as.
pub enum User {
    /// Whoever called, who has no privileges.
    Caller,
    /// The user `nobody`, because root called.
    Nobody {
        /// The user id.
        uid: u32,
        /// The group id.
        gid: u32,
    },
    /// Root, because `nobody` cannot read the built files.
    Root,
}

impl User {
    /// An ordinary user that can run `ferroce`, where there is one.
    pub fn choose(ferroce: &Path) -> Self {
        if !setup::is_root() {
            return Self::Caller;
        }
        let Some((uid, gid)) = nobody() else { return Self::Root };
        let nobody = Self::Nobody { uid, gid };
        let mut probe = Command::new(ferroce);
        nobody.apply(probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()));
        match probe.status() {
            Ok(status) if status.success() => nobody,
            _ => Self::Root,
        }
    }

    /// Makes `command` run as this user, with no supplementary groups.
    fn apply(&self, command: &mut Command) {
        if let Self::Nobody { uid, gid } = *self {
            command.uid(uid).gid(gid).current_dir("/");
        }
    }

    /// Who it was, for the person who watches.
    pub fn remark(&self) -> &'static str {
        match self {
            Self::Caller => "All of it ran as you, without any privilege.",
            Self::Nobody { .. } => {
                "You are root, so all of it ran as the user nobody: no privilege is needed."
            }
            Self::Root => {
                "It ran as root only because the user nobody cannot read this folder; no privilege is needed."
            }
        }
    }
}

impl Pair {
    /// Runs the server, waits until it listens, runs the client, and waits for both.
    ///
    /// # Errors
    /// When one of them fails or does not end in time; the text holds what it said.
    pub fn run(&self, ferroce: &Path, user: &User) -> Result<Run> {
        let port = listening::free_port().context("no free TCP port for perftest's own exchange")?;
        let program = command::find(self.program).with_context(|| format!("{} is missing", self.program))?;
        let start = |peer: Option<&str>| {
            let mut process = Command::new(ferroce);
            process.args(["run", "--device", "lo", "--"]).arg(&program).args(self.options);
            process.args(["-p", &port.to_string()]).args(peer);
            user.apply(&mut process);
            Process::start(process)
        };
        let spinner = report::spinner(format!("{} is running", self.program));
        let mut server = start(None)?;
        if !listening::wait(port, || server.has_ended()) {
            bail!("{}", server.failure("the server does not listen"));
        }
        let mut client = start(Some("127.0.0.1"))?;
        let deadline = Instant::now() + PATIENCE;
        let client_status = client.wait(deadline)?;
        let server_status = server.wait(deadline)?;
        spinner.finish_and_clear();
        if !client_status.success() {
            bail!("{}\n{}", client.failure("the client failed"), server.failure("the server's side"));
        }
        if !server_status.success() {
            bail!("{}", server.failure("the server failed"));
        }
        let shown = |peer: &str| {
            let options: String = self.options.iter().map(|option| format!(" {option}")).collect();
            format!("ferroce run --device lo -- {}{options} -p {port}{peer}", self.program)
        };
        Ok(Run { server_command: shown(""), client_command: shown(" 127.0.0.1"), output: client.output() })
    }
}

/// A started program whose output is collected; it is killed when dropped.
struct Process {
    child: Child,
    text: String,
    readers: Vec<JoinHandle<io::Result<String>>>,
    output: String,
}

impl Process {
    fn start(mut command: Command) -> Result<Self> {
        let text = command::display(&command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{text}`"))?;
        let mut readers = Vec::new();
        readers.extend(child.stdout.take().map(collect));
        readers.extend(child.stderr.take().map(collect));
        Ok(Self { child, text, readers, output: String::new() })
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it ends.
    fn wait(&mut self, deadline: Instant) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                bail!("{}", self.failure("it did not end in time"));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Everything it wrote, stdout first. Ends it if it still runs.
    fn output(&mut self) -> String {
        self.kill();
        for reader in self.readers.drain(..) {
            if let Ok(Ok(text)) = reader.join() {
                self.output.push_str(&text);
            }
        }
        self.output.clone()
    }

    fn failure(&mut self, what: &str) -> String {
        let output = self.output();
        format!("{what}: `{}`\n{}", self.text, output.trim_end())
    }

    fn kill(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<io::Result<String>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    })
}

/// The user and group id of `nobody`.
fn nobody() -> Option<(u32, u32)> {
    let users = fs::read_to_string(PathBuf::from("/etc/passwd")).ok()?;
    let line = users.lines().find(|line| line.starts_with("nobody:"))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Both programs together take a few seconds; a minute covers a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
