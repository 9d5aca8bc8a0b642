//! The RoCEv2 transport without IO: no socket, no clock, no thread, no unsafe code.
//!
//! Packets, work requests and the time go in; packets, completions, events and the next deadline come out.
//! The same inputs give the same outputs.
#![forbid(unsafe_code)]

mod attr;
mod completion;
mod congestion;
mod context;
mod counters;
mod dcqcn;
mod device;
mod event;
mod fault;
mod gather;
mod halves;
mod icrc_check;
mod inbound;
mod memory;
mod multicast;
mod output;
mod path;
mod pkey;
mod profile;
mod qp;
mod receive_queue;
mod regions;
mod request;
mod requester;
mod responder;
mod sack;
mod schedule;
mod send_queue;
mod sink;
mod snapshot;
mod srq;
pub mod state;
mod table;
mod timers;
mod uc;
mod ud;
mod unreliable;
mod work;
mod xrc;

pub use attr::{AccessFlags, AddressVector, PathMtu, QpAttr, QpAttrMask, QpCaps, QpInit, QpState, QpType};
pub use completion::{Completion, CqId, Queue, Wc, WcFlags, WcOpcode, WcStatus};
pub use counters::{Counter, Counters, MLX5_HW_COUNTERS, PORT_COUNTERS, RXE_HW_COUNTERS};
pub use dcqcn::{Dcqcn, Reacts};
pub use device::{CreateQpError, Device, DeviceConfig, SelectiveRepeatError, Transmit, UnknownQp};
pub use event::{AsyncEvent, Event};
pub use icrc_check::check as check_icrc;
pub use memory::{Backing, BadAddress, Memory, PdId, Place};
pub use multicast::McastError;
pub use path::{Ecn, Ipv4Id, PacketMeta, Path};
pub use pkey::DEFAULT_PKEY;
pub use profile::Profile;
pub use regions::{
    AllocMwError, BindFault, DeregisterError, InvalidateFault, KeyFault, KeyUser, LocalFault, LocalUse,
    MAX_KEYS, MwBind, MwType, RangeFault, RegionChange, RegionKeys, RegionSpec, Regions, RegisterError,
    RemoteFault, ReregisterError, Type2,
};
pub use sink::TransmitSink;
pub use snapshot::{QpSnapshot, RequesterSnapshot, ResponderSnapshot};
pub use srq::{CreateSrqError, DestroySrqError, MAX_SRQS, SrqInit, Srqn, UnknownSrq, XrcSrq};
pub use state::ModifyQpError;
pub use timers::Deadlines;
pub use work::{Flush, FlushPlacement, Payload, RecvWr, Remote, SendFlags, SendOp, SendWr, Sge};
pub use xrc::XrcdId;

/// Time in nanoseconds since a moment of the caller's choice; never runs backwards.
pub type Nanos = u64;
