//! The transport under the fuzzer. `ferroce vopr` runs many more seeds, and fresh ones.

use ferroce_emulator::vopr::{Plan, Tally, generate, run, shrink};

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

/// The model once took it for a fault: a packet that comes twice to one QP takes two receive WQEs of an SRQ, and another
/// QP has none.
#[test]
fn a_fault_on_the_way_to_one_qp_may_cost_another_its_receive_wqe() {
    let plan = Plan::from_toml(include_str!("plans/srq-emptied-by-another-connection.toml")).expect("a plan");
    let report = run(&plan, false);
    assert_eq!(report.fault, None, "{}", report.reasons.join("\n"));
    assert!(report.tally.hit > 0 && report.tally.connections > 0, "{:?}", report.tally);
}
