//! Membership of multicast groups, which the host tells its network by IGMP or MLD.

use std::io;
use std::net::IpAddr;

use socket2::{Domain, InterfaceIndexOrAddress, Socket, Type};

/// The host's membership of a group on an interface. It ends when this is dropped, or with the process.
///
/// While anybody on the host is a member, every receiving socket that is bound to all addresses gets the group's
/// packets for its port, in all processes (Linux: `IP_MULTICAST_ALL`, which is on unless switched off).
#[derive(Debug)]
pub struct Membership {
    /// Bound to no port, so that it receives nothing itself.
    _socket: Socket,
}

impl Membership {
    /// Joins `group` on the interface with that index.
    ///
    /// # Errors
    /// `InvalidInput` for an address that is no group's; what the kernel has against it.
    pub fn join(group: IpAddr, interface: u32) -> io::Result<Membership> {
        // One socket for each: a socket may be in `net.ipv4.igmp_max_memberships` groups only, 20 unless changed.
        let socket = match group.to_canonical() {
            IpAddr::V4(group) if group.is_multicast() => {
                let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
                socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface))?;
                socket
            }
            IpAddr::V6(group) if group.is_multicast() => {
                let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
                socket.join_multicast_v6(&group, interface)?;
                socket
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        Ok(Membership { _socket: socket })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferroce_core::{Path, TransmitSink};
    use socket2::SockRef;

    use super::*;
    use crate::udp::{UdpOptions, UdpPort};
    use crate::{Port, Sharing, open_receive_socket, wait};

    /// The loopback interface, which every network namespace has at this index.
    const LO: u32 = 1;

    fn send(port: &mut UdpPort, src: IpAddr, dst: IpAddr) {
        let path = Path {
            src,
            dst,
            interface: LO,
            traffic_class: 0,
            hop_limit: 1,
            flow_label: 0,
            source_port: 0xf140,
            receiver: None,
        };
        port.reserve(&path, 100).unwrap().fill(7);
        port.commit();
        port.flush();
    }

    /// From where and to where packets go that come within a while; nothing comes later than the last.
    fn receive(port: &mut UdpPort) -> Vec<(IpAddr, IpAddr)> {
        let mut seen = Vec::new();
        wait::readable(&port.fds(), Some(Duration::from_millis(500))).unwrap();
        port.receive(&mut |meta, _| seen.push((meta.src, meta.dst)));
        seen
    }

    #[test]
    fn all_sockets_of_a_port_get_a_groups_packets_while_somebody_is_a_member() {
        // The loopback interface has no route for groups of IPv6.
        let src = IpAddr::from([127, 0, 0, 1]);
        let group = IpAddr::from([239, 255, 0, 77]);
        let first = open_receive_socket(0, Sharing::Group).unwrap();
        let number = SockRef::from(&first).local_addr().unwrap().as_socket().unwrap().port();
        let second = open_receive_socket(number, Sharing::Group).unwrap();
        let options = UdpOptions { destination_port: number, ..UdpOptions::default() };
        let mut ports = [first, second].map(|socket| UdpPort::new(socket, options).unwrap());
        let membership = Membership::join(group, LO).unwrap();
        send(&mut ports[0], src, group);
        for port in &mut ports {
            assert_eq!(receive(port), [(src, group)]);
        }
        drop(membership);
        send(&mut ports[0], src, group);
        // Behind it, one that does arrive, at one of the two: so the other did not.
        send(&mut ports[0], src, src);
        let seen = ports.map(|mut port| receive(&mut port)).concat();
        assert_eq!(seen, [(src, src)]);
    }

    #[test]
    fn only_groups_can_be_joined() {
        for address in ["10.0.0.1", "::1", "::ffff:10.0.0.1"] {
            let error = Membership::join(address.parse().unwrap(), LO).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
