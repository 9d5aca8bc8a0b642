//! What goes over the wire during perftest, judged by tools that share nothing with the product: tshark has to decode
//! every packet, and a script of our own, written from the rule, and scapy have to agree with every ICRC.

use ferroce_tests::capture::{Capture, judge};
use ferroce_tests::pair::Pair;
use ferroce_tests::remark;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;

/// Tool and options that between them use every request RC has, pads, and all path MTUs.
const RUNS: [&str; 14] = [
    "ib_send_bw -n 40",
    "ib_send_bw -s 1025 -m 1024 -n 100",
    "ib_write_bw -n 40",
    "ib_write_bw -s 33 -n 200",
    "ib_write_bw -s 1025 -m 256 -n 100",
    "ib_write_bw -s 10001 -m 2048 -n 50",
    "ib_read_bw -n 40",
    "ib_read_bw -s 1025 -m 512 -n 100",
    "ib_atomic_bw -A FETCH_AND_ADD -n 200",
    "ib_atomic_bw -A CMP_AND_SWAP -n 200",
    "ib_send_lat -n 200",
    "ib_write_lat -s 33 -n 200",
    "ib_read_lat -n 200",
    "ib_atomic_lat -n 200",
];

fn capture_all(gid: u32) {
    let _turn = Turn::wait();
    let sandbox = Sandbox::new();
    let capture = Capture::start(&sandbox);
    for run in RUNS {
        let (tool, options) = run.split_once(' ').expect("a tool and its options");
        Pair::new(tool, &format!("{options} -x {gid}")).run(&sandbox).assert_success();
    }
    let file = capture.stop();
    let verdict = file.judge();
    remark(format_args!("{verdict:?}"));
    assert!(verdict.bad.is_empty(), "{verdict:#?}");
    // 40 × 64 KiB three times at 4096 bytes a packet are 1920 packets by themselves.
    assert!(verdict.packets > 4000, "{verdict:?}");
    assert_eq!(verdict.ipv6, if gid == 0 { verdict.packets } else { 0 }, "{verdict:?}");
    // SEND, WRITE and READ response FIRST, MIDDLE, LAST, ONLY; READ request; ACKNOWLEDGE; atomics and their answer.
    assert!(verdict.opcodes >= 16, "{verdict:?}");
    file.assert_tshark_decodes_all(verdict.packets);
}

#[test]
fn every_packet_is_right_over_ipv4() {
    capture_all(1);
}

#[test]
fn every_packet_is_right_over_ipv6() {
    capture_all(0);
}

/// A receiver with few receives makes RNR NAKs, and the sender gets through all the same.
#[test]
fn small_receive_queues_make_rnr_naks() {
    let _turn = Turn::wait();
    let sandbox = Sandbox::new();
    let capture = Capture::start(&sandbox);
    let finished = Pair::new("ib_send_bw", "-x 1 -s 8 -n 2000 -r 2").run(&sandbox);
    finished.assert_success();
    let verdict = capture.stop().judge();
    assert!(verdict.bad.is_empty(), "{verdict:#?}");
    assert!(verdict.rnr_naks > 0, "{verdict:?}\n{finished}");
}

/// The judge itself: what the kernel's Soft-RoCE sent is right, and one changed byte is not.
#[test]
fn the_judge_knows_right_from_wrong() {
    let recorded =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/captures/rc_write.pcap");
    let verdict = judge(&recorded);
    assert_eq!((verdict.packets, verdict.bad.len()), (23, 0), "{verdict:?}");
    let mut bytes = std::fs::read(&recorded).expect("a file of this crate");
    let last = bytes.len() - 1;
    bytes[last - 8] ^= 1;
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let damaged = folder.path().join("damaged.pcap");
    std::fs::write(&damaged, bytes).expect("the folder for temporary files is writable");
    assert_eq!(judge(&damaged).bad.len(), 1);
}
