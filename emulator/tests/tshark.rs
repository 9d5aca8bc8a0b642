//! tshark, which nobody here wrote, reads our captures. Without it these tests are ignored, and that is said.

#[path = "network/busy.rs"]
mod busy;

use busy::run;
use ferroce_core::{Nanos, SendOp};
use ferroce_emulator::{Connection, Fabric, FabricConfig};
use libtest_mimic::{Arguments, Trial};
use std::io::Write;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let is_missing = Command::new("tshark").arg("--version").output().is_err();
    if is_missing {
        eprintln!("skipped: tshark is not installed (Debian, Ubuntu: apt install tshark)");
    }
    let trial = |name: &str, test: fn()| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(is_missing)
    };
    let trials = vec![
        trial("reads_packets_times_interfaces_and_comments", reads_packets_times_interfaces_and_comments),
        trial("finds_nothing_malformed_but_what_was_cut", finds_nothing_malformed_but_what_was_cut),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// tshark's fields for each packet of a capture.
fn tshark(capture: &[u8], fields: &[&str]) -> Vec<Vec<String>> {
    let mut file = tempfile::Builder::new().suffix(".pcapng").tempfile().expect("a temporary file");
    file.write_all(capture).expect("room for it");
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file.path()).args(["-n", "-T", "fields", "-E", "separator=|"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().expect("it ran before");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| line.split('|').map(String::from).collect()).collect()
}

fn reads_packets_times_interfaces_and_comments() {
    let mut fabric = Fabric::new(&FabricConfig::default());
    let hosts = [fabric.endpoint(0), fabric.endpoint(1)];
    fabric.network.start_capture();
    let [qp, peer] = fabric.connected_pair(hosts, &Connection { psns: [5, 9], ..Connection::default() });
    let [local, remote] = hosts.map(|host| fabric.buffer(host, 64));
    fabric.post_recv(peer, 1, &[remote.sge(0, 64)]);
    fabric.post_send(qp, 42, SendOp::Send, &[local.sge(0, 10)]);
    assert!(fabric.network.run_until_idle(Nanos::MAX));
    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "ip.src",
        "ip.dst",
        "udp.dstport",
        "infiniband.bth.opcode",
        "infiniband.bth.psn",
        "infiniband.bth.destqp",
        "frame.comment",
    ];
    let rows = tshark(&fabric.network.take_capture(), &fields);
    // 10 bytes and 2 of pad: 14 + 20 + 8 + 12 + 12 + 4 + 24 on the wire, at 100 Gb/s; then 1 µs of delay.
    let ack_leaves = (94 * 8u32).div_ceil(100) + 1000;
    let (from, to) = (format!("{:#x}", qp.qpn.value()), format!("{:#x}", peer.qpn.value()));
    let hex = |text: &str| {
        format!("{:#x}", u32::from_str_radix(text.trim_start_matches("0x"), 16).expect("hexadecimal"))
    };
    let row = |row: &[String]| (row[..6].to_vec(), row[6].clone(), hex(&row[7]));
    let expect = |at: &str, ends: [&str; 2], opcode: &str| {
        [at, "a-b", ends[0], ends[1], "4791", opcode].map(String::from).to_vec()
    };
    assert_eq!(row(&rows[0]), (expect("0.000000000", ["10.0.0.1", "10.0.0.2"], "4"), "5".into(), to));
    let at = format!("0.{ack_leaves:09}");
    assert_eq!(row(&rows[1]), (expect(&at, ["10.0.0.2", "10.0.0.1"], "17"), "5".into(), from));
    assert_eq!(rows.len(), 2);
    let ends = [format!("a {} RTS", qp.qpn), format!("b {} RTS", peer.qpn)];
    let request = format!("pass · {} → {} · request psn +0 to QP #1, time 1 · wr 42", ends[0], ends[1]);
    let response = format!("pass · {} → {} · response psn +0 to QP #1, time 1 · wr 42", ends[1], ends[0]);
    assert_eq!([&rows[0][8], &rows[1][8]], [&request, &response]);
}

fn finds_nothing_malformed_but_what_was_cut() {
    let fields = [
        "frame.interface_name",
        "_ws.malformed",
        "frame.comment",
        "macc.cbfc.pause_time.c3",
        "ip.dsfield.ecn",
    ];
    let rows = tshark(&run(1), &fields);
    assert!(rows.len() > 400, "{} packets", rows.len());
    let has = |words: &str| rows.iter().filter(|row| row[2].contains(words)).count();
    for words in [
        "pass ·",
        "lost: by chance",
        "drop (chance)",
        "duplicate 1 times",
        "delay ",
        "corrupt bit",
        "mark CE (chance)",
        "reorder behind",
        "truncate to",
    ] {
        assert!(has(words) > 0, "no packet says {words:?}");
    }
    assert!(rows.iter().any(|row| row[0] == "switch drops" && row[2].contains("is full")), "tail drops");
    for (quanta, words) in [("65535", "priority 3: stop"), ("0", "priority 3: go on")] {
        assert!(
            rows.iter().any(|row| row[3] == quanta && row[2].contains(words)),
            "pause frames of {quanta}"
        );
    }
    assert!(rows.iter().any(|row| row[4] == "3"), "CE marks");
    for row in rows.iter().filter(|row| !row[1].is_empty()) {
        let words = ["truncate to", "corrupt bit", "no packet: "];
        assert!(words.iter().any(|words| row[2].contains(words)), "{row:?}");
    }
}
