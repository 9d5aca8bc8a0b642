//! The QP state machine: what `ibv_modify_qp(3)` may do, in which state, with which attributes.
//!
//! ```text
//!            modify            modify            modify            modify
//!   RESET ──────────▶ INIT ──────────▶ RTR ──────────▶ RTS ◀──────────▶ SQD
//!     ▲                │ ▲│             │              │  ▲              │
//!     │ modify         │ └┘ modify      │         send │  │ modify       │
//!     │                │                │       fault, │  │ (UC, UD)     │
//!     │                │                │       UC, UD ▼  │              │
//!  any state           │                │              SQE               │
//!                      │                │               │                │
//!                      └────────────────┴───────┬───────┴────────────────┘
//!                                               ▼ modify, or a fault
//!                                              ERR
//! ```
//! RTS→RTS and SQD→SQD change attributes in place. Everything goes to RESET; everything but RESET goes to ERR;
//! ERR goes nowhere but RESET.
//!
//! Nothing here changes a QP: [`check_modify`] decides, [`apply`] copies the attributes. What entering a state
//! does to queues, timers and PSNs is the QP's own business.

mod table;
#[cfg(test)]
mod tests;

use crate::halves::NextPsns;
use crate::{PathMtu, QpAttr, QpAttrMask, QpState, QpType};
use ferroce_wire::Qpn;
use std::fmt;
use table::transition;
use thiserror::Error;

/// What bounds the attributes of a QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The port's active MTU.
    pub active_mtu: PathMtu,
    /// Most READs and atomics outstanding as requester (the device's `max_qp_init_rd_atom`).
    pub max_qp_rd_atomic: u8,
    /// Most READs and atomics outstanding as responder (the device's `max_qp_rd_atom`).
    pub max_dest_rd_atomic: u8,
    /// Entries of the port's P_Key table.
    pub pkey_tbl_len: u16,
    /// Ports of the device, numbered from 1.
    pub port_count: u8,
}

/// Decides whether a QP of type `qp_type` in state `current` may be modified so; the state it goes to.
///
/// Without STATE in `mask` the state stays and the attributes must be ones that may change in it.
///
/// # Errors
/// The first thing that is wrong. `ibv_modify_qp(3)` demands that nothing has changed then.
pub fn check_modify(
    qp_type: QpType,
    current: QpState,
    attr: &QpAttr,
    mask: QpAttrMask,
    limits: &Limits,
) -> Result<QpState, ModifyQpError> {
    if mask.contains(QpAttrMask::CUR_STATE) && attr.cur_qp_state != current {
        return Err(ModifyQpError::CurStateMismatch { assumed: attr.cur_qp_state, actual: current });
    }
    let to = if mask.contains(QpAttrMask::STATE) { attr.qp_state } else { current };
    let step = Step { qp_type, from: current, to };
    let row = transition(qp_type, current, to).ok_or(ModifyQpError::IllegalTransition { step })?;
    let missing = row.required.difference(mask);
    if !missing.is_empty() {
        return Err(ModifyQpError::MissingAttributes { step, missing });
    }
    let taken = row.required | row.optional;
    let refused = mask.difference(taken | QpAttrMask::STATE);
    if !refused.is_empty() {
        return Err(ModifyQpError::RefusedAttributes { step, refused, taken });
    }
    check_path(attr, mask, limits)?;
    check_ranges(attr, mask, limits)?;
    Ok(to)
}

