//! What objects cost before they are used.

use ferroce_tests::PATIENCE;
use ferroce_tests::c_program::CProgram;
use ferroce_tests::remark;
use ferroce_tests::sandbox::Sandbox;

fn measure(case: &str) {
    let sandbox = Sandbox::new();
    let program = CProgram::compile(&sandbox, "resources");
    let path = program.path();
    let ended = sandbox.application(path.to_str().expect("text"), &[case]).finish(PATIENCE);
    remark(ended.stdout.trim_end());
    ended.assert_success();
}

#[test]
fn a_thousand_idle_qps_cost_less_than_16_mib() {
    measure("idle_qps_are_small");
}

#[test]
fn an_unused_cq_of_half_a_million_entries_costs_less_than_1_mib() {
    measure("an_unused_cq_is_small");
}
