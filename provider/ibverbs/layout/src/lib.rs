//! The structures that libibverbs and programs share in memory.
//!
//! Each type is named after the C structure (`struct ibv_qp` is [`IbvQp`]) and its fields are named as there; what they
//! mean is in the manual page of the verb that uses them. Enumerations are plain integers, because a program may hand
//! over any value. A field that one side changes while the other may look at it is an atomic, which C sees as the plain
//! type. Three kinds of structure differ in how they may grow:
//!
//! - *frozen* ones never change;
//! - those that the library allocates (`verbs_context`, `ibv_cq_ex`, `ibv_qp_ex`) are always the newest size here, and
//!   programs look only as far as their headers knew;
//! - those that the program allocates (`*_init_attr_ex`, `ibv_port_attr`, `ibv_device_attr_ex`) may be shorter than
//!   here: fields behind the program's end are guarded by a mask bit or a size argument.
//!
//! `tests/layout.rs` compares every size and offset with the system's header.

mod attr;
mod context;
mod device;
mod event;
mod init;
mod kernel;
mod object;
mod qp_ex;
mod work;

pub use attr::*;
pub use context::*;
pub use device::*;
pub use event::*;
pub use init::*;
pub use kernel::*;
pub use object::*;
pub use qp_ex::*;
pub use work::*;
