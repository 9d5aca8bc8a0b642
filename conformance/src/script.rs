//! Wire scripts: verbs on one side, packets on the other, line by line.
//!
//! The QP under test is an endpoint's; its peer is the script. `<` sends a packet to the QP, `>` expects one from it.
//! QPNs and PSNs are relative: the QP under test is number 1, its peer's QP too, and each direction's PSNs count from
//! the first of the connection. The language is described in `docs/src/wire-scripts.md`.

mod header;
mod number;
mod packet;
mod peer;
mod run;
mod step;
mod words;

pub use header::{Script, Variant};
pub use words::ScriptError;

use crate::case::Case;
use crate::fabric::IpVersion;

/// The cases that a script makes: one for each line of `with` and each version of IP.
///
/// # Errors
/// The line that is wrong, and why.
pub fn cases(name: &str, text: &'static str) -> Result<Vec<Case>, ScriptError> {
    let mut cases = Vec::new();
    for variant in header::variants(name, text)? {
        for version in IpVersion::ALL {
            let script = Script::parse(name, text, &variant)?;
            if script.versions.contains(&version) {
                cases.push(script.case(name, &variant, version));
            }
        }
    }
    Ok(cases)
}
