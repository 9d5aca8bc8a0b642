//! Queue pairs.

use crate::ah::{AhAttr, resolve};
use crate::context::ContextShared;
use crate::cq::Cq;
use crate::engine::{Cqs, NO_CQ, QpShared};
use crate::error::{Error, PostCause, PostError};
use crate::events::Listener;
use crate::gid::Gid;
use crate::pd::PdUser;
use crate::post;
use crate::srq::Srq;
use crate::xrcd::XrcdUser;
use ferroce_core::{PdId, QpAttr, QpAttrMask, QpCaps, QpInit, QpState, QpType, RecvWr, SendWr, XrcdId};
use ferroce_wire::Qpn;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a QP is made with (`ibv_create_qp(3)`). XRC targets are made from their domain
/// ([`Xrcd::create_target`](crate::Xrcd::create_target)).
#[derive(Clone, Copy, Debug)]
pub struct QpSpec<'a> {
    /// Service type.
    pub qp_type: QpType,
    /// Where send completions go.
    pub send_cq: &'a Cq,
    /// Where receive completions go. An XRC initiator receives nothing, so it does not matter there.
    pub recv_cq: &'a Cq,
    /// Where receive work requests come from, instead of a receive queue of its own. Not with XRC.
    pub srq: Option<&'a Srq>,
    /// Sizes of the work queues.
    pub caps: QpCaps,
    /// Whether every send WR makes a completion.
    pub sq_sig_all: bool,
    /// Whether multicast packets that it sent itself are kept from it (UD only).
    pub block_self_mcast: bool,
    /// What asynchronous events about it carry.
    pub cookie: u64,
}

impl QpSpec<'_> {
    /// The sizes that it gets: none of a receive queue where it has none (`ibv_create_qp(3)`).
    pub(crate) fn granted(&self) -> QpCaps {
        match (self.qp_type, self.srq) {
            (QpType::XrcIni, _) | (_, Some(_)) => QpCaps { max_recv_wr: 0, max_recv_sge: 0, ..self.caps },
            _ => self.caps,
        }
    }
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    pub(crate) shared: Arc<QpShared>,
    pub(crate) context: Arc<ContextShared>,
    listener: Arc<Listener>,
    /// Whether this handle is closed.
    closed: AtomicBool,
    /// The multicast groups it is attached to.
    pub(crate) groups: Mutex<Vec<Gid>>,
    srq: Option<SrqUser>,
    _owner: Owner,
}

/// What a QP keeps alive.
#[derive(Debug)]
enum Owner {
    Pd { _pd: PdUser },
    Xrcd { _xrcd: XrcdUser },
}

/// Counts a QP as a user of its SRQ for as long as the QP is on the network.
#[derive(Debug)]
struct SrqUser(Arc<crate::engine::SrqShared>);

impl Qp {
    pub(crate) fn new(pd: PdUser, spec: &QpSpec<'_>) -> Result<Qp, Error> {
        let context = Arc::clone(&pd.pd.context);
        let (send_cq, recv_cq) = (spec.send_cq.id(), spec.recv_cq.id());
        let init = QpInit {
            srq: spec.srq.map(Srq::srqn),
            caps: spec.granted(),
            sq_sig_all: spec.sq_sig_all,
            block_self_mcast: spec.block_self_mcast,
            ..QpInit::new(spec.qp_type, pd.pd.id, send_cq, recv_cq, context.device.active_mtu())
        };
        let cqs = [spec.send_cq, spec.recv_cq].map(|cq| Arc::clone(cq.shared()));
        let listener = Arc::new(Listener::new(spec.cookie, Arc::clone(&context.events)));
        let shared = context.engine.create_qp(init, cqs.into(), Arc::clone(&listener))?;
        let srq = spec.srq.map(|srq| SrqUser::new(srq.shared()));
        Ok(Qp::handle(shared, context, listener, srq, Owner::Pd { _pd: pd }))
    }

    pub(crate) fn new_target(
        context: &Arc<ContextShared>,
        user: XrcdUser,
        xrcd: XrcdId,
        cookie: u64,
    ) -> Result<Qp, Error> {
        let active_mtu = context.device.active_mtu();
        let init =
            QpInit { xrcd: Some(xrcd), ..QpInit::new(QpType::XrcTgt, NO_PD, NO_CQ, NO_CQ, active_mtu) };
        let listener = Arc::new(Listener::new(cookie, Arc::clone(&context.events)));
        let shared = context.engine.create_qp(init, Cqs::new(), Arc::clone(&listener))?;
        Ok(Qp::handle(shared, Arc::clone(context), listener, None, Owner::Xrcd { _xrcd: user }))
    }

    pub(crate) fn open_target(
        context: &Arc<ContextShared>,
        user: XrcdUser,
        xrcd: XrcdId,
        qpn: Qpn,
        cookie: u64,
    ) -> Result<Qp, Error> {
        let listener = Arc::new(Listener::new(cookie, Arc::clone(&context.events)));
        let found = context.engine.qp(qpn).filter(|qp| qp.init().xrcd == Some(xrcd));
        let shared = found.filter(|qp| qp.add_listener(Arc::clone(&listener)));
        let shared = shared.ok_or(Error::NoTarget { qpn })?;
        Ok(Qp::handle(shared, Arc::clone(context), listener, None, Owner::Xrcd { _xrcd: user }))
    }

    fn handle(
        shared: Arc<QpShared>,
        context: Arc<ContextShared>,
        listener: Arc<Listener>,
        srq: Option<SrqUser>,
        owner: Owner,
    ) -> Qp {
        let (closed, groups) = (AtomicBool::new(false), Mutex::default());
        Qp { shared, context, listener, closed, groups, srq, _owner: owner }
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.shared.qpn()
    }

