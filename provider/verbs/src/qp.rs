//! Queue pairs.

use crate::context::ContextShared;
use crate::cq::Cq;
use crate::device::Device;
use crate::engine::QpShared;
use crate::error::{Error, PostCause, PostError};
use crate::gid::Gid;
use crate::pd::PdUser;
use crate::post;
use ferroce_core::{
    AddressVector, Path, QpAttr, QpAttrMask, QpCaps, QpInit, QpState, QpType, RecvWr, SendWr,
};
use ferroce_port::{interfaces, source_port};
use ferroce_wire::Qpn;
use std::net::IpAddr;
use std::sync::Arc;

/// What a QP is made with (`ibv_create_qp(3)`).
#[derive(Clone, Copy, Debug)]
pub struct QpSpec<'a> {
    /// Service type.
    pub qp_type: QpType,
    /// Where send completions go.
    pub send_cq: &'a Cq,
    /// Where receive completions go.
    pub recv_cq: &'a Cq,
    /// Sizes of the work queues.
    pub caps: QpCaps,
    /// Whether every send WR makes a completion.
    pub sq_sig_all: bool,
    /// What asynchronous events about it carry.
    pub cookie: u64,
}

/// An address vector as the application gives it (`struct ibv_ah_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AhAttr {
    /// Whether the fields of the GRH are given; RoCE can't do without.
    pub is_global: bool,
    /// The peer's GID.
    pub dgid: Gid,
    /// Index of our own GID.
    pub sgid_index: u32,
    /// IPv6 flow label, 20 bits; 0 lets the source port follow from the QPNs.
    pub flow_label: u32,
    /// TTL or hop limit; 0 means 64.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Port, which is 1.
    pub port_num: u8,
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    shared: Arc<QpShared>,
    pd: PdUser,
    init: QpInit,
}

/// Hop limit of packets whose address vector says 0, as a host's routes have it.
const DEFAULT_HOP_LIMIT: u8 = 64;

impl Qp {
    pub(crate) fn new(pd: PdUser, spec: &QpSpec<'_>) -> Result<Qp, Error> {
        let context = &pd.pd.context;
        let (send_cq, recv_cq) = (spec.send_cq.id(), spec.recv_cq.id());
        let init = QpInit {
            caps: spec.caps,
            sq_sig_all: spec.sq_sig_all,
            ..QpInit::new(spec.qp_type, pd.pd.id, send_cq, recv_cq, context.device.active_mtu())
        };
        let cqs = [Arc::clone(spec.send_cq.shared()), Arc::clone(spec.recv_cq.shared())];
        let shared = context.engine.create_qp(init, cqs, spec.cookie, Arc::clone(&context.events))?;
        Ok(Qp { shared, pd, init })
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.shared.qpn()
    }

    /// What it was made with.
    pub fn init(&self) -> &QpInit {
        &self.init
    }

    /// Changes its attributes and state, all or nothing (`ibv_modify_qp(3)`). `attr.av` is not looked at: the
    /// address vector is `ah`, where `mask` has AV.
    pub fn modify(&self, attr: &QpAttr, ah: Option<&AhAttr>, mask: QpAttrMask) -> Result<(), Error> {
        let result = self.try_modify(attr, ah, mask);
        if let Err(error) = &result {
            tracing::info!(qpn = %self.qpn(), %error, "modify_qp refused");
        }
        result
    }

    fn try_modify(&self, attr: &QpAttr, ah: Option<&AhAttr>, mask: QpAttrMask) -> Result<(), Error> {
        let context = self.context();
        context.check_alive()?;
        let mut attr = QpAttr { av: None, ..*attr };
        if let (true, Some(ah)) = (mask.contains(QpAttrMask::AV), ah) {
            let peer =
                if mask.contains(QpAttrMask::DEST_QPN) { attr.dest_qpn } else { self.query()?.dest_qpn };
            attr.av = Some(resolve(&context.device, ah, self.qpn(), peer)?);
        }
        context.engine.modify_qp(&self.shared, &attr, mask)
    }

    /// Its attributes as they are now (`ibv_query_qp(3)`).
    pub fn query(&self) -> Result<QpAttr, Error> {
        self.context().check_alive()?;
        self.context().engine.query_qp(self.qpn())
    }

    /// Posts send work requests in order; stops at the first that is refused (`ibv_post_send(3)`).
    pub fn post_send(&self, wrs: impl IntoIterator<Item = SendWr>) -> Result<(), PostError> {
        self.check_alive()?;
        let result = {
            let mut queue = self.shared.send_queue();
            let mut posted = 0;
            wrs.into_iter().try_for_each(|wr| {
                let checked = post::check_send(self.init.qp_type, &self.init.caps, &wr);
                let cause = checked.and_then(|()| queue.push(self.init.caps.max_send_wr, wr));
                cause.map_err(|cause| PostError { index: posted, cause })?;
                posted += 1;
                Ok(())
            })
        };
        self.context().engine.ring(&self.shared);
        self.context().engine.kick();
        self.log_refusal(result)
    }

