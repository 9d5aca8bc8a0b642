//! A server and its client.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::command::find;
use crate::listening;
use crate::program::Program;
use crate::user::User;

/// A program in perftest's manner: it serves when it is given no host, listens on the TCP port of `-p`, and ends after
/// one client.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The program.
    pub program: &'static str,
    /// Its options, the same on both sides.
    pub options: Vec<String>,
}

/// A finished pair.
#[derive(Clone, Debug)]
pub struct Run {
    /// As one would type it.
    pub server_command: String,
    /// As one would type it.
    pub client_command: String,
    /// What the client wrote to stdout.
    pub output: String,
}

impl Pair {
    /// Runs the server, waits until it listens, runs the client, and waits for both, for at most `patience`.
    ///
    /// # Errors
    /// When one of them fails or does not end in time; the text holds what it said.
    pub fn run(&self, ferroce: &Path, user: User, patience: Duration) -> Result<Run> {
        let port = listening::free_port().context("no free TCP port for the programs' own exchange")?;
        let program = find(self.program).with_context(|| format!("{} is missing", self.program))?;
        let start = |peer: Option<&str>| {
            let mut command = Command::new(ferroce);
            command.args(["run", "--device", "lo", "--"]).arg(&program).args(&self.options);
            command.args(["-p", &port.to_string()]).args(peer);
            user.apply(&mut command);
            Program::start(command)
        };
        let deadline = Instant::now() + patience;
        let server = start(None)?;
        if !listening::wait(&server, port, deadline)? {
            bail!("{}", server.failure("the server does not listen"));
        }
        let output = match start(Some(HOST))?.finish(deadline) {
            Ok(output) => output,
            Err(error) => bail!("the client: {error:#}\n{}", server.failure("the server's side")),
        };
        server.finish(deadline).context("the server")?;
        let shown = |peer: &str| {
            let options: String = self.options.iter().map(|option| format!(" {option}")).collect();
            format!("ferroce run --device lo -- {}{options} -p {port}{peer}", self.program)
        };
        Ok(Run { server_command: shown(""), client_command: shown(&format!(" {HOST}")), output })
    }
}

/// Where the client finds its server, for their exchange over TCP.
const HOST: &str = "127.0.0.1";
