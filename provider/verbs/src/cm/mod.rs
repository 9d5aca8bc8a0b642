//! Connections: the RDMA CM (`rdma_cm(7)`), as a Rust API.
//!
//! A [`CmId`] is what a socket is to TCP: it is bound, resolved, listens, connects. What happens to it comes as
//! [`CmEvent`]s through its [`CmEventChannel`]. Beneath lies the InfiniBand connection manager of `ferroce-cm`, whose
//! datagrams go through QP 1, which the keeper owns for all processes of the host.
//!
//! ```text
//! active                                   passive
//! bind*, resolve_addr → AddrResolved       bind, listen
//! resolve_route       → RouteResolved
//! connect                                  → ConnectRequest (with an ID of its own)
//!                                          set_up_qp, accept
//! → ConnectResponse
//! set_up_qp, establish → Established       → Established
//! disconnect          → Disconnected       → Disconnected, disconnect
//! ```
//! An ID of the port space UDP looks a datagram service up instead: `connect` leads to `Established` with the address
//! vector, queue pair and Q_Key of the service, and the passive side's `accept` answers.

mod agent;
mod attributes;
mod channel;
mod dispatch;
mod event;
mod id;
mod resolve;
mod state;

pub use attributes::QpSetup;
pub use channel::CmEventChannel;
pub use event::{CmEvent, CmEventKind, ConnParam, UdParam};
pub use ferroce_cm::PACKET_LIFETIME;
pub use ferroce_wire::cm::{PortSpace, RejectReason};
pub use id::CmId;
pub use resolve::device_of;

/// The Q_Key of datagram services whose application chose none (`RDMA_UDP_QKEY`).
pub const UDP_QKEY: u32 = 0x0123_4567;
