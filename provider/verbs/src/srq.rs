//! Shared receive queues.

use crate::context::ContextShared;
use crate::cq::Cq;
use crate::engine::SrqShared;
use crate::error::{Error, PostCause, PostError};
use crate::events::Listener;
use crate::limits::{MAX_SGE, MAX_SRQ_WR};
use crate::pd::{Pd, PdUser};
use crate::post;
use crate::xrcd::{Xrcd, XrcdUser};
use ferroce_core::{QpCaps, RecvWr, SrqInit, Srqn, XrcSrq};
use std::sync::Arc;

/// What an SRQ is made with (`ibv_create_srq_ex(3)`).
#[derive(Clone, Copy, Debug)]
pub struct SrqSpec<'a> {
    /// Work requests it holds at most.
    pub max_wr: u32,
    /// Elements of a work request's list.
    pub max_sge: u32,
    /// What makes it an XRC SRQ: its domain, and where its work requests complete.
    pub xrc: Option<(&'a Xrcd, &'a Cq)>,
    /// What asynchronous events about it carry.
    pub cookie: u64,
}

/// What an SRQ is now (`ibv_query_srq(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqAttr {
    /// Work requests it holds at most.
    pub max_wr: u32,
    /// Elements of a work request's list.
    pub max_sge: u32,
    /// The limit below which an event is raised; 0 when none is armed, or it was reached.
    pub limit: u32,
}

/// A shared receive queue: QPs that are made with it take their receive work requests from it.
#[derive(Debug)]
pub struct Srq {
    shared: Arc<SrqShared>,
    caps: QpCaps,
    pd: PdUser,
    _xrcd: Option<XrcdUser>,
}

impl Srq {
    pub(crate) fn new(pd: PdUser, spec: &SrqSpec<'_>) -> Result<Srq, Error> {
        check_size(spec.max_wr)?;
        if spec.max_sge > MAX_SGE {
            let (asked, limit) = (u64::from(spec.max_sge), u64::from(MAX_SGE));
            return Err(Error::OutOfRange { what: "max_sge", asked, limit });
        }
        let context = &pd.pd.context;
        let xrc = spec.xrc.map(|(xrcd, cq)| XrcSrq { xrcd: xrcd.id(), cq: cq.id() });
        let init = SrqInit { pd: pd.pd.id, xrc };
        let cq = spec.xrc.map(|(_, cq)| Arc::clone(cq.shared()));
        let listener = Listener::new(spec.cookie, Arc::clone(&context.events));
        let shared = context.engine.create_srq(init, spec.max_wr, cq, listener)?;
        let caps = QpCaps { max_recv_sge: spec.max_sge, ..QpCaps::default() };
        let xrcd = spec.xrc.map(|(xrcd, _)| xrcd.user());
        Ok(Srq { shared, caps, pd, _xrcd: xrcd })
    }

    /// Its number, which requests to XRC targets name.
    pub fn srqn(&self) -> Srqn {
        self.shared.srqn()
    }

    /// Whether it belongs to the same open device as `pd`.
    pub fn same_context(&self, pd: &Pd) -> bool {
        Arc::ptr_eq(&self.pd.pd.context, pd.context())
    }

    /// Elements of a work request's list.
    pub fn max_sge(&self) -> u32 {
        self.caps.max_recv_sge
    }

    pub(crate) fn shared(&self) -> &Arc<SrqShared> {
        &self.shared
    }

    /// Posts receive work requests in order; stops at the first that is refused (`ibv_post_srq_recv(3)`).
    pub fn post_recv(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostError> {
        let context = self.context();
        if context.is_dead() {
            return Err(PostError { index: 0, cause: PostCause::Forked });
        }
        let result = {
            let mut queue = self.shared.queue();
            let mut posted = 0;
            wrs.into_iter().try_for_each(|wr| {
                let checked = post::check_recv(&self.caps, &wr);
                let cause = checked.and_then(|()| queue.push(self.shared.max_wr(), wr));
                cause.map_err(|cause| PostError { index: posted, cause })?;
                posted += 1;
                Ok(())
            })
        };
        context.engine.ring_srq(&self.shared);
        if let Err(error) = &result {
            tracing::info!(srqn = %self.srqn(), %error, "post refused");
        }
        result
    }

    /// What it is now.
    pub fn query(&self) -> Result<SrqAttr, Error> {
        self.context().check_alive()?;
        let limit = self.context().engine.srq_limit(self.srqn())?;
        Ok(SrqAttr { max_wr: self.shared.max_wr(), max_sge: self.caps.max_recv_sge, limit })
    }

    /// Changes its size, its limit, or both; all or nothing (`ibv_modify_srq(3)`). When fewer work requests than
    /// `limit` are left, one event says so; 0 disarms it.
    ///
    /// # Errors
    /// A size below what it holds or beyond the device's limit; a limit beyond the size.
    pub fn modify(&self, max_wr: Option<u32>, limit: Option<u32>) -> Result<(), Error> {
        self.context().check_alive()?;
        let size = max_wr.unwrap_or(self.shared.max_wr());
        if max_wr.is_some() {
            check_size(size)?;
        }
        if let Some(limit) = limit
            && limit > size
        {
            let (asked, limit) = (u64::from(limit), u64::from(size));
            return Err(Error::OutOfRange { what: "srq_limit", asked, limit });
        }
        if let Some(max_wr) = max_wr {
            self.shared.resize(max_wr)?;
        }
        match limit {
            Some(limit) => self.context().engine.arm_srq(self.srqn(), limit),
            None => Ok(()),
        }
    }

    /// Acknowledges an asynchronous event.
    pub fn ack_async_event(&self) {
        self.shared.listener().acknowledge();
    }

    /// Makes it ready to be dropped, after all asynchronous events about it have been acknowledged
    /// (`ibv_destroy_srq(3)`). Work requests in it do not complete. Fails while QPs use it (EBUSY).
    pub fn close(&self) -> Result<(), Error> {
        self.context().check_alive()?;
        match self.shared.users() {
            0 => {}
            users => return Err(Error::InUse { what: "SRQ", users }),
        }
        self.context().engine.destroy_srq(&self.shared);
        self.shared.listener().close();
        Ok(())
    }

    fn context(&self) -> &ContextShared {
        &self.pd.pd.context
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        if !self.context().is_dead() {
            self.context().engine.destroy_srq(&self.shared);
        }
    }
}

fn check_size(max_wr: u32) -> Result<(), Error> {
    if max_wr == 0 || max_wr > MAX_SRQ_WR {
        let (asked, limit) = (u64::from(max_wr), u64::from(MAX_SRQ_WR));
        return Err(Error::OutOfRange { what: "max_wr", asked, limit });
    }
    Ok(())
}
