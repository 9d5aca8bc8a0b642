//! The limits are measured and printed as JSON.

use std::process::Command;

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ferroce-bench");

fn run(arguments: &[&str]) -> Value {
    let output = Command::new(PROGRAM).args(arguments).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

#[test]
fn a_stream_reports_its_throughput() {
    for more in [&[][..], &["--single"], &["--ipv6"], &["--wait", "sleep"]] {
        let report = run(&[&["stream", "--seconds", "0.05", "--size", "1000"], more].concat());
        assert_eq!(report["size"], 1000);
        assert!(report["gigabytes_per_second"].as_f64().unwrap() > 0.0, "{report}");
    }
}

#[test]
fn a_stream_of_no_or_negative_length_is_refused() {
    for seconds in ["0", "-1", "NaN", "x"] {
        let seconds = format!("--seconds={seconds}");
        let output = Command::new(PROGRAM).args(["stream", &seconds]).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_ping_pong_reports_its_latency() {
    for waiting in ["poll", "sleep"] {
        let report = run(&["pingpong", "--iterations", "10", "--size", "4136", "--wait", waiting]);
        assert_eq!((&report["iterations"], &report["wait"]), (&Value::from(10), &Value::from(waiting)));
        assert!(report["min_us"].as_f64().unwrap() <= report["p99_us"].as_f64().unwrap(), "{report}");
    }
}

#[test]
fn a_ping_pong_ends_when_its_time_is_up() {
    let report = run(&["pingpong", "--iterations", "100000000", "--seconds", "0.000001"]);
    assert_eq!(report["iterations"], 1);
}
