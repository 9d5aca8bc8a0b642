//! The transport under the fuzzer. `ferroce vopr` runs many more seeds, and fresh ones.

use ferroce_emulator::vopr::{Tally, generate, run, shrink};

#[test]
fn some_hundred_seeds_break_no_rule() {
    let mut tally = Tally::default();
    for seed in 0..200 {
        let plan = generate(seed, 10_000_000);
        let report = run(&plan, false);
        if let Some(fault) = report.fault {
            let small = shrink(&plan, &fault, 1_000, |plan| run(plan, false).fault);
            let report = run(&small, false);
            panic!("seed {seed}: {:?}\n{}\n{small}", report.fault, report.reasons.join("\n"));
        }
        tally.add(&report.tally);
    }
    // They are worth something only if they get far.
    assert!(tally.hit > 1_000 && tally.deaths > 10 && tally.connections > 1_000, "{tally:?}");
    assert!(tally.completions.len() >= 8, "{tally:?}");
}
