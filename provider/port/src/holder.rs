//! Who has a UDP port.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The holders of a UDP port in this network namespace, as far as this process may see them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holder {
    /// One entry per socket.
    pub sockets: Vec<HeldSocket>,
}

/// One socket that is bound to the port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldSocket {
    /// The local address.
    pub address: IpAddr,
    /// The user id it was opened with.
    pub uid: u32,
    /// Whose it is.
    pub owner: Owner,
}

/// One socket that is bound to a port, as the kernel lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundSocket {
    /// The local address.
    pub address: IpAddr,
    /// The user id it was opened with.
    pub uid: u32,
    /// What fstat(2) calls its inode.
    pub inode: u64,
}

/// The owner of a socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A process that we may look into.
    Process {
        /// Its id.
        pid: u32,
        /// Its name as in `/proc/PID/comm`.
        name: String,
    },
    /// No process: Soft-RoCE, whose module is loaded.
    KernelRxe,
    /// A process of another user, or of another pid namespace.
    Hidden,
}

/// Finds out who holds the UDP `port`. Never fails: what cannot be read is not told.
pub fn who_holds(port: u16) -> Holder {
    // Whoever asks has met a holder: nobody at all is more likely an omission of the table's (see `bound_sockets`).
    let bound = (0..LOOKS).map(|_| bound_sockets(port)).find(|bound| !bound.is_empty()).unwrap_or_default();
    let processes = processes_with_sockets(&bound);
    let sockets = bound.into_iter().map(|BoundSocket { address, uid, inode }| {
        let owner = match processes.get(&inode).cloned() {
            Some((pid, name)) => Owner::Process { pid, name },
            None if uid == 0 && Path::new("/sys/module/rdma_rxe").exists() => Owner::KernelRxe,
            None => Owner::Hidden,
        };
        HeldSocket { address, uid, owner }
    });
    Holder { sockets: sockets.collect() }
}

/// The sockets bound to the UDP `port` in this network namespace, without asking whose they are, which is cheap. Empty
/// where /proc cannot be read; one may be missing when others on the host are closed at the same moment.
pub fn bound_sockets(port: u16) -> Vec<BoundSocket> {
    let mut sockets = Vec::new();
    for (table, parse) in [("udp", parse_ipv4 as fn(&str) -> Option<IpAddr>), ("udp6", parse_ipv6)] {
        let text = fs::read_to_string(Path::new("/proc/self/net").join(table)).unwrap_or_default();
        sockets.extend(text.lines().filter_map(|line| parse_line(line, port, parse)));
    }
    // The kernel finds its place again by counting when a table takes several reads, so a socket shows twice when
    // another was opened meanwhile.
    let mut seen = HashSet::new();
    sockets.retain(|socket: &BoundSocket| seen.insert(socket.inode));
    sockets
}

impl fmt::Display for Holder {
    /// One sentence without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.sockets.first() else {
            return f.write_str("nobody holds it now");
        };
        match &first.owner {
            Owner::Process { pid, name } => write!(f, "process {pid} ({name}) holds it")?,
            Owner::KernelRxe => f.write_str(
                "the kernel's Soft-RoCE (rdma_rxe) holds it; remove its links with `rdma link delete NAME`, or run in \
                 a network namespace of your own",
            )?,
            Owner::Hidden => write!(f, "a process of user id {} holds it", first.uid)?,
        }
        match self.sockets.len() {
            1 => Ok(()),
            2 => f.write_str(" (and 1 more socket)"),
            count => write!(f, " (and {} more sockets)", count - 1),
        }
    }
}

/// A line of /proc/net/udp: `sl local:port remote:port st tx:rx tr:when retrnsmt uid timeout inode …` (proc(5)).
fn parse_line(line: &str, port: u16, parse_address: fn(&str) -> Option<IpAddr>) -> Option<BoundSocket> {
    let mut fields = line.split_whitespace();
    let (address, local_port) = fields.nth(1)?.split_once(':')?;
    if u16::from_str_radix(local_port, 16).ok()? != port {
        return None;
    }
    let uid = fields.nth(5)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some(BoundSocket { address: parse_address(address)?, uid, inode })
}

/// The kernel prints the address's words as it finds them in memory, so the byte order within each is the machine's.
fn parse_ipv4(hex: &str) -> Option<IpAddr> {
    Some(Ipv4Addr::from(u32::from_str_radix(hex, 16).ok()?.to_ne_bytes()).into())
}

fn parse_ipv6(hex: &str) -> Option<IpAddr> {
    let mut bytes = [0; 16];
    for (i, room) in bytes.chunks_exact_mut(4).enumerate() {
        let word = u32::from_str_radix(hex.get(i * 8..i * 8 + 8)?, 16).ok()?;
        room.copy_from_slice(&word.to_ne_bytes());
    }
    Some(IpAddr::from(Ipv6Addr::from(bytes)))
}

/// Looks once through the open files of all processes that we may look into, for the first that holds each of the
/// sockets: by inode, its id and name. Bounded by what /proc lists.
fn processes_with_sockets(sockets: &[BoundSocket]) -> HashMap<u64, (u32, String)> {
    let mut found = HashMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        for inode in files.flatten().filter_map(|file| socket_inode(&fs::read_link(file.path()).ok()?)) {
            if sockets.iter().any(|socket| socket.inode == inode) {
                found.entry(inode).or_insert_with(|| {
                    let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                    (pid, name.trim_end().to_owned())
                });
            }
        }
    }
    found
}

/// How often the tables are read before nobody is believed to hold a port.
const LOOKS: usize = 3;

/// `socket:[INODE]`, as the links in /proc/PID/fd read.
fn socket_inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn our_own_sockets_are_found() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let socket = UdpSocket::bind(address).unwrap();
            let local = socket.local_addr().unwrap();
            let holder = who_holds(local.port());
            let found = holder.sockets.iter().find(|s| s.address == local.ip()).expect("listed");
            let Owner::Process { pid, .. } = found.owner else { panic!("{holder:?}") };
            assert_eq!(pid, std::process::id());
            assert!(holder.to_string().contains(&format!("process {pid} (")), "{holder}");
        }
    }

    #[test]
    fn a_free_port_has_no_holder() {
        // Port 1 (tcpmux) is served over UDP by nobody.
        assert_eq!(who_holds(1).to_string(), "nobody holds it now");
    }

    #[test]
    fn a_line_of_the_table_is_read() {
        let line = "  100: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 5234 2 \
                    0000000000000000 0";
        let line = parse_line(line, 4791, parse_ipv4).unwrap();
        assert_eq!((line.address, line.uid, line.inode), ("127.0.0.1".parse().unwrap(), 1000, 5234));
    }
}
