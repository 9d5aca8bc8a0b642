//! Captures on `lo` of a sandbox, and two judges of them that are not ours: tshark, and a script written from the rule.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::PATIENCE;
use crate::program::Program;
use crate::sandbox::{Sandbox, find};

/// A running tcpdump.
pub struct Capture<'a> {
    sandbox: &'a Sandbox,
    tcpdump: Program,
    folder: TempDir,
}

/// A finished capture. Its file goes when this is dropped.
pub struct CaptureFile {
    folder: TempDir,
}

/// What the script says about a capture.
#[derive(Debug)]
pub struct Verdict {
    /// RoCEv2 packets.
    pub packets: u64,
    /// How many of them came over IPv6.
    pub ipv6: u64,
    /// How many were judged by scapy as well.
    pub judged_by_scapy: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
    /// Different opcodes.
    pub opcodes: usize,
    /// What is wrong, packet by packet; the first ones only.
    pub bad: Vec<String>,
}

impl<'a> Capture<'a> {
    /// Why this user can capture nothing, if so.
    ///
    /// The root of a user namespace may, but tcpdump changes its user first and its groups with it, and that is not
    /// allowed there.
    pub fn obstacle() -> Option<&'static str> {
        (!rustix::process::geteuid().is_root()).then_some("tcpdump needs root")
    }

    /// Starts to capture the UDP ports of RoCEv2 and of our end mark.
    ///
    /// A GSO message crosses `lo` whole, and a capture would show it so: one datagram of up to 64 KiB that no card
    /// would send. Without the offload the kernel cuts it into the datagrams, with their own IP identifications,
    /// before tcpdump sees it. The setting belongs to this namespace's `lo` alone.
    ///
    /// # Panics
    /// When ethtool or tcpdump does not do it.
    pub fn start(sandbox: &'a Sandbox) -> Capture<'a> {
        let offload = ["-K", "lo", "tx-udp-segmentation", "off"];
        sandbox.privileged("ethtool", &offload).finish(PATIENCE).assert_success();
        let folder = sandbox.folder();
        let file = file_in(&folder);
        let filter = format!("udp dst port {ROCE_PORT} or udp dst port {END_PORT}");
        let file = file.to_str().expect("a temporary file's name is text");
        // -U writes each packet through, so the end mark is seen in the file as soon as it is there. The buffer (in
        // KiB) holds all that a test sends, for tcpdump gets no processor while two programs poll on two cores.
        let arguments = ["-i", "lo", "-n", "-U", "-Z", "root", "-B", "131072", "-w", file, &filter];
        let tcpdump = sandbox.privileged("tcpdump", &arguments);
        assert!(tcpdump.says("listening on lo", PATIENCE), "tcpdump: {}", tcpdump.output_so_far());
        Capture { sandbox, tcpdump, folder }
    }

    /// Stops when everything sent until now is in the file.
    ///
    /// # Panics
    /// When the kernel dropped packets before tcpdump saw them: the capture proves nothing then.
    pub fn stop(self) -> CaptureFile {
        let script = format!(
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto({END_MARK:?}.encode(), \
             ('127.0.0.1', {END_PORT}))"
        );
        self.sandbox.bystander("python3", &["-c", &script]).finish(PATIENCE).assert_success();
        wait_for_end_mark(&file_in(&self.folder));
        let pid = i32::try_from(self.tcpdump.pid()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, Signal::INT).expect("tcpdump runs until it is told to stop");
        let ended = self.tcpdump.finish(PATIENCE);
        ended.assert_success();
        assert!(ended.stderr.contains("\n0 packets dropped by kernel"), "{ended}");
        CaptureFile { folder: self.folder }
    }
}

impl CaptureFile {
    /// See [`tshark_complaints`].
    pub fn tshark_complaints(&self) -> (u64, Vec<String>) {
        tshark_complaints(&file_in(&self.folder))
    }

    /// Lets the script work out every ICRC, and scapy a sample of each opcode.
    pub fn judge(&self) -> Verdict {
        judge(&file_in(&self.folder))
    }
}

/// Judges any capture file.
///
/// # Panics
/// When the script does not run.
pub fn judge(file: &Path) -> Verdict {
    let script = support("icrc_check.py");
    let output =
        Command::new(python_with_scapy()).arg(&script).arg(file).arg(SCAPY_SAMPLE.to_string()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot start python3: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", script.display());
    let report: Value = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    let number = |name: &str| report[name].as_u64().expect("a count");
    Verdict {
        packets: number("packets"),
        ipv6: number("ipv6"),
        judged_by_scapy: number("judged_by_scapy"),
        rnr_naks: number("rnr_naks"),
        opcodes: report["opcodes"].as_object().expect("a table").len(),
        bad: report["bad"].as_array().expect("a list").iter().map(Value::to_string).collect(),
    }
}

/// Lets tshark decode every packet to port 4791 of a capture file; returns how many there are, and the first of those
/// that it does not take for InfiniBand, or finds malformed.
///
/// What it makes of payload is no matter: it guesses, by its first bytes, and finds malformed VLAN tags and the like.
///
/// # Panics
/// When tshark does not run.
pub fn tshark_complaints(file: &Path) -> (u64, Vec<String>) {
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(file);
    tshark.args(["-Y", &format!("udp.dstport == {ROCE_PORT}"), "-T", "fields"]);
    for field in ["frame.number", "infiniband.bth.opcode", "_ws.malformed"] {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().unwrap_or_else(|error| panic!("cannot start tshark: {error}"));
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let complaints = text.lines().filter(|line| !is_decoded(line)).take(20).map(str::to_owned).collect();
    (text.lines().count() as u64, complaints)
}

/// A file of this crate's folder `support`.
pub fn support(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("support").join(name)
}

/// The first python3 that has scapy: the system's own, where another one comes first in PATH. Without scapy the script
/// judges alone.
fn python_with_scapy() -> PathBuf {
    let candidates = [find("python3"), Some(PathBuf::from("/usr/bin/python3"))];
    let has_scapy = |python: &PathBuf| {
        let output = Command::new(python).args(["-c", "import scapy.contrib.roce"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    candidates.into_iter().flatten().find(has_scapy).unwrap_or_else(|| PathBuf::from("python3"))
}

fn file_in(folder: &TempDir) -> PathBuf {
    folder.path().join("capture.pcap")
}

fn is_decoded(line: &str) -> bool {
    let mut fields = line.split('\t').skip(1);
    let has_opcode = fields.next().is_some_and(|opcode| !opcode.is_empty());
    has_opcode && !fields.next().is_some_and(|malformed| malformed.contains("Malformed Packet: IB]"))
}

fn wait_for_end_mark(file: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !ends_with_mark(file).unwrap_or(false) {
        assert!(Instant::now() < deadline, "tcpdump does not come to the end mark");
        // tcpdump tells nobody what it has written.
        thread::sleep(Duration::from_millis(20));
    }
}

fn ends_with_mark(file: &Path) -> std::io::Result<bool> {
    let mut file = fs::File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END_MARK.len() as u64)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(tail == END_MARK.as_bytes())
}

const ROCE_PORT: u16 = 4791;
/// The discard service's: nobody listens there.
const END_PORT: u16 = 9;
const END_MARK: &str = "that was all of it";
/// Packets of each opcode that scapy, which is slow, gets to see.
const SCAPY_SAMPLE: u32 = 50;
