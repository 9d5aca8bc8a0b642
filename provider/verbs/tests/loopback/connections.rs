//! Connections of the RDMA CM: listening, connecting, accepting, and what either side gets to know.

use crate::end::{End, Plan, loopback};
use ferroce::cm::{CmEvent, CmEventChannel, CmEventKind, CmId, ConnParam, PortSpace};
use ferroce::core::{QpState, QpType, SendOp};
use ferroce::{Error, ErrorKind};
use std::net::SocketAddr;

/// Both sides of a test, each with a channel of its own.
struct Sides {
    listener: CmId,
    passive: CmEventChannel,
    active: CmEventChannel,
    address: SocketAddr,
}

const LISTENER: u64 = 1;
const CLIENT: u64 = 2;
const SERVER: u64 = 3;

fn sides(host: &str, backlog: u32) -> Sides {
    // Names the keeper's program, too.
    loopback();
    let (passive, active) =
        (CmEventChannel::new().expect("a channel"), CmEventChannel::new().expect("a channel"));
    let listener = CmId::new(&passive, PortSpace::Tcp, QpType::Rc, LISTENER).expect("an ID");
    listener.bind(SocketAddr::new(host.parse().expect("an address"), 0)).expect("a free port");
    listener.listen(backlog).expect("listens");
    let address = listener.local_addr().expect("it is bound");
    Sides { listener, passive, active, address }
}

fn expect(channel: &CmEventChannel, kind: CmEventKind, cookie: u64) -> CmEvent {
    let event = channel.next_event().expect("an event");
    assert_eq!((event.kind, event.cookie), (kind, cookie), "{event:?}");
    event
}

impl Sides {
    /// An ID that is ready to connect.
    fn resolved(&self) -> CmId {
        let id = CmId::new(&self.active, PortSpace::Tcp, QpType::Rc, CLIENT).expect("an ID");
        id.resolve_addr(None, self.address).expect("resolves");
        expect(&self.active, CmEventKind::AddrResolved, CLIENT);
        id.resolve_route().expect("resolves");
        expect(&self.active, CmEventKind::RouteResolved, CLIENT);
        id
    }

    /// The ID of the next request.
    fn request(&self) -> (CmId, ConnParam) {
        let event = expect(&self.passive, CmEventKind::ConnectRequest, LISTENER);
        let id = event.request.expect("a request comes with an ID");
        id.set_cookie(SERVER);
        (id, event.conn)
    }

    /// Two ends, connected.
    fn connected(&self) -> ((CmId, End), (CmId, End)) {
        let context = loopback().open().expect("the loopback device opens");
        let client = self.resolved();
        let ours = End::new(&context, Plan::default());
        client.connect(&param(&ours, b"from the client")).expect("connects");
        let (server, asked) = self.request();
        assert!(asked.private_data.starts_with(b"from the client"));
        assert_eq!((asked.private_data.len(), asked.qp_num), (56, ours.qp.qpn().value()));
        let theirs = End::new(&context, Plan::default());
        server.set_up_qp(&theirs.qp).expect("to RTS");
        server.accept(&param(&theirs, b"from the server"), None).expect("accepts");
        let answer = expect(&self.active, CmEventKind::ConnectResponse, CLIENT);
        assert!(answer.conn.private_data.starts_with(b"from the server"));
        client.set_up_qp(&ours.qp).expect("to RTS");
        client.establish().expect("establishes");
        expect(&self.passive, CmEventKind::Established, SERVER);
        ((client, ours), (server, theirs))
    }
}

fn param(end: &End, words: &[u8]) -> ConnParam {
    ConnParam {
        private_data: words.to_vec(),
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        qp_num: end.qp.qpn().value(),
        ..ConnParam::default()
    }
}

#[test]
fn a_message_crosses_a_connection_which_then_ends() {
    for host in ["127.0.0.1", "::1"] {
        let sides = sides(host, 0);
        let ((client, ours), (server, theirs)) = sides.connected();
        theirs.recv(1, theirs.sge(0, 4096)).expect("posted");
        ours.send(2, SendOp::Send, ours.sge(0, 1000)).expect("posted");
        ours.wait_success();
        assert_eq!(theirs.wait_success().byte_len, 1000);
        assert_eq!(client.peer_addr(), server.local_addr());
        assert_eq!(server.peer_addr(), client.local_addr());

        client.disconnect().expect("disconnects");
        expect(&sides.passive, CmEventKind::Disconnected, SERVER);
        server.disconnect().expect("agrees");
        expect(&sides.active, CmEventKind::Disconnected, CLIENT);
    }
}

