//! Everything of Ferroce that talks to the operating system about packets: UDP sockets with segmentation offload,
//! the sockets that processes share, shared memory and descriptor passing, facts about interfaces.
//!
//! The transport never sees a socket; it sees a [`TransmitSink`](ferroce_core::TransmitSink) and packet slices.

pub mod abstract_socket;
pub mod fd_passing;
pub mod holder;
mod interface_watch;
pub mod interfaces;
pub mod mappings;
mod multicast;
mod off_stdio;
mod port;
pub mod process;
pub mod receive_socket;
mod reported;
pub mod self_test;
pub mod shared;
mod source_port;
mod sys;
mod udp;
pub mod wait;

pub use interface_watch::InterfaceWatch;
pub use multicast::Membership;
pub use off_stdio::off_stdio;
pub use port::{Port, PortCounters};
pub use receive_socket::{ReceiveSocketError, Sharing, open_receive_socket, steer_by_qpn};
pub use source_port::{FIRST_SOURCE_PORT, SOURCE_PORTS, source_port};
pub use udp::send_socket::set_segment_size;
pub use udp::{MAX_PACKET, UdpOptions, UdpPort, UdpPortError};
