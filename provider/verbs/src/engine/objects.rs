//! The verbs on objects that the transport knows: each takes the lock, does its work, and lets a round follow.

use super::{Cqs, Inner, QpShared, SrqShared, State};
use crate::cq::CqShared;
use crate::error::Error;
use crate::events::Listener;
use crate::limits::MAX_CQ;
use ferroce_core::{
    CqId, LocalUse, MwType, PdId, Place, QpAttr, QpAttrMask, QpInit, QpState, RegionChange, RegionKeys,
    RegionSpec, Sge, Srqn,
};
use ferroce_wire::Qpn;
use std::collections::HashMap;
use std::sync::Arc;

/// The QPs, CQs and SRQs of the process, by the transport's names for them.
#[derive(Debug, Default)]
pub(super) struct Objects {
    cqs: HashMap<CqId, Arc<CqShared>>,
    qps: HashMap<Qpn, Arc<QpShared>>,
    srqs: HashMap<Srqn, Arc<SrqShared>>,
    next_cq: u32,
}

impl Objects {
    pub(super) fn cq(&self, id: CqId) -> Option<&Arc<CqShared>> {
        self.cqs.get(&id)
    }

    pub(super) fn qp(&self, qpn: Qpn) -> Option<&Arc<QpShared>> {
        self.qps.get(&qpn)
    }

    pub(super) fn srq(&self, srqn: Srqn) -> Option<&Arc<SrqShared>> {
        self.srqs.get(&srqn)
    }

    pub(super) fn add_srq(&mut self, srq: Arc<SrqShared>) {
        self.srqs.insert(srq.srqn(), srq);
    }

    /// `false` if it is not there.
    pub(super) fn remove_srq(&mut self, srqn: Srqn) -> bool {
        self.srqs.remove(&srqn).is_some()
    }
}

impl Inner {
    /// Adds a CQ, made by `make` under the name given.
    pub(crate) fn add_cq(&self, make: impl FnOnce(CqId) -> CqShared) -> Result<Arc<CqShared>, Error> {
        let mut state = self.state.lock();
        let objects = &mut state.objects;
        if objects.cqs.len() >= MAX_CQ as usize {
            return Err(Error::TooManyCqs { max: MAX_CQ });
        }
        // 2^32 names are not used up before one of 65,536 CQs is free again.
        while CqId(objects.next_cq) == NO_CQ || objects.cqs.contains_key(&CqId(objects.next_cq)) {
            objects.next_cq = objects.next_cq.wrapping_add(1);
        }
        let id = CqId(objects.next_cq);
        objects.next_cq = objects.next_cq.wrapping_add(1);
        let cq = Arc::new(make(id));
        objects.cqs.insert(id, Arc::clone(&cq));
        Ok(cq)
    }

    /// Forgets a CQ that no QP uses.
    pub(crate) fn remove_cq(&self, id: CqId) {
        if !self.is_dead() {
            self.state.lock().objects.cqs.remove(&id);
        }
    }

    /// Registers a region.
    pub(crate) fn register(&self, spec: RegionSpec) -> Result<RegionKeys, Error> {
        Ok(self.state.lock().device.register(spec)?)
    }

    /// Makes a region with nothing behind it.
    pub(crate) fn register_null(&self, pd: PdId) -> Result<RegionKeys, Error> {
        Ok(self.state.lock().device.register_null(pd)?)
    }

    /// Changes a region. The lock is the engine's, so nothing touches the old memory afterwards.
    pub(crate) fn reregister(&self, lkey: u32, change: &RegionChange) -> Result<(), Error> {
        Ok(self.state.lock().device.reregister(lkey, change)?)
    }

    /// Where the memory of `sge` is.
    pub(crate) fn check_local(&self, pd: PdId, sge: &Sge, usage: LocalUse) -> Result<Place, Error> {
        Ok(self.state.lock().device.check_local(pd, sge, usage)?)
    }

    /// Deregisters a region. The lock is the engine's, so nothing touches the memory afterwards.
    pub(crate) fn deregister(&self, lkey: u32) -> Result<(), Error> {
        Ok(self.state.lock().device.deregister(lkey)?)
    }

    /// Deregisters a region in the same way, whatever windows are bound to it.
    pub(crate) fn revoke(&self, lkey: u32) -> Result<(), Error> {
        Ok(self.state.lock().device.revoke(lkey)?)
    }