    /// What it was made with.
    pub fn init(&self) -> &QpInit {
        self.shared.init()
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
        self.context.check_alive()?;
        let mut attr = QpAttr { av: None, ..*attr };
        if let (true, Some(ah)) = (mask.contains(QpAttrMask::AV), ah) {
            let peer =
                if mask.contains(QpAttrMask::DEST_QPN) { attr.dest_qpn } else { self.query()?.dest_qpn };
            attr.av = Some(resolve(&self.context, ah, self.qpn(), peer)?);
        }
        self.context.engine.modify_qp(&self.shared, &attr, mask)
    }

    /// Repeats lost requests selectively, until it is reset. Only for a peer that is Ferroce too and does the same; the two
    /// find out with whatever they exchange QPNs. Before RTR, at both ends.
    ///
    /// # Errors
    /// `FERROCE_SELECTIVE_REPEAT` is not `on`, the QP's type repeats nothing, or it is connected already.
    pub fn repeat_selectively(&self) -> Result<(), Error> {
        self.context.check_alive()?;
        self.context.engine.repeat_selectively(self.qpn())
    }

    /// Its attributes as they are now (`ibv_query_qp(3)`).
    pub fn query(&self) -> Result<QpAttr, Error> {
        self.context.check_alive()?;
        self.context.engine.query_qp(self.qpn())
    }

    /// Posts send work requests in order; stops at the first that is refused (`ibv_post_send(3)`).
    pub fn post_send(&self, wrs: impl IntoIterator<Item = SendWr>) -> Result<(), PostError> {
        self.check_alive()?;
        let result = self.try_post_send(wrs);
        self.context.engine.ring(&self.shared);
        self.context.engine.kick();
        self.log_refusal(result)
    }

    fn try_post_send(&self, wrs: impl IntoIterator<Item = SendWr>) -> Result<(), PostError> {
        let init = self.init();
        let mut queue = self.shared.send_queue();
        for (index, wr) in wrs.into_iter().enumerate() {
            let refused = |cause| PostError { index, cause };
            post::check_send(init.qp_type, &init.caps, &wr).map_err(refused)?;
            let queue = queue.as_mut().map_err(|cause| refused(*cause))?;
            queue.push(init.caps.max_send_wr, wr).map_err(refused)?;
        }
        Ok(())
    }

    /// Posts all of these send work requests, or none if one would be refused (`ibv_wr_complete`, ibv_wr_post(3)).
    pub fn post_send_all(&self, wrs: Vec<SendWr>) -> Result<(), PostError> {
        self.check_alive()?;
        let result = self.try_post_send_all(wrs);
        self.context.engine.ring(&self.shared);
        self.context.engine.kick();
        self.log_refusal(result)
    }

    fn try_post_send_all(&self, wrs: Vec<SendWr>) -> Result<(), PostError> {
        let init = self.init();
        let caps = &init.caps;
        let mut queue = self.shared.send_queue().map_err(|cause| PostError { index: 0, cause })?;
        for (index, wr) in wrs.iter().enumerate() {
            let checked = post::check_send(init.qp_type, caps, wr);
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
        let result = self.try_post_recv(wrs);
        self.context.engine.ring(&self.shared);
        if self.shared.state() == QpState::Err {
            // Nothing will arrive to move the engine, and these have to be flushed.
            self.context.engine.kick();
        }
        self.log_refusal(result)
    }

    fn try_post_recv(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostError> {
        let init = self.init();
        if init.srq.is_some() || matches!(init.qp_type, QpType::XrcIni | QpType::XrcTgt) {
            return Err(PostError { index: 0, cause: PostCause::NoReceiveQueue });
        }
        let mut queue = self.shared.recv_queue();
        for (index, wr) in wrs.into_iter().enumerate() {
            let refused = |cause| PostError { index, cause };
            post::check_recv(&init.caps, &wr).map_err(refused)?;
            let queue = queue.as_mut().map_err(|cause| refused(*cause))?;
            queue.push(init.caps.max_recv_wr, wr).map_err(refused)?;
        }
        Ok(())
    }

    /// Acknowledges an asynchronous event.
    pub fn ack_async_event(&self) {
        self.listener.acknowledge();
    }

    /// Takes it off the network (an XRC target when this is its last handle) and makes it ready to be dropped, after
    /// all asynchronous events about it have been acknowledged (`ibv_destroy_qp(3)`). Its unpolled completions go
    /// with it. Fails while it is attached to a multicast group (EBUSY).
    pub fn close(&self) -> Result<(), Error> {
        self.context.check_alive()?;
        match self.groups.lock().len() {
            0 => {}
            users => return Err(Error::InUse { what: "QP", users }),
        }
        self.release();
        self.listener.close();
        Ok(())
    }

    fn release(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        for gid in self.groups.lock().drain(..) {
            let interface = self.context.device.interface_index();
            if let Err(error) = self.context.engine.detach_mcast(self.qpn(), gid, interface) {
                tracing::error!(%error, "detaching a QP");
            }
        }
        if self.shared.remove_listener(&self.listener) {
            self.context.engine.destroy_qp(&self.shared);
            if let Some(SrqUser(srq)) = &self.srq {
                srq.count_user(false);
            }
        }
    }

    fn check_alive(&self) -> Result<(), PostError> {
        if self.context.is_dead() { Err(PostError { index: 0, cause: PostCause::Forked }) } else { Ok(()) }
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
        if !self.context.is_dead() {
            self.release();
        }
    }
}

impl SrqUser {
    fn new(srq: &Arc<crate::engine::SrqShared>) -> SrqUser {
        srq.count_user(true);
        SrqUser(Arc::clone(srq))
    }
}

/// The protection domain of XRC targets, which have none; domains are numbered from 1.
const NO_PD: PdId = PdId(0);
