//! Switches: store and forward, a queue for each priority of each port, ECN marks and PFC.

use crate::chance::Chance;
use crate::egress::{EcnMarking, Egress};
use crate::frame::{Frame, Mac};
use crate::pfc::{Account, Pfc};
use serde::{Deserialize, Serialize};

/// A switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchConfig {
    /// Its name in captures and rules.
    pub name: String,
    /// Bytes that each queue of each port holds before it drops what comes; lossless priorities do not heed it.
    pub queue_bytes: u64,
    /// ECN marks, by queue.
    pub ecn: Option<EcnMarking>,
    /// Priority-based flow control.
    pub pfc: Option<Pfc>,
}

impl Default for SwitchConfig {
    /// 256 KiB a queue, no marks, no flow control.
    fn default() -> Self {
        SwitchConfig { name: "switch".into(), queue_bytes: 256 << 10, ecn: None, pfc: None }
    }
}

/// A switch in a network.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) config: SwitchConfig,
    pub(crate) ports: Vec<SwitchPort>,
    pub(crate) chance: Chance,
}

/// A port of a switch.
#[derive(Debug)]
pub(crate) struct SwitchPort {
    pub(crate) egress: Egress,
    pub(crate) account: Account,
    pub(crate) link: usize,
    pub(crate) way: usize,
    pub(crate) mac: Mac,
}

impl Switch {
    pub(crate) fn new(config: SwitchConfig, number: usize, seed: u64) -> Switch {
        Switch { config, ports: Vec::new(), chance: Chance::of_part(seed, SWITCHES_PART + number as u64) }
    }

    /// Whether a frame that came in by one port may wait at another; if not, why.
    pub(crate) fn admit(&self, from: usize, to: usize, frame: &Frame) -> Result<(), String> {
        let (priority, len) = (frame.priority(), frame.wire_len());
        match self.lossless(priority) {
            Some(pfc) if self.ports[from].account.has_room(&pfc, priority, len) => Ok(()),
            Some(_) => Err(format!("the headroom of port {from} for priority {priority} is used up")),
            None if self.ports[to].egress.has_room(priority, len) => Ok(()),
            None => Err(format!(
                "queue {priority} of port {to} is full with {} bytes",
                self.ports[to].egress.queue_bytes(priority)
            )),
        }
    }

    /// The flow control of a priority that has one.
    pub(crate) fn lossless(&self, priority: usize) -> Option<Pfc> {
        self.config.pfc.filter(|pfc| pfc.covers(priority))
    }
}

/// The parts of the simulation that draw the switches' chances.
const SWITCHES_PART: u64 = 1 << 34;
