//! IDs: what a socket is to TCP.

use super::agent::{Agent, State};
use super::channel::CmEventChannel;
use super::dispatch::{datagram_ah, event_of};
use super::event::{CmEventKind, ConnParam, UdParam};
use super::resolve::{device_of, interface_of, source_for};
use super::state::{IdState, Phase};
use super::{PortSpace, RejectReason, UDP_QKEY};
use crate::device::Device;
use crate::error::Error;
use crate::gid::Gid;
use crate::limits::DEFAULT_PKEY;
use ferroce_cm::{
    AcceptParams, Answer, Cm, ConnectParams, ListenScope, LookupParams, PACKET_LIFETIME, Route,
};
use ferroce_core::QpType;
use ferroce_keeper::Binding;
use ferroce_wire::cm::{CmaHeader, ServiceId, Transport};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// An ID (`rdma_create_id(3)`). Dropping it ends its connection, or its listening, and forgets its events.
#[derive(Debug)]
pub struct CmId {
    agent: Arc<Agent>,
    token: u64,
}

impl CmId {
    /// An ID of a port space, whose events come through `channel` under the name `cookie`. `qp_type` is the service that
    /// it asks for: RC where nobody knows better, UD in the port spaces of datagrams.
    ///
    /// # Errors
    /// The channel belongs to the parent of this process.
    pub fn new(
        channel: &CmEventChannel,
        space: PortSpace,
        qp_type: QpType,
        cookie: u64,
    ) -> Result<CmId, Error> {
        let agent = Arc::clone(&channel.agent);
        let token = agent.with(|state| {
            let token = state.new_token();
            state.ids.insert(token, IdState::new(Arc::clone(&channel.shared), space, qp_type, cookie));
            Ok(token)
        })?;
        Ok(CmId { agent, token })
    }

    pub(super) fn from_parts(agent: Arc<Agent>, token: u64) -> CmId {
        CmId { agent, token }
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }

    /// What its events are called from now on, and those that have not been read.
    pub fn set_cookie(&self, cookie: u64) {
        let _forked = self.change(|id| id.cookie = cookie);
    }

    /// The DSCP and ECN of the connection (`RDMA_OPTION_ID_TOS`).
    ///
    /// # Errors
    /// As of all calls: the ID belongs to the parent of this process.
    pub fn set_traffic_class(&self, traffic_class: u8) -> Result<(), Error> {
        self.change(|id| id.options.traffic_class = traffic_class)
    }

    /// Whether the address may be bound by others that say so, too (`RDMA_OPTION_ID_REUSEADDR`).
    ///
    /// # Errors
    /// As of all calls.
    pub fn set_shares_address(&self, shares: bool) -> Result<(), Error> {
        self.change(|id| id.options.shares_address = shares)
    }

    /// Whether the unspecified IPv6 address stands for IPv6 only (`RDMA_OPTION_ID_AFONLY`).
    ///
    /// # Errors
    /// It is bound already.
    pub fn set_v6_only(&self, v6_only: bool) -> Result<(), Error> {
        self.with_id("set RDMA_OPTION_ID_AFONLY", &[Phase::Idle], |_, id| {
            id.options.v6_only = Some(v6_only);
            Ok(())
        })
    }

    /// The local ACK timeout of its queue pair, a time code (`RDMA_OPTION_ID_ACK_TIMEOUT`).
    ///
    /// # Errors
    /// As of all calls.
    pub fn set_ack_timeout(&self, code: u8) -> Result<(), Error> {
        self.change(|id| id.options.ack_timeout = Some(code & 0x1f))
    }

    /// The service that it asks for.
    ///
    /// # Errors
    /// As of all calls.
    pub fn set_qp_type(&self, qp_type: QpType) -> Result<(), Error> {
        self.change(|id| id.qp_type = qp_type)
    }

    /// The service that it asks for, or is asked for.
    pub fn qp_type(&self) -> QpType {
        self.with(|id, _| Ok(id.qp_type)).unwrap_or(QpType::Rc)
    }

