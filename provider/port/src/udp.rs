//! The UDP port: RoCEv2 over ordinary sockets, without any privilege.
//!
//! Outgoing packets are staged in one buffer, where consecutive packets of one path and one length form a run. A run
//! leaves as a single message that the kernel segments (`UDP_SEGMENT`), and several runs leave in one system call.
//! Incoming messages may be such runs, too (`UDP_GRO`), and are cut into their packets again.
//!
//! The ICRC covers the IPv4 identification, which a socket does not let one choose. But Linux sends 0 from an
//! unconnected socket that forbids fragmentation, and numbers the segments of a run 0, 1, 2…; [`self_test`](crate::self_test)
//! makes sure.

mod batch;
mod receiver;
pub(crate) mod send_socket;
mod sender;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ferroce_core::{PacketMeta, Path, TransmitSink};
use ferroce_wire::ROCE_UDP_PORT;

use self::batch::Batch;
use self::receiver::Receiver;
use self::sender::{Segmentation, Sender};
use crate::port::{Port, PortCounters};
use crate::self_test::{self, Identification};

pub use self::batch::MAX_PACKET;

/// RoCEv2 over UDP sockets.
pub struct UdpPort {
    batch: Batch,
    sender: Sender,
    receiver: Receiver,
    counters: PortCounters,
    /// The reserved packet, if no socket can be had for its path.
    lost: Option<Vec<u8>>,
}

/// How a [`UdpPort`] works.
#[derive(Clone, Copy, Debug)]
pub struct UdpOptions {
    /// Send runs of packets as one message, where the kernel can.
    pub gso: bool,
    /// Receive runs of packets as one message, where the kernel can.
    pub gro: bool,
    /// Packets after which no further run begins in a batch, 1 or more.
    pub batch_packets: usize,
    /// Bytes after which no further run begins in a batch, 1 or more. Together with a last run of up to 64 KiB, a batch
    /// should stay well within the processor's second-level cache.
    pub batch_bytes: usize,
    /// Messages that one receive call asks for at most, 1 or more; each has 64 KiB of room, touched when used.
    pub receive_messages: usize,
    /// UDP port that packets are sent to: 4791, but for tests. The ICRC is always that for 4791.
    pub destination_port: u16,
}

/// Why there is no UDP port.
#[derive(Debug, thiserror::Error)]
pub enum UdpPortError {
    /// The kernel numbers single datagrams; no ICRC over IPv4 would be right.
    #[error(
        "this kernel does not send IPv4 identification 0 from an unconnected socket with IP_PMTUDISC_DO, so that the \
         ICRC cannot be computed; use IPv6 or a packet socket"
    )]
    Identification,
    /// A socket option could not be set.
    #[error("setting {option} on the receiving socket: {source}")]
    Option {
        /// The option.
        option: &'static str,
        /// How it failed.
        source: io::Error,
    },
}

impl UdpPort {
    /// A port that receives on `socket`, from [`open_receive_socket`](crate::open_receive_socket), and opens sockets for
    /// sending as it needs them.
    pub fn new(socket: OwnedFd, options: UdpOptions) -> Result<UdpPort, UdpPortError> {
        let identification = self_test::identification();
        if identification == Identification::Unusable {
            return Err(UdpPortError::Identification);
        }
        let segmentation = Segmentation {
            ipv4: options.gso && identification == Identification::Segments,
            ipv6: options.gso && self_test::can_segment(),
        };
        Ok(UdpPort {
            batch: Batch::new(options.batch_packets, options.batch_bytes),
            sender: Sender::new(options.destination_port, segmentation),
            receiver: Receiver::new(socket, options.gro, options.receive_messages)?,
            counters: PortCounters::default(),
            lost: None,
        })
    }
}

impl TransmitSink for UdpPort {
    fn reserve(&mut self, path: &Path, len: usize) -> Option<&mut [u8]> {
        self.lost = None;
        match self.sender.route(path) {
            Some(route) => self.batch.reserve(route, self.sender.run_limit(route), len),
            // Taken and lost: refused, it would wait for ever, and the transport never give up.
            None => Some(self.lost.insert(vec![0; len])),
        }
    }

    fn continues(&self) -> bool {
        self.lost.is_none() && self.batch.continues()
    }

    fn commit(&mut self) {
        if self.lost.take().is_some() {
            self.counters.tx_refused += 1;
            return;
        }
        let (route, index, packet) = self.batch.commit();
        self.sender.seal(route, index, packet);
    }
}

impl Port for UdpPort {
    fn flush(&mut self) {
        self.sender.send(&mut self.batch, &mut self.counters);
        self.batch.clear();
        self.sender.forget_routes();
    }

    fn receive(&mut self, packets: &mut dyn FnMut(&PacketMeta, &[u8])) -> usize {
        self.receiver.receive(&mut self.counters, packets)
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.receiver.as_fd()]
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

impl Default for UdpOptions {
    fn default() -> Self {
        UdpOptions {
            gso: true,
            gro: true,
            batch_packets: 64,
            batch_bytes: 192 << 10,
            receive_messages: 8,
            destination_port: ROCE_UDP_PORT,
        }
    }
}
