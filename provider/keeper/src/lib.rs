//! Sharing UDP port 4791 between the processes of one user in one network namespace.
//!
//! RoCEv2 knows one UDP port, and all processes of a host share the host's addresses; so they have to share the port,
//! and with it the space of QPNs. A small process, the *keeper*, opens one socket per *slot*, all bound to the port
//! in one `SO_REUSEPORT` group with a program that steers each packet by the top byte of its destination QPN, and
//! hands them out. A process asks with [`acquire`], gets a [`Lease`] of one slot, and numbers its QPs from
//! [`Lease::qpn_base`].
//!
//! The keeper is on no data path. The first process that needs it starts it; it is found by an abstract Unix socket,
//! and leaves some seconds after its last client. If it dies, its clients go on undisturbed, because each holds
//! duplicates of all sockets below its own, which keeps the group and its indices alive; [`Lease::recover`] lets a
//! new keeper take over from them.
//!
//! - [`acquire`], [`Lease`]: the client's side;
//! - [`CmLink`]: a process's share of QP 1 and of the RDMA CM's port spaces;
//! - [`Board`]: shared memory with a record per slot;
//! - [`clients`]: who uses the keeper;
//! - [`server`]: the keeper itself, for the program `ferroce-keeper`;
//! - [`protocol`]: what they say to each other.

mod alone;
mod binding;
mod board;
mod channel;
mod clients;
mod cm_link;
mod error;
mod gsi_record;
mod lease;
mod options;
mod owner;
mod ports;
pub mod protocol;
pub mod server;
mod start;
mod talk;

pub use binding::Binding;
pub use board::{BOARD_VERSION, Board, BoardError, COUNTERS_PER_SLOT, NAME_LEN, SlotRecord};
pub use clients::{ClientInfo, clients};
pub use cm_link::{CmLink, GsiSocket};
pub use error::KeeperError;
pub use gsi_record::GsiRecord;
pub use lease::{Lease, acquire};
pub use options::{IDLE_SECONDS, KeeperMode, KeeperOptions};

/// Most slots that processes can have at once: the top byte of the QPN tells them apart, and 0 is the keeper's own.
pub const MAX_SLOTS: u8 = u8::MAX;
/// All slots, the keeper's own included.
const SLOTS: usize = MAX_SLOTS as usize + 1;
/// Processes that can manage connections at once.
pub const MAX_MEMBERS: usize = 255;
/// A process's communication IDs have its number above so many bits that it chooses itself.
pub const COMM_ID_BITS: u32 = 20;
/// A slot's QPNs are `slot << SLOT_SHIFT` and up to the next slot's.
const SLOT_SHIFT: u32 = 16;
