//! What objects cost before they are used.

use std::process::ExitCode;

use ferroce_tests::c_program::CProgram;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::{PATIENCE, announce, matrix, trials};

fn main() -> ExitCode {
    matrix::run(trials![
        a_thousand_idle_qps_cost_less_than_16_mib,
        an_unused_cq_of_half_a_million_entries_costs_less_than_1_mib,
    ])
}

fn measure(case: &str) {
    let sandbox = Sandbox::new();
    let program = CProgram::compile(&sandbox, "resources");
    let path = program.path();
    let ended = sandbox.application(path.to_str().expect("text"), &[case]).finish(PATIENCE);
    announce(ended.stdout.trim_end());
    ended.assert_success();
}

fn a_thousand_idle_qps_cost_less_than_16_mib() {
    measure("idle_qps_are_small");
}

fn an_unused_cq_of_half_a_million_entries_costs_less_than_1_mib() {
    measure("an_unused_cq_is_small");
}
