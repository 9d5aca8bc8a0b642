//! The QP state machine: every state with every state, and every attribute with every transition.

use crate::case::{Case, Failure, Outcome, Within, ensure, equal};
use crate::lab::{A, B, End, Lab, Peer, Plan, Wr, attr_of};
use crate::needs::Need;
use crate::states::{STATES, each, transition, way_to_rts};
use crate::verbs::Errno;
use ferroce_core::{QpAttr, QpAttrMask, QpState, QpType};

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni, QpType::XrcTgt] {
        for from in STATES {
            // A reliable QP is never in SQE.
            if from == QpState::Sqe && !matches!(qp_type, QpType::Uc | QpType::Ud) {
                continue;
            }
            for to in STATES {
                cases.push(step(qp_type, from, to));
            }
            cases.push(current_state(qp_type, from));
        }
    }
}

fn needs(qp_type: QpType) -> Option<Need> {
    match qp_type {
        QpType::Uc => Some(Need::Uc),
        QpType::Ud => Some(Need::Ud),
        QpType::XrcIni | QpType::XrcTgt => Some(Need::Xrc),
        QpType::Rc => None,
    }
}

fn name(qp_type: QpType, rest: &str) -> String {
    format!("states/{}/{rest}", qp_type.to_string().to_lowercase())
}

fn low(state: QpState) -> String {
    state.to_string().to_lowercase()
}

const RULES: &[&str] = &["IBTA 10.3.1", "ibv_modify_qp(3)", "linux-rdma 40668c0ec"];

/// One transition, or one that does not exist.
fn step(qp_type: QpType, from: QpState, to: QpState) -> Case {
    let name = name(qp_type, &format!("{}-to-{}", low(from), low(to)));
    Case::new(name, RULES, move |lab| {
        let mut subject = Subject::new(lab, qp_type, from)?;
        match transition(qp_type, from, to) {
            None => subject.must_not_go(lab, to),
            Some(row) => subject.must_go(lab, to, row.required, row.optional),
        }
    })
    .needs(needs(qp_type))
}

/// CUR_STATE has to tell the truth.
fn current_state(qp_type: QpType, from: QpState) -> Case {
    Case::new(name(qp_type, &format!("{}-with-another-current-state", low(from))), RULES, move |lab| {
        let subject = Subject::new(lab, qp_type, from)?;
        for assumed in STATES.into_iter().filter(|state| *state != from) {
            let attr = QpAttr { qp_state: QpState::Rts, cur_qp_state: assumed, ..subject.attr };
            let mask = way_to_rts(qp_type)[2].1 | QpAttrMask::STATE | QpAttrMask::CUR_STATE;
            subject.refused(lab, &attr, mask)?;
        }
        Ok(())
    })
    .needs(needs(qp_type))
}

/// A QP in some state.
struct Subject {
    end: End,
    plan: Plan,
    peer: Peer,
    /// Good values for every attribute.
    attr: QpAttr,
    from: QpState,
}

/// Every attribute that a modify can name.
const EVERY: QpAttrMask = QpAttrMask::all()
    .difference(QpAttrMask::STATE)
    // They are about other calls and other devices.
    .difference(QpAttrMask::CAP)
    .difference(QpAttrMask::RATE_LIMIT);
/// What this device refuses wherever it stands, since it has no alternate path; optional in the table.
const NO_MIGRATION: QpAttrMask = QpAttrMask::ALT_PATH;

impl Subject {
    fn new(lab: &mut Lab, qp_type: QpType, from: QpState) -> Result<Subject, Failure> {
        let plan = Plan::new(qp_type);
        let (end, other) = (lab.end(A, &plan)?, lab.end(B, &plan)?);
        let peer = lab.peer(&end, &plan, &other, &plan)?;
        let mut subject = Subject { end, plan, peer, attr: attr_of(&plan, &peer), from };
        subject.bring(lab).within(format_args!("on the way to {from}"))?;
        Ok(subject)
    }

    /// Takes the QP from RESET to the state that the case begins in.
    fn bring(&mut self, lab: &mut Lab) -> Outcome {
        for (state, _) in way_to_rts(self.plan.qp_type) {
            let (now, from) = (state as u32, self.from as u32);
            let on_the_way = now <= from || matches!(self.from, QpState::Sqd | QpState::Sqe | QpState::Err);
            if on_the_way {
                lab.enter(&self.end, &self.plan, &self.peer, state)?;
            }
        }
        match self.from {
            QpState::Sqd => lab.to_state(&self.end, QpState::Sqd)?,
            QpState::Err => lab.to_state(&self.end, QpState::Err)?,
            QpState::Sqe => self.fail_a_send(lab)?,
            _ => {}
        }
        self.attr.cur_qp_state = self.from;
        equal("state", lab.state(&self.end)?, self.from)
    }

    /// A send error takes an unreliable QP to SQE.
    fn fail_a_send(&self, lab: &mut Lab) -> Outcome {
        let mut sge = self.end.buffer.sge(0, 8);
        sge.lkey ^= 1;
        let ah = lab.fabric.create_ah(self.end.pd, &self.peer.ah);
        let wr = Wr::send(1).sge(sge);
        let wr = match (self.plan.qp_type, ah) {
            (QpType::Ud, ah) => wr.to(ah?, self.peer.qpn, self.plan.qkey),
            _ => wr,
        };
        lab.post(&self.end, wr)?;
        lab.wait_send(&self.end)?;
        lab.wait_state(&self.end, QpState::Sqe)
    }

