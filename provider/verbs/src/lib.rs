//! RDMA without the RNIC: a RoCEv2 network card that runs inside the process that uses it.
//!
//! The API is the verbs', one call for each, under the field's names: [`devices`] lists devices, [`Device::open`]
//! gives a [`Context`], from which come protection domains ([`Pd`]), memory regions ([`Mr`]), memory windows
//! ([`Mw`]), completion queues ([`Cq`]), queue pairs ([`Qp`]), address handles ([`Ah`]), shared receive queues ([`Srq`]) and XRC domains
//! ([`Xrcd`]). Work requests and completions are the transport's own types, from
//! `ferroce_core`. [`cm`] connects queue pairs through the RDMA CM.
//!
//! Packets leave and arrive through UDP port 4791, which the processes of a host share through a keeper that
//! the first of them starts. Progress is assisted: [`Cq::poll`] on an empty CQ moves packets in the caller's
//! thread; a thread of the engine does it while nobody polls.

mod acks;
mod advise;
mod ah;
mod attr;
pub mod cm;
mod config;
mod context;
mod cq;
mod device;
mod dm;
mod dmabuf;
mod engine;
mod error;
mod events;
mod fork;
mod gid;
pub mod limits;
mod mappings;
mod mcast;
mod memory;
mod mr;
mod mw;
mod notification;
mod pd;
mod post;
mod qp;
mod records;
mod srq;
mod td;
mod xrcd;

pub use advise::Advice;
pub use ah::{Ah, AhAttr};
pub use attr::{DeviceAttr, PortAttr, PortState};
pub use config::Config;
pub use context::Context;
pub use cq::{CompChannel, Cq, CqSpec, PollError, Stamps};
pub use device::{Device, devices};
pub use dm::Dm;
pub use error::{Error, ErrorKind, PostCause, PostError};
pub use events::{AsyncEventKind, AsyncEventRecord};
pub use ferroce_core as core;
pub use gid::{Gid, GidTable};
pub use mr::{Mr, MrChange};
pub use mw::Mw;
pub use notification::Moderation;
pub use pd::{Pd, PdUser};
pub use post::check_inline;
pub use qp::{Qp, QpSpec};
pub use srq::{Srq, SrqAttr, SrqSpec};
pub use td::Td;
pub use xrcd::{Xrcd, XrcdFlags};
