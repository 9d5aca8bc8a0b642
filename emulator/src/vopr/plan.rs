//! What a run does: a network, and steps that are applied one after the other.
//!
//! A step names connections by number and skips itself when what it names does not exist or is not in a state for it,
//! so that any steps can be left out and the rest is still a plan. That is what shrinking lives on.

use crate::egress::EcnMarking;
use crate::link::LinkConfig;
use crate::pfc::Pfc;
use crate::rules::RandomFaults;
use ferroce_core::{Nanos, PathMtu, QpType};
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// A whole run. The same plan always runs the same way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The seed of the network's chances.
    pub seed: u64,
    /// The network.
    pub shape: Shape,
    /// What is done, in this order.
    pub steps: Vec<Step>,
}

/// The network of a run: hosts around a switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Hosts with a card; one without comes on top, as the source of noise.
    pub hosts: u8,
    /// The link of each.
    pub link: LinkConfig,
    /// Bytes of each queue of the switch.
    pub queue_bytes: u64,
    /// ECN marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<EcnMarking>,
    /// Flow control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc: Option<Pfc>,
    /// Bytes of each queue of a card.
    pub nic_queue_bytes: u64,
    /// Largest window of a QP in packets, and the first one.
    pub window_packets: [u32; 2],
    /// Whether QPs slow down when they are told of congestion (DCQCN).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dcqcn: bool,
}

/// One thing that is done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Time passes.
    Wait {
        /// Nanoseconds.
        ns: Nanos,
    },
    /// Two QPs are created and connected.
    Connect(Connect),
    /// A send work request is posted.
    Send(Send),
    /// A receive work request is posted.
    Receive(Receive),
    /// A QP is modified or destroyed.
    Modify {
        /// Which.
        end: End,
        /// How.
        to: Modify,
    },
    /// A region is deregistered.
    Deregister {
        /// Of this host.
        host: u8,
        /// Any number; it picks one of the regions there are.
        pick: u32,
    },
    /// The process on a host dies and another starts.
    Restart {
        /// Which host.
        host: u8,
    },
    /// From now on faults have these chances.
    Faults(RandomFaults),
    /// A host's link goes down or comes back.
    Link {
        /// Which host's.
        host: u8,
        /// Whether it is up from now on.
        up: bool,
    },
    /// A CQ of a QP overruns.
    Overrun {
        /// Whose.
        end: End,
        /// The receive CQ, or the send CQ.
        receive: bool,
    },
    /// The limit of the SRQ that an end receives from is armed.
    Limit {
        /// Whose SRQ.
        end: End,
        /// Receive work requests.
        limit: u8,
    },
    /// Somebody who has no business with it sends a QP a packet.
    Noise(Noise),
    /// A QP is made whose peer is the host without a card.
    Expose(Expose),
    /// That peer sends it packets: some that go on from where the QP is, some spoilt, some of no sense at all.
    Attack {
        /// The QP's number.
        prey: u32,
        /// How many.
        packets: u8,
        /// What they are follows from it and from the plan's seed.
        salt: u32,
    },
    /// An exposed QP is modified, with attributes that follow from the salt: some way that its state has, or none.
    Twist {
        /// The QP's number.
        prey: u32,
        /// What is asked for follows from it and from the plan's seed.
        salt: u32,
    },
}

/// One end of a connection: its number, and `a` or `b`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct End {
    /// The connection.
    pub connection: u32,
    /// 0 for a, 1 for b.
    pub side: u8,
}

/// A connection to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// Its number, by which steps name it.
    pub number: u32,
    /// Where its ends are.
    pub hosts: [u8; 2],
    /// The service.
    pub service: Service,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// First PSN of each end.
    pub psns: [u32; 2],
    /// Local ACK timeout code.
    pub timeout: u8,
    /// Transport retries.
    pub retry_cnt: u8,
    /// RNR retries.
    pub rnr_retry: u8,
    /// RNR timer code.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding, by requester; the responder takes as many or more.
    pub rd_atomic: [u8; 2],
    /// Whether every send WR makes a completion, at each end.
    pub sig_all: [bool; 2],
    /// Protection domain of both ends, 1 or 2.
    pub pd: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Whether it goes over IPv6.
    pub ipv6: bool,
    /// Whether b stays in RTR until it is resumed.
    pub late: bool,
    /// Whether both ends repeat selectively, where the service repeats at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub selective: bool,
    /// The number, on its host, of the SRQ that each end receives from; 0 for a queue of its own. XRC SRQs count by
    /// themselves, and a target without one has number 0 of those.
    #[serde(default)]
    pub srq: [u8; 2],
}

