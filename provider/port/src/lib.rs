//! Everything of Ferroce that talks to the operating system about packets: UDP sockets with segmentation offload,
//! the sockets that processes share, shared memory and descriptor passing, facts about interfaces.
//!
//! The transport never sees a socket; it sees a [`TransmitSink`](ferroce_core::TransmitSink) and packet slices.

pub mod abstract_socket;
pub mod fd_passing;
pub mod holder;
pub mod process;
pub mod receive_socket;
pub mod shared;
mod sys;
pub mod wait;

pub use receive_socket::{ReceiveSocketError, Sharing, open_receive_socket, steer_by_qpn};
