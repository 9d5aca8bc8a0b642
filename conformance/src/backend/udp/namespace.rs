//! A network namespace for this thread and what it starts, so that the loopback interface can have the addresses that
//! raw peers need, and nobody else's traffic meets the suite's.
//!
//! Root may make one; others may where they can make a user namespace too, which takes a process without threads. Where
//! none can be had the suite runs in the namespace that it was started in, without what needs the addresses.

use rustix::process::geteuid;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fs;
use std::net::Ipv6Addr;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The raw peer's address over IPv6.
pub(super) const PEER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x4791, 0, 0, 0, 0, 0, 2);
/// One more, of a stranger.
pub(super) const STRANGER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x4791, 0, 0, 0, 0, 0, 3);

/// Enters it, the first time; why there is none.
pub(super) fn enter() -> &'static Result<(), String> {
    static ENTERED: OnceLock<Result<(), String>> = OnceLock::new();
    ENTERED.get_or_init(|| {
        unshare().map_err(|error| format!("no network namespace can be made here: {error}"))?;
        set_up()
            .map_err(|error| format!("the loopback interface of a new network namespace stays down: {error}"))
    })
}

fn unshare() -> std::io::Result<()> {
    let (user, group) = (geteuid().as_raw(), rustix::process::getegid().as_raw());
    let is_root = user == 0;
    let flags = if is_root { UnshareFlags::NEWNET } else { UnshareFlags::NEWNET | UnshareFlags::NEWUSER };
    // SAFETY: the table of file descriptors stays shared; only namespaces are new.
    unsafe { unshare_unsafe(flags) }?;
    if !is_root {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    }
    Ok(())
}

fn set_up() -> Result<(), String> {
    ip(&["link", "set", "lo", "up"])?;
    // Addresses that are here, and that the interface does not have: its GIDs stay what they are.
    for address in [PEER, STRANGER] {
        ip(&["-6", "route", "add", "local", &format!("{address}/128"), "dev", "lo"])?;
    }
    Ok(())
}

/// Runs `ip(8)`.
fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("ip(8) of iproute2 does not start: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}
