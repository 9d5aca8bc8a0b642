//! The exchanges that Linux's connection manager had in the captures, played again: our side in the place of either, with
//! the other's messages as they were recorded. Each of ours comes where the recorded one came, with the same fields.

use ferroce_cm::{
    AcceptParams, Answer, Cm, CmConfig, CommId, ConnectParams, Event, ListenAddr, ListenScope, LookupParams,
    PACKET_LIFETIME, Route,
};
use ferroce_wire::Qpn;
use ferroce_wire::cm::{self, Body, Message, Rep, Req};
use ferroce_wire::frame::{Frame, Network};
use ferroce_wire::mad::Mad;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

#[path = "../../../wire/tests/support/pcap.rs"]
mod pcap;

const EXCHANGES: [&str; 7] =
    ["cm_reject", "cm_rping", "cm_rping_ipv6", "cm_sidr", "cm_ucmatose", "iser", "nvme_rdma"];

/// A recorded datagram.
struct Recorded {
    from: IpAddr,
    to: IpAddr,
    mad: Mad,
}

fn recorded(name: &str) -> Vec<Recorded> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wire/tests/captures");
    let file = std::fs::read(folder.join(format!("{name}.pcap"))).expect("a capture of the repository");
    let frames = pcap::frames(&file);
    let frames = frames.iter().filter_map(|bytes| Frame::parse_ethernet(bytes).ok());
    let mads = frames.filter_map(|frame| {
        let packet = frame.packet().expect("a whole packet");
        let (from, to): (IpAddr, IpAddr) = match frame.network() {
            Network::Ipv4(ip, _) => (ip.source().into(), ip.destination().into()),
            Network::Ipv6(ip, _) => (ip.source().into(), ip.destination().into()),
            Network::RoceV1(_) => return None,
        };
        let mad = Mad::parse(packet.payload()).ok().filter(|_| packet.bth().dest_qpn() == Qpn::GSI)?;
        Some(Recorded { from, to, mad: *mad })
    });
    mads.collect()
}

/// Plays one end of an exchange.
struct Player {
    cm: Cm,
    me: IpAddr,
    /// Our IDs by those that the recorded end had, and back.
    ours: BTreeMap<u32, CommId>,
    theirs: BTreeMap<u32, u32>,
    events: Vec<Event>,
}

impl Player {
    fn new(me: IpAddr) -> Player {
        let cm = Cm::new(CmConfig { id_prefix: 0x5550_0000, id_bits: 20, seed: 0x77 });
        Player { cm, me, ours: BTreeMap::new(), theirs: BTreeMap::new(), events: Vec::new() }
    }

    /// Plays the recorded messages in their order.
    fn play(&mut self, name: &str, messages: &[Recorded]) {
        for (index, message) in messages.iter().enumerate() {
            if message.from == self.me {
                self.act(message);
                let sent = self.cm.poll_transmit();
                let sent = sent.unwrap_or_else(|| panic!("{name} {index}: nothing sent for {}", message.mad));
                assert_eq!((sent.route.local, sent.route.peer), (message.from, message.to), "{name} {index}");
                self.compare(&format!("{name} {index}"), &sent.mad, &message.mad);
            } else {
                let route = Route { local: self.me, peer: message.from, interface: 0, traffic_class: 0 };
                let mad = self.with_our_ids(&message.mad);
                self.cm.handle_mad(0, &route, &mad);
            }
            self.events.extend(std::iter::from_fn(|| self.cm.poll_event()));
        }
        assert_eq!(self.cm.poll_transmit(), None, "{name}: more was sent than recorded");
    }

