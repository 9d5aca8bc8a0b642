//! What the tests across crates are made of: the built tree, network namespaces to run in, programs and pairs of
//! programs under `ferroce run`, and readers for what they print.
//!
//! Nothing here links a crate of the product. The tests start programs, as a user does, from the tree that
//! `make build` leaves; `FERROCE_TREE` names another one. Every test has a network namespace of its own, so UDP
//! port 4791, the keeper and the counters are its own as well, and nothing but its loopback interface exists.

pub mod c_program;
pub mod capture;
pub mod fault_link;
pub mod listening;
pub mod matrix;
pub mod pair;
pub mod perftest;
pub mod pingpong;
pub mod program;
pub mod sandbox;
pub mod stat;
pub mod tree;
pub mod turn;

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

/// How long anything may take before it counts as stuck. Nothing here needs a tenth of it on an idle machine; the
/// tests share one with whatever else runs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Whether `FERROCE_TEST_FULL=1` asks for the complete matrices, with the programs' own iteration counts, which takes
/// the better part of an hour on two cores.
pub fn is_full() -> bool {
    std::env::var_os("FERROCE_TEST_FULL").is_some_and(|value| value == "1")
}

/// Says at once, whether the test passes or not, what was measured, what a run can be repeated with, or how far a long
/// test has come.
pub fn announce(text: impl Display) {
    // A closed stderr leaves nowhere to say so.
    let _ = writeln!(std::io::stderr(), "{text}");
}
