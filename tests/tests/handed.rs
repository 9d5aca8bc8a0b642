//! Faults that users of other RoCE stacks met, each as a small C program over the verbs, one process with both ends of
//! the connection, over IPv4 and IPv6. The number in front of a case is its row in the list of such faults that the
//! project keeps. Where each row is tested:
//!
//! | row | fault | tests |
//! |---|---|---|
//! | D1 | ICRC without the pad | here; on the wire in `capture.rs`; `ib_write_bw -s 33` in `perftest.rs` |
//! | D2 | AckReq on datagrams | core `uc::messages_are_split_and_never_ask…` and the captures of `ud.rs` there; conformance |
//! | D3 | reserved bits of the BTH | sent: `capture.rs`; received: core `responder::packets_that_are_not_for_the_qp…` |
//! | D4 | an atomic done twice | core `loss::an_atomic_whose_answer_was_lost_is_done_once` |
//! | D5 | no NAK for a wrong R_Key | here |
//! | D6 | no completion after an error | here |
//! | D7 | RNR timer | here; its bounds: core `requester::an_rnr_wait_lasts_as_long_as_its_code_says`; `rnr.rs` |
//! | D8 | the fence | here; the order on the wire: core `requester::a_fence_waits_for_reads_and_atomics_only` |
//! | D9 | WRITE resumed at a wrong address | core `requester::a_write_resumed_in_the_middle…`, `loss::a_write_that_lost…` |
//! | D10 | the receive queue not flushed | here |
//! | D11 | keys run out | here |
//! | D12 | resizing a CQ | here |
//! | D13 | the size of an SRQ | ibverbs `srq::overflow`, `srq::attributes` |
//! | D14 | a full send queue | ibverbs `post::send_queue_overflow` |
//! | D15 | isolation of PDs | here |
//! | D16 | lists of inline data | ibverbs `post::inline_lists` |
//! | D17 | the builder's SGE lists | ibverbs `builder::sge_lists` |
//! | D18 | errors of `ibv_post_recv` | ibverbs `post::states_without_a_queue`, `post::lists_that_are_too_long` |
//! | D19 | different path MTUs | here |
//! | D20 | sizes around the MTU | here |
//! | D21 | the GID index | `pingpong.rs`; ibverbs `queries::gid_table`, `queries::path_over_an_empty_gid` |
//! | D22 | connections run out | `rdmacm.rs` |
//! | D23 | loss | `loss.rs`; in virtual time: core `loss::a_bad_link…`, `loss::a_dead_link…` |
//! | D24 | memlock | here |
//! | D25 | the ABI of NCCL | ibverbs `symbols`, `queries::port_attributes_of_every_size` |

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use ferroce_tests::c_program::CProgram;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;
use ferroce_tests::{PATIENCE, matrix};

/// Program, row, case, and a word that the log has to hold.
type Case = (&'static str, &'static str, &'static str, Option<&'static str>);

#[rustfmt::skip]
const CASES: [Case; 15] = [
    // Linux RDMA list, 2019.
    ("transfer", "D1", "sizes_that_need_a_pad", None),
    // Linux RDMA list.
    ("refusal", "D5", "a_wrong_rkey_is_refused_by_the_peer", None),
    ("refusal", "D6", "after_an_error_everything_is_flushed_and_nothing_hangs", None),
    ("refusal", "D7", "a_peer_without_receives_is_waited_for", None),
    ("refusal", "D7", "rnr_retries_run_out", None),
    ("transfer", "D8", "a_fenced_send_waits_for_the_read_before_it", None),
    ("refusal", "D10", "receives_of_a_failed_qp_are_flushed_in_order", None),
    ("resources", "D11", "keys_do_not_run_out", None),
    ("resources", "D12", "a_resized_cq_keeps_its_entries", None),
    // rdma-unit-test.
    ("refusal", "D15", "keys_of_another_pd_are_refused", None),
    // Mooncake, NCCL.
    ("refusal", "D19", "a_path_mtu_mismatch_is_an_invalid_request", Some("MTU")),
    // Soft-RoCE.
    ("transfer", "D20", "sizes_around_the_mtu", None),
    // Containers.
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