    /// Does what made the recorded end send `message`.
    fn act(&mut self, message: &Recorded) {
        let route = Route { local: message.from, peer: message.to, interface: 0, traffic_class: 0 };
        match Message::parse(&message.mad).expect("a message") {
            Message::Req(req) => {
                let id = self.cm.connect(0, &connect_params(route, req)).expect("connect");
                self.ours.insert(req.local_comm_id(), id);
            }
            Message::SidrReq(req) => {
                let params = LookupParams {
                    route,
                    service: req.service_id(),
                    pkey: req.pkey(),
                    private_data: req.private_data().to_vec(),
                };
                let id = self.cm.resolve(0, &params).expect("resolve");
                self.ours.insert(req.request_id(), id);
            }
            Message::Rep(rep) => {
                let id = self.requested(rep.remote_comm_id());
                self.ours.insert(rep.local_comm_id(), id);
                self.cm.accept(0, id, &accept_params(rep)).expect("accept");
            }
            Message::Rtu(rtu) => {
                self.cm.establish(0, self.ours[&rtu.local_comm_id()], rtu.private_data()).expect("establish");
            }
            Message::Dreq(dreq) => {
                self.cm
                    .disconnect(0, self.ours[&dreq.local_comm_id()], dreq.private_data())
                    .expect("disconnect");
            }
            Message::Drep(drep) => {
                self.cm
                    .disconnect(0, self.ours[&drep.local_comm_id()], drep.private_data())
                    .expect("disconnect");
            }
            Message::SidrRep(rep) => {
                let answer = Answer::Served {
                    qpn: rep.qpn(),
                    qkey: rep.qkey(),
                    private_data: rep.private_data().to_vec(),
                };
                let id = self.events.iter().find_map(|event| match event {
                    Event::Lookup { id, .. } => Some(*id),
                    _ => None,
                });
                self.cm.answer(0, id.expect("a lookup arrived"), &answer).expect("answer");
            }
            // Sent by itself: nobody listens.
            Message::Rej(_) => {}
            other => panic!("{other} is in no capture"),
        }
    }

    /// The request of the peer's communication ID.
    fn requested(&self, remote: u32) -> CommId {
        let requests = self.events.iter().filter_map(|event| match event {
            Event::Request { id, request, .. } => Some((*id, request.remote_qpn)),
            _ => None,
        });
        let qpn = self.theirs[&remote];
        requests.into_iter().find(|(_, of)| *of == qpn).expect("the request arrived").0
    }

    /// The recorded message as it would have been to us: with the IDs that we chose.
    fn with_our_ids(&mut self, mad: &Mad) -> Mad {
        let transaction = mad.header().transaction_id();
        let ours = |id: u32| self.ours.get(&id).map_or(id, |id| id.0);
        match Message::parse(mad).expect("a message") {
            Message::Req(req) => {
                self.theirs.insert(req.local_comm_id(), req.local_qpn());
                *mad
            }
            Message::Rep(rep) => {
                cm::encode(transaction, &rep.with_remote_comm_id(ours(rep.remote_comm_id())))
            }
            Message::Rtu(rtu) => {
                cm::encode(transaction, &rtu.with_remote_comm_id(ours(rtu.remote_comm_id())))
            }
            Message::Rej(rej) => {
                cm::encode(transaction, &rej.with_remote_comm_id(ours(rej.remote_comm_id())))
            }
            Message::Dreq(dreq) => {
                cm::encode(transaction, &dreq.with_remote_comm_id(ours(dreq.remote_comm_id())))
            }
            Message::Drep(drep) => {
                cm::encode(transaction, &drep.with_remote_comm_id(ours(drep.remote_comm_id())))
            }
            Message::SidrRep(rep) => cm::encode(transaction, &rep.with_request_id(ours(rep.request_id()))),
            _ => *mad,
        }
    }

    /// Ours and the recorded one are the same, but for IDs, and what depends on the recording machine's network.
    fn compare(&self, at: &str, ours: &Mad, recorded: &Mad) {
        match (Message::parse(ours).expect("ours"), Message::parse(recorded).expect("a message")) {
            (Message::Req(ours), Message::Req(recorded)) => {
                let path = recorded.primary_path();
                let path = ours
                    .primary_path()
                    .with_flow_label(path.flow_label())
                    .with_packet_rate(path.packet_rate());
                let ours = ours.with_local_comm_id(recorded.local_comm_id()).with_primary_path(path);
                same(at, &ours, recorded);
            }
            (Message::Rep(ours), Message::Rep(recorded)) => {
                same(at, &ours.with_local_comm_id(recorded.local_comm_id()), recorded);
            }
            (Message::Rtu(ours), Message::Rtu(recorded)) => {
                same(at, &ours.with_local_comm_id(recorded.local_comm_id()), recorded);
            }
            (Message::Dreq(ours), Message::Dreq(recorded)) => {
                same(at, &ours.with_local_comm_id(recorded.local_comm_id()), recorded);
            }
            (Message::Drep(ours), Message::Drep(recorded)) => {
                same(at, &ours.with_local_comm_id(recorded.local_comm_id()), recorded);
            }
            (Message::Rej(ours), Message::Rej(recorded)) => same(at, ours, recorded),
            (Message::SidrReq(ours), Message::SidrReq(recorded)) => {
                same(at, &ours.with_request_id(recorded.request_id()), recorded);
            }
            (Message::SidrRep(ours), Message::SidrRep(recorded)) => same(at, ours, recorded),
            (ours, recorded) => panic!("{at}: sent {ours}, recorded {recorded}"),
        }
    }
}

