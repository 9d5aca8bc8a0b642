//! Every message of the kernel's connection manager in the captures is understood, comes out of our encoder as the same
//! bytes, and says what the packets after it then do.

mod support;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ferroce_wire::cm::{
    self, Body, CmaHeader, Message, PortSpace, RejectReason, ServiceId, SidrStatus, Subject, Transport,
};
use ferroce_wire::frame::{Frame, Network};
use ferroce_wire::mad::Mad;
use ferroce_wire::{GSI_QKEY, Opcode, Packet, Psn, Qpn};
use support::captures;
use support::pcap::frames;

const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const SERVER_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 3);
/// Code of 4.3 seconds: the kernel's constant.
const KERNEL_RESPONSE_TIMEOUT: u8 = 20;

/// A capture, by the name of its file.
fn capture(name: &str) -> Vec<u8> {
    let found = captures().into_iter().find(|(file, _)| file == name);
    found.unwrap_or_else(|| panic!("no capture {name}")).1
}

/// Every RoCE frame of a capture.
fn roce(file: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    frames(file).into_iter().filter_map(|bytes| Frame::parse_ethernet(bytes).ok())
}

fn packets(file: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    roce(file).map(|frame| frame.packet().expect("checked with the captures"))
}

/// Every management datagram of a capture.
fn mads(file: &[u8]) -> impl Iterator<Item = &Mad> {
    packets(file)
        .filter(|packet| packet.bth().dest_qpn() == Qpn::GSI)
        .map(|packet| Mad::parse(packet.payload()).expect("QP 1 gets management datagrams only"))
}

fn messages(file: &[u8]) -> impl Iterator<Item = Message<'_>> {
    mads(file).map(|mad| Message::parse(mad).expect("the captures hold no other management class"))
}

fn encode(transaction_id: u64, message: &Message<'_>) -> Mad {
    match *message {
        Message::Req(body) => cm::encode(transaction_id, body),
        Message::Mra(body) => cm::encode(transaction_id, body),
        Message::Rej(body) => cm::encode(transaction_id, body),
        Message::Rep(body) => cm::encode(transaction_id, body),
        Message::Rtu(body) => cm::encode(transaction_id, body),
        Message::Dreq(body) => cm::encode(transaction_id, body),
        Message::Drep(body) => cm::encode(transaction_id, body),
        Message::SidrReq(body) => cm::encode(transaction_id, body),
        Message::SidrRep(body) => cm::encode(transaction_id, body),
        Message::Lap(body) => cm::encode(transaction_id, body),
        Message::Apr(body) => cm::encode(transaction_id, body),
    }
}

