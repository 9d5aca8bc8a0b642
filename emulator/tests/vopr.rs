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

fn replay(text: &str) {
    let plan = Plan::from_toml(text).expect("a plan");
    let report = run(&plan, false);
    assert_eq!(report.fault, None, "{}", report.reasons.join("\n"));
    assert!(report.tally.frames > 0 && report.tally.connections > 0, "{:?}", report.tally);
}

/// Two receive WQEs of an SRQ go to a packet that comes twice to one QP, and another QP has none.
#[test]
fn a_fault_on_the_way_to_one_qp_may_cost_another_its_receive_wqe() {
    replay(include_str!("plans/srq-emptied-by-another-connection.toml"));
}

/// The second copy of a READ request comes when the SEND behind it has taken the window back.
#[test]
fn a_late_copy_of_a_read_finds_its_window_gone() {
    replay(include_str!("plans/late-copy-of-a-read.toml"));
}

/// It was sent before the responder got what is sent again after the RNR wait, and used to cost a retry.
#[test]
fn a_gap_report_after_an_rnr_wait_costs_no_retry() {
    replay(include_str!("plans/gap-report-after-an-rnr-wait.toml"));
}

/// The responder kept it behind a gap, refused it when its turn came, and the requester took it for received for ever.
#[test]
fn a_kept_packet_whose_rnr_nak_is_lost_is_sent_again() {
    replay(include_str!("plans/rnr-nak-lost-of-a-kept-packet.toml"));
}

/// What a link loses that is down makes others come again, and be refused again.
#[test]
fn a_link_that_was_down_accounts_for_more_rnr_naks() {
    replay(include_str!("plans/link-down-and-no-receive.toml"));
}

/// Jitter moves packets together, so that even a single link fills a short queue of the switch.
#[test]
fn a_switch_that_drops_is_no_calm() {
    replay(include_str!("plans/a-burst-that-the-switch-has-no-room-for.toml"));
}
