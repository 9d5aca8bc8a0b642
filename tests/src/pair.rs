//! A server and its client, both under `ferroce run`.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::PATIENCE;
use crate::listening;
use crate::program::{Ended, Program};
use crate::sandbox::{Sandbox, append};

/// What to run.
#[derive(Clone, Debug)]
pub struct Pair {
    tool: String,
    options: Vec<String>,
    server_options: Vec<String>,
    patience: Duration,
}

/// Where one of the two runs, and how the other reaches it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The namespace.
    pub sandbox: &'a Sandbox,
    /// The interface whose device is used.
    pub interface: &'a str,
    /// An address of it, for the tool's own exchange over TCP.
    pub address: &'a str,
}

/// A pair on its way.
pub struct Running {
    /// The side without a peer's name on its command line.
    pub server: Program,
    /// The other.
    pub client: Program,
    patience: Duration,
}

/// A pair that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The server.
    pub server: Ended,
    /// The client.
    pub client: Ended,
}

impl Pair {
    /// A pair of `tool`, with options for both sides, separated by blanks.
    pub fn new(tool: &str, options: &str) -> Pair {
        Pair {
            tool: tool.to_owned(),
            options: words(options),
            server_options: Vec::new(),
            patience: PATIENCE,
        }
    }

    /// Options for the server alone.
    #[must_use]
    pub fn server_options(mut self, options: &str) -> Pair {
        self.server_options = words(options);
        self
    }

    /// How long each may take.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Pair {
        self.patience = patience;
        self
    }

    /// Runs it on the loopback interface and waits for both.
    pub fn run(&self, sandbox: &Sandbox) -> Finished {
        self.start(sandbox).finish()
    }

    /// Starts it on the loopback interface.
    pub fn start(&self, sandbox: &Sandbox) -> Running {
        let place = Place { sandbox, interface: "lo", address: "127.0.0.1" };
        self.start_between(place, place)
    }

    /// Starts the server, waits until it listens, starts the client.
    ///
    /// # Panics
    /// When the server does not come to listen, with all that it said.
    pub fn start_between(&self, server: Place<'_>, client: Place<'_>) -> Running {
        let port = server.sandbox.tcp_port().to_string();
        let start = |place: Place<'_>, more: &[String], peer: Option<&str>| {
            let (mut command, mut line) = place.sandbox.run(place.interface, Path::new(&self.tool));
            let mut arguments: Vec<&str> = self.options.iter().chain(more).map(String::as_str).collect();
            arguments.extend(["-p", &port]);
            arguments.extend(peer);
            command.args(&arguments);
            append(&mut line, &arguments);
            Program::start(command, line)
        };
        let program = start(server, &self.server_options, None);
        if !listening::wait(&program, port.parse().expect("it was a number"), self.patience) {
            panic!("the server does not listen\n{}", program.finish(Duration::ZERO));
        }
        Running { server: program, client: start(client, &[], Some(server.address)), patience: self.patience }
    }
}

impl Running {
    /// Waits until both have ended.
    pub fn finish(self) -> Finished {
        let client = self.client.finish(self.patience);
        // A server whose client failed may wait for it for ever; what both said is wanted then, without delay.
        let patience = if client.is_success() { self.patience } else { Duration::from_secs(2) };
        Finished { client, server: self.server.finish(patience) }
    }
}

impl Finished {
    /// Fails the test unless both ended by themselves with status 0 and without complaint.
    ///
    /// # Panics
    /// When one did not, with both outputs and the commands to repeat it.
    #[track_caller]
    pub fn assert_success(&self) {
        assert!(self.client.is_success() && self.server.is_success(), "a program failed\n{self}");
        for line in self.client.output().lines().chain(self.server.output().lines()) {
            let complaint = COMPLAINTS.iter().find(|word| line.to_lowercase().contains(*word));
            assert!(complaint.is_none(), "a program complained: {line}\n{self}");
        }
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server: {}client: {}", self.server, self.client)
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Words of a program that ends with status 0 although something went wrong, as some of these do.
const COMPLAINTS: [&str; 5] = ["error", "fail", "unable", "invalid data", "couldn't"];
