//! Ends of connections: a QP with CQs and a buffer of its own.

use super::{A, B, Buffer, Lab, Plan, Wr, recv};
use crate::case::{Failure, Outcome, Within};
use crate::states::way_to_rts;
use crate::verbs::{AhAttr, Cq, Endpoint, Pd, Qp, QpSpec, Srq, SrqSpec, Xrcd};
use ferroce_core::{QpAttr, QpAttrMask, QpState, QpType, Sge};
use ferroce_wire::{Psn, Qpn};

/// A QP and what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Where it is.
    pub at: Endpoint,
    /// Its protection domain.
    pub pd: Pd,
    /// Where its send completions go.
    pub send_cq: Cq,
    /// Where its receive completions go.
    pub recv_cq: Cq,
    /// Where its receives come from, if it has no receive queue.
    pub srq: Option<Srq>,
    /// The QP.
    pub qp: Qp,
    /// Its number.
    pub qpn: Qpn,
    /// Registered memory.
    pub buffer: Buffer,
}

/// The other side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The way there.
    pub ah: AhAttr,
    /// Its QPN.
    pub qpn: Qpn,
    /// The first PSN that it sends.
    pub psn: u32,
}

impl Lab {
    /// Two connected ends, at [`A`] and [`B`]. UD QPs are ready to send to whomever.
    ///
    /// # Errors
    /// A call was refused.
    pub fn pair(&mut self, plan: &Plan) -> Result<(End, End), Failure> {
        self.pair_of(plan, plan)
    }

    /// Two connected ends that differ.
    ///
    /// # Errors
    /// A call was refused.
    pub fn pair_of(&mut self, plan_a: &Plan, plan_b: &Plan) -> Result<(End, End), Failure> {
        let (a, b) = (self.end(A, plan_a)?, self.end(B, plan_b)?);
        self.connect(&a, plan_a, &b, plan_b)?;
        self.connect(&b, plan_b, &a, plan_a)?;
        Ok((a, b))
    }

    /// An end whose QP is in RESET.
    ///
    /// # Errors
    /// A call was refused.
    pub fn end(&mut self, at: Endpoint, plan: &Plan) -> Result<End, Failure> {
        let pd = self.fabric.alloc_pd(at)?;
        let buffer = self.planned_buffer(pd, plan)?;
        let (send_cq, recv_cq) = (self.fabric.create_cq(at, plan.cqe)?, self.fabric.create_cq(at, plan.cqe)?);
        let cqs = [send_cq, recv_cq];
        if plan.qp_type == QpType::XrcTgt {
            let xrcd = self.fabric.open_xrcd(at)?;
            let srq = self.srq(pd, plan, Some((xrcd, recv_cq)))?;
            return self.target(xrcd, pd, buffer, cqs, srq);
        }
        let srq = if plan.on_srq { Some(self.srq(pd, plan, None)?) } else { None };
        self.end_on(pd, buffer, cqs, srq, plan)
    }

    /// An SRQ, or an XRC SRQ in a domain that completes to a CQ.
    ///
    /// # Errors
    /// It was refused.
    pub fn srq(&mut self, pd: Pd, plan: &Plan, xrc: Option<(Xrcd, Cq)>) -> Result<Srq, Failure> {
        let spec = SrqSpec { max_wr: plan.caps.max_recv_wr, max_sge: plan.caps.max_recv_sge, xrc };
        self.fabric.create_srq(pd, &spec).within("create_srq")
    }

    /// An XRC target in a domain, which receives for `srq` among others.
    ///
    /// # Errors
    /// It was refused.
    pub fn target(
        &mut self,
        xrcd: Xrcd,
        pd: Pd,
        buffer: Buffer,
        cqs: [Cq; 2],
        srq: Srq,
    ) -> Result<End, Failure> {
        let [send_cq, recv_cq] = cqs;
        let qp = self.fabric.create_xrc_target(xrcd).within("create_xrc_target")?;
        let qpn = self.fabric.qpn(qp);
        Ok(End { at: pd.at, pd, send_cq, recv_cq, srq: Some(srq), qp, qpn, buffer })
    }

    /// One more QP beside others, which shares what is given.
    ///
    /// # Errors
    /// A call was refused.
    pub fn end_with(&mut self, pd: Pd, buffer: Buffer, cqs: [Cq; 2], plan: &Plan) -> Result<End, Failure> {
        self.end_on(pd, buffer, cqs, None, plan)
    }

