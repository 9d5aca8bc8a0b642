//! What UDP sockets alone do between two processes of this host: the limit for RoCEv2 over the UDP port.
//!
//! Each test starts its peer process itself, uses loopback addresses and free ports, and prints one line of JSON.

mod peer;
mod pingpong;
mod stream;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::{Args, Subcommand};

pub use peer::Waiting;
pub use pingpong::Report as PingpongReport;
pub use stream::Report as StreamReport;

/// A test, or the other process of one.
#[derive(Subcommand)]
pub enum Test {
    /// Raw UDP, throughput one way, without loss: runs of packets sent with segmentation offload, within a window
    Stream(stream::Options),
    /// Raw UDP, latency of one packet after the other
    Pingpong(pingpong::Options),
    /// The other process of a stream
    #[command(hide = true)]
    StreamPeer(PeerOptions),
    /// The other process of a ping-pong
    #[command(hide = true)]
    PingpongPeer(PeerOptions),
}

/// What the other process is told.
#[derive(Args)]
pub struct PeerOptions {
    #[arg(long, value_enum)]
    wait: Waiting,
}

/// Runs a test and prints its report.
///
/// # Errors
/// When a process does not start, or a socket refuses.
pub fn run(test: &Test, ipv6: bool) -> anyhow::Result<()> {
    let host: IpAddr = if ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    let report = match test {
        Test::Stream(options) => serde_json::to_string(&stream::run(host, options)?)?,
        Test::Pingpong(options) => serde_json::to_string(&pingpong::run(host, options)?)?,
        Test::StreamPeer(peer) => return stream::serve(peer.wait),
        Test::PingpongPeer(peer) => return pingpong::serve(peer.wait),
    };
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

fn positive_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().map_err(|_| "not a number".to_owned())?;
    if seconds > 0.0 && seconds <= MAX_SECONDS {
        Ok(seconds)
    } else {
        Err(format!("more than 0 and at most {MAX_SECONDS}"))
    }
}

const MAX_SECONDS: f64 = 3600.0;
