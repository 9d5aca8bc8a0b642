//! UDP port 4791 held by somebody who is no keeper of ours.

use std::process::ExitCode;

use ferroce_tests::program::{Ended, Program};
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::{PATIENCE, matrix, trials};

fn main() -> ExitCode {
    matrix::run(trials![
        a_holder_of_the_same_user_is_named_with_its_pid,
        a_holder_of_another_user_is_named_by_its_user_id,
        the_port_is_usable_as_soon_as_its_holder_has_gone,
    ])
}

/// Binds the port for IPv4 or IPv6 and stays.
fn script(family: &str, address: &str) -> String {
    format!(
        "import socket, sys, time\n\
         held = socket.socket(socket.{family}, socket.SOCK_DGRAM)\n\
         held.bind(('{address}', 4791))\n\
         print('held', flush=True)\n\
         time.sleep(1000)\n"
    )
}

fn application_beside(sandbox: &Sandbox, holder: &Program) -> Ended {
    assert!(holder.says("held", PATIENCE), "{}", holder.output_so_far());
    let ended = sandbox.application("ibv_devinfo", &["-v"]).finish(PATIENCE);
    assert!(ended.stderr.contains("UDP port 4791 is taken"), "{ended}");
    assert!(ended.stderr.contains("unshare -Urn"), "no way out is named\n{ended}");
    ended
}

fn a_holder_of_the_same_user_is_named_with_its_pid() {
    for (family, address) in [("AF_INET", "0.0.0.0"), ("AF_INET6", "::")] {
        let sandbox = Sandbox::new();
        let holder = sandbox.bystander("python3", &["-c", &script(family, address)]);
        let ended = application_beside(&sandbox, &holder);
        assert!(
            ended.stderr.contains(&holder.pid().to_string()) && ended.stderr.contains("python3"),
            "{ended}"
        );
    }
}

fn a_holder_of_another_user_is_named_by_its_user_id() {
    let sandbox = Sandbox::new();
    let holder = sandbox.privileged("python3", &["-c", &script("AF_INET6", "::")]);
    let ended = application_beside(&sandbox, &holder);
    assert!(ended.stderr.contains("user id 0") || ended.stderr.contains("python3"), "{ended}");
}

fn the_port_is_usable_as_soon_as_its_holder_has_gone() {
    let sandbox = Sandbox::new();
    let holder = sandbox.bystander("python3", &["-c", &script("AF_INET", "0.0.0.0")]);
    application_beside(&sandbox, &holder);
    drop(holder);
    sandbox.application("ibv_devinfo", &["-v"]).finish(PATIENCE).assert_success();
}
