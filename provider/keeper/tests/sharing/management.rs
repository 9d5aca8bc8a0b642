//! Processes that manage connections: their ports, their datagrams, and what becomes of both when somebody dies.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ferroce_cm::{
    AcceptParams, Cm, CmConfig, CommId, ConnectParams, Event, ListenScope, PACKET_LIFETIME, Route,
};
use ferroce_keeper::{Binding, COMM_ID_BITS, CmLink, GsiRecord, KeeperError, KeeperMode, KeeperOptions};
use ferroce_port::wait::readable;
use ferroce_wire::cm::{CmaHeader, PortSpace, RejectReason, ServiceId, Transport};
use ferroce_wire::mad::Mad;
use zerocopy::IntoBytes;

use crate::common::{LONG, kill_keeper, options, wait_for};

const PORT: u16 = 7174;

fn loopback() -> IpAddr {
    [127, 0, 0, 1].into()
}

fn binding(port: u16) -> Binding {
    Binding { space: PortSpace::Tcp, port, scope: ListenScope::Address(loopback()), shares: false }
}

/// A process that manages connections.
struct Member {
    link: CmLink,
    cm: Cm,
    start: Instant,
    events: Vec<Event>,
}

impl Member {
    fn new(options: &KeeperOptions) -> Member {
        let link = CmLink::open(options).unwrap();
        let config = CmConfig { id_prefix: link.comm_id_prefix(), id_bits: COMM_ID_BITS, seed: 1 };
        Member { link, cm: Cm::new(config), start: Instant::now(), events: Vec::new() }
    }