/// Copies the attributes that `mask` names. To RESET it puts all of them back to their first values, since the
/// state clears everything but what the QP was created with.
pub fn apply(current: &mut QpAttr, attr: &QpAttr, mask: QpAttrMask) {
    if mask.contains(QpAttrMask::STATE) && attr.qp_state == QpState::Reset {
        *current = QpAttr::default();
        return;
    }
    macro_rules! copy {
        ($($bit:ident: $field:ident),* $(,)?) => {
            $(if mask.contains(QpAttrMask::$bit) { current.$field = attr.$field; })*
        };
    }
    copy! {
        STATE: qp_state,
        EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify,
        ACCESS_FLAGS: access,
        PKEY_INDEX: pkey_index,
        PORT: port_num,
        QKEY: qkey,
        AV: av,
        PATH_MTU: path_mtu,
        TIMEOUT: timeout,
        RETRY_CNT: retry_cnt,
        RNR_RETRY: rnr_retry,
        RQ_PSN: rq_psn,
        MAX_QP_RD_ATOMIC: max_rd_atomic,
        MIN_RNR_TIMER: min_rnr_timer,
        SQ_PSN: sq_psn,
        MAX_DEST_RD_ATOMIC: max_dest_rd_atomic,
        PATH_MIG_STATE: path_mig_state,
        DEST_QPN: dest_qpn,
    }
    current.cur_qp_state = current.qp_state;
}

/// What `ibv_query_qp(3)` reports for a QP with the attributes `stored`, which tell its state: those last set, but for
/// the PSNs, which are the next ones in both directions, as ConnectX and rxe report them.
pub(crate) fn query(stored: &QpAttr, next: NextPsns, sq_draining: bool) -> QpAttr {
    let state = stored.qp_state;
    QpAttr { cur_qp_state: state, sq_draining, sq_psn: next.sent, rq_psn: next.expected, ..*stored }
}

/// The attributes that say where packets go.
fn check_path(attr: &QpAttr, mask: QpAttrMask, limits: &Limits) -> Result<(), ModifyQpError> {
    if mask.contains(QpAttrMask::ALT_PATH)
        || (mask.contains(QpAttrMask::PATH_MIG_STATE) && attr.path_mig_state != MIGRATED)
    {
        return Err(ModifyQpError::NoPathMigration);
    }
    let check_port = |port| {
        let known = (1..=limits.port_count).contains(&port);
        known.then_some(()).ok_or(ModifyQpError::UnknownPort { port, port_count: limits.port_count })
    };
    if mask.contains(QpAttrMask::PORT) {
        check_port(attr.port_num)?;
    }
    if mask.contains(QpAttrMask::AV) {
        let av = attr.av.as_ref().ok_or(ModifyQpError::MissingGrh)?;
        check_port(av.port_num)?;
        // A17: service levels 8 to 15 are reserved on RoCE.
        if av.sl > MAX_SL {
            return Err(ModifyQpError::ReservedSl { sl: av.sl });
        }
    }
    if mask.contains(QpAttrMask::PATH_MTU) && attr.path_mtu > limits.active_mtu {
        return Err(ModifyQpError::PathMtuTooLarge { asked: attr.path_mtu, active: limits.active_mtu });
    }
    Ok(())
}

/// The attributes that are plain numbers.
fn check_ranges(attr: &QpAttr, mask: QpAttrMask, limits: &Limits) -> Result<(), ModifyQpError> {
    let last_pkey = limits.pkey_tbl_len.saturating_sub(1);
    let ranges = [
        (QpAttrMask::PKEY_INDEX, attr.pkey_index, last_pkey),
        (QpAttrMask::TIMEOUT, attr.timeout.into(), MAX_TIMER_CODE),
        (QpAttrMask::MIN_RNR_TIMER, attr.min_rnr_timer.into(), MAX_TIMER_CODE),
        (QpAttrMask::RETRY_CNT, attr.retry_cnt.into(), MAX_RETRIES),
        (QpAttrMask::RNR_RETRY, attr.rnr_retry.into(), MAX_RETRIES),
        (QpAttrMask::MAX_QP_RD_ATOMIC, attr.max_rd_atomic.into(), limits.max_qp_rd_atomic.into()),
        (QpAttrMask::MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic.into(), limits.max_dest_rd_atomic.into()),
    ];
    match ranges.into_iter().find(|(bit, value, max)| mask.contains(*bit) && value > max) {
        Some((attribute, value, max)) => Err(ModifyQpError::OutOfRange { attribute, value, max }),
        None => Ok(()),
    }
}

/// A transition that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Type of the QP.
    pub qp_type: QpType,
    /// The state it is in.
    pub from: QpState,
    /// The state it should go to.
    pub to: QpState,
}

