//! Writes what the fuzzer's seeds send, as pcapng, to stdout: `captures FIRST COUNT`. The same seeds give the same bytes,
//! on every run and however it was compiled; `cargo xtask determinism` compares them.

use ferroce_core::Nanos;
use ferroce_emulator::vopr::{generate, run};
use std::io::{self, Write};
use std::process::ExitCode;

/// How long the random part of each seed lasts.
const LENGTH_NS: Nanos = 10_000_000;

fn main() -> io::Result<ExitCode> {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|text| text.parse().ok()).collect();
    let Some([first, count]) = numbers.as_deref() else {
        eprintln!("usage: captures FIRST COUNT");
        return Ok(ExitCode::FAILURE);
    };
    let mut out = io::stdout().lock();
    for seed in (0..*count).map(|place| first.wrapping_add(place)) {
        // Sections one after the other are one file.
        out.write_all(&run(&generate(seed, LENGTH_NS), true).capture)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
