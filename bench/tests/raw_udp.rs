//! The limits are measured and printed as JSON.

use std::process::Command;

use serde_json::Value;

fn run(arguments: &[&str]) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_raw-udp")).args(arguments).output().expect("raw-udp starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

#[test]
fn a_stream_reports_its_throughput() {
    for more in [&[][..], &["--single"], &["--ipv6"]] {
        let report = run(&[&["stream", "--seconds", "0.05", "--size", "1000"], more].concat());
        assert_eq!(report["size"], 1000);
        assert!(report["gigabytes_per_second"].as_f64().unwrap() > 0.0, "{report}");
    }
}

#[test]
fn a_ping_pong_reports_its_latency() {
    let report = run(&["pingpong", "--iterations", "10", "--size", "4136"]);
    assert_eq!(report["iterations"], 10);
    assert!(report["min_us"].as_f64().unwrap() <= report["p99_us"].as_f64().unwrap(), "{report}");
}
