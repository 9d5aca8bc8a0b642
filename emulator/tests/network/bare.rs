//! Hosts without a card: what they send is what the test wrote, and what comes is kept.

use ferroce_core::{Counter, Nanos, SendOp, WcStatus};
use ferroce_emulator::{Buffer, Connection, Fabric, FabricConfig, QpRef};
use ferroce_wire::{Opcode, Packet, PacketHeader, Psn, Qpn, Syndrome};

const PEER_QPN: Qpn = Qpn::new(0x4711);

/// A card with a QP in RTS, whose peer is made up by a bare host.
fn card_and_peer() -> (Fabric, QpRef, QpRef, Buffer) {
    let mut fabric =
        Fabric::new(&FabricConfig { endpoints: 1, bare_endpoints: 1, ..FabricConfig::default() });
    let qp = fabric.create_qp(fabric.endpoint(0));
    let peer = QpRef { host: fabric.endpoint(1), qpn: PEER_QPN };
    fabric.connect_to(qp, peer, [100, 200], &Connection::default());
    let buffer = fabric.buffer(qp.host, 4096);
    (fabric, qp, peer, buffer)
}

/// The peer sends a packet; `seal` says whether its ICRC is right.
fn send(fabric: &mut Fabric, from: QpRef, to: QpRef, header: PacketHeader, payload: &[u8], seal: bool) {
    let mut bytes = vec![0; header.packet_len(payload.len())];
    header.write(&mut bytes, payload.len()).copy_from_slice(payload);
    let [src, dst] = [from.host, to.host].map(|host| fabric.address(host, false));
    let path = Connection::default().address_vector(src, dst).path;
    assert!(fabric.network.send_datagram(from.host, &path, &bytes, seal));
    assert!(fabric.network.run_until_idle(Nanos::MAX));
}

#[test]
fn a_script_plays_the_responder() {
    let (mut fabric, qp, peer, buffer) = card_and_peer();
    fabric.post_send(qp, 1, SendOp::Send, &[buffer.sge(0, 5)]);
    fabric.network.run_until(10_000);
    let datagram = fabric.network.poll_datagram(peer.host).expect("the request");
    let packet = Packet::parse(&datagram.payload).expect("a packet");
    assert_eq!((packet.bth().dest_qpn(), packet.bth().psn()), (PEER_QPN, Psn::new(100)));
    assert_eq!((packet.payload().len(), datagram.meta.src), (5, fabric.address(qp.host, false)));
    let ack = PacketHeader::new(Opcode::RC_ACKNOWLEDGE, qp.qpn, Psn::new(100)).aeth(Syndrome::ACK, 1);
    send(&mut fabric, peer, qp, ack, &[], true);
    assert_eq!(fabric.take_sent(qp)[0].status, WcStatus::Success);
}

#[test]
fn a_script_plays_the_requester() {
    let (mut fabric, qp, peer, buffer) = card_and_peer();
    fabric.post_recv(qp, 1, &[buffer.sge(0, 100)]);
    let request = PacketHeader::new(Opcode::RC_SEND_ONLY, qp.qpn, Psn::new(200)).ack_req(true);
    send(&mut fabric, peer, qp, request, b"hello", false);
    assert_eq!(fabric.counter(qp.host, Counter::DropIcrc), 1, "without a seal it is damaged");
    send(&mut fabric, peer, qp, request, b"hello", true);
    assert_eq!(fabric.take_received(qp)[0].byte_len, 5);
    let datagram = fabric.network.poll_datagram(peer.host).expect("the ACK");
    let ack = Packet::parse(&datagram.payload).expect("a packet");
    assert_eq!((ack.opcode(), ack.bth().psn()), (Opcode::RC_ACKNOWLEDGE, Psn::new(200)));
    assert_eq!(fabric.network.poll_datagram(peer.host), None);
}

#[test]
#[should_panic(expected = "is a bare host and has no card")]
fn a_bare_host_has_no_verbs() {
    let (mut fabric, _, peer, _) = card_and_peer();
    fabric.create_qp(peer.host);
}
