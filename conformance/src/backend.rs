//! The backends there are.

mod sim;
mod trace;
mod udp;

pub use sim::Sim;
pub use udp::Udp;

use crate::fabric::Backend;

/// All backends, in the order of their names' appearance in reports.
pub fn all() -> Vec<Box<dyn Backend>> {
    vec![Box::new(Sim), Box::new(Udp)]
}

/// The backend called `name`.
pub fn by_name(name: &str) -> Option<Box<dyn Backend>> {
    all().into_iter().find(|backend| backend.name() == name)
}
