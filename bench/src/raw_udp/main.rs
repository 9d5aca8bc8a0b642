//! What plain UDP sockets do between two processes of this host: the limit for RoCEv2 over the UDP port.
//!
//! Each test starts its peer process itself, uses loopback addresses and free ports, polls without sleeping as the
//! engine does, and prints one line of JSON.

mod peer;
mod pingpong;
mod stream;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Plain UDP between two processes over loopback: the limit for RoCEv2 over UDP")]
struct Arguments {
    /// Use ::1 instead of 127.0.0.1.
    #[arg(long, global = true)]
    ipv6: bool,
    #[command(subcommand)]
    test: Test,
}

#[derive(Subcommand)]
enum Test {
    /// Throughput one way, without loss: runs of packets sent with segmentation offload, within a window.
    Stream(stream::Options),
    /// Latency of one packet after the other.
    Pingpong(pingpong::Options),
    /// The other process of a stream.
    #[command(hide = true)]
    StreamPeer,
    /// The other process of a ping-pong.
    #[command(hide = true)]
    PingpongPeer,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let host: IpAddr = if arguments.ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    let result = match arguments.test {
        Test::Stream(options) => serde_json::to_string(&stream::run(host, &options)?)?,
        Test::Pingpong(options) => serde_json::to_string(&pingpong::run(host, &options)?)?,
        Test::StreamPeer => return stream::serve(host),
        Test::PingpongPeer => return pingpong::serve(host),
    };
    writeln!(std::io::stdout(), "{result}")?;
    Ok(())
}