/// A service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// RC.
    Rc,
    /// UC.
    Uc,
    /// UD; both QPs send to each other alone.
    Ud,
    /// XRC; a is the initiator and b the target.
    Xrc,
}

impl Service {
    /// As the core names the QP of an end.
    pub fn qp_type(self, side: u8) -> QpType {
        match (self, side) {
            (Service::Rc, _) => QpType::Rc,
            (Service::Uc, _) => QpType::Uc,
            (Service::Ud, _) => QpType::Ud,
            (Service::Xrc, 0) => QpType::XrcIni,
            (Service::Xrc, _) => QpType::XrcTgt,
        }
    }

    /// Whether requests are answered, and repeated until they are.
    pub fn is_reliable(self) -> bool {
        matches!(self, Service::Rc | Service::Xrc)
    }

    /// Whether it has an operation.
    pub fn has(self, op: Op) -> bool {
        match self {
            Service::Rc => true,
            // XRC has them; their windows are not part of the model.
            Service::Xrc => !op.is_of_window(),
            Service::Uc => !op.is_answered() && !op.is_of_window(),
            Service::Ud => matches!(op, Op::Send | Op::SendImm),
        }
    }

    /// Whether an end sends requests.
    pub fn sends(self, side: u8) -> bool {
        self != Service::Xrc || side == 0
    }

    /// Whether an end receives messages.
    pub fn receives(self, side: u8) -> bool {
        self != Service::Xrc || side == 1
    }
}

/// A path MTU as the core names it; the largest that is not above what the plan says.
pub(super) fn path_mtu(bytes: u32) -> PathMtu {
    PathMtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= bytes).unwrap_or(PathMtu::Mtu256)
}

/// A send work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// Where.
    pub end: End,
    /// What.
    pub op: Op,
    /// Bytes; atomics have 8 whatever this says.
    pub len: u32,
    /// Elements of its list; 0 for inline data, where the operation takes any and the message is short.
    pub sges: u8,
    /// Whether it asks for a completion.
    pub signaled: bool,
    /// Whether it waits for READs and atomics before it.
    pub fence: bool,
    /// Whether it asks for a solicited event.
    pub solicited: bool,
    /// Whether its memory of the peer is reached through a window, where there is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub window: bool,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Flaw::is_none")]
    pub flaw: Flaw,
}

/// The operation of a send work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImm,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate.
    WriteImm,
    /// RDMA READ.
    Read,
    /// Fetch and add.
    FetchAdd,
    /// Compare and swap.
    CompareSwap,
    /// A memory window is bound, for the peer.
    Bind,
    /// A memory window that was bound for the peer is taken back.
    LocalInvalidate,
    /// SEND that takes a memory window of the peer back.
    SendInvalidate,
}

impl Op {
    /// Whether it is a READ or an atomic: done by a response of its own.
    pub fn is_answered(self) -> bool {
        matches!(self, Op::Read | Op::FetchAdd | Op::CompareSwap)
    }

    /// Whether it is an atomic.
    pub fn is_atomic(self) -> bool {
        matches!(self, Op::FetchAdd | Op::CompareSwap)
    }

    /// Whether it takes a receive WQE from the peer.
    pub fn consumes_receive(self) -> bool {
        matches!(self, Op::Send | Op::SendImm | Op::SendInvalidate | Op::WriteImm)
    }

    /// Whether it sends nothing.
    pub fn is_local(self) -> bool {
        matches!(self, Op::Bind | Op::LocalInvalidate)
    }

    /// Whether it is about a memory window.
    pub fn is_of_window(self) -> bool {
        self.is_local() || self == Op::SendInvalidate
    }

    /// Whether it names memory of the peer.
    pub fn is_remote(self) -> bool {
        self.is_answered() || self.is_write()
    }

    /// Whether its data goes into the peer's memory at an address that it names.
    pub fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::WriteImm)
    }
}

/// What is wrong with a send work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flaw {
    /// Nothing.
    #[default]
    None,
    /// An R_Key that means nothing.
    BadRkey,
    /// A range that ends behind the region.
    OutOfRange,
    /// A region without the right.
    NoRight,
    /// A region of another protection domain.
    OtherPd,
    /// An atomic's address that is no multiple of 8.
    Misaligned,
    /// An L_Key that means nothing.
    BadLkey,
    /// A Q_Key that is not the peer's.
    BadQkey,
    /// The key of a memory window that was taken back.
    Unbound,
}

