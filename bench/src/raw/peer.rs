//! The other process of a test.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use ferroce_port::wait::readable;
use ferroce_port::{Sharing, open_receive_socket};
use serde::{Deserialize, Serialize};

/// A process of this program, which ends with this value.
pub struct Peer {
    process: Child,
    /// Where its socket is.
    pub address: SocketAddr,
}

impl Peer {
    /// Starts this program with a hidden `subcommand` and waits until it has its socket.
    pub fn start(subcommand: &str, host: IpAddr, waiting: Waiting) -> anyhow::Result<Peer> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([subcommand, "--wait", waiting.name()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        if host.is_ipv6() {
            command.arg("--ipv6");
        }
        let mut process = command.spawn().context("starting the peer process")?;
        let output = process.stdout.take().context("the peer's output is piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let port = line.trim().parse().context("the peer did not tell its port")?;
        Ok(Peer { process, address: SocketAddr::new(host, port) })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The peer ends when its standard input does.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// How both processes wait for a packet. Which is faster depends on whether each has a processor for itself.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Waiting {
    /// Look again and again
    #[default]
    Poll,
    /// Let the system wake the process up
    Sleep,
}

impl Waiting {
    /// As it is said on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::Poll => "poll",
            Waiting::Sleep => "sleep",
        }
    }

    /// Receives what comes within `timeout`, if anything does.
    pub fn receive<T>(
        self,
        socket: &UdpSocket,
        timeout: Duration,
        mut receive: impl FnMut() -> io::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        let mut start = None;
        loop {
            match receive() {
                Ok(received) => return Ok(Some(received)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("receiving"),
            }
            let waited = start.get_or_insert_with(Instant::now).elapsed();
            if waited >= timeout {
                return Ok(None);
            }
            match self {
                Waiting::Poll => std::hint::spin_loop(),
                Waiting::Sleep => drop(readable(&[socket.as_fd()], Some(timeout - waited))?),
            }
        }
    }
}

/// In the peer: tells the port of `socket` to the process that started us, and ends when that one does.
pub fn announce(socket: &UdpSocket) -> anyhow::Result<()> {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    writeln!(std::io::stdout(), "{}", socket.local_addr()?.port())?;
    Ok(())
}

/// A non-blocking socket as the UDP port receives with, on a free port.
pub fn polled_socket() -> anyhow::Result<UdpSocket> {
    Ok(UdpSocket::from(open_receive_socket(0, Sharing::Exclusive)?))
}

/// A socket address as a dual-stack socket needs it: IPv4 as mapped IPv6.
pub fn mapped(socket: &UdpSocket, address: SocketAddr) -> anyhow::Result<SocketAddr> {
    let ip = match (socket.local_addr()?, address.ip()) {
        (SocketAddr::V6(_), IpAddr::V4(ip)) => ip.to_ipv6_mapped().into(),
        (_, ip) => ip,
    };
    Ok(SocketAddr::new(ip, address.port()))
}
