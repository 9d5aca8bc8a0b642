use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use super::*;
use crate::sys::control::Control;
use crate::sys::unix_message;

/// A group of `count` sockets on a free port, steered; they block, but not for ever.
fn group(count: u16) -> (Vec<UdpSocket>, u16) {
    let first = open_receive_socket(0, Sharing::Group).unwrap();
    let first = blocking(first);
    let port = first.local_addr().unwrap().port();
    let mut sockets = vec![first];
    for _ in 1..count {
        sockets.push(blocking(open_receive_socket(port, Sharing::Group).unwrap()));
    }
    steer_by_qpn(&sockets[0], count).unwrap();
    (sockets, port)
}

fn blocking(fd: OwnedFd) -> UdpSocket {
    let socket = UdpSocket::from(fd);
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// A packet's worth of bytes for the QPN `slot` << 16.
fn packet(slot: u8, fill: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![fill; len];
    bytes[DESTINATION_QPN_AT as usize] = slot;
    bytes
}

fn is_empty(socket: &UdpSocket) -> bool {
    socket.set_nonblocking(true).unwrap();
    let empty = socket.peek(&mut [0; 1]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    socket.set_nonblocking(false).unwrap();
    empty
}

const LOOPBACKS: [&str; 2] = ["127.0.0.1", "::1"];

#[test]
fn packets_go_to_the_socket_of_their_qpns_top_byte() {
    let (sockets, port) = group(3);
    for host in LOOPBACKS {
        let sender = UdpSocket::bind((host, 0)).unwrap();
        for slot in 0..3u8 {
            for fill in 0..20 {
                sender.send_to(&packet(slot, fill, 64), (host, port)).unwrap();
            }
        }
        for (slot, socket) in sockets.iter().enumerate() {
            for fill in 0..20 {
                let mut room = [0; 100];
                let len = socket.recv(&mut room).unwrap();
                assert_eq!(room[..len], packet(slot as u8, fill, 64), "{host}");
            }
            assert!(is_empty(socket));
        }
    }
}

#[test]
fn qpns_of_nobody_and_packets_too_short_go_to_the_first_socket() {
    let (sockets, port) = group(2);
    for host in LOOPBACKS {
        let sender = UdpSocket::bind((host, 0)).unwrap();
        for bytes in [packet(2, 0, 64), packet(255, 0, 64), vec![1; 5], vec![]] {
            sender.send_to(&bytes, (host, port)).unwrap();
            let mut room = [0; 100];
            let len = sockets[0].recv(&mut room).unwrap();
            assert_eq!(room[..len], bytes, "{host}");
        }
        assert!(is_empty(&sockets[1]));
    }
}

#[test]
fn a_segmented_send_arrives_whole_at_the_steered_socket() {
    const SEGMENT: usize = 4136;
    let (sockets, port) = group(2);
    for host in LOOPBACKS {
        let sender = UdpSocket::bind((host, 0)).unwrap();
        set_int(&sender, SOL_UDP, libc::UDP_SEGMENT, SEGMENT as i32).unwrap();
        let bytes: Vec<u8> = (0..15).flat_map(|i| packet(1, i, SEGMENT)).collect();
        sender.send_to(&bytes, (host, port)).unwrap();
        let mut room = vec![0; 1 << 16];
        let mut control = Control::<32>::new();
        let received = unix_message::receive(sockets[1].as_fd(), &mut room, &mut control).unwrap();
        assert!(room[..received.len] == bytes, "{host}: other bytes arrived");
        let segment = control.iter().find(|m| m.level == SOL_UDP && m.kind == libc::UDP_GRO);
        assert_eq!(segment.and_then(|m| m.as_int()), Some(SEGMENT as i32), "{host}");
        assert!(is_empty(&sockets[0]));
    }
}

#[test]
fn indices_stay_when_a_client_goes_and_grow_when_one_comes() {
    let (mut sockets, port) = group(2);
    let duplicate = sockets[1].try_clone().unwrap();
    drop(sockets.remove(1));
    sockets.push(duplicate);
    sockets.push(blocking(open_receive_socket(port, Sharing::Group).unwrap()));
    steer_by_qpn(&sockets[0], 3).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for slot in [2u8, 1, 0] {
        sender.send_to(&packet(slot, 7, 10), ("127.0.0.1", port)).unwrap();
        assert_eq!(sockets[usize::from(slot)].recv(&mut [0; 20]).unwrap(), 10);
    }
}

#[test]
fn destination_and_traffic_class_are_told() {
    let (sockets, port) = group(1);
    for host in LOOPBACKS {
        let sender = UdpSocket::bind((host, 0)).unwrap();
        if host == "::1" {
            set_int(&sender, IPPROTO_IPV6, libc::IPV6_TCLASS, 0x6a).unwrap();
        } else {
            set_int(&sender, IPPROTO_IP, libc::IP_TOS, 0x6a).unwrap();
        }
        sender.send_to(&packet(0, 0, 10), (host, port)).unwrap();
        let mut control = Control::<32>::new();
        unix_message::receive(sockets[0].as_fd(), &mut [0; 20], &mut control).unwrap();
        let class = control.iter().find(|m| {
            (m.level, m.kind) == (IPPROTO_IP, libc::IP_TOS)
                || (m.level, m.kind) == (IPPROTO_IPV6, libc::IPV6_TCLASS)
        });
        assert_eq!(class.and_then(|m| m.as_int()), Some(0x6a), "{host}");
        let told = control.iter().find(|m| (m.level, m.kind) == (IPPROTO_IPV6, libc::IPV6_PKTINFO)).unwrap();
        let address: [u8; 16] = told.value[..16].try_into().unwrap();
        let address = IpAddr::from(address).to_canonical();
        assert_eq!(address, host.parse::<IpAddr>().unwrap());
    }
}

#[test]
fn an_exclusive_socket_finds_out_who_holds_the_port() {
    let (_sockets, port) = group(1);
    let error = open_receive_socket(port, Sharing::Exclusive).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("UDP port {port} is taken: process {} (", std::process::id())),
        "{text}"
    );

    let lone = open_receive_socket(0, Sharing::Exclusive).unwrap();
    let port = UdpSocket::from(lone.try_clone().unwrap()).local_addr().unwrap().port();
    assert!(matches!(open_receive_socket(port, Sharing::Group), Err(ReceiveSocketError::InUse { .. })));
}

#[test]
fn an_ipv4_holder_is_noticed_too() {
    let rival = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = rival.local_addr().unwrap().port();
    assert!(matches!(
        open_receive_socket(port, Sharing::Exclusive),
        Err(ReceiveSocketError::InUse { port: p, .. }) if p == port
    ));
}
