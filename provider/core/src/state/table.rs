//! Which transitions exist, and which attributes each one needs and takes (IBTA 10.3.1). Linux decides by the
//! same table before a driver sees the call.

use crate::{QpAttrMask, QpState, QpType};

/// A transition of some service types and the attributes that go with it, besides STATE.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transition {
    types: &'static [QpType],
    from: &'static [QpState],
    to: QpState,
    /// Must be given.
    pub(super) required: QpAttrMask,
    /// May be given.
    pub(super) optional: QpAttrMask,
}

/// The transition of a QP of type `qp_type`, or `None` where there is none.
pub(super) fn transition(qp_type: QpType, from: QpState, to: QpState) -> Option<&'static Transition> {
    TRANSITIONS.iter().find(|row| row.to == to && row.from.contains(&from) && row.types.contains(&qp_type))
}

/// All states, in the order of their numbers.
pub(super) const STATES: [QpState; 7] =
    [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Err];

use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
use QpType::{Rc, Uc, Ud, XrcIni, XrcTgt};

const ALL: &[QpType] = &[Rc, Uc, Ud, XrcIni, XrcTgt];
const DATAGRAM: &[QpType] = &[Ud];
const CONNECTED: &[QpType] = &[Rc, Uc, XrcIni, XrcTgt];
/// As responders these send nothing: UC has no answers, an XRC initiator is no responder.
const NO_RESPONDER: &[QpType] = &[Uc, XrcIni];
const RESPONDER: &[QpType] = &[Rc, XrcTgt];

const NONE: QpAttrMask = QpAttrMask::empty();

/// What identifies the port; datagram QPs add a Q_Key, connected ones the peer's rights.
const PORT: QpAttrMask = QpAttrMask::PKEY_INDEX.union(QpAttrMask::PORT);
const DATAGRAM_INIT: QpAttrMask = PORT.union(QpAttrMask::QKEY);
const CONNECTED_INIT: QpAttrMask = PORT.union(QpAttrMask::ACCESS_FLAGS);

/// Where the peer is.
const CONNECTION: QpAttrMask =
    QpAttrMask::AV.union(QpAttrMask::PATH_MTU).union(QpAttrMask::DEST_QPN).union(QpAttrMask::RQ_PSN);
/// What may still change when the peer becomes known.
const CONNECTING: QpAttrMask =
    QpAttrMask::ALT_PATH.union(QpAttrMask::ACCESS_FLAGS).union(QpAttrMask::PKEY_INDEX);
/// What a reliable responder needs.
const RESOURCES: QpAttrMask = QpAttrMask::MAX_DEST_RD_ATOMIC.union(QpAttrMask::MIN_RNR_TIMER);
/// What a reliable requester needs.
const RETRIES: QpAttrMask = QpAttrMask::TIMEOUT
    .union(QpAttrMask::RETRY_CNT)
    .union(QpAttrMask::RNR_RETRY)
    .union(QpAttrMask::MAX_QP_RD_ATOMIC);

/// What may change while a QP runs.
const DATAGRAM_RUNNING: QpAttrMask = QpAttrMask::CUR_STATE.union(QpAttrMask::QKEY);
const CONNECTED_RUNNING: QpAttrMask = QpAttrMask::CUR_STATE
    .union(QpAttrMask::ACCESS_FLAGS)
    .union(QpAttrMask::ALT_PATH)
    .union(QpAttrMask::PATH_MIG_STATE);
const RESPONDER_RUNNING: QpAttrMask = CONNECTED_RUNNING.union(QpAttrMask::MIN_RNR_TIMER);

/// What may change only while the send queue is drained.
const DATAGRAM_DRAINED: QpAttrMask = QpAttrMask::PKEY_INDEX.union(QpAttrMask::QKEY);
const UC_DRAINED: QpAttrMask = QpAttrMask::AV
    .union(QpAttrMask::ALT_PATH)
    .union(QpAttrMask::ACCESS_FLAGS)
    .union(QpAttrMask::PKEY_INDEX)
    .union(QpAttrMask::PATH_MIG_STATE);
const XRC_INI_DRAINED: QpAttrMask = UC_DRAINED.union(QpAttrMask::PORT).union(RETRIES);
const XRC_TGT_DRAINED: QpAttrMask =
    UC_DRAINED.union(QpAttrMask::PORT).union(QpAttrMask::TIMEOUT).union(RESOURCES);
const RC_DRAINED: QpAttrMask = XRC_INI_DRAINED.union(RESOURCES);

/// One line of the table.
const fn row(
    types: &'static [QpType],
    from: &'static [QpState],
    to: QpState,
    required: QpAttrMask,
    optional: QpAttrMask,
) -> Transition {
    Transition { types, from, to, required, optional }
}

const TRANSITIONS: &[Transition] = &[
    row(DATAGRAM, &[Reset], Init, DATAGRAM_INIT, NONE),
    row(CONNECTED, &[Reset], Init, CONNECTED_INIT, NONE),
    row(DATAGRAM, &[Init], Init, NONE, DATAGRAM_INIT),
    row(CONNECTED, &[Init], Init, NONE, CONNECTED_INIT),
    row(DATAGRAM, &[Init], Rtr, NONE, DATAGRAM_DRAINED),
    row(NO_RESPONDER, &[Init], Rtr, CONNECTION, CONNECTING),
    row(RESPONDER, &[Init], Rtr, CONNECTION.union(RESOURCES), CONNECTING),
    row(DATAGRAM, &[Rtr], Rts, QpAttrMask::SQ_PSN, DATAGRAM_RUNNING),
    row(&[Uc], &[Rtr], Rts, QpAttrMask::SQ_PSN, CONNECTED_RUNNING),
    row(&[Rc], &[Rtr], Rts, QpAttrMask::SQ_PSN.union(RETRIES), RESPONDER_RUNNING),
    row(&[XrcIni], &[Rtr], Rts, QpAttrMask::SQ_PSN.union(RETRIES), CONNECTED_RUNNING),
    row(&[XrcTgt], &[Rtr], Rts, QpAttrMask::SQ_PSN.union(QpAttrMask::TIMEOUT), RESPONDER_RUNNING),
    row(DATAGRAM, &[Rts, Sqd], Rts, NONE, DATAGRAM_RUNNING),
    row(NO_RESPONDER, &[Rts, Sqd], Rts, NONE, CONNECTED_RUNNING),
    row(RESPONDER, &[Rts, Sqd], Rts, NONE, RESPONDER_RUNNING),
    row(ALL, &[Rts], Sqd, NONE, QpAttrMask::EN_SQD_ASYNC_NOTIFY),
    row(DATAGRAM, &[Sqd], Sqd, NONE, DATAGRAM_DRAINED),
    row(&[Uc], &[Sqd], Sqd, NONE, UC_DRAINED),
    row(&[Rc], &[Sqd], Sqd, NONE, RC_DRAINED),
    row(&[XrcIni], &[Sqd], Sqd, NONE, XRC_INI_DRAINED),
    row(&[XrcTgt], &[Sqd], Sqd, NONE, XRC_TGT_DRAINED),
    // A send error of a reliable QP goes straight to ERR, so only the unreliable ones come back from SQE.
    row(DATAGRAM, &[Sqe], Rts, NONE, DATAGRAM_RUNNING),
    row(&[Uc], &[Sqe], Rts, NONE, QpAttrMask::CUR_STATE.union(QpAttrMask::ACCESS_FLAGS)),
    row(ALL, &STATES, Reset, NONE, NONE),
    row(ALL, &[Init, Rtr, Rts, Sqd, Sqe, Err], Err, NONE, NONE),
];