    /// Back to the state that the case begins in.
    fn again(&mut self, lab: &mut Lab) -> Outcome {
        lab.to_state(&self.end, QpState::Reset)?;
        self.bring(lab)
    }

    /// There is no such transition, whatever attributes are given.
    fn must_not_go(&mut self, lab: &mut Lab, to: QpState) -> Outcome {
        let attr = QpAttr { qp_state: to, ..self.attr };
        self.refused(lab, &attr, QpAttrMask::STATE).within("with STATE alone")?;
        for (state, mask) in way_to_rts(self.plan.qp_type) {
            self.refused(lab, &attr, mask | QpAttrMask::STATE)
                .within(format_args!("with the attributes for {state}"))?;
        }
        self.refused(lab, &attr, EVERY | QpAttrMask::STATE).within("with every attribute")
    }

    /// There is such a transition: with what it needs, with each thing that it may have, with nothing less and nothing
    /// more.
    fn must_go(&mut self, lab: &mut Lab, to: QpState, required: QpAttrMask, optional: QpAttrMask) -> Outcome {
        let attr = QpAttr { qp_state: to, ..self.attr };
        for missing in each(required) {
            self.refused(lab, &attr, (required - missing) | QpAttrMask::STATE)
                .within(format_args!("without {missing:?}"))?;
        }
        for foreign in each(EVERY - required - optional) {
            self.refused(lab, &attr, required | foreign | QpAttrMask::STATE)
                .within(format_args!("with {foreign:?}"))?;
        }
        for none in each(optional & NO_MIGRATION) {
            self.refused(lab, &attr, required | none | QpAttrMask::STATE)
                .within(format_args!("with {none:?}, which this device does not have"))?;
        }
        for allowed in each(optional - NO_MIGRATION) {
            self.goes(lab, &attr, required | allowed).within(format_args!("with {allowed:?}"))?;
            self.again(lab)?;
        }
        self.goes(lab, &attr, required).within("with what it needs")
    }

    /// The modify succeeds, and the QP is as it says.
    fn goes(&self, lab: &mut Lab, attr: &QpAttr, mask: QpAttrMask) -> Outcome {
        lab.fabric.modify_qp(self.end.qp, attr, Some(&self.peer.ah), mask | QpAttrMask::STATE)?;
        let now = lab.fabric.query_qp(self.end.qp)?;
        equal("states that query_qp reports", [now.qp_state, now.cur_qp_state], [attr.qp_state; 2])?;
        if attr.qp_state == QpState::Reset {
            return Ok(());
        }
        let fields = |attr: &QpAttr| values(attr, mask);
        equal("attributes that query_qp reports", fields(&now), fields(attr))
    }

    /// The modify is refused with EINVAL and a reason, and the QP is as before.
    fn refused(&self, lab: &mut Lab, attr: &QpAttr, mask: QpAttrMask) -> Outcome {
        let before = lab.fabric.query_qp(self.end.qp)?;
        let result = lab.fabric.modify_qp(self.end.qp, attr, Some(&self.peer.ah), mask);
        let Err(refused) = result else { return Err(Failure::new("modify_qp did what it should refuse")) };
        equal("errno", refused.errno, Errno::EINVAL)?;
        ensure(!refused.reason.is_empty(), "the refusal has no reason")?;
        equal("attributes after a refusal", lab.fabric.query_qp(self.end.qp)?, before)
    }
}

/// The values that `mask` names and query_qp has to report.
fn values(attr: &QpAttr, mask: QpAttrMask) -> Vec<(&'static str, u64)> {
    [
        (QpAttrMask::ACCESS_FLAGS, "access", u64::from(attr.access.bits())),
        (QpAttrMask::PKEY_INDEX, "pkey_index", attr.pkey_index.into()),
        (QpAttrMask::PORT, "port_num", attr.port_num.into()),
        (QpAttrMask::QKEY, "qkey", attr.qkey.into()),
        (QpAttrMask::PATH_MTU, "path_mtu", attr.path_mtu.bytes().into()),
        (QpAttrMask::TIMEOUT, "timeout", attr.timeout.into()),
        (QpAttrMask::RETRY_CNT, "retry_cnt", attr.retry_cnt.into()),
        (QpAttrMask::RNR_RETRY, "rnr_retry", attr.rnr_retry.into()),
        (QpAttrMask::RQ_PSN, "rq_psn", attr.rq_psn.value().into()),
        (QpAttrMask::MAX_QP_RD_ATOMIC, "max_rd_atomic", attr.max_rd_atomic.into()),
        (QpAttrMask::MIN_RNR_TIMER, "min_rnr_timer", attr.min_rnr_timer.into()),
        (QpAttrMask::SQ_PSN, "sq_psn", attr.sq_psn.value().into()),
        (QpAttrMask::MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", attr.max_dest_rd_atomic.into()),
        (QpAttrMask::DEST_QPN, "dest_qpn", attr.dest_qpn.value().into()),
    ]
    .into_iter()
    .filter(|(bit, _, _)| mask.contains(*bit))
    .map(|(_, name, value)| (name, value))
    .collect()
}
