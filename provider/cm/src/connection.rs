//! One connection.

use crate::peers::Remote;
use crate::{ListenerId, QpSettings, Route};
use ferroce_core::Nanos;
use ferroce_wire::cm::Transport;
use ferroce_wire::mad::Mad;

/// Where a connection is.
///
/// ```text
/// active                                  passive
///   ReqSent ── REP ──► RepReceived          ReqReceived ── accept ──► RepSent
///     │                  │ establish          │                         │ RTU, or the first packet
///     │ REJ, no answer   ▼                    │ reject                  ▼
///     │                Established ◄──────────│──────────────────── Established
///     ▼                  │ disconnect         ▼                         │ DREQ
///   Idle               DreqSent             Idle                    DreqReceived
///                        │ DREP, DREQ, no answer                        │ disconnect
///                        ▼                                              ▼
///                      Timewait ── time ──► Idle ◄── time ─────────── Timewait
/// ```
/// A REJ leads to Idle from everywhere but Established, from where it leads to Timewait; a DREQ may come in RepSent, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    ReqSent,
    ReqReceived,
    RepSent,
    RepReceived,
    Established,
    DreqSent,
    DreqReceived,
    Timewait,
    Idle,
}

impl State {
    /// For messages: "the connection is …".
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::ReqSent => "waiting for an answer to its request",
            State::ReqReceived => "a request to be answered",
            State::RepSent => "accepted and waiting for the peer to be ready",
            State::RepReceived => "accepted by the peer",
            State::Established => "established",
            State::DreqSent => "being disconnected",
            State::DreqReceived => "disconnected by the peer",
            State::Timewait => "in timewait",
            State::Idle => "ended",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) state: State,
    pub(crate) route: Route,
    pub(crate) transport: Transport,
    /// GUID of our device.
    pub(crate) ca_guid: u64,
    pub(crate) local_qpn: u32,
    /// The peer's end, once it is known.
    pub(crate) remote: Option<Remote>,
    /// Of the messages that set it up; every answer has it, too.
    pub(crate) transaction: u64,
    pub(crate) settings: QpSettings,
    /// How long to wait for an answer.
    pub(crate) patience: Nanos,
    pub(crate) max_retries: u8,
    /// What is sent again when no answer comes.
    pub(crate) pending: Option<Pending>,
    /// The last answer of ours, for a peer that asks again.
    pub(crate) answer: Option<Box<Mad>>,
    /// The listener in whose backlog it waits.
    pub(crate) waits_at: Option<ListenerId>,
    /// Whether somebody wants to hear of it.
    pub(crate) is_owned: bool,
}

/// A message that waits for its answer.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) mad: Box<Mad>,
    /// How often it may be sent again.
    pub(crate) left: u8,
}

impl Connection {
    /// The peer's communication ID; 0 while it is not known.
    pub(crate) fn remote_comm_id(&self) -> u32 {
        self.remote.map_or(0, |remote| remote.comm_id)
    }
}
