//! Reports of runs, for people and for programs.

mod json;
mod junit;
mod text;

pub use json::json;
pub use junit::junit;
pub use text::TextReport;
