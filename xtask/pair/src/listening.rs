//! Waits until a server listens, by looking at the kernel's own list of TCP sockets.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::program::Program;

/// A TCP port that was free a moment ago.
///
/// # Errors
/// When the system has no free port.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("0.0.0.0", 0))?.local_addr()?.port())
}

/// Waits until some process of this network namespace listens on `port`; false when `program` ends, or the time does,
/// before that.
///
/// # Errors
/// When the system cannot tell whether the program runs.
pub fn wait(program: &Program, port: u16, deadline: Instant) -> Result<bool> {
    loop {
        if is_listening(port) {
            return Ok(true);
        }
        if program.has_ended()? || Instant::now() >= deadline {
            return Ok(false);
        }
        // The kernel offers no event for this: /proc/net/tcp is made anew at each look.
        thread::sleep(LOOK_AGAIN);
    }
}

fn is_listening(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .any(|table| table.lines().any(|line| line_listens(line, port)))
}

/// One line of /proc/net/tcp, see proc(5): `sl local_address rem_address st …`, numbers in hexadecimal.
fn line_listens(line: &str, port: u16) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    let (Some(local), Some(_), Some(state)) = (fields.next(), fields.next(), fields.next()) else {
        return false;
    };
    let local_port = local.rsplit(':').next().and_then(|hex| u16::from_str_radix(hex, 16).ok());
    local_port == Some(port) && state == TCP_LISTEN
}

const TCP_LISTEN: &str = "0A";
const LOOK_AGAIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::Mutex;

    /// A program that another test starts has this one's sockets until it executes.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    #[test]
    fn a_listening_socket_is_seen_and_a_closed_one_is_not() {
        let _alone = ONE_AT_A_TIME.lock();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listening(port));
        drop(listener);
        assert!(!is_listening(port));
    }

    #[test]
    fn a_server_that_ends_is_not_waited_for() {
        let _alone = ONE_AT_A_TIME.lock();
        let port = free_port().unwrap();
        let program = Program::start(Command::new("true")).unwrap();
        assert!(!wait(&program, port, Instant::now() + Duration::from_secs(600)).unwrap());
    }

    #[test]
    fn a_connection_is_not_a_listener() {
        let listen = "   0: 0100007F:4853 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1";
        let established =
            "   1: 0100007F:4853 0100007F:9C40 01 00000000:00000000 00:00000000 00000000 0 0 1 1";
        assert!(line_listens(listen, 0x4853));
        assert!(!line_listens(listen, 0x4854));
        assert!(!line_listens(established, 0x4853));
        assert!(!line_listens("  sl  local_address rem_address   st tx_queue", 0x4853));
    }
}
