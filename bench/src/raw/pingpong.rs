//! Latency.

use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::bail;
use serde::{Deserialize, Serialize};

use super::peer::{Peer, Waiting, announce, mapped, polled_socket};
use super::positive_seconds;

#[derive(clap::Args)]
pub struct Options {
    /// UDP payload of a packet, in bytes. 24: a RoCEv2 SEND of 8 bytes
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=65_507))]
    size: u16,
    /// Round trips
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    iterations: u32,
    /// Stop after so long, however many there were
    #[arg(long, default_value_t = 60.0, value_parser = positive_seconds)]
    seconds: f64,
    /// How both sides wait
    #[arg(long, value_enum, default_value_t)]
    wait: Waiting,
}

/// The result of a ping-pong: half of the round trip, in microseconds.
#[derive(Deserialize, Serialize)]
pub struct Report {
    /// `pingpong`.
    pub test: String,
    /// UDP payload of a packet, in bytes.
    pub size: u16,
    /// How both sides waited.
    pub wait: Waiting,
    /// Round trips.
    pub iterations: u32,
    /// The shortest.
    pub min_us: f64,
    /// The median.
    pub median_us: f64,
    /// The average.
    pub mean_us: f64,
    /// 99 of 100 are not longer.
    pub p99_us: f64,
}

/// Sends a packet and waits for it to come back, again and again.
pub fn run(host: IpAddr, options: &Options) -> anyhow::Result<Report> {
    let peer = Peer::start("pingpong-peer", host, options.wait)?;
    let socket = polled_socket()?;
    socket.connect(mapped(&socket, peer.address)?)?;
    let packet = vec![0x5a; options.size.into()];
    let mut room = vec![0; 1 << 16];
    let mut round_trip = || round_trip(options.wait, &socket, &packet, &mut room);
    round_trip()?;
    let mut times = Vec::with_capacity(options.iterations as usize);
    let start = Instant::now();
    let duration = Duration::from_secs_f64(options.seconds);
    while times.is_empty() || times.len() < options.iterations as usize && start.elapsed() < duration {
        times.push(round_trip()?);
    }
    times.sort_unstable();
    let half_us = |time: Duration| time.as_secs_f64() * 1e6 / 2.0;
    let at = |part: usize| half_us(times[(times.len() - 1) * part / 100]);
    Ok(Report {
        test: "pingpong".to_owned(),
        size: options.size,
        wait: options.wait,
        iterations: times.len() as u32,
        min_us: at(0),
        median_us: at(50),
        mean_us: half_us(times.iter().sum::<Duration>()) / times.len() as f64,
        p99_us: at(99),
    })
}

/// The peer: sends each packet back.
pub fn serve(waiting: Waiting) -> anyhow::Result<()> {
    let socket = polled_socket()?;
    announce(&socket)?;
    let mut room = vec![0; 1 << 16];
    loop {
        if let Some((len, from)) = waiting.receive(&socket, Duration::MAX, || socket.recv_from(&mut room))? {
            socket.send_to(&room[..len], from)?;
        }
    }
}

fn round_trip(
    waiting: Waiting,
    socket: &UdpSocket,
    packet: &[u8],
    room: &mut [u8],
) -> anyhow::Result<Duration> {
    let start = Instant::now();
    socket.send(packet)?;
    match waiting.receive(socket, PATIENCE, || socket.recv(room))? {
        Some(len) if len == packet.len() => Ok(start.elapsed()),
        Some(len) => bail!("a packet of {len} bytes came back where {} were sent", packet.len()),
        None => bail!("a packet did not come back within {} seconds", PATIENCE.as_secs()),
    }
}

/// Loopback loses nothing here; this is for a peer that died.
const PATIENCE: Duration = Duration::from_secs(5);
