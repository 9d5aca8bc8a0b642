//! What an engine needs from whatever carries its packets.

use std::os::fd::BorrowedFd;

use ferroce_core::{PacketMeta, TransmitSink};

/// Carries packets. Ports can be wrapped in ports: capture, faults and counters are wrappers.
///
/// Packets are written through [`TransmitSink`] and leave at [`Port::flush`]. A packet that cannot be sent is lost, as
/// on a cable: the transport retransmits.
pub trait Port: TransmitSink + Send {
    /// Sends what was committed and empties the batch. Never blocks.
    fn flush(&mut self);

    /// Receives one bounded batch without blocking and hands over each UDP payload; the slices are valid during the
    /// call only. Returns the number of packets; 0: nothing was waiting.
    fn receive(&mut self, packets: &mut dyn FnMut(&PacketMeta, &[u8])) -> usize;

    /// What becomes readable when packets are waiting. Empty for a port that has no descriptors.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;

    /// What the port has counted.
    fn counters(&self) -> PortCounters;
}

/// Counted by a port since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Packets given to the network.
    pub tx_packets: u64,
    /// Messages given to the kernel, each of one or more packets.
    pub tx_messages: u64,
    /// System calls for sending.
    pub tx_syscalls: u64,
    /// Packets lost because the kernel had no room for them (`EAGAIN`, `ENOBUFS`).
    pub tx_no_room: u64,
    /// Packets lost because the kernel refused them: no route, too long for the path, …
    pub tx_refused: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Messages received, each of one or more packets.
    pub rx_messages: u64,
    /// System calls for receiving.
    pub rx_syscalls: u64,
    /// Messages dropped because the kernel did not tell where they came from and went to, or cut them short.
    pub rx_malformed: u64,
    /// Failures of the receiving system call.
    pub rx_errors: u64,
}