    /// The same on an SRQ.
    ///
    /// # Errors
    /// A call was refused.
    pub fn end_on(
        &mut self,
        pd: Pd,
        buffer: Buffer,
        cqs: [Cq; 2],
        srq: Option<Srq>,
        plan: &Plan,
    ) -> Result<End, Failure> {
        let [send_cq, recv_cq] = cqs;
        let Plan { qp_type, caps, sq_sig_all, .. } = *plan;
        let spec = QpSpec { qp_type, send_cq, recv_cq, srq, caps, sq_sig_all };
        let qp = self.fabric.create_qp(pd, &spec).within("create_qp")?;
        let qpn = self.fabric.qpn(qp);
        Ok(End { at: pd.at, pd, send_cq, recv_cq, srq, qp, qpn, buffer })
    }

    /// Takes `end` from RESET to RTS with `other` as its peer.
    ///
    /// # Errors
    /// A call was refused.
    pub fn connect(&mut self, end: &End, plan: &Plan, other: &End, other_plan: &Plan) -> Outcome {
        let peer = self.peer(end, plan, other, other_plan)?;
        self.connect_to(end, plan, &peer)
    }

    /// What `end` has to know of `other`.
    ///
    /// # Errors
    /// `end` has no address of the plan's version.
    pub fn peer(&mut self, end: &End, plan: &Plan, other: &End, other_plan: &Plan) -> Result<Peer, Failure> {
        let address = match self.fabric.way_to(other.at, plan.version) {
            Some(way) => way,
            None => self.address(other.at, plan.version)?,
        };
        let ah = AhAttr { traffic_class: plan.traffic_class, ..self.ah_attr(end.at, address)? };
        Ok(Peer { ah, qpn: other.qpn, psn: other_plan.psn })
    }

    /// Takes `end` from RESET to RTS.
    ///
    /// # Errors
    /// A call was refused.
    pub fn connect_to(&mut self, end: &End, plan: &Plan, peer: &Peer) -> Outcome {
        for (state, _) in way_to_rts(plan.qp_type) {
            self.enter(end, plan, peer, state)?;
        }
        Ok(())
    }

    /// The next step from RESET to RTS.
    ///
    /// # Errors
    /// It was refused.
    pub fn enter(&mut self, end: &End, plan: &Plan, peer: &Peer, state: QpState) -> Outcome {
        let way = way_to_rts(plan.qp_type);
        let mask = way.iter().find(|(to, _)| *to == state).map_or(QpAttrMask::empty(), |(_, mask)| *mask);
        let attr = QpAttr { qp_state: state, ..attr_of(plan, peer) };
        self.fabric
            .modify_qp(end.qp, &attr, Some(&peer.ah), mask | QpAttrMask::STATE)
            .within(format_args!("modify_qp to {state}"))
    }

    /// Changes the state and nothing else.
    ///
    /// # Errors
    /// It was refused.
    pub fn to_state(&mut self, end: &End, qp_state: QpState) -> Outcome {
        let attr = QpAttr { qp_state, ..QpAttr::default() };
        self.fabric
            .modify_qp(end.qp, &attr, None, QpAttrMask::STATE)
            .within(format_args!("modify_qp to {qp_state}"))
    }

    /// The state that query_qp reports.
    ///
    /// # Errors
    /// The call was refused.
    pub fn state(&mut self, end: &End) -> Result<QpState, Failure> {
        Ok(self.fabric.query_qp(end.qp)?.qp_state)
    }

    /// Posts one send work request.
    ///
    /// # Errors
    /// It was refused.
    pub fn post(&mut self, end: &End, wr: Wr) -> Outcome {
        self.fabric.post_send(end.qp, vec![wr.into()]).within("post_send")
    }

    /// Posts one receive work request.
    ///
    /// # Errors
    /// It was refused.
    pub fn post_recv(&mut self, end: &End, wr_id: u64, sges: &[Sge]) -> Outcome {
        let wrs = vec![recv(wr_id, sges)];
        match end.srq {
            Some(srq) => self.fabric.post_srq_recv(srq, wrs).within("post_srq_recv"),
            None => self.fabric.post_recv(end.qp, wrs).within("post_recv"),
        }
    }
}

/// All attributes on the way to RTS.
pub fn attr_of(plan: &Plan, peer: &Peer) -> QpAttr {
    QpAttr {
        path_mtu: plan.mtu,
        qkey: plan.qkey,
        rq_psn: Psn::new(peer.psn),
        sq_psn: Psn::new(plan.psn),
        dest_qpn: peer.qpn,
        access: plan.access,
        max_rd_atomic: plan.max_rd_atomic,
        max_dest_rd_atomic: plan.max_dest_rd_atomic,
        min_rnr_timer: plan.min_rnr_timer,
        timeout: plan.timeout,
        retry_cnt: plan.retry_cnt,
        rnr_retry: plan.rnr_retry,
        ..QpAttr::default()
    }
}
