//! Faults that users of other RoCE stacks met, each as a small C program over the verbs, one process with both ends of
//! the connection, over IPv4 and IPv6. The number in front of a case is its row in the list of such faults that the
//! project keeps.
//!
//! What needs a packet lost, or seen, at a certain place is in the core's tests in virtual time: the replayed atomic
//! (D4), the RNR timer's lower bound (D7), the order on the wire behind a fence (D8) and WRITE resumed in the middle
//! (D9). Pads and reserved bits on the wire (D1, D3) are judged in `capture.rs`; loss on real sockets (D23) is in
//! `loss.rs`.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use ferroce_tests::c_program::CProgram;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;
use ferroce_tests::{PATIENCE, matrix};

/// Program, row, case, and a word that the log has to hold.
type Case = (&'static str, &'static str, &'static str, Option<&'static str>);

#[rustfmt::skip]
const CASES: [Case; 20] = [
    // Linux RDMA list, 2019: the ICRC left out the pad.
    ("transfer", "D1", "sizes_that_need_a_pad", None),
    // Linux RDMA list: no NAK for a WRITE with a wrong R_Key.
    ("refusal", "D5", "a_wrong_rkey_is_refused_by_the_peer", None),
    // Linux RDMA list: no completion after an error, polling hung.
    ("refusal", "D6", "after_an_error_everything_is_flushed_and_nothing_hangs", None),
    // Linux RDMA list: the RNR timer was taken for the ACK timer.
    ("refusal", "D7", "a_peer_without_receives_is_waited_for", None),
    ("refusal", "D7", "rnr_retries_run_out", None),
    // Linux RDMA list: the fence was ignored.
    ("transfer", "D8", "a_fenced_send_waits_for_the_read_before_it", None),
    // Linux RDMA list: the receive queue was not flushed.
    ("refusal", "D10", "receives_of_a_failed_qp_are_flushed_in_order", None),
    // Linux RDMA list: keys ran out, or came back too early.
    ("resources", "D11", "keys_do_not_run_out", None),
    // Linux RDMA list: resizing lost entries.
    ("resources", "D12", "a_resized_cq_keeps_its_entries", None),
    // rdma-unit-test: an overflow of the send queue.
    ("refusal", "D14", "a_full_send_queue_refuses_the_first_that_does_not_fit", None),
    // rdma-unit-test: isolation of protection domains.
    ("refusal", "D15", "keys_of_another_pd_are_refused", None),
    // rdma-core: lists of inline data.
    ("transfer", "D16", "inline_data", None),
    // rdma-core: the builder API's SGE list.
    ("transfer", "D17", "a_list_given_to_the_builder", None),
    // rdma-core: errors of ibv_post_recv.
    ("refusal", "D18", "a_receive_is_refused_with_a_reason", None),
    // Mooncake, NCCL: different path MTUs at the two ends.
    ("refusal", "D19", "a_path_mtu_mismatch_is_an_invalid_request", Some("MTU")),
    // Soft-RoCE: sizes around the MTU.
    ("transfer", "D20", "sizes_around_the_mtu", None),
    // Soft-RoCE, UCX: the GID index.
    ("resources", "D21", "an_empty_gid_answers_as_libibverbs_does", None),
    // Containers: the memlock limit.
    ("resources", "D24", "memory_is_registered_whatever_the_memlock_limit", None),
    // Not from the list, but of the same kind.
    ("refusal", "-", "a_receive_that_is_too_short_fails_on_both_sides", None),
    ("transfer", "-", "atomics", None),
];

fn main() -> ExitCode {
    let programs: Vec<_> =
        ["transfer", "refusal", "resources"].map(|name| (name, Arc::new(OnceLock::new()))).into();
    let mut rows = Vec::new();
    for (program, row, case, log) in CASES {
        let compiled = programs.iter().find(|(name, _)| *name == program).map(|(_, cell)| Arc::clone(cell));
        let compiled = compiled.expect("each case is in one of the programs");
        for (version, gid) in [("ipv4", "1"), ("ipv6", "0")] {
            let compiled = Arc::clone(&compiled);
            rows.push(matrix::row(format!("{row}/{case}/{version}"), move || {
                let sandbox = Sandbox::new();
                let program = compiled.get_or_init(|| CProgram::compile(&sandbox, program));
                run(&sandbox, program, case, gid, log);
            }));
        }
    }
    matrix::run(rows)
}

fn run(sandbox: &Sandbox, program: &CProgram, case: &str, gid: &str, log: Option<&str>) {
    let _turn = Turn::wait();
    let path = program.path();
    let path = path.to_str().expect("a temporary file's name is text");
    let variables = [("GID_INDEX", gid), ("FERROCE_LOG", "info")];
    let ended = sandbox.application_with(path, &[case], &variables).finish(PATIENCE);
    ended.assert_success();
    if let Some(word) = log {
        assert!(ended.stderr.contains(word), "the log does not say {word:?}\n{ended}");
    }
}
