//! What an agent knows of its process's IDs.

use super::channel::ChannelShared;
use super::event::UdParam;
use crate::device::Device;
use ferroce_cm::{CommId, ListenerId};
use ferroce_core::QpType;
use ferroce_wire::cm::PortSpace;
use std::net::SocketAddr;
use std::sync::Arc;

/// An ID.
#[derive(Debug)]
pub(super) struct IdState {
    pub(super) cookie: u64,
    pub(super) channel: Arc<ChannelShared>,
    pub(super) space: PortSpace,
    pub(super) phase: Phase,
    pub(super) local: Option<SocketAddr>,
    pub(super) peer: Option<SocketAddr>,
    /// The device that has the local address, and the address's place in its GID table.
    pub(super) device: Option<(Device, u32)>,
    /// What the keeper calls the port; the listener's port is not a request's own.
    pub(super) binding: Option<u32>,
    pub(super) comm: Option<CommId>,
    pub(super) listener: Option<ListenerId>,
    pub(super) qp_type: QpType,
    pub(super) options: IdOptions,
    /// How the datagram service of this ID is reached.
    pub(super) ud: Option<UdParam>,
    /// First PSN that its queue pair expects, 24 bits.
    pub(super) psn: u32,
    /// Events about it that the application has read.
    pub(super) reported: u64,
}

/// What an application sets (`rdma_set_option(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct IdOptions {
    pub(super) traffic_class: u8,
    pub(super) shares_address: bool,
    pub(super) v6_only: Option<bool>,
    /// Local ACK timeout, a time code.
    pub(super) ack_timeout: Option<u8>,
}

/// Where an ID is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Idle,
    Bound,
    AddrResolved,
    RouteResolved,
    Listening,
    /// It came with a request that has not been answered.
    Requested,
    /// Asked or answered, and not ended.
    Connecting,
    Connected,
    /// Was connected, and is not any more.
    Ended,
}

impl Phase {
    /// For messages: "the ID is …".
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Idle => "not bound",
            Phase::Bound => "bound and nothing more",
            Phase::AddrResolved => "resolved to an address and not to a route",
            Phase::RouteResolved => "resolved and not connecting",
            Phase::Listening => "listening",
            Phase::Requested => "a request that waits for its answer",
            Phase::Connecting => "connecting",
            Phase::Connected => "connected",
            Phase::Ended => "disconnected",
        }
    }
}

impl IdState {
    pub(super) fn new(
        channel: Arc<ChannelShared>,
        space: PortSpace,
        qp_type: QpType,
        cookie: u64,
    ) -> IdState {
        IdState {
            cookie,
            channel,
            space,
            phase: Phase::Idle,
            local: None,
            peer: None,
            device: None,
            binding: None,
            comm: None,
            listener: None,
            qp_type,
            options: IdOptions::default(),
            ud: None,
            psn: random_psn(),
            reported: 0,
        }
    }

    /// Whether its peers are found by lookups (SIDR) and not connected to.
    pub(super) fn is_datagram(&self) -> bool {
        self.qp_type == QpType::Ud
    }
}

/// A first PSN that differs from connection to connection, 24 bits.
fn random_psn() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() as u32 & 0x00ff_ffff
}
