//! The InfiniBand connection manager (IBTA volume 1, chapter 12) without IO: no socket, no clock, no thread.
//!
//! Management datagrams, calls and the time go in; datagrams, events and the next deadline come out. A [`Cm`] has the
//! connections and listeners of one process; whoever owns QP 1 brings it what is addressed to its communication IDs and
//! its services.
//!
//! ```text
//! active                              passive
//! connect ──────── REQ ─────────────► Event::Request
//! Event::Reply ◄── REP ────────────── accept
//! establish ────── RTU ─────────────► Event::Established
//! disconnect ───── DREQ ────────────► Event::Disconnected
//! Event::Disconnected ◄─ DREP ─────── disconnect
//! ```
//! Datagram services are found with [`Cm::resolve`] (SIDR_REQ), which [`Cm::answer`] answers (SIDR_REP).
//!
//! Times and counts are those of the Linux kernel's connection manager (`drivers/infiniband/core/cm.c` and `cma.c`).
#![forbid(unsafe_code)]

mod active;
mod arrival;
mod closing;
mod cm;
mod connection;
mod counters;
mod error;
mod event;
mod ids;
pub mod limits;
mod listeners;
mod params;
mod passive;
mod peers;
mod resolution;
mod scope;
mod timers;

pub use cm::{Cm, CmConfig, Transmit};
pub use counters::{CmCounter, CmCounters};
pub use error::CmCallError;
pub use event::{Change, Datagram, Event, Lookup, Reply, Request};
pub use ids::CommId;
pub use listeners::ListenerId;
pub use params::{
    AcceptParams, Answer, ConnectParams, LookupParams, Orphan, PACKET_LIFETIME, QpSettings, RESPONSE_TIMEOUT,
    Route, ack_timeout, duration_ns,
};
pub use scope::{ListenAddr, ListenScope};