    /// Posts all of these send work requests, or none if one would be refused (`ibv_wr_complete`, ibv_wr_post(3)).
    pub fn post_send_all(&self, wrs: Vec<SendWr>) -> Result<(), PostError> {
        self.check_alive()?;
        let result = self.try_post_send_all(wrs);
        self.context().engine.ring(&self.shared);
        self.context().engine.kick();
        self.log_refusal(result)
    }

    fn try_post_send_all(&self, wrs: Vec<SendWr>) -> Result<(), PostError> {
        let caps = &self.init.caps;
        let mut queue = self.shared.send_queue();
        for (index, wr) in wrs.iter().enumerate() {
            let checked = post::check_send(self.init.qp_type, caps, wr);
            let cause = checked.and_then(|()| queue.check_room(caps.max_send_wr, index + 1));
            cause.map_err(|cause| PostError { index, cause })?;
        }
        for (index, wr) in wrs.into_iter().enumerate() {
            queue.push(caps.max_send_wr, wr).map_err(|cause| PostError { index, cause })?;
        }
        Ok(())
    }

    /// Posts receive work requests in order; stops at the first that is refused (`ibv_post_recv(3)`).
    pub fn post_recv(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostError> {
        self.check_alive()?;
        let result = {
            let mut queue = self.shared.recv_queue();
            let mut posted = 0;
            wrs.into_iter().try_for_each(|wr| {
                let checked = post::check_recv(&self.init.caps, &wr);
                let cause = checked.and_then(|()| queue.push(self.init.caps.max_recv_wr, wr));
                cause.map_err(|cause| PostError { index: posted, cause })?;
                posted += 1;
                Ok(())
            })
        };
        self.context().engine.ring(&self.shared);
        if self.shared.state() == QpState::Err {
            // Nothing will arrive to move the engine, and these have to be flushed.
            self.context().engine.kick();
        }
        self.log_refusal(result)
    }

    /// Acknowledges an asynchronous event.
    pub fn ack_async_event(&self) {
        self.shared.async_events().acknowledge(1);
    }

    /// Takes it off the network and makes it ready to be dropped, after all asynchronous events about it have
    /// been acknowledged (`ibv_destroy_qp(3)`). Its unpolled completions go with it.
    pub fn close(&self) -> Result<(), Error> {
        let context = self.context();
        context.check_alive()?;
        context.engine.destroy_qp(&self.shared);
        context.events.discard(self.shared.async_events(), self.shared.cookie());
        self.shared.async_events().wait();
        Ok(())
    }

    fn context(&self) -> &ContextShared {
        &self.pd.pd.context
    }

    fn check_alive(&self) -> Result<(), PostError> {
        if self.context().is_dead() { Err(PostError { index: 0, cause: PostCause::Forked }) } else { Ok(()) }
    }

    fn log_refusal(&self, result: Result<(), PostError>) -> Result<(), PostError> {
        if let Err(error) = &result {
            tracing::info!(qpn = %self.qpn(), %error, "post refused");
        }
        result
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        if !self.context().is_dead() {
            self.context().engine.destroy_qp(&self.shared);
        }
    }
}

/// A QPN's slot is its top byte.
const SLOT_SHIFT: u32 = 16;

/// Whether `dst` is an address of this host.
fn is_of_this_host(src: IpAddr, dst: IpAddr) -> bool {
    let has = |addrs: &[IpAddr]| addrs.contains(&dst);
    src == dst || dst.is_loopback() || interfaces::list().is_ok_and(|all| all.iter().any(|it| has(&it.addrs)))
}

/// The IP level behind an address vector.
fn resolve(device: &Device, ah: &AhAttr, qpn: Qpn, peer: Qpn) -> Result<AddressVector, Error> {
    if !ah.is_global {
        return Err(Error::NotGlobal);
    }
    let sgid = device.gid(u32::from(ah.port_num), ah.sgid_index)?;
    if sgid.is_zero() {
        return Err(Error::GidEmpty(ah.sgid_index));
    }
    let (src, dst) = (sgid.ip(), ah.dgid.ip());
    if ah.dgid.is_zero() || dst.is_multicast() || dst.is_unspecified() {
        return Err(Error::GidNotUnicast(ah.dgid));
    }
    if src.is_ipv4() != dst.is_ipv4() {
        return Err(Error::GidVersions { sgid, dgid: ah.dgid });
    }
    let is_link_local = matches!(dst, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let path = Path {
        src,
        dst,
        interface: if is_link_local { device.interface_index() } else { 0 },
        traffic_class: ah.traffic_class,
        hop_limit: if ah.hop_limit == 0 { DEFAULT_HOP_LIMIT } else { ah.hop_limit },
        flow_label: ah.flow_label,
        source_port: source_port(ah.flow_label, qpn.value(), peer.value()),
        receiver: is_of_this_host(src, dst).then_some((peer.value() >> SLOT_SHIFT) as u8),
    };
    Ok(AddressVector {
        dgid: ah.dgid.0,
        flow_label: ah.flow_label,
        sgid_index: ah.sgid_index as u8,
        hop_limit: ah.hop_limit,
        traffic_class: ah.traffic_class,
        sl: ah.sl,
        port_num: ah.port_num,
        path,
    })
}