    /// Whether its connection has ended, as an event has told or will tell.
    pub fn is_ended(&self) -> bool {
        self.with(|id, _| Ok(id.phase == Phase::Ended)).unwrap_or(true)
    }

    /// Its address, once it has one.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.with(|id, _| Ok(id.local)).ok().flatten()
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.with(|id, _| Ok(id.peer)).ok().flatten()
    }

    /// The device that has its address, and the address's GID index.
    pub fn device(&self) -> Option<(Device, u32)> {
        self.with(|id, _| Ok(id.device.clone())).ok().flatten()
    }

    /// How the datagram service is reached that it was connected to.
    pub fn datagram(&self) -> Option<UdParam> {
        self.with(|id, _| Ok(id.ud)).ok().flatten()
    }

    /// Binds it to an address and a port (`rdma_bind_addr(3)`); port 0 is any that is free.
    ///
    /// # Errors
    /// It is bound; the address is in use, or no device's.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Error> {
        self.with_id("bind it", &[Phase::Idle], |state, id| bind(state, id, address))
    }

    /// Finds the local address and device for a peer (`rdma_resolve_addr(3)`): [`CmEventKind::AddrResolved`] follows.
    ///
    /// # Errors
    /// It is beyond that; no route; no device has the address.
    pub fn resolve_addr(&self, source: Option<SocketAddr>, peer: SocketAddr) -> Result<(), Error> {
        let token = self.token;
        self.with_id("resolve an address", &[Phase::Idle, Phase::Bound], |state, id| {
            resolve_addr(state, id, source, peer)?;
            id.channel.push(token, event_of(CmEventKind::AddrResolved, 0, ConnParam::default()));
            Ok(())
        })
    }

    /// Finds the route (`rdma_resolve_route(3)`), which Ethernet has with the address: [`CmEventKind::RouteResolved`]
    /// follows.
    ///
    /// # Errors
    /// Its address is not resolved.
    pub fn resolve_route(&self) -> Result<(), Error> {
        let token = self.token;
        self.with_id("resolve a route", &[Phase::AddrResolved], |_, id| {
            id.phase = Phase::RouteResolved;
            id.channel.push(token, event_of(CmEventKind::RouteResolved, 0, ConnParam::default()));
            Ok(())
        })
    }

    /// Listens (`rdma_listen(3)`); at most `backlog` requests wait to be read, 0 stands for as many as may.
    ///
    /// # Errors
    /// The address is in use.
    pub fn listen(&self, backlog: u32) -> Result<(), Error> {
        let token = self.token;
        self.with_id("listen", &[Phase::Idle, Phase::Bound], |state, id| {
            if id.phase == Phase::Idle {
                bind(state, id, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
            }
            let (Some(local), Some(binding)) = (id.local, id.binding) else { return Ok(()) };
            state.link.listen(binding)?;
            let addr = binding_of(id, local).listen_addr();
            let listener = state.cm.listen(addr, backlog)?;
            id.listener = Some(listener);
            id.phase = Phase::Listening;
            state.by_listener.insert(listener, token);
            tracing::debug!(service = %addr.service, "listening");
            Ok(())
        })
    }

    /// Asks for a connection (`rdma_connect(3)`), or looks a datagram service up. [`CmEventKind::ConnectResponse`],
    /// [`CmEventKind::Established`] for datagrams, [`CmEventKind::Rejected`] or [`CmEventKind::Unreachable`] follows.
    ///
    /// # Errors
    /// Its route is not resolved; more private data than there is room for.
    pub fn connect(&self, param: &ConnParam) -> Result<(), Error> {
        let token = self.token;
        self.with_id("connect", &[Phase::RouteResolved], |state, id| {
            let comm = match id.is_datagram() {
                true => state.cm.resolve(state.now, &lookup_params(id, param)?)?,
                false => state.cm.connect(state.now, &connect_params(id, param)?)?,
            };
            id.comm = Some(comm);
            id.phase = Phase::Connecting;
            state.by_comm.insert(comm, token);
            Ok(())
        })
    }

    /// Accepts a request (`rdma_accept(3)`), or answers a lookup with `qkey`. [`CmEventKind::Established`] follows a
    /// request.
    ///
    /// # Errors
    /// It is no request; more private data than there is room for.
    pub fn accept(&self, param: &ConnParam, qkey: Option<u32>) -> Result<(), Error> {
        self.with_id("accept it", &[Phase::Requested], |state, id| {
            let Some(comm) = id.comm else { return Ok(()) };
            if id.is_datagram() {
                let private_data = param.private_data.clone();
                let qkey = qkey.unwrap_or(UDP_QKEY);
                state.answer(comm, &Answer::Served { qpn: param.qp_num, qkey, private_data })?;
                id.phase = Phase::Connected;
            } else {
                state.cm.accept(state.now, comm, &accept_params(id, param))?;
                id.phase = Phase::Connecting;
            }
            Ok(())
        })
    }

    /// Takes the peer's acceptance (`rdma_establish`): the queue pair is ready.
    ///
    /// # Errors
    /// The peer has not accepted.
    pub fn establish(&self) -> Result<(), Error> {
        self.with_id("establish it", &[Phase::Connecting], |state, id| {
            if let Some(comm) = id.comm {
                state.cm.establish(state.now, comm, &[])?;
            }
            id.phase = Phase::Connected;
            Ok(())
        })
    }

    /// Refuses a request or an acceptance (`rdma_reject(3)`).
    ///
    /// # Errors
    /// There is nothing to refuse; more private data than there is room for.
    pub fn reject(&self, private_data: &[u8]) -> Result<(), Error> {
        self.with_id("reject it", &[Phase::Requested, Phase::Connecting], |state, id| {
            let Some(comm) = id.comm else { return Ok(()) };
            if id.is_datagram() {
                state.answer(comm, &Answer::Rejected { private_data: private_data.to_vec() })?;
            } else {
                state.cm.reject(state.now, comm, RejectReason::CONSUMER_DEFINED, private_data)?;
            }
            id.phase = Phase::Ended;
            Ok(())
        })
    }

    /// Ends the connection (`rdma_disconnect(3)`), or agrees that the peer ended it. [`CmEventKind::Disconnected`] follows
    /// unless it came before.
    ///
    /// # Errors
    /// It is not connected.
    pub fn disconnect(&self) -> Result<(), Error> {
        self.with_id("disconnect it", &[Phase::Connected, Phase::Connecting, Phase::Ended], |state, id| {
            match id.comm {
                Some(comm) if !id.is_datagram() => Ok(state.cm.disconnect(state.now, comm, &[])?),
                _ => Ok(()),
            }
        })
    }

    /// The queue pair has received (`rdma_notify(3)` with `IBV_EVENT_COMM_EST`), so the peer is ready, whether it said so
    /// or not.
    ///
    /// # Errors
    /// As of all calls.
    pub fn notify_established(&self) -> Result<(), Error> {
        self.with_state(|state, id| {
            if let Some(comm) = id.comm.filter(|_| !id.is_datagram()) {
                let now = state.now;
                state.cm.notify_established(now, comm);
            }
            Ok(())
        })
    }

    /// Its events come through another channel, those that wait, too (`rdma_migrate_id(3)`).
    ///
    /// # Errors
    /// As of all calls.
    pub fn migrate(&self, channel: &CmEventChannel) -> Result<(), Error> {
        self.agent.with(|state| {
            state.migrate(self.token, Arc::clone(&channel.shared));
            Ok(())
        })
    }

    /// Tells its owner what the application itself has to say (`rdma_write_cm_event(3)`).
    ///
    /// # Errors
    /// As of all calls.
    pub fn tell(&self, kind: CmEventKind, status: i32, arg: u64) -> Result<(), Error> {
        let token = self.token;
        self.with_state(|_, id| {
            let mut event = event_of(kind, status, ConnParam::default());
            event.arg = arg;
            id.channel.push(token, event);
            Ok(())
        })
    }

    /// Tells its owner that a multicast group was joined: `status` 0 and how it is reached.
    ///
    /// # Errors
    /// Its address is not resolved or bound.
    pub fn tell_joined(&self, group: IpAddr) -> Result<(), Error> {
        let token = self.token;
        self.with_state(|_, id| {
            let ah = datagram_ah(id, Gid::from_ip(group));
            let mut event = event_of(CmEventKind::MulticastJoin, 0, ConnParam::default());
            event.ud = Some(UdParam { ah, qp_num: MULTICAST_QPN, qkey: UDP_QKEY });
            id.channel.push(token, event);
            tracing::debug!(%group, "joined");
            Ok(())
        })
    }

    /// Ends its connection, or its listening, and forgets its events, as dropping it does; afterwards it answers nothing.
    /// The number of events about it that were read.
    pub fn close(&self) -> u64 {
        let closed = self.agent.with(|state| {
            let Some(id) = state.ids.remove(&self.token) else { return Ok((0, Vec::new())) };
            if let Some(comm) = id.comm {
                state.by_comm.remove(&comm);
                let now = state.now;
                state.cm.destroy(now, comm);
            }
            if let Some(listener) = id.listener {
                state.by_listener.remove(&listener);
                state.cm.unlisten(listener);
            }
            if let Some(binding) = id.binding {
                state.link.release(binding);
            }
            Ok((id.reported, id.channel.discard(self.token)))
        });
        // Requests among the events are IDs, whose end needs the lock: they go when it is free.
        closed.map_or(0, |(reported, _unread)| reported)
    }

    fn change(&self, work: impl FnOnce(&mut IdState)) -> Result<(), Error> {
        self.with_state(|_, id| {
            work(id);
            Ok(())
        })
    }

    /// Reads it, and what the connection manager knows of it.
    pub(super) fn with<T>(&self, work: impl FnOnce(&IdState, &Cm) -> Result<T, Error>) -> Result<T, Error> {
        self.with_state(|state, id| work(id, &state.cm))
    }

    /// Works on it, if it is in one of `phases`.
    fn with_id<T>(
        &self,
        call: &'static str,
        phases: &[Phase],
        work: impl FnOnce(&mut State, &mut IdState) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.with_state(|state, id| match phases.contains(&id.phase) {
            true => work(state, id),
            false => Err(Error::CmState { state: id.phase.name(), call }),
        })
    }

    /// Works on it; it is taken out of the table meanwhile.
    fn with_state<T>(
        &self,
        work: impl FnOnce(&mut State, &mut IdState) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.agent.with(|state| {
            let closed = Error::CmState { state: "closed", call: "do anything" };
            let mut id = state.ids.remove(&self.token).ok_or(closed)?;
            let result = work(state, &mut id);
            state.ids.insert(self.token, id);
            result
        })
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        self.close();
    }
}

