//! What goes over the wire during perftest, judged by tools that share nothing with the product: tshark has to decode
//! every packet, and a script of our own, written from the rule, and scapy have to agree with every ICRC.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ferroce_tests::capture::{Capture, judge, tshark_complaints};
use ferroce_tests::pair::Pair;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;
use ferroce_tests::{announce, matrix, trials};

fn main() -> ExitCode {
    let mut rows = trials![the_judges_know_right_from_wrong];
    for (version, gid) in [("ipv4", 1), ("ipv6", 0)] {
        let name = format!("every_packet_is_right/{version}");
        rows.push(matrix::row_unless(Capture::obstacle(), name, move || capture_all(gid)));
    }
    matrix::run(rows)
}

/// Tool and options that between them use every request RC has, pads, and all path MTUs.
const RUNS: [&str; 17] = [
    "ib_send_bw -n 40",
    "ib_send_bw -s 1025 -m 1024 -n 100",
    "ib_send_bw -s 3 -n 100 -e",
    "ib_write_bw -n 40",
    "ib_write_bw -s 33 -n 200",
    "ib_write_bw -s 1025 -m 256 -n 100",
    "ib_write_bw -s 10001 -m 2048 -n 50",
    "ib_write_bw -b -q 4 -n 20",
    "ib_read_bw -n 40",
    "ib_read_bw -s 1025 -m 512 -n 100",
    "ib_atomic_bw -A FETCH_AND_ADD -n 200",
    "ib_atomic_bw -A CMP_AND_SWAP -n 200",
    "ib_send_lat -n 200",
    "ib_write_lat -s 33 -n 200",
    "ib_write_lat -s 1 -n 200",
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
    announce(format_args!("capture, GID {gid}: {verdict:?}"));
    assert!(verdict.bad.is_empty(), "{verdict:#?}");
    // 40 × 64 KiB three times at 4096 bytes a packet are 1920 packets by themselves.
    assert!(verdict.packets > 4000, "{verdict:?}");
    assert_eq!(verdict.ipv6, if gid == 0 { verdict.packets } else { 0 }, "{verdict:?}");
    // SEND, WRITE and READ response FIRST, MIDDLE, LAST, ONLY; READ request; ACKNOWLEDGE; atomics and their answer.
    assert!(verdict.opcodes >= 16, "{verdict:?}");
    let (decoded, complaints) = file.tshark_complaints();
    assert!(complaints.is_empty(), "frame, opcode, malformed:\n{}", complaints.join("\n"));
    assert_eq!(decoded, verdict.packets, "packets that tshark decoded");
}

/// The judges themselves: what the kernel's Soft-RoCE sent is right; a changed byte, and an opcode whose headers the
/// packet has no room for, are not.
fn the_judges_know_right_from_wrong() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/captures/rc_write.pcap");
    let verdict = judge(&recorded);
    assert_eq!((verdict.packets, verdict.bad.len()), (23, 0), "{verdict:?}");
    assert_eq!(tshark_complaints(&recorded), (23, Vec::new()));

    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let changed = |change: &dyn Fn(&mut Vec<u8>)| -> PathBuf {
        let mut bytes = std::fs::read(&recorded).expect("a file of this repository");
        change(&mut bytes);
        let file = folder.path().join("changed.pcap");
        std::fs::write(&file, bytes).expect("the folder for temporary files is writable");
        file
    };
    // The last packet is an ACKNOWLEDGE: 48 bytes behind the Ethernet header, the BTH being 28 bytes into them.
    let (packet_len, bth_at) = (48, 28);
    let in_syndrome = changed(&|bytes| {
        let at = bytes.len() - packet_len + bth_at + 13;
        bytes[at] ^= 1;
    });
    assert_eq!(judge(&in_syndrome).bad.len(), 1);
    let fetch_add = changed(&|bytes| {
        let at = bytes.len() - packet_len + bth_at;
        bytes[at] = 0x14;
    });
    assert_eq!(tshark_complaints(&fetch_add).1.len(), 1);
}
