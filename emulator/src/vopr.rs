//! The fuzzer: random plans on a virtual network, against a reference model of what must come of them.
//!
//! A [`Plan`] is a network and a list of steps: connections, work requests (right ones and wrong ones), state changes,
//! deaths of processes, faults on the wire, packets of somebody who means no good. [`generate`] makes one from a seed, [`run`] carries it out. After every
//! event the model looks at what happened and judges it:
//!
//! - *completion*: each work request completes once, in the order of posting, the unsignaled ones silently; after an
//!   error the rest is flushed, in order and at once.
//! - *data*: what arrived is what was sent, where it was to go.
//! - *once*: every byte of a message is written once, in order. *memory*: and nobody touches memory that no work
//!   request has open, or whose region is gone.
//! - *status*: a completion's status has its cause. Wrong requests never succeed; right ones fail only after enough
//!   packets met a fault.
//! - *state*: QPs change their state only for a reason. *event*: so do events come.
//! - *psn*: the PSNs and limits of both ends of a connection fit together. *wire*, *repetition*: packets are well
//!   formed, and a packet that is sent again is the same.
//! - *order*: a fence waits for READs and atomics, and SQD begins nothing. *retries*: nobody is asked more often than
//!   the retries allow.
//! - *calm*: without faults nothing is sent twice. *liveness*: when all faults have ended, everything comes to an end
//!   in bounded time.
//!
//! The first thing that is wrong ends the run ([`Fault`]). [`shrink`] leaves steps out as long as the same thing
//! stays wrong.

mod apply;
mod attack;
mod completions;
mod ends;
mod generate;
mod ledger;
mod plan;
mod pools;
mod post;
mod prey;
mod shrink;
mod states;
#[cfg(test)]
mod tests;
mod windows;
mod wire;
mod world;

pub use generate::generate;
pub use plan::{
    Connect, End, Expose, Flaw, Guise, Modify, Noise, Op, Plan, PlanError, Receive, Send, Service, Shape,
    Step,
};
pub use shrink::shrink;

use ferroce_core::{Nanos, WcStatus};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use world::World;

/// Something that must not happen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// The rule that was broken, in a word.
    pub rule: Cow<'static, str>,
    /// What happened.
    pub text: String,
}

impl Fault {
    /// A fault that breaks `rule`.
    pub fn new(rule: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Fault {
        Fault { rule: rule.into(), text: text.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

/// How a run went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What was wrong, if anything was.
    pub fault: Option<Fault>,
    /// The time at its end.
    pub now: Nanos,
    /// A digest of all frames: the same for the same plan.
    pub digest: u64,
    /// What there was of each kind.
    pub tally: Tally,
    /// The packets as pcapng, if they were asked for.
    pub capture: Vec<u8>,
    /// The last reasons that the devices gave, for a person.
    pub reasons: Vec<String>,
}

/// What a run, or many, came to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Events of the network.
    pub events: u64,
    /// Frames on first links.
    pub frames: u64,
    /// Frames that met a fault.
    pub hit: u64,
    /// Connections made.
    pub connections: u64,
    /// Processes that died.
    pub deaths: u64,
    /// QPs exposed to a peer that sends anything.
    pub exposed: u64,
    /// Packets of those peers.
    pub attacks: u64,
    /// Completions by their status.
    pub completions: BTreeMap<u32, u64>,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: &Tally) {
        self.runs += other.runs;
        self.events += other.events;
        self.frames += other.frames;
        self.hit += other.hit;
        self.connections += other.connections;
        self.deaths += other.deaths;
        self.exposed += other.exposed;
        self.attacks += other.attacks;
        for (status, count) in &other.completions {
            *self.completions.entry(*status).or_default() += count;
        }
    }

    fn count(&mut self, status: WcStatus) {
        *self.completions.entry(status as u32).or_default() += 1;
    }
}

/// Carries a plan out.
pub fn run(plan: &Plan, capture: bool) -> Report {
    let mut world = World::new(plan, capture);
    let fault = world.run(plan).err();
    world.report(fault)
}
