//! Two connection managers with a network between them, in virtual time.

#![allow(dead_code, reason = "each test file uses a part of it")]

use ferroce_cm::{
    AcceptParams, Answer, Cm, CmConfig, CommId, ConnectParams, Event, ListenAddr, ListenScope, ListenerId,
    LookupParams, PACKET_LIFETIME, Route, Transmit,
};
use ferroce_wire::cm::{CmaHeader, Message, PortSpace, ServiceId, Transport};
use ferroce_wire::mad::Mad;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

pub const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const PORT: u16 = 7174;
pub const SECOND: u64 = 1_000_000_000;

/// What the network does with a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Pass,
    Drop,
    Twice,
}

/// Decides what becomes of a message, by who sends it and its name.
type Network = dyn FnMut(Side, &str) -> Fate;

/// A side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    A,
    B,
}

/// `a` at [`A`], `b` at [`B`].
pub struct Pair {
    pub a: Cm,
    pub b: Cm,
    pub now: u64,
    /// Names of the messages that were sent, in order.
    pub sent: Vec<(Side, &'static str)>,
    pub events_a: Vec<Event>,
    pub events_b: Vec<Event>,
    flying: VecDeque<(Side, Transmit)>,
    fate: Box<Network>,
}

impl Pair {
    pub fn new() -> Pair {
        Pair::with_fate(|_, _| Fate::Pass)
    }

    pub fn with_fate(fate: impl FnMut(Side, &str) -> Fate + 'static) -> Pair {
        Pair {
            a: Cm::new(CmConfig { id_prefix: 0x0a10_0000, id_bits: 20, seed: 5 }),
            b: Cm::new(CmConfig { id_prefix: 0x0b20_0000, id_bits: 20, seed: 9 }),
            now: 1,
            sent: Vec::new(),
            events_a: Vec::new(),
            events_b: Vec::new(),
            flying: VecDeque::new(),
            fate: Box::new(fate),
        }
    }

    /// Delivers until nothing is under way; events are collected. Each message costs a microsecond.
    pub fn settle(&mut self) {
        // Bounded: messages cause messages a few steps deep.
        for _ in 0..10_000 {
            self.collect();
            let Some((from, Transmit { route, mad })) = self.flying.pop_front() else { return };
            self.now += 1_000;
            let arrival = Route { local: route.peer, peer: route.local, ..route };
            let to = if from == Side::A { &mut self.b } else { &mut self.a };
            to.handle_mad(self.now, &arrival, &mad);
        }
        panic!("the two never fall silent");
    }

    /// Lets time pass until `until`, doing what is due.
    pub fn run_until(&mut self, until: u64) {
        loop {
            self.settle();
            let next = [self.a.poll_timeout(), self.b.poll_timeout()].into_iter().flatten().min();
            match next.filter(|next| *next <= until) {
                Some(next) => {
                    self.now = self.now.max(next);
                    self.a.handle_timeout(self.now);
                    self.b.handle_timeout(self.now);
                }
                None => break,
            }
        }
        self.now = self.now.max(until);
    }

    pub fn run_for(&mut self, time: u64) {
        self.run_until(self.now + time);
    }

    fn collect(&mut self) {
        self.events_a.extend(std::iter::from_fn(|| self.a.poll_event()));
        self.events_b.extend(std::iter::from_fn(|| self.b.poll_event()));
        for side in [Side::A, Side::B] {
            let cm = if side == Side::A { &mut self.a } else { &mut self.b };
            let transmits: Vec<_> = std::iter::from_fn(|| cm.poll_transmit()).collect();
            for transmit in transmits {
                let name = name(&transmit.mad);
                self.sent.push((side, name));
                let copies = match (self.fate)(side, name) {
                    Fate::Pass => 1,
                    Fate::Drop => 0,
                    Fate::Twice => 2,
                };
                self.flying.extend((0..copies).map(|_| (side, transmit.clone())));
            }
        }
    }

    pub fn listen(&mut self, backlog: u32) -> ListenerId {
        self.b.listen(listen_addr(), backlog).expect("nobody else listens")
    }

