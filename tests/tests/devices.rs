//! What the system's own programs, and ours, say about the device.

use std::path::Path;
use std::process::ExitCode;

use ferroce_tests::program::Program;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::{PATIENCE, matrix, trials};
use serde_json::Value;

fn main() -> ExitCode {
    matrix::run(trials![
        ibv_devices_lists_the_loopback_device,
        ibv_devinfo_shows_an_active_roce_port_with_both_gids,
        the_command_agrees_with_the_library,
        an_interface_that_does_not_exist_is_refused_with_those_that_do,
    ])
}

fn ibv_devices_lists_the_loopback_device() {
    let ended = Sandbox::new().application("ibv_devices", &[]).finish(PATIENCE);
    ended.assert_success();
    let names: Vec<_> =
        ended.stdout.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["ferroce_lo"], "{ended}");
}

fn ibv_devinfo_shows_an_active_roce_port_with_both_gids() {
    let ended = Sandbox::new().application("ibv_devinfo", &["-v"]).finish(PATIENCE);
    ended.assert_success();
    let value = |name: &str| {
        let mut lines = ended.stdout.lines().map(str::trim);
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    for (name, expected) in [
        ("hca_id", "ferroce_lo"),
        ("transport", "InfiniBand (0)"),
        ("phys_port_cnt", "1"),
        ("state", "PORT_ACTIVE (4)"),
        ("max_mtu", "4096 (5)"),
        ("active_mtu", "4096 (5)"),
        ("link_layer", "Ethernet"),
        ("GID[  0]", "::1, RoCE v2"),
        ("GID[  1]", "::ffff:127.0.0.1, RoCE v2"),
    ] {
        assert_eq!(value(name), expected, "{name}\n{ended}");
    }
    assert!(ended.stdout.contains("ATOMIC_GLOB"), "{ended}");
}

fn the_command_agrees_with_the_library() {
    let sandbox = Sandbox::new();
    let ended = sandbox.ferroce(&["devices", "--json"]).finish(PATIENCE);
    ended.assert_success();
    let report: Value =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}\n{ended}"));
    let devices = report.as_array().unwrap_or_else(|| panic!("not a list\n{ended}"));
    assert_eq!(devices.len(), 1, "{ended}");
    let device = &devices[0];
    assert_eq!((&device["device"], &device["state"]), (&"ferroce_lo".into(), &"ACTIVE".into()), "{ended}");
    let gids: Vec<_> =
        device["gids"].as_array().into_iter().flatten().map(|gid| gid["gid"].as_str()).collect();
    assert_eq!(gids, [Some("::1"), Some("::ffff:127.0.0.1")], "{ended}");
}

fn an_interface_that_does_not_exist_is_refused_with_those_that_do() {
    let sandbox = Sandbox::new();
    let (command, line) = sandbox.run("nosuch0", Path::new("ibv_devices"));
    let ended = Program::start(command, line).finish(PATIENCE);
    // What env(1) and its kin end with when they could not start the program.
    assert_eq!(ended.status.code(), Some(125), "{ended}");
    assert!(ended.stderr.contains("nosuch0") && ended.stderr.contains("lo"), "{ended}");
    assert_eq!(ended.stdout, "", "{ended}");
}
