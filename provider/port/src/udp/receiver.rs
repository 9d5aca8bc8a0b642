//! Receives messages and cuts them into packets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ferroce_core::{Ipv4Id, PacketMeta};
use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_UDP};

use super::UdpPortError;
use crate::port::PortCounters;
use crate::reported::Reported;
use crate::sys::option::set_int;
use crate::sys::packet_message::{Incoming, IncomingMessage, ReceiveControl};

/// The receiving socket and its buffers.
pub(super) struct Receiver {
    socket: OwnedFd,
    incoming: Incoming,
    /// Messages that the next call asks for: few while few come, as an empty place costs time.
    ask: usize,
    reported: Reported,
}

impl Receiver {
    pub(super) fn new(socket: OwnedFd, gro: bool, messages: usize) -> Result<Receiver, UdpPortError> {
        // A kernel without UDP_GRO behaves as with it off.
        match set_int(&socket, SOL_UDP, libc::UDP_GRO, gro.into()) {
            Err(source) if source.raw_os_error() != Some(libc::ENOPROTOOPT) => {
                return Err(UdpPortError::Option { option: "UDP_GRO", source });
            }
            _ => {}
        }
        // Packets of groups that another socket of the host has joined. On for IPv4 sockets; IPv6 ones have it off for
        // IPv4, and on for IPv6. Not left to the keeper, which may be of a version that did not do it.
        set_int(&socket, IPPROTO_IP, libc::IP_MULTICAST_ALL, 1)
            .map_err(|source| UdpPortError::Option { option: "IP_MULTICAST_ALL", source })?;
        Ok(Receiver {
            socket,
            incoming: Incoming::new(messages.max(1)),
            ask: 1,
            reported: Reported::default(),
        })
    }

    /// One batch of messages; returns the number of packets.
    pub(super) fn receive(
        &mut self,
        counters: &mut PortCounters,
        packets: &mut dyn FnMut(&PacketMeta, &[u8]),
    ) -> usize {
        counters.rx_syscalls += 1;
        let got = match self.incoming.receive(self.socket.as_fd(), self.ask) {
            Ok(got) => got,
            Err(error) => {
                self.ask = 1;
                if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
                    counters.rx_errors += 1;
                    if self.reported.is_first(&error) {
                        tracing::warn!(%error, "packets cannot be received; more of the same is only counted");
                    }
                }
                return 0;
            }
        };
        self.ask = if got == self.ask { self.ask * GROWTH } else { got }.clamp(1, self.incoming.capacity());
        let mut count = 0;
        for message in self.incoming.messages(got) {
            counters.rx_messages += 1;
            match Facts::of(&message) {
                Some(facts) => count += facts.split(message.bytes, packets),
                None => counters.rx_malformed += 1,
            }
        }
        counters.rx_packets += count as u64;
        count
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What the kernel told about a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Facts {
    from: SocketAddr,
    to: IpAddr,
    traffic_class: u8,
    /// Length of each packet but the last; `None`: the message is one packet.
    segment: Option<usize>,
}

impl Facts {
    /// `None` for a message that was cut short or whose addresses are not told.
    fn of(message: &IncomingMessage<'_>) -> Option<Facts> {
        if message.flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return None;
        }
        Facts::from_control(message.name.to_socket_addr()?, message.control)
    }

    fn from_control(from: SocketAddr, control: &ReceiveControl) -> Option<Facts> {
        let (mut to, mut traffic_class, mut segment) = (None, 0, None);
        for message in control.iter() {
            match (message.level, message.kind) {
                (IPPROTO_IP, libc::IP_PKTINFO) => {
                    // struct in_pktinfo: interface, local address, destination in the header.
                    let octets: [u8; 4] = message.value.get(8..12)?.try_into().ok()?;
                    to = Some(Ipv4Addr::from(octets).into());
                }
                (IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let octets: [u8; 16] = message.value.get(..16)?.try_into().ok()?;
                    to = Some(Ipv6Addr::from(octets).to_canonical());
                }
                (IPPROTO_IP, libc::IP_TOS) | (IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    traffic_class = message.as_int()? as u8;
                }
                (SOL_UDP, libc::UDP_GRO) => segment = usize::try_from(message.as_int()?).ok(),
                _ => {}
            }
        }
        Some(Facts { from, to: to?, traffic_class, segment: segment.filter(|&len| len > 0) })
    }

