use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use ferroce_core::Ipv4Id;
use ferroce_wire::icrc::{self, IpContext};

use super::*;
use crate::receive_socket::{Sharing, open_receive_socket};
use crate::sys::control::Control;
use crate::sys::option::set_int;
use crate::sys::unix_message;
use crate::wait;

/// A port on a free UDP port, and the number of that.
fn receiving(options: UdpOptions) -> (UdpPort, u16) {
    let socket = open_receive_socket(0, Sharing::Exclusive).unwrap();
    let number = UdpSocket::from(socket.try_clone().unwrap()).local_addr().unwrap().port();
    (UdpPort::new(socket, options).unwrap(), number)
}

/// A port whose packets go to UDP port `to`.
fn sending(to: u16, options: UdpOptions) -> UdpPort {
    receiving(UdpOptions { destination_port: to, ..options }).0
}

fn path(host: &str) -> Path {
    let address: IpAddr = host.parse().unwrap();
    Path {
        src: address,
        dst: address,
        interface: 0,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        source_port: 0xf000,
        receiver: None,
    }
}

fn push(port: &mut UdpPort, path: &Path, len: usize, fill: u8) {
    let room = port.reserve(path, len).expect("the batch has room");
    room.fill(fill);
    port.commit();
}

type Seen = (PacketMeta, Vec<u8>);

/// Receives until `count` packets have come.
fn receive(port: &mut UdpPort, count: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while seen.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} packets came", seen.len());
        if port.receive(&mut |meta, packet| seen.push((*meta, packet.to_vec()))) == 0 {
            wait::readable(&port.fds(), Some(Duration::from_secs(1))).unwrap();
        }
    }
    seen
}

/// The packet's identification, recovered from its ICRC, which must be right; 0 over IPv6, which has none.
fn identification(meta: &PacketMeta, packet: &[u8]) -> u16 {
    match (meta.src, meta.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let Ipv4Id::Guessed(guess) = meta.ip_id else { panic!("a socket does not show it: {meta:?}") };
            icrc::verify_hidden_id(src.octets(), dst.octets(), meta.source_port, guess, packet).unwrap()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let context =
                IpContext::V6 { src: src.octets(), dst: dst.octets(), source_port: meta.source_port };
            icrc::verify(&context, packet).unwrap();
            0
        }
        _ => panic!("addresses of two families: {meta:?}"),
    }
}

const LOOPBACKS: [&str; 2] = ["127.0.0.1", "::1"];

#[test]
fn packets_arrive_as_they_were_sent_in_order_and_with_a_right_icrc() {
    for gso in [true, false] {
        for gro in [true, false] {
            for host in LOOPBACKS {
                let options = UdpOptions { gso, gro, ..UdpOptions::default() };
                let (mut receiver, to) = receiving(options);
                let mut sender = sending(to, options);
                let lens = [4136, 4136, 4136, 300, 28, 28, 28, 16, 1000, 999, 1000, 65_000, 4136];
                let lens = &lens[if gso { 0 } else { 4 }..];
                for (i, len) in lens.iter().enumerate() {
                    push(&mut sender, &path(host), *len, i as u8);
                }
                sender.flush();
                let seen = receive(&mut receiver, lens.len());
                for (i, ((meta, packet), len)) in seen.iter().zip(lens).enumerate() {
                    assert_eq!(packet.len(), *len);
                    assert!(packet[..len - 4].iter().all(|&byte| byte == i as u8));
                    identification(meta, packet);
                    assert_eq!(meta.src, host.parse::<IpAddr>().unwrap());
                    assert_eq!(meta.source_port, 0xf000);
                }
            }
        }
    }
}

#[test]
fn identifications_count_within_a_run_and_the_receiver_guesses_them() {
    let (mut receiver, to) = receiving(UdpOptions::default());
    let mut sender = sending(to, UdpOptions::default());
    for len in [100, 100, 100, 60, 100, 100] {
        push(&mut sender, &path("127.0.0.1"), len, 1);
    }
    sender.flush();
    let seen = receive(&mut receiver, 6);
    let ids: Vec<_> = seen.iter().map(|(meta, packet)| identification(meta, packet)).collect();
    assert_eq!(ids, [0, 1, 2, 3, 0, 1]);
    assert!(seen.iter().zip(&ids).all(|((meta, _), &id)| meta.ip_id == Ipv4Id::Guessed(id)));
    assert_eq!((sender.counters().tx_messages, sender.counters().tx_syscalls), (2, 1));
}