    fn listening(options: &KeeperOptions) -> Member {
        let mut member = Member::new(options);
        let (token, port) = member.link.bind(binding(PORT)).unwrap();
        assert_eq!(port, PORT);
        member.link.listen(token).unwrap();
        member.cm.listen(binding(PORT).listen_addr(), 0).unwrap();
        member
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn connect(&mut self, qpn: u32) -> CommId {
        let header = CmaHeader::new_v4(40_000, [127, 0, 0, 1].into(), [127, 0, 0, 1].into());
        let params = ConnectParams {
            route: Route { local: loopback(), peer: loopback(), interface: 0, traffic_class: 0 },
            service: ServiceId::of_port(PortSpace::Tcp, PORT),
            ca_guid: 1,
            transport: Transport::Rc,
            qpn,
            starting_psn: 1,
            responder_resources: 1,
            initiator_depth: 1,
            flow_control: false,
            retry_count: 7,
            rnr_retry_count: 7,
            srq: false,
            path_mtu: 5,
            pkey: 0xffff,
            packet_lifetime: PACKET_LIFETIME,
            private_data: header.as_bytes().to_vec(),
        };
        let id = self.cm.connect(self.now(), &params).unwrap();
        self.flush();
        id
    }

    fn flush(&mut self) {
        while let Some(transmit) = self.cm.poll_transmit() {
            assert!(self.link.socket().send(&GsiRecord::Mad { route: transmit.route, mad: transmit.mad }));
        }
    }

    /// The next event; datagrams are waited for until there is one.
    #[track_caller]
    fn event(&mut self) -> Event {
        let until = Instant::now() + LONG;
        loop {
            if let Some(event) = self.cm.poll_event() {
                self.events.push(event.clone());
                return event;
            }
            let socket = self.link.socket();
            let ready = readable(&[socket.as_fd()], Some(Duration::from_millis(100))).unwrap();
            assert!(Instant::now() < until, "no event; so far {:?}", self.events);
            if !ready.is_empty() {
                self.take();
            }
        }
    }

    /// Takes one datagram, waiting for it, and answers.
    #[track_caller]
    fn take(&mut self) -> Box<Mad> {
        let socket = self.link.socket();
        wait_for(&socket);
        let mad = match socket.receive() {
            Ok(GsiRecord::Mad { route, mad }) => {
                self.cm.handle_mad(self.now(), &route, &mad);
                mad
            }
            other => panic!("{other:?}"),
        };
        self.flush();
        mad
    }
}

/// A connection, established on both sides and announced.
fn established(client: &mut Member, server: &mut Member) -> (CommId, CommId) {
    let ours = client.connect(0x1_0011);
    let Event::Request { id: theirs, .. } = server.event() else { panic!("{:?}", server.events) };
    let accept = AcceptParams { ca_guid: 2, qpn: 0x2_0022, ..AcceptParams::default() };
    server.cm.accept(server.now(), theirs, &accept).unwrap();
    server.flush();
    assert!(matches!(client.event(), Event::Reply { .. }));
    client.cm.establish(client.now(), ours, &[]).unwrap();
    client.flush();
    assert!(matches!(server.event(), Event::Established { .. }));
    for (member, id) in [(client, ours), (server, theirs)] {
        let orphan = member.cm.orphan(id).unwrap();
        assert!(member.link.socket().send(&GsiRecord::Connected(orphan)));
    }
    (ours, theirs)
}

#[test]
fn two_processes_connect_through_their_keeper() {
    let options = options();
    let mut server = Member::listening(&options);
    let mut client = Member::new(&options);
    assert_ne!(client.link.comm_id_prefix(), server.link.comm_id_prefix());
    let (ours, theirs) = established(&mut client, &mut server);
    client.cm.disconnect(client.now(), ours, &[]).unwrap();
    client.flush();
    assert!(matches!(server.event(), Event::Disconnected { id, .. } if id == theirs));
    server.cm.disconnect(server.now(), theirs, &[]).unwrap();
    server.flush();
    assert!(matches!(client.event(), Event::Disconnected { id, timed_out: false } if id == ours));
}

#[test]
fn nobody_listening_is_answered_by_the_keeper() {
    let options = options();
    let mut client = Member::new(&options);
    client.connect(1);
    let event = client.event();
    assert!(matches!(event, Event::Rejected { reason: RejectReason::INVALID_SERVICE_ID, .. }), "{event:?}");
}

/// perftest listens anew for each connection, and its client asks for the next as soon as it has one.
#[test]
fn a_request_between_two_listeners_waits_for_the_second() {
    let options = options();
    let mut server = Member::new(&options);
    let (token, _) = server.link.bind(binding(PORT)).unwrap();
    server.link.listen(token).unwrap();
    server.link.release(token);
    let mut client = Member::new(&options);
    client.connect(1);
    // Whoever has been answered comes after what was sent before.
    let (token, _) = server.link.bind(binding(PORT)).unwrap();
    server.link.listen(token).unwrap();
    server.cm.listen(binding(PORT).listen_addr(), 0).unwrap();
    assert!(matches!(server.event(), Event::Request { .. }));
}

#[test]
fn ports_are_everybodys() {
    let options = options();
    let server = Member::listening(&options);
    let mut other = Member::new(&options);
    assert!(matches!(other.link.bind(binding(PORT)), Err(KeeperError::AddressInUse { .. })));
    let (token, port) = other.link.bind(binding(0)).unwrap();
    assert!(port >= 32_768);
    other.link.release(token);
    // Its end is seen before whatever comes after it.
    drop(server);
    other.link.bind(binding(PORT)).unwrap();
}

#[test]
fn the_peers_of_a_process_that_dies_are_told() {
    let options = options();
    let mut server = Member::listening(&options);
    let mut client = Member::new(&options);
    let (_, theirs) = established(&mut client, &mut server);
    drop(client);
    assert!(matches!(server.event(), Event::Disconnected { id, .. } if id == theirs));
}

#[test]
fn connections_outlive_the_keeper_and_new_ones_are_made_with_the_next() {
    let options = options();
    let mut server = Member::listening(&options);
    let mut client = Member::new(&options);
    let (ours, theirs) = established(&mut client, &mut server);
    // A lease tells the keeper's process ID, and its holder hands the sockets on.
    let mut lease = ferroce_keeper::acquire(&options).unwrap();
    kill_keeper(&lease);
    lease.recover().unwrap();
    for member in [&mut client, &mut server] {
        let number = member.link.comm_id_prefix();
        wait_for(member.link.socket());
        member.link.recover().unwrap();
        assert_eq!(member.link.comm_id_prefix(), number);
    }
    // The listener is where it was, and so is the connection.
    client.connect(0x1_0033);
    assert!(matches!(server.event(), Event::Request { .. }));
    client.cm.disconnect(client.now(), ours, &[]).unwrap();
    client.flush();
    assert!(matches!(server.event(), Event::Disconnected { id, .. } if id == theirs));
}

#[test]
fn a_request_that_comes_again_goes_to_the_same_process_though_nobody_listens_any_more() {
    let options = options();
    let mut server = Member::new(&options);
    let (token, _) = server.link.bind(binding(PORT)).unwrap();
    server.link.listen(token).unwrap();
    let listener = server.cm.listen(binding(PORT).listen_addr(), 0).unwrap();
    let mut client = Member::new(&options);
    client.connect(7);
    assert!(matches!(server.event(), Event::Request { .. }));
    server.cm.unlisten(listener);
    server.link.release(token);
    // The client's timer, early.
    let due = client.cm.poll_timeout().unwrap();
    client.cm.handle_timeout(due);
    client.flush();
    server.take();
    // Asked for patience (MRA), and not refused.
    let mad = client.take();
    assert_eq!(mad.header().attribute_id(), 0x11);
}

#[test]
fn a_process_without_a_keeper_manages_no_connections() {
    let options = KeeperOptions { mode: KeeperMode::Off, ..KeeperOptions::default() };
    assert!(matches!(CmLink::open(&options), Err(KeeperError::NeedsKeeper)));
}
