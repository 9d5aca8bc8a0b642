//! The fuzzer on itself and on the transport as it is.

use ferroce_emulator::vopr::{Tally, generate, run, shrink};

const LENGTH_NS: u64 = 10_000_000;

#[test]
fn some_hundreds_of_seeds_find_nothing() {
    let mut tally = Tally::default();
    for seed in 0..1000 {
        let plan = generate(seed, LENGTH_NS);
        let start = std::time::Instant::now();
        let report = run(&plan, false);
        eprintln!("{seed} {:?} {} events {}", start.elapsed(), report.tally.events, report.now);
        if let Some(fault) = report.fault {
            let shrunk = shrink(&plan, &fault, 2_000, |plan| run(plan, false).fault);
            let report = run(&shrunk, false);
            let fault = report.fault.expect("it failed a moment ago");
            panic!("seed {seed}: {fault}\n{}\n{shrunk}", report.reasons.join("\n"));
        }
        tally.add(&report.tally);
    }
    println!("{tally:#?}");
}
