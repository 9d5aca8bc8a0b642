//! Finds out which IPv4 identifications the kernel gives to our packets.
//!
//! A process without privilege does not see IP headers, but a socket filter does, and can tell the socket what it saw
//! by the length to which it cuts the packet: a packet with identification n arrives with n bytes.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use libc::{BPF_ABS, BPF_ADD, BPF_ALU, BPF_H, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, SOL_UDP};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::sys::name::SocketName;
use crate::sys::option::{attach_program, int, jump, statement};
use crate::sys::packet_message::{self, Outgoing, TransmitControl};
use crate::udp::send_socket::{Family, unbound};

/// What identifications the packets of our sending sockets have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identification {
    /// 0; and 0, 1, 2… for the segments of a message.
    Segments,
    /// 0 for single packets; segmentation offload is missing or numbers otherwise.
    SingleOnly,
    /// Not 0, or packets may be fragmented.
    Unusable,
}

/// The result of the test, which runs once per process, over 127.0.0.1 and free ports, in well under a millisecond.
///
/// Where the loopback interface is down nothing can be tested, and segmentation is not used.
pub fn identification() -> Identification {
    static RESULT: OnceLock<Identification> = OnceLock::new();
    *RESULT.get_or_init(|| match measure() {
        Ok(result) => {
            if result != Identification::Segments {
                tracing::warn!(
                    ?result,
                    "no segmentation offload over IPv4: its identifications are not as expected"
                );
            }
            result
        }
        Err(error) => {
            tracing::warn!(%error, "no segmentation offload over IPv4: testing it over 127.0.0.1 failed");
            Identification::SingleOnly
        }
    })
}

/// Whether the kernel has UDP segmentation offload at all (Linux 4.18).
pub fn can_segment() -> bool {
    static RESULT: OnceLock<bool> = OnceLock::new();
    *RESULT.get_or_init(|| {
        Socket::new(Domain::IPV4, Type::DGRAM, None)
            .is_ok_and(|s| int(&s, SOL_UDP, libc::UDP_SEGMENT).is_ok())
    })
}

fn measure() -> io::Result<Identification> {
    let sender = unbound(Family::V4)?;
    sender.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))?;
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    attach_program(&receiver, libc::SO_ATTACH_FILTER, &REVEAL)?;
    // Nobody else's packets.
    if let Some(address) = sender.local_addr()?.as_socket() {
        receiver.connect(address)?;
    }
    let to = receiver.local_addr()?;
    let name = SocketName::new(to.ip(), to.port(), 0);

    let send = |control: &TransmitControl, bytes: &[u8]| {
        packet_message::send(sender.as_fd(), [Outgoing { name: &name, control, bytes }].into_iter())
    };
    let bytes = [0; SEGMENTS * SEGMENT];
    let mut control = TransmitControl::new();
    for _ in 0..2 {
        send(&control, &bytes[..SEGMENT])?;
        if receive_identification(&receiver)? != 0 {
            return Ok(Identification::Unusable);
        }
    }
    control.push(SOL_UDP, libc::UDP_SEGMENT, &(SEGMENT as u16).to_ne_bytes());
    if send(&control, &bytes).is_err() {
        return Ok(Identification::SingleOnly);
    }
    for expected in 0..SEGMENTS {
        if receive_identification(&receiver)? != expected {
            return Ok(Identification::SingleOnly);
        }
    }
    Ok(Identification::Segments)
}

/// The length of the next packet, after [`REVEAL`].
fn receive_identification(receiver: &UdpSocket) -> io::Result<usize> {
    receiver.recv(&mut [0; SEGMENT])
}

/// Cuts a packet to as many bytes as its identification says; one that may be fragmented or has a higher one stays whole.
const REVEAL: [libc::sock_filter; 7] = [
    statement(BPF_LD | BPF_H | BPF_ABS, NETWORK_HEADER + 6),
    jump(BPF_JMP | BPF_JEQ | BPF_K, DONT_FRAGMENT, 0, 4),
    statement(BPF_LD | BPF_H | BPF_ABS, NETWORK_HEADER + 4),
    jump(BPF_JMP | BPF_JGE | BPF_K, SEGMENT as u32, 2, 0),
    statement(BPF_ALU | BPF_ADD | BPF_K, UDP_HEADER),
    statement(BPF_RET | 0x10, 0), // BPF_A
    statement(BPF_RET | BPF_K, u32::MAX),
];

/// SKF_NET_OFF of linux/filter.h: offsets from here on count from the IP header, whereas a UDP socket's filter runs at
/// the UDP header.
const NETWORK_HEADER: u32 = -0x10_0000_i32 as u32;

/// The flags and fragment offset of an IPv4 header with DF only.
const DONT_FRAGMENT: u32 = 0x4000;

const UDP_HEADER: u32 = 8;

/// Packets sent as one message, and their length in bytes, which is more than any good identification.
const SEGMENTS: usize = 16;
const SEGMENT: usize = 64;

/// Loopback delivers at once; this is for a machine that is very busy.
const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_numbers_segments_from_zero() {
        assert_eq!(measure().unwrap(), Identification::Segments);
        assert!(can_segment());
    }

    #[test]
    fn a_connected_socket_is_found_out() {
        // Its identifications start anywhere, so that the filter must not show 0 every time.
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        attach_program(&receiver, libc::SO_ATTACH_FILTER, &REVEAL).unwrap();
        let sender = unbound(Family::V4).unwrap();
        sender.connect(&receiver.local_addr().unwrap().into()).unwrap();
        for _ in 0..2 {
            sender.send(&[0; SEGMENT]).unwrap();
        }
        let seen = [(); 2].map(|()| receive_identification(&receiver).unwrap());
        assert_ne!(seen, [0, 0]);
    }

    #[test]
    fn a_packet_that_may_be_fragmented_is_found_out() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        attach_program(&receiver, libc::SO_ATTACH_FILTER, &REVEAL).unwrap();
        let sender = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        crate::sys::option::set_int(&sender, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT)
            .unwrap();
        sender.send_to(&[0; SEGMENT], &receiver.local_addr().unwrap().into()).unwrap();
        assert_eq!(receive_identification(&receiver).unwrap(), SEGMENT);
    }
}
