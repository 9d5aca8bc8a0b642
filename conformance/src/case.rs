//! A case: its name, the rules it is about, what it needs, and its body.

use crate::fabric::FabricSpec;
use crate::lab::Lab;
use crate::needs::Need;
use std::fmt::{Debug, Display};

/// One case.
pub struct Case {
    /// Its name: words between slashes, from the general to the particular.
    pub name: String,
    /// The rules it is about, by their names in `rules.toml`.
    pub rules: Vec<String>,
    /// What it needs of the backend.
    pub needs: Vec<Need>,
    /// The fabric it runs on.
    pub fabric: FabricSpec,
    body: Box<dyn Fn(&mut Lab) -> Outcome + Send + Sync>,
}

/// How a body ends.
pub type Outcome = Result<(), Failure>;

/// What was not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure(String);

impl Case {
    /// A case between two endpoints that needs nothing.
    pub fn new(
        name: impl Into<String>,
        rules: &[&str],
        body: impl Fn(&mut Lab) -> Outcome + Send + Sync + 'static,
    ) -> Case {
        let name = name.into();
        let fabric = FabricSpec { seed: seed_of(&name), ..FabricSpec::default() };
        let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
        Case { name, rules, needs: Vec::new(), fabric, body: Box::new(body) }
    }

    /// The same with needs.
    #[must_use]
    pub fn needs(mut self, needs: impl IntoIterator<Item = Need>) -> Case {
        self.needs.extend(needs);
        self.fabric.observed = self.needs.iter().any(|need| matches!(need, Need::Faults | Need::Trace));
        self
    }

    /// The same between so many endpoints.
    #[must_use]
    pub fn endpoints(mut self, endpoints: usize) -> Case {
        self.fabric.endpoints = endpoints;
        self
    }

    /// The same with one endpoint and a raw peer.
    #[must_use]
    pub fn raw_peer(mut self) -> Case {
        self.fabric.endpoints = 1;
        self.fabric.raw_peer = true;
        self
    }

    /// Runs the body on an open fabric.
    ///
    /// # Errors
    /// What was not as it should be.
    pub fn run(&self, lab: &mut Lab) -> Outcome {
        (self.body)(lab)
    }
}

/// Chances follow from the name, so that they stay when other cases come and go (FNV-1a).
fn seed_of(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl Failure {
    /// What was not as it should be.
    pub fn new(text: impl Into<String>) -> Failure {
        Failure(text.into())
    }

    /// For people.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Any error of a call that should have succeeded.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.to_string())
    }
}

/// Says where a failure happened.
pub trait Within<T> {
    /// The same, with what was being done in front of a failure.
    ///
    /// # Errors
    /// That of `self`.
    fn within(self, what: impl Display) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> Within<T> for Result<T, E> {
    fn within(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|failure| Failure(format!("{what}: {}", failure.into().0)))
    }
}

/// # Errors
/// The two are not equal.
pub fn equal<T: PartialEq + Debug>(what: impl Display, got: T, expected: T) -> Outcome {
    ensure(got == expected, format_args!("{what}: got {got:?}, expected {expected:?}"))
}

/// # Errors
/// It does not hold.
pub fn ensure(holds: bool, otherwise: impl Display) -> Outcome {
    if holds { Ok(()) } else { Err(Failure(otherwise.to_string())) }
}