/// Why a QP was not modified. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ModifyQpError {
    /// No such QP.
    #[error("there is no QP {qpn}")]
    UnknownQp { qpn: Qpn },
    /// `cur_qp_state` is wrong.
    #[error("CUR_STATE says {assumed}, but the QP is in {actual}")]
    CurStateMismatch { assumed: QpState, actual: QpState },
    /// The table has no such transition.
    #[error("{step} does not exist; from {} it goes to {}", .step.from, Targets(.step))]
    IllegalTransition { step: Step },
    /// Attributes that the transition needs were not given.
    #[error("{step} needs {}, which {} missing", Names(.missing), is_or_are(.missing))]
    MissingAttributes { step: Step, missing: QpAttrMask },
    /// Attributes that the transition does not take were given.
    #[error("{step} does not take {}; it takes {}", Names(.refused), Names(.taken))]
    RefusedAttributes { step: Step, refused: QpAttrMask, taken: QpAttrMask },
    /// ALT_PATH, or PATH_MIG_STATE other than MIGRATED.
    #[error("this device has no automatic path migration: leave ALT_PATH and PATH_MIG_STATE out")]
    NoPathMigration,
    /// The address vector has no GRH, or its GID could not be resolved.
    #[error(
        "the address vector has no GRH: on RoCE set is_global to 1, with a dgid and the sgid_index of a GID"
    )]
    MissingGrh,
    /// A service level that RoCE does not have.
    #[error("service level {sl} is reserved on RoCE, {MAX_SL} is the largest")]
    ReservedSl { sl: u8 },
    /// No such port.
    #[error("there is no port {port}: ports are numbered 1 to {port_count}")]
    UnknownPort { port: u8, port_count: u8 },
    /// `path_mtu` exceeds what the link carries.
    #[error("path_mtu {} exceeds the port's active_mtu {}", .asked.bytes(), .active.bytes())]
    PathMtuTooLarge { asked: PathMtu, active: PathMtu },
    /// A number beyond its limit.
    #[error("{} is {value}, but {max} is the most", Names(.attribute))]
    OutOfRange { attribute: QpAttrMask, value: u16, max: u16 },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let article =
            if matches!(self.qp_type, QpType::Rc | QpType::XrcIni | QpType::XrcTgt) { "an" } else { "a" };
        write!(f, "{}→{} on {article} {} QP", self.from, self.to, self.qp_type)
    }
}

/// The attributes of a set, as a person lists them.
struct Names<'a>(&'a QpAttrMask);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.0.iter_names().map(|(name, _)| name.to_string());
        let unknown = self.0.difference(QpAttrMask::all()).bits();
        let unknown = (unknown != 0).then(|| format!("unknown bits {unknown:#x}"));
        list(f, known.chain(unknown).collect())
    }
}

/// The states that a QP can go to from where it is.
struct Targets<'a>(&'a Step);

impl fmt::Display for Targets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { qp_type, from, .. } = *self.0;
        let targets = table::STATES.into_iter().filter(|to| transition(qp_type, from, *to).is_some());
        list(f, targets.map(|state| state.to_string()).collect())
    }
}

/// "A", "A and B", "A, B and C", or "nothing else".
fn list(f: &mut fmt::Formatter<'_>, mut items: Vec<String>) -> fmt::Result {
    let Some(last) = items.pop() else { return f.write_str("nothing else") };
    match items.len() {
        0 => f.write_str(&last),
        _ => write!(f, "{} and {last}", items.join(", ")),
    }
}

fn is_or_are(set: &QpAttrMask) -> &'static str {
    if set.bits().count_ones() == 1 { "is" } else { "are" }
}

/// Path migration state of a QP whose alternate path is not armed, as all of ours are.
const MIGRATED: u32 = 0;
/// Largest code of the local ACK timeout and of the RNR NAK timer: five bits.
const MAX_TIMER_CODE: u16 = 31;
/// Largest retry count: three bits.
const MAX_RETRIES: u16 = 7;
/// Largest service level.
const MAX_SL: u8 = 7;
