//! A RoCEv2 network in virtual time: cards of [`ferroce_core`], links, switches, faults and captures.
//!
//! Nothing here waits, listens or asks the machine for anything. [`VirtualNetwork`] is a list of events and a clock
//! that jumps from one to the next; the same seed and the same calls give the same packets at the same nanoseconds,
//! and the same pcapng file, byte for byte. [`Fabric`] is a network ready for use.
//!
//! ```
//! use ferroce_core::{Nanos, SendOp, WcStatus};
//! use ferroce_emulator::rules::{Action, PsnSpan, Script, ScriptRule};
//! use ferroce_emulator::{Connection, Fabric, FabricConfig};
//!
//! // Two endpoints, a and b, on a link of 100 Gb/s and 1 µs.
//! let mut fabric = Fabric::new(&FabricConfig::default());
//! let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
//! let [a, b] = fabric.connected_pair(hosts, &Connection::default());
//! let [source, target] = hosts.map(|host| fabric.buffer(host, 20_000));
//!
//! // The third packet to the first QP of b is lost when it is sent first.
//! let to_b = ScriptRule { to: Some("b".into()), qpn: Some(1), ..ScriptRule::new(Action::Drop) };
//! let rule = ScriptRule { psn: Some(PsnSpan::One(2)), nth: Some(1), ..to_b };
//! fabric.network.add_script(&Script { rule: vec![rule] });
//!
//! fabric.post_recv(b, 1, &[target.sge(0, 20_000)]);
//! fabric.post_send(a, 2, SendOp::Send, &[source.sge(0, 20_000)]);
//! assert!(fabric.network.run_until_idle(Nanos::MAX));
//! assert_eq!(fabric.take_sent(a)[0].status, WcStatus::Success);
//! assert_eq!(fabric.take_received(b)[0].byte_len, 20_000);
//! ```
#![forbid(unsafe_code)]

mod agenda;
mod capture;
mod chance;
mod egress;
mod fabric;
mod frame;
mod link;
mod memory;
mod network;
mod nic;
mod pcapng;
mod pfc;
pub mod rules;
mod switch;
pub mod vopr;

pub use chance::{Chance, PPM};
pub use egress::{EcnMarking, EgressStats};
pub use fabric::{Buffer, Connection, Fabric, FabricConfig, QpRef};
pub use frame::{Frame, Mac, PRIORITIES, priority};
pub use link::{LinkConfig, LinkStats};
pub use memory::{Access, AccessKind, HostMemory};
pub use network::{ConnectError, HostId, LinkId, Node, SwitchId, VirtualNetwork};
pub use nic::{Datagram, HostConfig, HostStats, NicConfig, ReceiveConfig, VirtualNic};
pub use pfc::Pfc;
pub use switch::SwitchConfig;