fn bind(state: &mut State, id: &mut IdState, address: SocketAddr) -> Result<(), Error> {
    let device = match address.ip().is_unspecified() {
        true => None,
        false => Some(device_of(address.ip())?),
    };
    let (token, port) = state.link.bind(binding_of(id, address))?;
    let mut local = address;
    local.set_port(port);
    id.binding = Some(token);
    id.local = Some(local);
    id.device = device;
    id.phase = Phase::Bound;
    Ok(())
}

fn binding_of(id: &IdState, address: SocketAddr) -> Binding {
    let scope = ListenScope::of(address.ip(), id.options.v6_only.unwrap_or(false));
    Binding { space: id.space, port: address.port(), scope, shares: id.options.shares_address }
}

fn resolve_addr(
    state: &mut State,
    id: &mut IdState,
    source: Option<SocketAddr>,
    peer: SocketAddr,
) -> Result<(), Error> {
    let wanted = source.map(|source| source.ip()).or(id.local.map(|local| local.ip()));
    let ip = match wanted.filter(|ip| !ip.is_unspecified()) {
        Some(ip) => ip,
        // Our own groups are reached through the interface that the routes say.
        None => source_for(peer)?,
    };
    let device = device_of(ip)?;
    if id.phase == Phase::Idle {
        let port = source.map_or(0, |source| source.port());
        let unspecified: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let named = source.map_or(unspecified, |source| source.ip());
        bind(state, id, SocketAddr::new(if named.is_unspecified() { ip } else { named }, port))?;
    }
    let port = id.local.map_or(0, |local| local.port());
    id.local = Some(SocketAddr::new(ip, port));
    id.peer = Some(peer);
    id.device = Some(device);
    id.phase = Phase::AddrResolved;
    Ok(())
}

