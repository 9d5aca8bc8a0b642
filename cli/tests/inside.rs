//! `ferroce devices` and `ferroce stat` in a pipe, as scripts use them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;
use std::process::{Command, Output};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use ferroce_core::Counter;
use ferroce_keeper::server::{Keeper, ServeOptions};
use ferroce_keeper::{KeeperOptions, acquire};

fn ferroce(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
    command.args(arguments).env_remove("FERROCE_DEVICES").envs(variables.iter().copied());
    command.output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn the_loopback_device_is_listed_with_its_gids() {
    let output = ferroce(&["devices"], &[("FERROCE_DEVICES", "lo")]);
    let lines: Vec<Vec<_>> = stdout(&output).lines().map(|line| line.split('\t').collect()).collect();
    assert!(
        lines.iter().any(|fields| fields[..5] == ["ferroce_lo", "lo", "ACTIVE", "4096", "4096"]),
        "{output:?}"
    );
    assert!(lines.iter().any(|fields| fields[6] == "::ffff:127.0.0.1"), "{output:?}");
}

#[test]
fn devices_as_json_have_their_gids_by_index() {
    let output = ferroce(&["devices", "--json"], &[("FERROCE_DEVICES", "lo")]);
    let devices: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(devices[0]["device"], "ferroce_lo");
    let gids = devices[0]["gids"].as_array().unwrap();
    assert!(gids.iter().any(|gid| gid["address"] == "127.0.0.1"), "{devices}");
}

#[test]
fn no_device_is_an_error_that_says_what_one_needs() {
    let output = ferroce(&["devices"], &[("FERROCE_DEVICES", "absent0")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("FERROCE_DEVICES"), "{output:?}");
    assert_eq!(stdout(&ferroce(&["devices", "--json"], &[("FERROCE_DEVICES", "absent0")])), "[]\n");
}

#[test]
fn without_a_keeper_there_is_nothing_to_count() {
    let name = [("FERROCE_KEEPER_NAME", "ferroce-test-nobody-listens-here")];
    let output = ferroce(&["stat"], &name);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), ""));
    assert!(stderr(&output).contains("none of your processes"), "{output:?}");
    assert_eq!(stdout(&ferroce(&["stat", "--json"], &name)), "[]\n");
}

#[test]
fn the_counters_of_a_running_process_are_shown() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let name = format!("ferroce-test-stat-{}", std::process::id());
    let options = ServeOptions { name: name.clone(), port, idle: Duration::from_secs(1) };
    let keeper = Keeper::listen(options).unwrap().expect("nobody else has this name");
    let keeper = thread::spawn(move || keeper.run());
    let lease =
        acquire(&KeeperOptions { name: Some(name.clone()), port, ..KeeperOptions::default() }).unwrap();
    let record = lease.board().slot(lease.slot().into()).unwrap();
    record.counters()[Counter::PortXmitPackets as usize].store(1234, Ordering::Relaxed);

    let variables = [("FERROCE_KEEPER_NAME", name.as_str())];
    let output = ferroce(&["stat"], &variables);
    let line = stdout(&output).trim_end();
    assert!(line.starts_with(&format!("{}\t", std::process::id())), "{output:?}");
    assert!(line.ends_with("\tport_xmit_packets\t1234"), "only counters that are not zero: {output:?}");
    let all = ferroce(&["stat", "--all"], &variables);
    assert_eq!(stdout(&all).lines().count(), Counter::COUNT);
    let json: serde_json::Value =
        serde_json::from_slice(&ferroce(&["stat", "--json"], &variables).stdout).unwrap();
    assert_eq!(json[0]["counters"]["port_xmit_packets"], 1234);

    drop(lease);
    keeper.join().unwrap().unwrap();
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let script = format!("{} devices | true; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_ferroce"));
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}