fn same<T: Body>(at: &str, ours: &T, recorded: &T) {
    let (ours, recorded) = (cm::encode(0, ours), cm::encode(0, recorded));
    assert_eq!(
        ours,
        recorded,
        "{at}:\nsent     {}\nrecorded {}",
        Message::parse(&ours).expect("ours"),
        Message::parse(&recorded).expect("a message")
    );
}

fn connect_params(route: Route, req: &Req) -> ConnectParams {
    ConnectParams {
        route,
        service: req.service_id(),
        ca_guid: req.local_ca_guid(),
        transport: req.transport(),
        qpn: req.local_qpn(),
        starting_psn: req.starting_psn(),
        responder_resources: req.responder_resources(),
        initiator_depth: req.initiator_depth(),
        flow_control: req.end_to_end_flow_control(),
        retry_count: req.retry_count(),
        rnr_retry_count: req.rnr_retry_count(),
        srq: req.srq(),
        path_mtu: req.path_mtu(),
        pkey: req.pkey(),
        packet_lifetime: PACKET_LIFETIME,
        private_data: req.private_data().to_vec(),
    }
}

fn accept_params(rep: &Rep) -> AcceptParams {
    AcceptParams {
        ca_guid: rep.local_ca_guid(),
        qpn: rep.local_qpn(),
        starting_psn: rep.starting_psn(),
        responder_resources: rep.responder_resources(),
        initiator_depth: rep.initiator_depth(),
        flow_control: rep.end_to_end_flow_control(),
        rnr_retry_count: rep.rnr_retry_count(),
        srq: rep.srq(),
        private_data: rep.private_data().to_vec(),
    }
}

/// Listens on every service that somebody accepted in the recording.
fn listen(player: &mut Player, messages: &[Recorded]) {
    let accepted = messages
        .iter()
        .any(|message| matches!(Message::parse(&message.mad), Ok(Message::Rep(_) | Message::SidrRep(_))));
    let services = messages.iter().filter_map(|message| match Message::parse(&message.mad) {
        Ok(Message::Req(req)) => Some(req.service_id()),
        Ok(Message::SidrReq(req)) => Some(req.service_id()),
        _ => None,
    });
    let mut services: Vec<_> = services.filter(|_| accepted).collect();
    services.sort();
    services.dedup();
    for service in services {
        player.cm.listen(ListenAddr { service, scope: ListenScope::Any }, 0).expect("listens once");
    }
}

#[test]
fn our_side_plays_either_end_of_every_recorded_exchange() {
    for name in EXCHANGES {
        let messages = recorded(name);
        let (client, server) = (messages[0].from, messages[0].to);
        let mut active = Player::new(client);
        active.play(name, &messages);
        let mut passive = Player::new(server);
        listen(&mut passive, &messages);
        passive.play(name, &messages);
        assert!(!active.events.is_empty(), "{name}: the client heard nothing");
    }
}

/// Both ends ours, with the recorded parameters: the two agree on what the queue pairs are told.
#[test]
fn both_ends_tell_their_queue_pairs_what_was_recorded() {
    for name in ["cm_rping", "cm_rping_ipv6"] {
        let messages = recorded(name);
        let (client, server) = (messages[0].from, messages[0].to);
        let settings = |me: IpAddr, with_listener: bool| {
            let mut player = Player::new(me);
            if with_listener {
                listen(&mut player, &messages);
            }
            player.play(name, &messages[..3]);
            let id = *player.ours.values().next().expect("a connection");
            player.cm.qp_settings(id).expect("the peer is known")
        };
        let (active, passive) = (settings(client, false), settings(server, true));
        assert_eq!((active.rq_psn, active.sq_psn), (passive.sq_psn, passive.rq_psn), "{name}");
        assert_eq!((active.timeout, passive.timeout), (19, 19), "{name}");
        assert_eq!(active.path_mtu, passive.path_mtu, "{name}");
    }
}
