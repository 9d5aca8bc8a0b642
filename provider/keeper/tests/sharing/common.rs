//! What the tests share: options of their own, children, packets.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferroce_keeper::{KeeperOptions, Lease, acquire};
use ferroce_port::wait::readable;
use ferroce_port::{Sharing, open_receive_socket};

/// Longer than anything takes; only a failure waits for it.
pub const LONG: Duration = Duration::from_secs(20);
/// How long the tests' keepers stay without clients.
pub const IDLE: Duration = Duration::from_millis(300);

/// The program under test.
pub fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_ferroce-keeper"))
}

/// Options of one test, which has this process for itself while it keeps them: between fork and exec, a child that
/// another test starts would hold duplicates of our descriptors, and what we close would not be closed.
pub struct TestOptions {
    options: KeeperOptions,
    _alone: MutexGuard<'static, ()>,
}

impl Deref for TestOptions {
    type Target = KeeperOptions;

    fn deref(&self) -> &KeeperOptions {
        &self.options
    }
}

/// Options with a name and a port that nobody else uses.
pub fn options() -> TestOptions {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Below the ephemeral ports, from which the tests' senders get theirs.
        let port = 10_000 + (std::process::id() % 200) as u16 * 100 + number;
        if open_receive_socket(port, Sharing::Exclusive).is_ok() {
            let name = Some(format!("ferroce-keeper-test-{}-{number}", std::process::id()));
            let options =
                KeeperOptions { name, port, binary: Some(program()), idle: IDLE, ..KeeperOptions::default() };
            return TestOptions { options, _alone: alone };
        }
    }
}

/// Another process with a lease, which it gives up when told to or killed.
pub struct Holder {
    child: Child,
    line: BufReader<std::process::ChildStdout>,
    stdin: Option<ChildStdin>,
}

impl Holder {
    /// Starts it; it asks for its lease at once.
    pub fn start(options: &KeeperOptions) -> Holder {
        Holder::start_by(Command::new(std::env::current_exe().unwrap()), options)
    }

    /// Starts it by a command that runs this program with the arguments that are added.
    pub fn start_by(mut command: Command, options: &KeeperOptions) -> Holder {
        let mut child = command
            .args(["--exact", "common::holder_process", "--ignored", "--nocapture", "--quiet"])
            .env("TEST_NAME", options.socket_name())
            .env("TEST_PORT", options.port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let line = BufReader::new(child.stdout.take().unwrap());
        let stdin = child.stdin.take();
        Holder { child, line, stdin }
    }

    /// Waits until it has its lease.
    pub fn slot(&mut self) -> u8 {
        let mut text = String::new();
        // The test harness has its own lines.
        while !text.starts_with("slot ") {
            text.clear();
            assert_ne!(self.line.read_line(&mut text).unwrap(), 0, "the holder failed");
        }
        text["slot ".len()..].trim().parse().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// The body of a [`Holder`]; no test.
#[test]
#[ignore = "started by other tests as a process of its own"]
fn holder_process() {
    let name = Some(std::env::var("TEST_NAME").unwrap());
    let port = std::env::var("TEST_PORT").unwrap().parse().unwrap();
    let binary = Some(program());
    let options = KeeperOptions { name, port, binary, idle: IDLE, ..KeeperOptions::default() };
    let lease = acquire(&options).unwrap();
    println!("slot {}", lease.slot());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// The loopback addresses that this host has: a host without IPv6 tests IPv4.
pub fn loopbacks() -> impl Iterator<Item = &'static str> {
    ["127.0.0.1", "::1"].into_iter().filter(|&host| UdpSocket::bind((host, 0)).is_ok())
}

/// Sends one packet over IPv4 and one over IPv6 for the first QPN of `slot`.
pub fn send(port: u16, slot: u8) {
    for host in loopbacks() {
        let mut packet = [0; 64];
        // The BTH's destination QPN.
        packet[5] = slot;
        UdpSocket::bind((host, 0)).unwrap().send_to(&packet, (host, port)).unwrap();
    }
}

/// Takes what waits in the lease's socket: the slots of the packets.
pub fn received(lease: &Lease) -> Vec<u8> {
    let socket = UdpSocket::from(lease.socket().try_clone_to_owned().unwrap());
    let mut packet = [0; 100];
    let mut slots = Vec::new();
    // Loopback delivers before `send` returns.
    while socket.recv(&mut packet).is_ok() {
        slots.push(packet[5]);
    }
    slots
}

/// Asserts that packets for each lease's slot come to it and to nobody else.
#[track_caller]
pub fn assert_steered(port: u16, leases: &[&Lease]) {
    for lease in leases {
        send(port, lease.slot());
    }
    for lease in leases {
        assert_eq!(received(lease), vec![lease.slot(); loopbacks().count()], "slot {}", lease.slot());
    }
}

/// The process id of the keeper behind a lease.
pub fn keeper_pid(lease: &Lease) -> u32 {
    lease.board().slot(0).unwrap().owner()
}

/// Kills the keeper, and returns when the lease knows.
pub fn kill_keeper(lease: &Lease) {
    let pid = keeper_pid(lease);
    let done = Command::new("sh").args(["-c", &format!("kill -9 {pid}")]).status().unwrap();
    assert!(done.success());
    wait_for(lease.connection_fd().unwrap());
}

/// Waits until there is something to read, or the other end has hung up.
#[track_caller]
pub fn wait_for(fd: impl AsFd) {
    let ready = readable(&[fd.as_fd()], Some(LONG)).unwrap();
    assert_eq!(ready, [0], "nothing came");
}