#[test]
fn an_id_that_is_dropped_disconnects_its_peer() {
    let sides = sides("127.0.0.1", 0);
    let ((client, _ours), (_server, _theirs)) = sides.connected();
    drop(client);
    expect(&sides.passive, CmEventKind::Disconnected, SERVER);
}

#[test]
fn a_request_may_be_refused() {
    let sides = sides("127.0.0.1", 0);
    let client = sides.resolved();
    client.connect(&ConnParam { qp_num: 77, ..ConnParam::default() }).expect("connects");
    let (server, _) = sides.request();
    server.reject(b"not now").expect("refuses");
    let event = expect(&sides.active, CmEventKind::Rejected, CLIENT);
    assert_eq!((event.status, event.conn.private_data.len()), (28, 148));
    assert!(event.conn.private_data.starts_with(b"not now"));
}

#[test]
fn a_request_that_nobody_takes_is_refused_when_its_listener_goes() {
    let sides = sides("127.0.0.1", 0);
    let client = sides.resolved();
    client.connect(&ConnParam { qp_num: 78, ..ConnParam::default() }).expect("connects");
    // It waits in the channel; the ID in it goes with it.
    let event = expect(&sides.passive, CmEventKind::ConnectRequest, LISTENER);
    drop(event);
    assert_eq!(expect(&sides.active, CmEventKind::Rejected, CLIENT).status, 28);
}

#[test]
fn a_backlog_is_as_long_as_asked_for() {
    let sides = sides("127.0.0.1", 1);
    let clients: Vec<_> = [81, 82]
        .map(|qp_num| {
            let client = sides.resolved();
            client.connect(&ConnParam { qp_num, ..ConnParam::default() }).expect("connects");
            client
        })
        .into();
    // No resources.
    assert_eq!(expect(&sides.active, CmEventKind::Rejected, CLIENT).status, 3);
    let _first = sides.request();
    let third = sides.resolved();
    third.connect(&ConnParam { qp_num: 83, ..ConnParam::default() }).expect("connects");
    let _third = sides.request();
    drop(clients);
}

#[test]
fn nobody_listening_is_reason_8() {
    let sides = sides("127.0.0.1", 0);
    let client = CmId::new(&sides.active, PortSpace::Tcp, QpType::Rc, CLIENT).expect("an ID");
    client.resolve_addr(None, "127.0.0.1:1".parse().expect("an address")).expect("resolves");
    expect(&sides.active, CmEventKind::AddrResolved, CLIENT);
    client.resolve_route().expect("resolves");
    expect(&sides.active, CmEventKind::RouteResolved, CLIENT);
    client.connect(&ConnParam { qp_num: 84, ..ConnParam::default() }).expect("connects");
    assert_eq!(expect(&sides.active, CmEventKind::Rejected, CLIENT).status, 8);
}

#[test]
fn an_address_is_bound_once() {
    let sides = sides("127.0.0.1", 0);
    let other = CmId::new(&sides.active, PortSpace::Tcp, QpType::Rc, 9).expect("an ID");
    let error = other.bind(sides.address).expect_err("in use");
    assert_eq!(error.kind(), ErrorKind::Os(libc::EADDRINUSE), "{error}");
    drop(sides.listener);
    other.bind(sides.address).expect("it is free again");
}

#[test]
fn an_address_of_nobody_is_refused() {
    let sides = sides("127.0.0.1", 0);
    let id = CmId::new(&sides.active, PortSpace::Tcp, QpType::Rc, 9).expect("an ID");
    let error = id.bind("192.0.2.1:5".parse().expect("an address")).expect_err("not ours");
    assert!(matches!(error, Error::NoDevice(_)), "{error}");
}