    /// Makes a memory window; its R_Key.
    pub(crate) fn alloc_mw(&self, pd: PdId, mw_type: MwType) -> Result<u32, Error> {
        Ok(self.state.lock().device.alloc_mw(pd, mw_type)?)
    }

    /// Takes a memory window away.
    pub(crate) fn dealloc_mw(&self, rkey: u32) -> Result<(), Error> {
        Ok(self.state.lock().device.dealloc_mw(rkey)?)
    }

    /// Makes a QP.
    pub(crate) fn create_qp(
        &self,
        init: QpInit,
        cqs: Cqs,
        listener: Arc<Listener>,
    ) -> Result<Arc<QpShared>, Error> {
        let mut state = self.state.lock();
        let qpn = state.device.create_qp(init)?;
        let qp = Arc::new(QpShared::new(qpn, init, cqs, listener));
        state.objects.qps.insert(qpn, Arc::clone(&qp));
        Ok(qp)
    }

    /// The QP with this number.
    pub(crate) fn qp(&self, qpn: Qpn) -> Option<Arc<QpShared>> {
        self.state.lock().objects.qp(qpn).cloned()
    }

    /// Changes a QP's attributes and state.
    pub(crate) fn modify_qp(&self, qp: &Arc<QpShared>, attr: &QpAttr, mask: QpAttrMask) -> Result<(), Error> {
        self.with_state(|inner, state, now| {
            // What was posted and what had arrived before the call belongs to the state before.
            inner.answer_bells(&mut state.device, now);
            if mask.contains(QpAttrMask::STATE) {
                inner.receive_arrived(state);
            }
            if mask.contains(QpAttrMask::STATE) && matches!(attr.qp_state, QpState::Reset | QpState::Err) {
                inner.send_owed(state);
            }
            state.device.modify_qp(now, qp.qpn(), attr, mask)?;
            let reached = state.device.qp_state(qp.qpn()).unwrap_or(QpState::Err);
            qp.set_state(reached);
            if reached == QpState::Reset {
                inner.deliver(state, now);
                qp.forget_work(srq_of(state, qp));
            }
            Ok(())
        })
    }

    /// A QP's attributes.
    pub(crate) fn query_qp(&self, qpn: Qpn) -> Result<QpAttr, Error> {
        Ok(self.state.lock().device.query_qp(qpn)?)
    }

    pub(crate) fn repeat_selectively(&self, qpn: Qpn) -> Result<(), Error> {
        Ok(self.state.lock().device.repeat_selectively(qpn)?)
    }

    /// Takes a QP off the network; does nothing the second time.
    pub(crate) fn destroy_qp(&self, qp: &Arc<QpShared>) {
        self.with_state(|inner, state, now| {
            if state.objects.qps.contains_key(&qp.qpn()) {
                inner.answer_bells(&mut state.device, now);
                inner.deliver(state, now);
                inner.send_owed(state);
                if let Err(error) = state.device.destroy_qp(qp.qpn()) {
                    tracing::error!(%error, "destroying a QP");
                }
                state.objects.qps.remove(&qp.qpn());
                qp.forget_work(srq_of(state, qp));
                qp.release_cqs();
            }
        });
    }

    /// Sends what a QP that is about to stop still owes. The application may have a completion whose acknowledgement
    /// was left behind for a moment; a card would have sent it already, and without it the peer runs into its
    /// retries.
    fn send_owed(&self, state: &mut State) {
        self.progress.take_deferred();
        self.transmit(state);
    }

    /// Runs `work` with the lock, and a round after it.
    pub(super) fn with_state<R>(&self, work: impl FnOnce(&Inner, &mut State, u64) -> R) -> R {
        let mut state = self.state.lock();
        let now = self.now();
        let result = work(self, &mut state, now);
        self.move_packets(&mut state, false);
        drop(state);
        self.answer_late_bells();
        result
    }
}

/// The SRQ that a QP was made with.
fn srq_of<'a>(state: &'a State, qp: &QpShared) -> Option<&'a SrqShared> {
    state.objects.srq(qp.init().srq?).map(|srq| &**srq)
}

/// The CQ of a QP's side that completes nothing.
pub(crate) const NO_CQ: CqId = CqId(u32::MAX);
