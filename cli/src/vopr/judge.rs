//! The parent's side of one plan: it is run in a child, so that a panic or an endless loop is a fault like any other.

use std::env;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ferroce_emulator::vopr::{Fault, Plan};

use super::VoprError;
use super::worker::{self, Record};

/// Runs a plan; the fault it ends in.
///
/// # Errors
/// There is no child, or it speaks another language.
pub fn judge(plan: &Plan) -> Result<Option<Fault>, VoprError> {
    let mut child = child(&["--judge"])?;
    let stdin = child.stdin.take();
    let text = plan.to_string();
    // A child that died early does not read; its end says more than that.
    let _ = stdin.map(|mut stdin| stdin.write_all(text.as_bytes()));
    let (sender, receiver) = mpsc::channel();
    let stdout = child.stdout.take();
    thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.map(|mut stdout| stdout.read_to_string(&mut text));
        let _ = sender.send(read.map(|_| text));
    });
    let answer = receiver.recv_timeout(LONGEST);
    if answer.is_err() {
        child.kill().map_err(VoprError::Child)?;
        child.wait().map_err(VoprError::Child)?;
        return Ok(Some(endless()));
    }
    let output = child.wait_with_output().map_err(VoprError::Child)?;
    match answer.ok().flatten().as_deref().map(str::trim) {
        Some(line) if !line.is_empty() => match worker::read(line)? {
            Record::Failed(fault) => Ok(Some(fault)),
            _ => Ok(None),
        },
        _ => Ok(Some(panicked(&String::from_utf8_lossy(&output.stderr)))),
    }
}

/// Another process of this program, as a part of the fuzzer.
///
/// # Errors
/// The system's.
pub fn child(arguments: &[&str]) -> Result<Child, VoprError> {
    let program = env::current_exe().map_err(VoprError::Child)?;
    Command::new(program)
        .arg("vopr")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(VoprError::Child)
}

/// The fault of a process that died, by what it wrote before.
pub fn panicked(stderr: &str) -> Fault {
    let lines: Vec<_> = stderr.lines().filter(|line| !line.is_empty()).take(PANIC_LINES).collect();
    let text = if lines.is_empty() { "the process died without a word".into() } else { lines.join(" ") };
    Fault::new("panic", text)
}

/// The fault of a process that does not come to an end.
pub fn endless() -> Fault {
    Fault::new("endless", format!("still running after {} s", LONGEST.as_secs()))
}

/// No plan takes so long, even on a busy machine and in a debug build.
pub const LONGEST: Duration = Duration::from_secs(120);
/// Lines of a panic that say what it was.
const PANIC_LINES: usize = 3;