#[test]
fn calls_out_of_order_say_so() {
    let sides = sides("127.0.0.1", 0);
    let id = CmId::new(&sides.active, PortSpace::Tcp, QpType::Rc, 9).expect("an ID");
    for error in [
        id.resolve_route().expect_err("no address"),
        id.connect(&ConnParam::default()).expect_err("no route"),
        id.accept(&ConnParam::default(), None).expect_err("no request"),
        id.disconnect().expect_err("no connection"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("not bound"), "{error}");
    }
    assert!(id.qp_setup(QpState::Rtr).is_err());
}

#[test]
fn events_move_with_their_id_to_another_channel() {
    let sides = sides("127.0.0.1", 0);
    let id = CmId::new(&sides.active, PortSpace::Tcp, QpType::Rc, CLIENT).expect("an ID");
    id.resolve_addr(None, sides.address).expect("resolves");
    let other = CmEventChannel::new().expect("a channel");
    id.migrate(&other).expect("moves");
    expect(&other, CmEventKind::AddrResolved, CLIENT);
    id.resolve_route().expect("resolves");
    expect(&other, CmEventKind::RouteResolved, CLIENT);
}

#[test]
fn a_datagram_service_is_found() {
    loopback();
    let channel = CmEventChannel::new().expect("a channel");
    let listener = CmId::new(&channel, PortSpace::Udp, QpType::Ud, LISTENER).expect("an ID");
    listener.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    listener.listen(0).expect("listens");
    let address = listener.local_addr().expect("it is bound");

    let active = CmEventChannel::new().expect("a channel");
    let client = CmId::new(&active, PortSpace::Udp, QpType::Ud, CLIENT).expect("an ID");
    client.resolve_addr(None, address).expect("resolves");
    expect(&active, CmEventKind::AddrResolved, CLIENT);
    client.resolve_route().expect("resolves");
    expect(&active, CmEventKind::RouteResolved, CLIENT);
    client.connect(&ConnParam { private_data: b"who".to_vec(), ..ConnParam::default() }).expect("asks");
    let event = expect(&channel, CmEventKind::ConnectRequest, LISTENER);
    assert!(event.conn.private_data.starts_with(b"who"));
    let server = event.request.expect("a request comes with an ID");
    server.accept(&ConnParam { qp_num: 99, ..ConnParam::default() }, Some(5)).expect("answers");
    let found = expect(&active, CmEventKind::Established, CLIENT).ud.expect("how it is reached");
    assert_eq!((found.qp_num, found.qkey, found.ah.dgid.ip()), (99, 5, address.ip()));
}

/// Connect, one message, disconnect, over and over: ports and IDs come back each time.
#[test]
fn many_connections_one_after_the_other() {
    let sides = sides("127.0.0.1", 0);
    for _ in 0..200 {
        let ((client, ours), (server, theirs)) = sides.connected();
        theirs.recv(1, theirs.sge(0, 64)).expect("posted");
        ours.send(2, SendOp::Send, ours.sge(0, 64)).expect("posted");
        ours.wait_success();
        theirs.wait_success();
        client.disconnect().expect("disconnects");
        expect(&sides.passive, CmEventKind::Disconnected, SERVER);
        server.disconnect().expect("agrees");
        expect(&sides.active, CmEventKind::Disconnected, CLIENT);
    }
}

#[test]
fn many_connections_at_once() {
    let sides = sides("127.0.0.1", 0);
    let clients: Vec<CmId> = (0..200).map(|_| sides.resolved()).collect();
    for (qp_num, client) in (1000..).zip(&clients) {
        client.connect(&ConnParam { qp_num, ..ConnParam::default() }).expect("connects");
    }
    let servers: Vec<CmId> = clients.iter().map(|_| sides.request().0).collect();
    for (qp_num, server) in (2000..).zip(&servers) {
        server.accept(&ConnParam { qp_num, ..ConnParam::default() }, None).expect("accepts");
    }
    for _ in &clients {
        expect(&sides.active, CmEventKind::ConnectResponse, CLIENT);
    }
    for client in &clients {
        client.establish().expect("establishes");
    }
    for _ in &servers {
        expect(&sides.passive, CmEventKind::Established, SERVER);
    }
    drop(clients);
    for _ in &servers {
        expect(&sides.passive, CmEventKind::Disconnected, SERVER);
    }
}
