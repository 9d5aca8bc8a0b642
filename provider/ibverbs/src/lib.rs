//! `libibverbs.so.1`: libibverbs' C interface over Ferroce's verbs.
//!
//! Every exported function converts its arguments, calls the verbs, and turns the answer into what the manual page
//! says: an error number, -1, or a null pointer. What an object's pointer points to is a block of ours that begins
//! with the public structure, because programs read its fields.
//!
//! # Contract of the exported functions
//! All pointers are null, or what libibverbs' manual pages demand there: objects made by this library and not yet
//! destroyed, and structures, arrays and strings of the caller that stay as they are during the call. The `SAFETY`
//! comments in this crate refer to it as *the C contract*. A panic never unwinds into C: it ends the process with its
//! message, as `extern "C"` functions do.

use ferroce_abi::{errno, log, place, pointer};

mod ah;
mod attr;
mod channel;
mod context;
mod copy;
mod cq;
mod cq_ex;
mod device;
mod dm;
mod domain;
mod fork;
mod mr;
mod mw;
mod object;
mod pd;
mod post;
mod qp;
mod qp_ex;
mod query;
mod rate;
mod srq;
mod strings;
mod sysfs;
mod table;
mod unsupported;
mod xrcd;
