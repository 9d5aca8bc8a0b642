//! Two namespaces with a wire between them that loses, doubles and reorders datagrams on demand.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::PATIENCE;
use crate::capture::support;
use crate::pair::Place;
use crate::sandbox::Sandbox;

/// The wire and what hangs on it.
pub struct FaultLink {
    near: Sandbox,
    far: Sandbox,
    wire: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Faults in per cent of the RoCEv2 datagrams of both directions.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Lost.
    pub drop: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// Overtaken by the next three.
    pub reorder: f64,
    /// How many of the datagrams to come they may hit. After that the wire is good: some programs do not survive the
    /// loss of the very last acknowledgement, since the peer has ended by then.
    pub among: u64,
}

/// What the wire did so far.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// RoCEv2 datagrams that came to it.
    pub datagrams: u64,
    /// Lost on purpose.
    pub dropped: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
}

impl FaultLink {
    /// Two sandboxes with a faultless wire between them.
    ///
    /// # Panics
    /// When the system gives no tap interfaces.
    pub fn new(seed: u64) -> FaultLink {
        let near = Sandbox::new();
        let far = near.beside();
        let mut command: Command = near.privileged_command("python3");
        command.arg(support("fault_link.py")).args([NEAR, FAR, MTU, &seed.to_string()]);
        let mut wire = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start python3: {error}"));
        let commands = wire.stdin.take().expect("stdin was asked for");
        let answers = BufReader::new(wire.stdout.take().expect("stdout was asked for"));
        let mut link = FaultLink { near, far, wire, commands, answers };
        assert_eq!(link.answer(), "ready", "tap interfaces");
        link.connect();
        link
    }

    /// Whether this user may make tap interfaces here; else why not.
    pub fn obstacle() -> Option<String> {
        match std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
            Ok(_) => None,
            Err(error) => Some(format!("no tap interfaces: /dev/net/tun: {error}")),
        }
    }

    /// The end where clients run.
    pub fn near(&self) -> Place<'_> {
        Place { sandbox: &self.near, interface: NEAR, address: NEAR_ADDRESS }
    }

    /// The end where servers run.
    pub fn far(&self) -> Place<'_> {
        Place { sandbox: &self.far, interface: FAR, address: FAR_ADDRESS }
    }

    /// From now on.
    pub fn set(&mut self, faults: Faults) {
        let answer = self
            .ask(&format!("faults {} {} {} {}", faults.drop, faults.duplicate, faults.reorder, faults.among));
        assert_eq!(answer, "ok");
    }

    /// What happened so far.
    pub fn counts(&mut self) -> Counts {
        let answer: Value = serde_json::from_str(&self.ask("report")).expect("the wire answers in JSON");
        let count = |name: &str| answer[name].as_u64().expect("a count");
        Counts {
            datagrams: count("datagrams"),
            dropped: count("dropped"),
            duplicated: count("duplicated"),
            reordered: count("reordered"),
        }
    }

    fn connect(&self) {
        let namespace = self.far.holder_pid().to_string();
        privileged(&self.near, &["link", "set", FAR, "netns", &namespace]);
        for (sandbox, name, v4, v6) in
            [(&self.near, NEAR, NEAR_ADDRESS, NEAR_ADDRESS_V6), (&self.far, FAR, FAR_ADDRESS, FAR_ADDRESS_V6)]
        {
            privileged(sandbox, &["address", "add", &format!("{v4}/24"), "dev", name]);
            // Nobody else is on the wire, so nothing is gained by waiting for duplicate address detection.
            privileged(sandbox, &["address", "add", &format!("{v6}/64"), "dev", name, "nodad"]);
            privileged(sandbox, &["link", "set", name, "up"]);
        }
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.commands, "{command}").expect("the wire reads its commands");
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the wire answers in text");
        line.trim_end().to_owned()
    }
}

impl Drop for FaultLink {
    fn drop(&mut self) {
        let _ = self.wire.kill();
        let _ = self.wire.wait();
    }
}

fn privileged(sandbox: &Sandbox, arguments: &[&str]) {
    sandbox.privileged("ip", arguments).finish(PATIENCE).assert_success();
}

const NEAR: &str = "near";
const FAR: &str = "far";
const NEAR_ADDRESS: &str = "10.91.0.1";
const FAR_ADDRESS: &str = "10.91.0.2";
const NEAR_ADDRESS_V6: &str = "fd91::1";
const FAR_ADDRESS_V6: &str = "fd91::2";
/// Room for a path MTU of 4096 bytes.
const MTU: &str = "4200";
