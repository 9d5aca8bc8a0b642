//! Processes that share a UDP port through a keeper. Every test has a name and a port of its own, so that they run
//! beside each other and beside a real keeper, without any privilege.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod common;
mod death;
mod limits;
mod management;
mod protocol;
mod refusals;
mod slots;
