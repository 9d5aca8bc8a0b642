//! Throughput one way.

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::Context;
use ferroce_port::{MAX_PACKET, set_segment_size};
use serde::{Deserialize, Serialize};
use socket2::SockRef;

use super::peer::{Peer, Waiting, announce, mapped, polled_socket};
use super::positive_seconds;

#[derive(clap::Args)]
pub struct Options {
    /// UDP payload of a packet, in bytes. 4112: a RoCEv2 packet of the largest MTU from a message's middle
    #[arg(long, default_value_t = 4112, value_parser = clap::value_parser!(u16).range(1..))]
    size: u16,
    /// How long to send
    #[arg(long, default_value_t = 3.0, value_parser = positive_seconds)]
    seconds: f64,
    /// Bytes that may be under way [default: what the receive buffer surely holds, at most 4 MiB]
    #[arg(long)]
    window: Option<u64>,
    /// One packet per message, without segmentation offload
    #[arg(long)]
    single: bool,
    /// How both sides wait
    #[arg(long, value_enum, default_value_t)]
    wait: Waiting,
}

/// The result of a stream.
#[derive(Deserialize, Serialize)]
pub struct Report {
    /// `stream`.
    pub test: String,
    /// UDP payload of a packet, in bytes.
    pub size: u16,
    /// Packets in one system call.
    pub packets_per_message: usize,
    /// How both sides waited.
    pub wait: Waiting,
    /// Bytes that might be under way.
    pub window: u64,
    /// How long it took.
    pub seconds: f64,
    /// UDP payload received.
    pub bytes: u64,
    /// The same in a second, in units of 10⁹.
    pub gigabytes_per_second: f64,
    /// Packets received in a second.
    pub packets_per_second: f64,
    /// Times the window had to be opened without the peer's word, after a loss.
    pub stalls: u64,
}

/// Sends for a while to a peer that tells how much it has got.
pub fn run(host: IpAddr, options: &Options) -> anyhow::Result<Report> {
    let peer = Peer::start("stream-peer", host, options.wait)?;
    let socket = polled_socket()?;
    socket.connect(mapped(&socket, peer.address)?)?;
    let count = if options.single { 1 } else { packets_per_message(options.size) };
    if count > 1 {
        set_segment_size(&socket, options.size).context("this kernel has no UDP segmentation offload")?;
    }
    let message = vec![0x5a; usize::from(options.size) * count];
    let len = message.len() as u64;
    let limit = options.window.map_or_else(|| room_for(&socket), Ok)?.clamp(len, len * MAX_MESSAGES);
    let mut window = Window::new(&socket, options.wait, limit);
    let start = Instant::now();
    let duration = Duration::from_secs_f64(options.seconds);
    while start.elapsed() < duration {
        if !window.has_room(message.len()) {
            window.listen(STALL)?;
            continue;
        }
        match socket.send(&message) {
            Ok(len) => window.sent += len as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("sending"),
        }
        window.listen(Duration::ZERO)?;
    }
    while window.is_awaited() {
        window.listen(STALL)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Report {
        test: "stream".to_owned(),
        size: options.size,
        packets_per_message: count,
        wait: options.wait,
        window: limit,
        seconds,
        bytes: window.received,
        gigabytes_per_second: window.received as f64 / seconds / 1e9,
        packets_per_second: window.received as f64 / f64::from(options.size) / seconds,
        stalls: window.stalls,
    })
}

/// The peer: tells the sender, every now and then, how many bytes have come in all.
pub fn serve(waiting: Waiting) -> anyhow::Result<()> {
    let socket = polled_socket()?;
    announce(&socket)?;
    let mut room = vec![0; 1 << 16];
    let (mut total, mut told) = (0u64, 0u64);
    let mut sender = None;
    loop {
        let timeout = if total > told { Duration::ZERO } else { Duration::MAX };
        if let Some((len, from)) = waiting.receive(&socket, timeout, || socket.recv_from(&mut room))? {
            total += len as u64;
            sender = Some(from);
            if total - told < TELL_AFTER {
                continue;
            }
        }
        if let (Some(to), true) = (sender, total > told) {
            socket.send_to(&total.to_be_bytes(), to)?;
            told = total;
        }
    }
}

/// What is under way.
struct Window<'a> {
    socket: &'a UdpSocket,
    waiting: Waiting,
    limit: u64,
    sent: u64,
    /// What the peer has got, by its own word.
    received: u64,
    /// Bytes given up as lost.
    lost: u64,
    stalls: u64,
    heard: Instant,
}

impl<'a> Window<'a> {
    fn new(socket: &'a UdpSocket, waiting: Waiting, limit: u64) -> Window<'a> {
        Window { socket, waiting, limit, sent: 0, received: 0, lost: 0, stalls: 0, heard: Instant::now() }
    }

    fn has_room(&self, len: usize) -> bool {
        self.sent - self.received - self.lost + len as u64 <= self.limit
    }

    fn is_awaited(&self) -> bool {
        self.sent > self.received + self.lost
    }

    /// Takes in what the peer tells within `timeout`, if anything.
    fn listen(&mut self, timeout: Duration) -> anyhow::Result<()> {
        let mut word = [0; 8];
        if self.waiting.receive(self.socket, timeout, || self.socket.recv(&mut word))?.is_some() {
            self.received = u64::from_be_bytes(word);
            // What was given up may come after all.
            self.lost = self.lost.min(self.sent - self.received);
            self.heard = Instant::now();
        } else if self.heard.elapsed() > STALL {
            self.stalls += 1;
            self.lost = self.sent - self.received;
            self.heard = Instant::now();
        }
        Ok(())
    }
}

/// Bytes that the peer's receive buffer holds whatever their packets cost it beside their bytes: it is as large as ours,
/// and of the size that the kernel tells, half is meant for its own overhead (socket(7)).
fn room_for(socket: &UdpSocket) -> anyhow::Result<u64> {
    Ok((SockRef::from(socket).recv_buffer_size()? as u64 / 2).min(MAX_WINDOW))
}

fn packets_per_message(size: u16) -> usize {
    (MAX_PACKET / usize::from(size)).clamp(1, MAX_SEGMENTS)
}

/// The kernel's limit before Linux 6.11.
const MAX_SEGMENTS: usize = 64;

/// More makes no stream over loopback faster.
const MAX_WINDOW: u64 = 4 << 20;

/// Messages that may be under way: each takes some of the receive buffer, however short it is.
const MAX_MESSAGES: u64 = 1024;

/// The peer tells what it has got after this many bytes, or when nothing more is waiting.
const TELL_AFTER: u64 = 256 << 10;

/// Without a word from the peer for so long, what is under way is lost.
const STALL: Duration = Duration::from_secs(1);
