//! `librdmacm.so.1`: the RDMA CM's C interface over Ferroce.
//!
//! Connections are those of [`ferroce::cm`]; queue pairs, completion queues and all else of verbs are made through
//! `libibverbs.so.1`, as any program makes them. What an ID's pointer points to is a block of ours that begins with the
//! public structure, because programs read its fields. [`rsocket`] has streams over such connections.
//!
//! # Contract of the exported functions
//! All pointers are null, or what librdmacm's manual pages demand there: objects made by this library and not yet
//! destroyed, and structures, arrays and strings of the caller that stay as they are during the call; nobody else works
//! on the same ID meanwhile. The `SAFETY` comments in this crate refer to it as *the C contract*. A panic never unwinds
//! into C: it ends the process with its message, as `extern "C"` functions do.

mod address;
mod addrinfo;
mod channel;
mod connect;
mod device;
mod endpoint;
mod event;
mod ibv;
mod id;
mod layout;
mod multicast;
mod option;
mod qp;
mod rsocket;
mod srq;
mod strings;