impl Flaw {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Flaw::None
    }
}

/// A receive work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    /// Where.
    pub end: End,
    /// Bytes.
    pub len: u32,
    /// Elements of its list.
    pub sges: u8,
    /// Whether its L_Key means nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bad_lkey: bool,
}

/// What is done to a QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Modify {
    /// To ERR.
    Error,
    /// RTS to SQD, with the event.
    Drain,
    /// RTR, SQD or SQE to RTS.
    Resume,
    /// To RESET.
    Reset,
    /// Both ends to RESET, and connected anew.
    Reconnect,
    /// It is destroyed.
    Destroy,
    /// Something that no state allows: it is refused, and nothing changes.
    Nonsense,
    /// To a state that none leads to from where it is, as the verbs number them: the same.
    Leap {
        /// The state.
        to: u8,
        /// The mask, beside the state.
        mask: u32,
    },
}

/// A packet from somebody else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// To whom.
    pub end: End,
    /// The opcode byte.
    pub opcode: u8,
    /// Its PSN, counted from the one that is expected.
    pub psn: i32,
    /// Bytes behind the BTH, which follow from the plan's seed. Of a copy, which of the packets seen last it is, and
    /// what is changed in it.
    pub len: u16,
    /// As what it comes. In each case one thing is wrong that any card sees.
    pub guise: Guise,
}

/// As what a packet of somebody else comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guise {
    /// It says who sent it, and its ICRC is right.
    Stranger,
    /// It says that it comes from the peer, and its ICRC is wrong.
    Forged,
    /// It says that it comes from the peer, its ICRC is right, and its P_Key is that of another partition.
    Partition,
    /// It is a copy, with some bytes changed, of one that was just on the wire, to whom that went; it says who sent
    /// it, and its ICRC is right. The Q_Key of a datagram is wrong.
    Copy,
    /// The same, and it says that it comes from where the first came from, and its ICRC is wrong.
    ForgedCopy,
}

/// A QP whose peer is the host without a card, which sends it whatever there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expose {
    /// Its number, by which steps name it.
    pub number: u32,
    /// Where it is.
    pub host: u8,
    /// The service.
    pub service: Service,
    /// Of XRC: 0 for an initiator, 1 for a target.
    pub side: u8,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// First PSN of the QP, and of the peer.
    pub psns: [u32; 2],
    /// Local ACK timeout code.
    pub timeout: u8,
    /// Transport retries.
    pub retry_cnt: u8,
    /// READs and atomics outstanding as requester and as responder.
    pub rd_atomic: [u8; 2],
    /// Whether it goes over IPv6.
    pub ipv6: bool,
    /// Whether it repeats selectively, where the service repeats at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub selective: bool,
    /// Send and receive work requests that it begins with.
    pub work: [u8; 2],
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// The line that is wrong, and what is wrong with it.
    pub fn from_toml(text: &str) -> Result<Plan, PlanError> {
        toml::from_str(text).map_err(|error| PlanError(error.to_string()))
    }
}

/// As it is read: TOML with a step on each line.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inline = |value: Result<toml::Value, _>| value.map_err(|_: toml::ser::Error| fmt::Error);
        writeln!(f, "seed = {}", self.seed)?;
        writeln!(f, "shape = {}", inline(toml::Value::try_from(&self.shape))?)?;
        writeln!(f, "steps = [")?;
        for step in &self.steps {
            writeln!(f, "    {},", inline(toml::Value::try_from(step))?)?;
        }
        writeln!(f, "]")
    }
}

/// Why a text is no plan.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the plan is not right: {0}")]
pub struct PlanError(String);

impl TryFrom<String> for End {
    type Error = String;

    fn try_from(text: String) -> Result<End, String> {
        let split = text.len().saturating_sub(1);
        let (number, side) = text.split_at_checked(split).unwrap_or(("", ""));
        let side = match side {
            "a" => 0,
            "b" => 1,
            _ => return Err(format!("{text:?} is no end of a connection; ends look like 3a and 3b")),
        };
        let connection =
            number.parse().map_err(|_| format!("{text:?} does not begin with a connection's number"))?;
        Ok(End { connection, side })
    }
}

impl From<End> for String {
    fn from(end: End) -> String {
        end.to_string()
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.connection, if self.side == 0 { 'a' } else { 'b' })
    }
}