#[test]
fn without_segmentation_every_identification_is_zero() {
    let options = UdpOptions { gso: false, ..UdpOptions::default() };
    let (mut receiver, to) = receiving(options);
    let mut sender = sending(to, options);
    for _ in 0..4 {
        push(&mut sender, &path("127.0.0.1"), 100, 1);
    }
    sender.flush();
    for (meta, packet) in receive(&mut receiver, 4) {
        assert_eq!((identification(&meta, &packet), meta.ip_id), (0, Ipv4Id::Guessed(0)));
    }
    assert_eq!((sender.counters().tx_messages, sender.counters().tx_syscalls), (4, 1));
}

#[test]
fn the_whole_traffic_class_is_seen() {
    let (mut receiver, to) = receiving(UdpOptions::default());
    let mut sender = sending(to, UdpOptions::default());
    for host in LOOPBACKS {
        for traffic_class in [0x00, 0x02, 0x6a, 0xff] {
            push(&mut sender, &Path { traffic_class, ..path(host) }, 40, 0);
        }
        sender.flush();
        let classes: Vec<_> = receive(&mut receiver, 4).iter().map(|(meta, _)| meta.traffic_class).collect();
        assert_eq!(classes, [0x00, 0x02, 0x6a, 0xff], "{host}");
    }
}

