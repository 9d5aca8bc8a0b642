//! What was on the links, as a pcapng file.

use crate::pcapng::PcapNg;
use ferroce_core::Nanos;
use std::collections::BTreeMap;

/// A capture: one interface for each link, and one for what each switch dropped, in the order in which they were
/// first used.
#[derive(Debug)]
pub(crate) struct Capture {
    file: PcapNg,
    interfaces: BTreeMap<String, u32>,
}

impl Capture {
    pub(crate) fn new() -> Capture {
        Capture { file: PcapNg::new(), interfaces: BTreeMap::new() }
    }

    /// Records a frame.
    pub(crate) fn record(&mut self, interface: &str, rate_bps: u64, at: Nanos, bytes: &[u8], comment: &str) {
        let number = match self.interfaces.get(interface) {
            Some(number) => *number,
            None => {
                let number = self.file.interface(interface, rate_bps);
                self.interfaces.insert(interface.to_string(), number);
                number
            }
        };
        self.file.packet(number, at, bytes, comment);
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.file.take()
    }
}
