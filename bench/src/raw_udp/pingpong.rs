//! Latency.

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use crate::peer::{Peer, announce, mapped, polled_socket};

#[derive(clap::Args)]
pub struct Options {
    /// UDP payload of a packet, in bytes. 28: a RoCEv2 packet with 12 bytes in it.
    #[arg(long, default_value_t = 28, value_parser = clap::value_parser!(u16).range(1..=65_507))]
    size: u16,
    /// Round trips.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    iterations: u32,
}

/// The result of a ping-pong: half of the round trip, in microseconds.
#[derive(Serialize)]
pub struct Report {
    test: &'static str,
    size: u16,
    iterations: u32,
    min_us: f64,
    median_us: f64,
    mean_us: f64,
    p99_us: f64,
}

/// Sends a packet and waits for it to come back, again and again.
pub fn run(host: IpAddr, options: &Options) -> anyhow::Result<Report> {
    let peer = Peer::start("pingpong-peer", host)?;
    let socket = polled_socket()?;
    socket.connect(mapped(&socket, peer.address)?)?;
    let packet = vec![0x5a; options.size.into()];
    let mut room = vec![0; 1 << 16];
    for _ in 0..WARM_UP {
        round_trip(&socket, &packet, &mut room)?;
    }
    let mut times = Vec::with_capacity(options.iterations as usize);
    for _ in 0..options.iterations {
        times.push(round_trip(&socket, &packet, &mut room)?);
    }
    times.sort_unstable();
    let half_us = |time: Duration| time.as_secs_f64() * 1e6 / 2.0;
    let at = |part: usize| half_us(times[(times.len() - 1) * part / 100]);
    Ok(Report {
        test: "pingpong",
        size: options.size,
        iterations: options.iterations,
        min_us: at(0),
        median_us: at(50),
        mean_us: half_us(times.iter().sum::<Duration>()) / times.len() as f64,
        p99_us: at(99),
    })
}

/// The peer: sends each packet back.
pub fn serve(host: IpAddr) -> anyhow::Result<()> {
    let socket = polled_socket()?;
    announce(&socket)?;
    let mut room = vec![0; 1 << 16];
    loop {
        match socket.recv_from(&mut room) {
            Ok((len, from)) => {
                socket.send_to(&room[..len], from)?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error).with_context(|| format!("receiving on {host}")),
        }
    }
}

fn round_trip(socket: &UdpSocket, packet: &[u8], room: &mut [u8]) -> anyhow::Result<Duration> {
    let start = Instant::now();
    socket.send(packet)?;
    loop {
        match socket.recv(room) {
            Ok(len) if len == packet.len() => return Ok(start.elapsed()),
            Ok(len) => bail!("a packet of {len} bytes came back where {} were sent", packet.len()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error).context("waiting for the packet to come back"),
        }
        if start.elapsed() > PATIENCE {
            bail!("a packet did not come back within {} seconds", PATIENCE.as_secs());
        }
    }
}

const WARM_UP: u32 = 1_000;

/// Loopback loses nothing here; this is for a peer that died.
const PATIENCE: Duration = Duration::from_secs(5);
