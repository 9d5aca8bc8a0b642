//! Unmodified programs under `ferroce run`, in pairs of server and client, as a user without privilege: what the
//! demonstration shows and the benchmark measures.

mod command;
mod listening;
mod pair;
mod program;
mod user;

pub use command::{display, find};
pub use pair::{Pair, Run};
pub use program::Program;
pub use user::User;
