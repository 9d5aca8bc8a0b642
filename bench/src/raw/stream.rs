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
    /// Runs as the packets of RDMA WRITEs form them, each of so many packets: the first, which the RETH makes longer, shares
    /// a system call with one more
    #[arg(long, conflicts_with = "single", value_parser = clap::value_parser!(u16).range(2..))]
    write: Option<u16>,
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
    /// Packets in a system call, one after the other.
    pub runs: Vec<usize>,
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
    let runs = runs(options);
    let message = vec![0x5a; runs.iter().map(|run| run.len).max().unwrap_or(0)];
    let len = message.len() as u64;
    let limit = options.window.map_or_else(|| room_for(&socket), Ok)?.clamp(len, len * MAX_MESSAGES);
    let mut window = Window::new(&socket, options.wait, limit);
    let start = Instant::now();
    let duration = Duration::from_secs_f64(options.seconds);
    let mut turns = runs.iter().cycle();
    let mut run = turns.next().context("a stream of no packets")?;
    let mut segment = None;
    while start.elapsed() < duration {
        if !window.has_room(run.len) {
            window.listen(STALL)?;
            continue;
        }
        if run.segment.is_some() && run.segment != segment {
            segment = run.segment;
            set_segment_size(&socket, segment.unwrap_or(0))
                .context("this kernel has no UDP segmentation offload")?;
        }
        match socket.send(&message[..run.len]) {
            Ok(len) => {
                window.sent += len as u64;
                run = turns.next().unwrap_or(run);
            }
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
        runs: runs.iter().map(|run| run.packets).collect(),
        wait: options.wait,
        window: limit,
        seconds,
        bytes: window.received,
        gigabytes_per_second: window.received as f64 / seconds / 1e9,
        packets_per_second: window.received as f64 / f64::from(options.size) / seconds,
        stalls: window.stalls,
    })
}

/// What one system call sends.
struct Run {
    packets: usize,
    /// Bytes of all packets.
    len: usize,
    /// Bytes of each packet but the last; `None` for a lone packet.
    segment: Option<u16>,
}

impl Run {
    fn new(size: u16, packets: usize) -> Run {
        Run { packets, len: usize::from(size) * packets, segment: (packets > 1).then_some(size) }
    }
}

fn runs(options: &Options) -> Vec<Run> {
    let most = if options.single { 1 } else { packets_per_message(options.size) };
    match options.write {
        None => vec![Run::new(options.size, most)],
        Some(packets) => runs_of_write(options.size, packets.into(), most),
    }
}

/// The runs of an RDMA WRITE, of which each has at most `most` packets.
fn runs_of_write(size: u16, packets: usize, most: usize) -> Vec<Run> {
    // Only a run's last packet may be shorter than its first, so the first packet can have one behind it.
    let first = size + RETH_LEN;
    let head = Run { packets: 2, len: usize::from(first) + usize::from(size), segment: Some(first) };
    let rest = packets - head.packets;
    let full = (0..rest / most).map(|_| Run::new(size, most));
    let tail = (!rest.is_multiple_of(most)).then(|| Run::new(size, rest % most));
    std::iter::once(head).chain(full).chain(tail).collect()
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

/// What an RDMA WRITE's first packet has beyond the others, in bytes (IBTA vol. 1, 9.3.3).
const RETH_LEN: u16 = 16;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_run_of_a_write_has_the_reth() {
        let shape = |packets| -> Vec<_> {
            runs_of_write(4112, packets, 15).iter().map(|run| (run.packets, run.len, run.segment)).collect()
        };
        assert_eq!(shape(16), [(2, 8240, Some(4128)), (14, 14 * 4112, Some(4112))]);
        assert_eq!(shape(3), [(2, 8240, Some(4128)), (1, 4112, None)]);
        assert_eq!(shape(256).len(), 18);
        assert_eq!(shape(256).iter().map(|run| run.0).sum::<usize>(), 256);
    }
}