    /// Hands over the packets of a message, at least one; returns how many.
    fn split(&self, bytes: &[u8], packets: &mut dyn FnMut(&PacketMeta, &[u8])) -> usize {
        let mut meta = PacketMeta {
            src: self.from.ip(),
            dst: self.to,
            source_port: self.from.port(),
            traffic_class: self.traffic_class,
            icrc_checked: false,
            ip_id: Ipv4Id::Guessed(0),
            continues: false,
        };
        let mut count = 0;
        let mut rest = bytes;
        loop {
            let (packet, after) = rest.split_at(self.segment.unwrap_or(rest.len()).min(rest.len()));
            // That of a run sent as one message.
            meta.ip_id = Ipv4Id::Guessed(count as u16);
            meta.continues = count > 0;
            packets(&meta, packet);
            count += 1;
            rest = after;
            if rest.is_empty() {
                return count;
            }
        }
    }
}

/// A call that got all it asked for is followed by one that asks for this many times more.
const GROWTH: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn control(segment: Option<i32>) -> ReceiveControl {
        let mut control = ReceiveControl::new();
        control.push(IPPROTO_IP, libc::IP_TOS, &[0x6a]);
        let info = [[1, 0, 0, 0], [10, 0, 0, 1], [10, 0, 0, 2]].concat();
        control.push(IPPROTO_IP, libc::IP_PKTINFO, &info);
        if let Some(segment) = segment {
            control.push(SOL_UDP, libc::UDP_GRO, &segment.to_ne_bytes());
        }
        control
    }

    fn split(segment: Option<i32>, len: usize) -> Vec<(Ipv4Id, usize)> {
        let facts = Facts::from_control("10.0.0.9:5".parse().unwrap(), &control(segment)).unwrap();
        let mut seen = Vec::new();
        let count = facts.split(&vec![0; len], &mut |meta, packet| seen.push((meta.ip_id, packet.len())));
        assert_eq!(count, seen.len());
        seen
    }

    #[test]
    fn a_run_is_cut_at_its_segment_size() {
        assert_eq!(
            split(Some(100), 250),
            [(Ipv4Id::Guessed(0), 100), (Ipv4Id::Guessed(1), 100), (Ipv4Id::Guessed(2), 50)]
        );
        assert_eq!(split(Some(100), 200), [(Ipv4Id::Guessed(0), 100), (Ipv4Id::Guessed(1), 100)]);
    }

    #[test]
    fn a_lone_packet_stays_whole_and_an_empty_one_is_seen() {
        assert_eq!(split(None, 250), [(Ipv4Id::Guessed(0), 250)]);
        assert_eq!(split(Some(300), 250), [(Ipv4Id::Guessed(0), 250)]);
        assert_eq!(split(None, 0), [(Ipv4Id::Guessed(0), 0)]);
        assert_eq!(split(Some(0), 7), [(Ipv4Id::Guessed(0), 7)]);
    }

    #[test]
    fn facts_come_from_the_control_messages() {
        let from = "[fe80::1]:9".parse().unwrap();
        let mut control = ReceiveControl::new();
        assert_eq!(Facts::from_control(from, &control), None);
        let to: Ipv6Addr = "2001:db8::2".parse().unwrap();
        control.push(IPPROTO_IPV6, libc::IPV6_PKTINFO, &[&to.octets()[..], &[0; 4]].concat());
        control.push(IPPROTO_IPV6, libc::IPV6_TCLASS, &0x6bi32.to_ne_bytes());
        let facts = Facts::from_control(from, &control).unwrap();
        assert_eq!(facts, Facts { from, to: to.into(), traffic_class: 0x6b, segment: None });
    }
}
