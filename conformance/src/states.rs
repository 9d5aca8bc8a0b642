//! The QP state machine as the suite expects it: transitions, and the attributes that each needs and takes besides
//! STATE (IBTA 10.3.1, ibv_modify_qp(3)). Written down here a second time on purpose: the suite does not ask the
//! implementation what is right.

use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
use QpType::{Rc, Uc, Ud, XrcIni, XrcTgt};
use ferroce_core::{QpAttrMask, QpState, QpType};

/// A transition of QPs of some types.
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    types: &'static [QpType],
    from: QpState,
    to: QpState,
    /// Must be given.
    pub required: QpAttrMask,
    /// May be given.
    pub optional: QpAttrMask,
}

/// All states.
pub const STATES: [QpState; 7] = [Reset, Init, Rtr, Rts, Sqd, Sqe, Err];

/// The transition, if there is one.
pub fn transition(qp_type: QpType, from: QpState, to: QpState) -> Option<Transition> {
    match to {
        Reset => Some(Transition { types: ALL, from, to, required: NONE, optional: NONE }),
        Err if from != Reset => Some(Transition { types: ALL, from, to, required: NONE, optional: NONE }),
        _ => TRANSITIONS
            .iter()
            .find(|row| row.from == from && row.to == to && row.types.contains(&qp_type))
            .copied(),
    }
}

/// What each step from RESET to RTS needs.
pub fn way_to_rts(qp_type: QpType) -> [(QpState, QpAttrMask); 3] {
    let required = |from, to| transition(qp_type, from, to).map_or(NONE, |row| row.required);
    [(Init, required(Reset, Init)), (Rtr, required(Init, Rtr)), (Rts, required(Rtr, Rts))]
}

/// The attributes in `mask`, one by one.
pub fn each(mask: QpAttrMask) -> impl Iterator<Item = QpAttrMask> {
    mask.iter()
}

const ALL: &[QpType] = &[Rc, Uc, Ud, XrcIni, XrcTgt];
const CONNECTED: &[QpType] = &[Rc, Uc, XrcIni, XrcTgt];
const NONE: QpAttrMask = QpAttrMask::empty();

/// A set written as the man page writes it.
macro_rules! mask {
    ($($bit:ident)*) => { QpAttrMask::empty()$(.union(QpAttrMask::$bit))* };
}

/// One line of the table.
macro_rules! row {
    ($types:expr, $from:ident to $to:ident, needs [$($need:ident)*], takes [$($take:ident)*]) => {
        Transition {
            types: $types,
            from: $from,
            to: $to,
            required: mask!($($need)*),
            optional: mask!($($take)*),
        }
    };
}

const TRANSITIONS: &[Transition] = &[
    row!(&[Ud], Reset to Init, needs [PKEY_INDEX PORT QKEY], takes []),
    row!(CONNECTED, Reset to Init, needs [PKEY_INDEX PORT ACCESS_FLAGS], takes []),
    row!(&[Ud], Init to Init, needs [], takes [PKEY_INDEX PORT QKEY]),
    row!(CONNECTED, Init to Init, needs [], takes [PKEY_INDEX PORT ACCESS_FLAGS]),
    row!(&[Ud], Init to Rtr, needs [], takes [PKEY_INDEX QKEY]),
    row!(&[Uc, XrcIni], Init to Rtr, needs [AV PATH_MTU DEST_QPN RQ_PSN], takes [ALT_PATH ACCESS_FLAGS PKEY_INDEX]),
    row!(&[Rc, XrcTgt], Init to Rtr,
        needs [AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER],
        takes [ALT_PATH ACCESS_FLAGS PKEY_INDEX]),
    row!(&[Ud], Rtr to Rts, needs [SQ_PSN], takes [CUR_STATE QKEY]),
    row!(&[Uc], Rtr to Rts, needs [SQ_PSN], takes [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE]),
    row!(&[Rc], Rtr to Rts,
        needs [SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC],
        takes [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER]),
    row!(&[XrcIni], Rtr to Rts,
        needs [SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC],
        takes [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE]),
    row!(&[XrcTgt], Rtr to Rts,
        needs [SQ_PSN TIMEOUT],
        takes [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER]),
    row!(&[Ud], Rts to Rts, needs [], takes [CUR_STATE QKEY]),
    row!(&[Uc, XrcIni], Rts to Rts, needs [], takes [CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE]),
    row!(&[Rc, XrcTgt], Rts to Rts, needs [], takes [CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER]),
    row!(ALL, Rts to Sqd, needs [], takes [EN_SQD_ASYNC_NOTIFY]),
    row!(&[Ud], Sqd to Sqd, needs [], takes [PKEY_INDEX QKEY]),
    row!(&[Uc], Sqd to Sqd, needs [], takes [AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE]),
    row!(&[Rc], Sqd to Sqd, needs [], takes [PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC
        MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE]),
    row!(&[XrcIni], Sqd to Sqd, needs [], takes [PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC
        ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE]),
    row!(&[XrcTgt], Sqd to Sqd, needs [], takes [PORT AV TIMEOUT MAX_DEST_RD_ATOMIC
        ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE]),
    row!(&[Ud], Sqd to Rts, needs [], takes [CUR_STATE QKEY]),
    row!(&[Uc, XrcIni], Sqd to Rts, needs [], takes [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE]),
    row!(&[Rc, XrcTgt], Sqd to Rts, needs [], takes [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER]),
    row!(&[Ud], Sqe to Rts, needs [], takes [CUR_STATE QKEY]),
    row!(&[Uc], Sqe to Rts, needs [], takes [CUR_STATE ACCESS_FLAGS]),
];