#[test]
fn the_hop_limit_is_that_of_the_path_and_64_without_one() {
    for (host, level, option, kind) in [
        ("127.0.0.1", libc::IPPROTO_IP, libc::IP_RECVTTL, libc::IP_TTL),
        ("::1", libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, libc::IPV6_HOPLIMIT),
    ] {
        let socket = UdpSocket::bind((host, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        set_int(&socket, level, option, 1).unwrap();
        let mut sender = sending(socket.local_addr().unwrap().port(), UdpOptions::default());
        for (hop_limit, seen) in [(1, 1), (255, 255), (64, 64), (0, 64)] {
            push(&mut sender, &Path { hop_limit, ..path(host) }, 40, 0);
            sender.flush();
            let mut control = Control::<16>::new();
            unix_message::receive(socket.as_fd(), &mut [0; 100], &mut control).unwrap();
            let told = control.iter().find(|m| (m.level, m.kind) == (level, kind)).and_then(|m| m.as_int());
            assert_eq!(told, Some(seen), "{host}");
        }
    }
}

#[test]
fn source_and_destination_are_those_of_the_path() {
    let (mut receiver, to) = receiving(UdpOptions::default());
    let mut sender = sending(to, UdpOptions::default());
    let (src, dst) = ("127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap());
    push(&mut sender, &Path { src, dst, source_port: 0xf00f, ..path("127.0.0.1") }, 40, 0);
    sender.flush();
    let (meta, packet) = receive(&mut receiver, 1).remove(0);
    assert_eq!((meta.src, meta.dst, meta.source_port), (src, dst, 0xf00f));
    identification(&meta, &packet);
}

#[test]
fn interleaved_paths_keep_their_order() {
    let (mut receiver, to) = receiving(UdpOptions::default());
    let mut sender = sending(to, UdpOptions::default());
    let ports: Vec<u16> = (0..4).map(|i| 0xf010 + i).collect();
    for i in 0..12u8 {
        for &source_port in &ports {
            push(&mut sender, &Path { source_port, ..path("127.0.0.1") }, 100, i);
        }
    }
    sender.flush();
    let seen = receive(&mut receiver, 48);
    for source_port in ports {
        let of_path: Vec<_> = seen.iter().filter(|(meta, _)| meta.source_port == source_port).collect();
        assert!(of_path.iter().map(|(_, packet)| packet[0]).eq(0..12));
    }
}

#[test]
fn twenty_thousand_packets_arrive() {
    let options = UdpOptions::default();
    let (mut receiver, to) = receiving(options);
    let mut sender = sending(to, options);
    let path = path("127.0.0.1");
    let (mut sent, mut received) = (0u32, 0u32);
    while received < 20_000 {
        while sent < 20_000
            && let Some(room) = sender.reserve(&path, 1064)
        {
            room[..4].copy_from_slice(&sent.to_be_bytes());
            sender.commit();
            sent += 1;
        }
        sender.flush();
        for (_, packet) in receive(&mut receiver, (sent - received) as usize) {
            assert_eq!(packet[..4], received.to_be_bytes());
            received += 1;
        }
    }
    let counters = sender.counters();
    assert_eq!((counters.tx_packets, counters.tx_no_room, counters.tx_refused), (20_000, 0, 0));
    assert_eq!(receiver.counters().rx_packets, 20_000);
}

#[test]
fn nothing_waiting_is_zero_packets() {
    let (mut port, _) = receiving(UdpOptions::default());
    assert_eq!(port.receive(&mut |_, _| panic!("nothing was sent")), 0);
    assert_eq!(port.counters().rx_errors, 0);
    port.flush();
    assert_eq!(port.counters().tx_syscalls, 0);
}

#[test]
fn packets_of_odd_sizes_are_handed_over_as_they_are() {
    let (mut receiver, to) = receiving(UdpOptions::default());
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for len in [0, 1, 11, 12, 15, 65_507] {
        stranger.send_to(&vec![7; len], ("127.0.0.1", to)).unwrap();
    }
    let lens: Vec<_> = receive(&mut receiver, 6).iter().map(|(_, packet)| packet.len()).collect();
    assert_eq!(lens, [0, 1, 11, 12, 15, 65_507]);
}

#[test]
fn a_full_batch_takes_packets_again_after_a_flush() {
    let (_receiver, to) = receiving(UdpOptions::default());
    let options = UdpOptions { batch_packets: 3, ..UdpOptions::default() };
    let mut sender = sending(to, options);
    for len in [50, 51, 52] {
        push(&mut sender, &path("127.0.0.1"), len, 0);
    }
    assert!(sender.reserve(&path("127.0.0.1"), 53).is_none());
    sender.flush();
    assert!(sender.reserve(&path("127.0.0.1"), 53).is_some());
}

#[test]
fn a_packet_that_cannot_be_sent_is_counted_and_the_next_one_goes() {
    let (mut receiver, to) = receiving(UdpOptions::default());
    let mut sender = sending(to, UdpOptions::default());
    // TEST-NET-1 (RFC 5737) is no address of this host.
    let foreign = Path { src: "192.0.2.1".parse().unwrap(), ..path("127.0.0.1") };
    push(&mut sender, &foreign, 50, 1);
    push(&mut sender, &foreign, 50, 2);
    push(&mut sender, &path("127.0.0.1"), 50, 3);
    sender.flush();
    let (_, packet) = receive(&mut receiver, 1).remove(0);
    assert_eq!(packet[0], 3);
    let counters = sender.counters();
    assert_eq!((counters.tx_packets, counters.tx_refused), (1, 2));
    // The kernel can segment all the same.
    push(&mut sender, &path("127.0.0.1"), 50, 4);
    push(&mut sender, &path("127.0.0.1"), 50, 5);
    sender.flush();
    assert_eq!(sender.counters().tx_messages, 2);
}

#[test]
fn more_paths_than_are_kept_still_work() {
    let (mut receiver, to) = receiving(UdpOptions::default());
    let mut sender = sending(to, UdpOptions::default());
    for i in 0..40u8 {
        for traffic_class in 0..64 {
            let dst = IpAddr::from([127, 0, 1, i]);
            push(&mut sender, &Path { dst, traffic_class, ..path("127.0.0.1") }, 20, i);
        }
        sender.flush();
        for (meta, packet) in receive(&mut receiver, 64) {
            assert_eq!((meta.dst, packet[0]), (IpAddr::from([127, 0, 1, i]), i));
            identification(&meta, &packet);
        }
    }
}

#[test]
fn packets_of_a_path_without_a_socket_are_lost_and_do_not_wait() {
    let (_receiver, to) = receiving(UdpOptions::default());
    let mut sender = sending(to, UdpOptions::default());
    // Addresses of two families, which no socket has.
    let nowhere = Path { dst: "::1".parse().unwrap(), ..path("127.0.0.1") };
    for _ in 0..1000 {
        push(&mut sender, &nowhere, 100, 1);
    }
    push(&mut sender, &path("127.0.0.1"), 100, 2);
    sender.flush();
    let counters = sender.counters();
    assert_eq!((counters.tx_packets, counters.tx_refused), (1, 1000));
}