/// The addresses of an ID whose route is resolved.
fn route(id: &IdState) -> Result<(Route, SocketAddr, SocketAddr), Error> {
    let missing = Error::CmState { state: id.phase.name(), call: "connect" };
    let (Some(local), Some(peer), Some((device, _))) = (id.local, id.peer, &id.device) else {
        return Err(missing);
    };
    let route = Route {
        local: local.ip(),
        peer: peer.ip(),
        interface: interface_of(peer, device),
        traffic_class: id.options.traffic_class,
    };
    Ok((route, local, peer))
}

/// The application's bytes behind the RDMA CM's header.
fn private_data(local: SocketAddr, peer: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let header = match (local.ip(), peer.ip()) {
        (IpAddr::V4(local_ip), IpAddr::V4(peer)) => CmaHeader::new_v4(local.port(), local_ip, peer),
        (local_ip, peer) => CmaHeader::new_v6(local.port(), v6(local_ip), v6(peer)),
    };
    [header.as_bytes(), bytes].concat()
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn connect_params(id: &IdState, param: &ConnParam) -> Result<ConnectParams, Error> {
    let (route, local, peer) = route(id)?;
    let device = id.device.as_ref().map(|(device, _)| device);
    let transport = match id.qp_type {
        QpType::Uc => Transport::Uc,
        QpType::XrcIni | QpType::XrcTgt => Transport::Xrc,
        _ => Transport::Rc,
    };
    Ok(ConnectParams {
        route,
        service: ServiceId::of_port(id.space, peer.port()),
        ca_guid: device.map_or(0, |device| u64::from_be_bytes(device.guid())),
        transport,
        qpn: param.qp_num,
        starting_psn: id.psn,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control,
        retry_count: param.retry_count.min(7),
        rnr_retry_count: param.rnr_retry_count.min(7),
        srq: param.srq,
        path_mtu: device.map_or(1, |device| device.active_mtu() as u8),
        pkey: DEFAULT_PKEY,
        packet_lifetime: id.options.ack_timeout.map_or(PACKET_LIFETIME, |code| code.saturating_sub(1)),
        private_data: private_data(local, peer, &param.private_data),
    })
}

fn lookup_params(id: &IdState, param: &ConnParam) -> Result<LookupParams, Error> {
    let (route, local, peer) = route(id)?;
    Ok(LookupParams {
        route,
        service: ServiceId::of_port(id.space, peer.port()),
        pkey: DEFAULT_PKEY,
        private_data: private_data(local, peer, &param.private_data),
    })
}

fn accept_params(id: &IdState, param: &ConnParam) -> AcceptParams {
    AcceptParams {
        ca_guid: id.device.as_ref().map_or(0, |(device, _)| u64::from_be_bytes(device.guid())),
        qpn: param.qp_num,
        starting_psn: id.psn,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control,
        rnr_retry_count: param.rnr_retry_count.min(7),
        srq: param.srq,
        private_data: param.private_data.clone(),
    }
}

/// The queue pair that stands for a multicast group.
const MULTICAST_QPN: u32 = 0x00ff_ffff;
