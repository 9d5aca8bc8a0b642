//! From static libraries to `libibverbs.so.1` and `librdmacm.so.1`: which name belongs to which version node, and the link step.
//!
//! rustc writes a version script of its own into every cdylib, and linkers do not merge two; so the library is
//! built as a staticlib and linked by `cc -shared` with a script made here. [`PUBLIC`], [`PRIVATE`] and [`RDMACM`] are the
//! only place where exported names are listed; script, aliases and tests come from them.

mod aliases;
mod linker;
mod private;
mod public;
mod rdmacm;
mod script;

pub use aliases::private_aliases;
pub use linker::{LinkError, SharedLibrary, link_ibverbs, link_rdmacm};
pub use private::{Answer, PRIVATE, PRIVATE_NODES, PrivateName, private_names_of};
pub use public::{Node, PUBLIC};
pub use rdmacm::RDMACM;
pub use script::{ibverbs_version_script, version_script};