    /// `a` asks, `b` is asked; the two IDs.
    pub fn request(&mut self) -> (CommId, CommId) {
        let id = self.a.connect(self.now, &connect_params()).expect("connect");
        self.settle();
        (id, self.requested())
    }

    /// The ID of the last request that `b` got.
    pub fn requested(&self) -> CommId {
        let requests = self.events_b.iter().rev().find_map(|event| match event {
            Event::Request { id, .. } | Event::Lookup { id, .. } => Some(*id),
            _ => None,
        });
        requests.expect("a request arrived")
    }

    /// A connection, established on both sides.
    pub fn establish(&mut self) -> (CommId, CommId) {
        let (ours, theirs) = self.request();
        self.b.accept(self.now, theirs, &accept_params()).expect("accept");
        self.settle();
        self.a.establish(self.now, ours, b"rtu").expect("establish");
        self.settle();
        assert!(matches!(self.events_b.last(), Some(Event::Established { .. })), "{:?}", self.events_b);
        (ours, theirs)
    }

    /// The names of what a side has sent, in order.
    pub fn sent_by(&self, side: Side) -> Vec<&'static str> {
        self.sent.iter().filter(|(from, _)| *from == side).map(|(_, name)| *name).collect()
    }
}

pub fn name(mad: &Mad) -> &'static str {
    match Message::parse(mad).expect("ours are well-formed") {
        Message::Req(_) => "REQ",
        Message::Mra(_) => "MRA",
        Message::Rej(_) => "REJ",
        Message::Rep(_) => "REP",
        Message::Rtu(_) => "RTU",
        Message::Dreq(_) => "DREQ",
        Message::Drep(_) => "DREP",
        Message::SidrReq(_) => "SIDR_REQ",
        Message::SidrRep(_) => "SIDR_REP",
        Message::Lap(_) => "LAP",
        Message::Apr(_) => "APR",
    }
}

pub fn route() -> Route {
    Route { local: A.into(), peer: B.into(), interface: 0, traffic_class: 0 }
}

pub fn listen_addr() -> ListenAddr {
    ListenAddr { service: ServiceId::of_port(PortSpace::Tcp, PORT), scope: ListenScope::AnyV4 }
}

pub fn private_data(rest: &[u8]) -> Vec<u8> {
    use zerocopy_bytes::bytes_of;
    [&bytes_of(&CmaHeader::new_v4(40_000, A, B))[..], rest].concat()
}

pub fn connect_params() -> ConnectParams {
    ConnectParams {
        route: route(),
        service: ServiceId::of_port(PortSpace::Tcp, PORT),
        ca_guid: 0xaaaa,
        transport: Transport::Rc,
        qpn: 0x0001_0011,
        starting_psn: 0x11_1111,
        responder_resources: 4,
        initiator_depth: 3,
        flow_control: false,
        retry_count: 7,
        rnr_retry_count: 6,
        srq: false,
        path_mtu: 5,
        pkey: 0xffff,
        packet_lifetime: PACKET_LIFETIME,
        private_data: private_data(b"hello"),
    }
}

pub fn accept_params() -> AcceptParams {
    AcceptParams {
        ca_guid: 0xbbbb,
        qpn: 0x0002_0022,
        starting_psn: 0x22_2222,
        responder_resources: 2,
        initiator_depth: 1,
        rnr_retry_count: 5,
        private_data: b"welcome".to_vec(),
        ..AcceptParams::default()
    }
}

pub fn lookup_params() -> LookupParams {
    LookupParams {
        route: route(),
        service: ServiceId::of_port(PortSpace::Udp, PORT),
        pkey: 0xffff,
        private_data: private_data(b"who"),
    }
}

pub fn served() -> Answer {
    Answer::Served { qpn: 0x77, qkey: 0x0123_4567, private_data: b"me".to_vec() }
}

mod zerocopy_bytes {
    use ferroce_wire::cm::CmaHeader;
    use zerocopy::IntoBytes;

    pub fn bytes_of(header: &CmaHeader) -> [u8; CmaHeader::LEN] {
        header.as_bytes().try_into().expect("as long as it says")
    }
}
