//! What the transport tells its owner besides packets and completions.

use crate::Srqn;
use ferroce_wire::Qpn;
use std::borrow::Cow;

/// Something that happened inside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An asynchronous event for the application (`ibv_get_async_event(3)`).
    Async(AsyncEvent),
    /// The reason behind a refusal, a NAK or an error completion, for a person to read.
    Reason {
        /// The QP it is about.
        qpn: Qpn,
        /// A sentence with the numbers in it.
        text: Cow<'static, str>,
    },
}

/// Asynchronous events about QPs and SRQs (IBTA 11.6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsyncEvent {
    /// First packet arrived at a QP in RTR.
    CommEst(Qpn),
    /// The send queue has drained after a transition to SQD.
    SqDrained(Qpn),
    /// The QP went to the error state by a fault that no completion can carry.
    QpFatal(Qpn),
    /// A peer's request was invalid and no receive WQE could carry the error.
    QpReqErr(Qpn),
    /// A peer's request broke an access right and no receive WQE could carry the error.
    QpAccessErr(Qpn),
    /// The QP, which is in the error state, takes no more receive WQEs from its SRQ.
    QpLastWqeReached(Qpn),
    /// Fewer WQEs are in the SRQ than its limit, which is disarmed now.
    SrqLimitReached(Srqn),
    /// The CQ that the SRQ completes to has overrun, and the SRQ is dead.
    SrqErr(Srqn),
}

impl AsyncEvent {
    /// The QP it is about.
    pub fn qpn(&self) -> Option<Qpn> {
        match *self {
            AsyncEvent::CommEst(qpn)
            | AsyncEvent::SqDrained(qpn)
            | AsyncEvent::QpFatal(qpn)
            | AsyncEvent::QpReqErr(qpn)
            | AsyncEvent::QpAccessErr(qpn)
            | AsyncEvent::QpLastWqeReached(qpn) => Some(qpn),
            AsyncEvent::SrqLimitReached(_) | AsyncEvent::SrqErr(_) => None,
        }
    }

    /// The SRQ it is about.
    pub fn srqn(&self) -> Option<Srqn> {
        match *self {
            AsyncEvent::SrqLimitReached(srqn) | AsyncEvent::SrqErr(srqn) => Some(srqn),
            _ => None,
        }
    }
}
