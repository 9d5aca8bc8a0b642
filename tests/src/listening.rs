//! Waits until a server listens, by looking at the kernel's own list of TCP sockets.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::program::Program;

/// Waits until somebody in the program's network namespace listens on the TCP `port`; false if the program ends or
/// the time does before that.
pub fn wait(program: &Program, port: u16, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while !program.has_ended() && Instant::now() < deadline {
        if is_bound(program.pid(), "tcp", port, Some(TCP_LISTEN)) {
            return true;
        }
        // The kernel offers no event for this: the table is made anew at each look.
        thread::sleep(LOOK_AGAIN);
    }
    false
}

/// Waits until nobody in the namespace of process `pid` has the UDP `port`; false if somebody keeps it.
pub fn wait_until_udp_is_free(pid: u32, port: u16, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while is_bound(pid, "udp", port, None) {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(LOOK_AGAIN);
    }
    true
}

fn is_bound(pid: u32, protocol: &str, port: u16, state: Option<&str>) -> bool {
    [protocol.to_owned(), format!("{protocol}6")]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
        .any(|table| table.lines().any(|line| matches(line, port, state)))
}

/// One line of /proc/net/tcp, see proc(5): `sl local_address rem_address st …`, numbers in hexadecimal.
fn matches(line: &str, port: u16, wanted: Option<&str>) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    let (Some(local), Some(_), Some(state)) = (fields.next(), fields.next(), fields.next()) else {
        return false;
    };
    let local_port = local.rsplit(':').next().and_then(|hex| u16::from_str_radix(hex, 16).ok());
    local_port == Some(port) && wanted.is_none_or(|wanted| wanted == state)
}

const TCP_LISTEN: &str = "0A";
const LOOK_AGAIN: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_not_a_listener() {
        let listen = "   0: 0100007F:4853 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1";
        let established =
            "   1: 0100007F:4853 0100007F:9C40 01 00000000:00000000 00:00000000 00000000 0 0 1 1";
        assert!(matches(listen, 0x4853, Some(TCP_LISTEN)));
        assert!(!matches(listen, 0x4854, Some(TCP_LISTEN)));
        assert!(!matches(established, 0x4853, Some(TCP_LISTEN)));
        assert!(matches(established, 0x4853, None));
        assert!(!matches("  sl  local_address rem_address   st tx_queue", 0x4853, None));
    }
}
