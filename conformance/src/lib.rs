//! One conformance suite, many backends.
//!
//! A [`Case`] is one test body at the verbs level (or a wire script), with the rules that it is about and what it
//! needs. A [`Backend`] opens fabrics of endpoints that answer the verbs. What a backend lacks and where it deviates
//! stands in its file in `backends/`, never in a case. [`run`] runs cases on a backend, and a [`Report`] says how they
//! went.
//!
//! ```
//! use ferroce_conformance::{backend, cases, run, Expectations};
//!
//! let backend = backend::by_name("sim").expect("it is always there");
//! let few = cases::filtered("transfer/rc/send/ipv4/mtu-256/*");
//! let report = run(&*backend, &few, &Expectations::of("sim")?, &mut |_| {})?;
//! assert!(report.is_success());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod audit;
pub mod backend;
pub mod case;
pub mod cases;
mod expectations;
mod fabric;
pub mod lab;
mod needs;
mod pattern;
pub mod report;
pub mod rules;
mod runner;
pub mod script;
pub mod states;
pub mod verbs;

pub use case::{Case, Failure, Outcome};
pub use expectations::{Expectations, ExpectationsError, Expected};
pub use fabric::{
    Backend, Envelope, Fabric, FabricSpec, IpVersion, OpenError, RawPacket, RawReceived, RawSource, Traced,
    Unable,
};
pub use needs::Need;
pub use runner::{CaseResult, Count, Report, Verdict, run, run_case};
