//! What a reader has to know of the machine to make sense of the figures.

use std::fs;
use std::thread;

use anyhow::Context;
use rustix::system::{sysinfo, uname};
use serde::Serialize;

/// The machine, before anything was measured.
#[derive(Serialize)]
pub struct Machine {
    /// The model of the first processor.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Processes that wanted to run, on average of the last minute.
    pub load: f64,
}

impl Machine {
    /// Asks the system.
    ///
    /// # Errors
    /// When it does not say how many processors there are.
    pub fn look() -> anyhow::Result<Machine> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Ok(Machine {
            processor: model(&cpuinfo).unwrap_or(std::env::consts::ARCH).to_owned(),
            processors: thread::available_parallelism().context("no number of processors")?.get(),
            kernel: uname().release().to_string_lossy().into_owned(),
            load: sysinfo().loads[0] as f64 / LOAD_UNIT,
        })
    }

    /// Whether others had work for half of the processors or more.
    pub fn is_busy(&self) -> bool {
        self.load * 2.0 >= self.processors as f64
    }
}

/// The model as x86 names it in proc(5); other architectures have no such line.
fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// The load is a fixed-point number, see sysinfo(2) and SI_LOAD_SHIFT.
const LOAD_UNIT: f64 = 65536.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_read_from_cpuinfo() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 106\nmodel name\t: Some CPU @ 2.00GHz\n";
        assert_eq!(model(cpuinfo), Some("Some CPU @ 2.00GHz"));
        assert_eq!(model("processor\t: 0\nBogoMIPS\t: 50.00\n"), None);
    }

    #[test]
    fn this_machine_has_processors_and_a_kernel() {
        let machine = Machine::look().unwrap();
        assert!(machine.processors > 0 && machine.load >= 0.0);
        assert!(machine.kernel.starts_with(|first: char| first.is_ascii_digit()), "{}", machine.kernel);
    }
}