#[test]
fn every_message_is_encoded_again_byte_for_byte() {
    let mut counts = BTreeMap::new();
    for (name, file) in captures() {
        for mad in mads(&file) {
            let message = Message::parse(mad).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(&encode(mad.header().transaction_id(), &message), mad, "{name}: {message}");
            *counts.entry(mad.header().attribute_id()).or_insert(0) += 1;
        }
    }
    let expected = [
        (cm::Req::ATTRIBUTE, 9),
        (cm::Rej::ATTRIBUTE, 1),
        (cm::Rep::ATTRIBUTE, 8),
        (cm::Rtu::ATTRIBUTE, 8),
        (cm::Dreq::ATTRIBUTE, 8),
        (cm::Drep::ATTRIBUTE, 8),
        (cm::SidrReq::ATTRIBUTE, 1),
        (cm::SidrRep::ATTRIBUTE, 1),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

/// Reserved bits are zero, and every field of a REQ and a REP has its accessor: what is built from the accessors alone is
/// the same message.
#[test]
fn requests_and_replies_are_rebuilt_from_their_fields() {
    for (name, file) in captures() {
        for message in messages(&file) {
            match message {
                Message::Req(req) => assert_eq!(&rebuilt_req(req), req, "{name}"),
                Message::Rep(rep) => assert_eq!(&rebuilt_rep(rep), rep, "{name}"),
                _ => {}
            }
        }
    }
}

#[test]
fn datagrams_of_the_connection_manager_have_their_carrier() {
    for (name, file) in captures() {
        for frame in roce(&file) {
            let packet = frame.packet().expect("checked with the captures");
            if packet.bth().dest_qpn() != Qpn::GSI {
                continue;
            }
            assert_eq!(packet.opcode(), Opcode::UD_SEND_ONLY, "{name}: {frame}");
            let deth = packet.deth().expect("a datagram");
            assert_eq!((deth.qkey(), deth.source_qpn()), (GSI_QKEY, Qpn::GSI), "{name}: {frame}");
            let udp_len = match frame.network() {
                Network::Ipv4(_, udp) | Network::Ipv6(_, udp) => udp.datagram_len(),
                Network::RoceV1(_) => panic!("the captures hold RoCEv2 only"),
            };
            assert_eq!((udp_len, packet.pad_count()), (288, 0), "{name}: {frame}");
            // rxe asks for an acknowledgement where there is none.
            assert!(packet.bth().ack_req(), "{name}: {frame}");
        }
    }
}

#[test]
fn a_connection_is_set_up_used_and_torn_down_as_its_messages_say() {
    let cases = [
        ("cm_rping.pcap", IpAddr::from(CLIENT_V4), IpAddr::from(SERVER_V4), 7174),
        ("cm_rping_ipv6.pcap", IpAddr::from(CLIENT_V6), IpAddr::from(SERVER_V6), 7174),
    ];
    for (name, client, server, port) in cases {
        let file = capture(name);
        let all: Vec<_> = messages(&file).collect();
        let [
            Message::Req(req),
            Message::Rep(rep),
            Message::Rtu(rtu),
            Message::Dreq(dreq),
            Message::Drep(drep),
        ] = all[..]
        else {
            panic!("{name}: {all:?}");
        };
        let (ours, theirs) = (req.local_comm_id(), rep.local_comm_id());
        assert_eq!(rep.remote_comm_id(), ours);
        assert_eq!((rtu.local_comm_id(), rtu.remote_comm_id()), (ours, theirs));
        assert_eq!((dreq.local_comm_id(), dreq.remote_comm_id()), (ours, theirs));
        assert_eq!((drep.local_comm_id(), drep.remote_comm_id()), (theirs, ours));
        assert_eq!(dreq.remote_qpn(), rep.local_qpn());

        assert_eq!(req.service_id(), ServiceId::of_port(PortSpace::Tcp, port));
        assert_eq!(req.transport(), Transport::Rc);
        assert_eq!(req.remote_response_timeout(), KERNEL_RESPONSE_TIMEOUT);
        assert_eq!(req.local_response_timeout(), KERNEL_RESPONSE_TIMEOUT);
        assert_eq!((req.max_cm_retries(), req.retry_count(), req.rnr_retry_count()), (15, 7, 7));
        assert_eq!((req.pkey(), req.path_mtu(), req.srq()), (0xffff, 5, false));
        assert_eq!(req.primary_path().local_gid(), gid(client));
        assert_eq!(req.primary_path().remote_gid(), gid(server));
        assert_eq!(req.alternate_path(), &cm::ReqPath::default());
        let (addresses, rest) = CmaHeader::parse(req.private_data()).expect("an IP port space");
        assert_eq!((addresses.source(), addresses.destination(), rest.len()), (client, server, 56));
    }
}

/// The QPNs and first PSNs that REQ and REP exchange are those of the packets that follow. A message's starting PSN is
/// the first one its *receiver* sends.
#[test]
fn packets_go_to_the_queue_pairs_and_begin_at_the_psns_of_the_messages() {
    for name in ["cm_rping.pcap", "cm_rping_ipv6.pcap", "cm_ucmatose.pcap", "iser.pcap"] {
        let file = capture(name);
        let mut first_psns = BTreeMap::new();
        for frame in roce(&file) {
            let packet = frame.packet().expect("checked with the captures");
            if packet.bth().dest_qpn() == Qpn::GSI || !packet.opcode().is_request() {
                continue;
            }
            let to = (destination(&frame), packet.bth().dest_qpn());
            first_psns.entry(to).or_insert(packet.bth().psn());
        }
        for frame in roce(&file) {
            let packet = frame.packet().expect("checked with the captures");
            let Ok(mad) = Mad::parse(packet.payload()) else { continue };
            let (qpn, psn) = match Message::parse(mad) {
                Ok(Message::Req(req)) => (req.local_qpn(), req.starting_psn()),
                Ok(Message::Rep(rep)) => (rep.local_qpn(), rep.starting_psn()),
                _ => continue,
            };
            let first = first_psns.get(&(source(&frame), Qpn::new(qpn)));
            assert_eq!(first, Some(&Psn::new(psn)), "{name}: {frame}");
        }
    }
}

#[test]
fn nobody_listening_is_an_invalid_service_id() {
    let file = capture("cm_reject.pcap");
    let all: Vec<_> = messages(&file).collect();
    let [Message::Req(req), Message::Rej(rej)] = all[..] else { panic!("{all:?}") };
    assert_eq!(req.service_id(), ServiceId::of_port(PortSpace::Tcp, 9999));
    assert_eq!((rej.subject(), rej.reason()), (Subject::Req, RejectReason::INVALID_SERVICE_ID));
    assert_eq!((rej.local_comm_id(), rej.remote_comm_id()), (0, req.local_comm_id()));
    assert!(rej.information().is_empty());
}

#[test]
fn a_datagram_service_is_resolved_to_queue_pair_and_q_key() {
    let file = capture("cm_sidr.pcap");
    let all: Vec<_> = messages(&file).collect();
    let [Message::SidrReq(request), Message::SidrRep(reply)] = all[..] else { panic!("{all:?}") };
    assert_eq!(request.service_id(), ServiceId::of_port(PortSpace::Udp, 7174));
    assert_eq!(reply.request_id(), request.request_id());
    assert_eq!(reply.service_id(), request.service_id());
    assert_eq!((reply.status(), reply.qkey()), (SidrStatus::Valid, 0x0123_4567));
    let (addresses, rest) = CmaHeader::parse(request.private_data()).expect("an IP port space");
    assert_eq!((addresses.source(), rest.len()), (IpAddr::from(CLIENT_V4), 180));
    let datagram =
        packets(&file).find(|packet| packet.bth().dest_qpn() != Qpn::GSI).expect("datagrams follow");
    assert_eq!(datagram.bth().dest_qpn(), Qpn::new(reply.qpn()));
    assert_eq!(datagram.deth().expect("a datagram").qkey(), reply.qkey());
}

fn source(frame: &Frame<'_>) -> IpAddr {
    match frame.network() {
        Network::Ipv4(ip, _) => ip.source().into(),
        Network::Ipv6(ip, _) => ip.source().into(),
        Network::RoceV1(grh) => grh.sgid().into(),
    }
}

fn destination(frame: &Frame<'_>) -> IpAddr {
    match frame.network() {
        Network::Ipv4(ip, _) => ip.destination().into(),
        Network::Ipv6(ip, _) => ip.destination().into(),
        Network::RoceV1(grh) => grh.dgid().into(),
    }
}

fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn rebuilt_req(req: &cm::Req) -> cm::Req {
    cm::Req::default()
        .with_local_comm_id(req.local_comm_id())
        .with_service_id(req.service_id())
        .with_local_ca_guid(req.local_ca_guid())
        .with_local_qpn(req.local_qpn())
        .with_responder_resources(req.responder_resources())
        .with_initiator_depth(req.initiator_depth())
        .with_remote_response_timeout(req.remote_response_timeout())
        .with_transport(req.transport())
        .with_end_to_end_flow_control(req.end_to_end_flow_control())
        .with_starting_psn(req.starting_psn())
        .with_local_response_timeout(req.local_response_timeout())
        .with_retry_count(req.retry_count())
        .with_pkey(req.pkey())
        .with_path_mtu(req.path_mtu())
        .with_rnr_retry_count(req.rnr_retry_count())
        .with_max_cm_retries(req.max_cm_retries())
        .with_srq(req.srq())
        .with_primary_path(rebuilt_path(req.primary_path()))
        .with_private_data(req.private_data())
        .expect("as long as its room")
}

fn rebuilt_path(path: &cm::ReqPath) -> cm::ReqPath {
    cm::ReqPath::default()
        .with_local_lid(path.local_lid())
        .with_remote_lid(path.remote_lid())
        .with_local_gid(path.local_gid())
        .with_remote_gid(path.remote_gid())
        .with_flow_label(path.flow_label())
        .with_packet_rate(path.packet_rate())
        .with_traffic_class(path.traffic_class())
        .with_hop_limit(path.hop_limit())
        .with_service_level(path.service_level())
        .with_subnet_local(path.subnet_local())
        .with_local_ack_timeout(path.local_ack_timeout())
}

fn rebuilt_rep(rep: &cm::Rep) -> cm::Rep {
    cm::Rep::default()
        .with_local_comm_id(rep.local_comm_id())
        .with_remote_comm_id(rep.remote_comm_id())
        .with_local_qpn(rep.local_qpn())
        .with_starting_psn(rep.starting_psn())
        .with_responder_resources(rep.responder_resources())
        .with_initiator_depth(rep.initiator_depth())
        .with_target_ack_delay(rep.target_ack_delay())
        .with_failover_accepted(rep.failover_accepted())
        .with_end_to_end_flow_control(rep.end_to_end_flow_control())
        .with_rnr_retry_count(rep.rnr_retry_count())
        .with_srq(rep.srq())
        .with_local_ca_guid(rep.local_ca_guid())
        .with_private_data(rep.private_data())
        .expect("as long as its room")
}
