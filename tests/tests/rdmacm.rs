//! Programs that connect through the RDMA CM, over our `librdmacm.so.1`: those of the system's rdmacm-utils, and perftest
//! with `-R`. They are users without privilege in a namespace of their own.

use std::path::Path;
use std::process::ExitCode;

use ferroce_tests::c_program::CProgram;
use ferroce_tests::program::{Ended, Program};
use ferroce_tests::sandbox::{Sandbox, append};
use ferroce_tests::turn::Turn;
use ferroce_tests::{PATIENCE, announce, matrix, trials};

/// A server and its client; `ADDR` stands for the server's address.
struct Play {
    name: &'static str,
    server: &'static str,
    client: &'static str,
    address: &'static str,
}

const fn play(name: &'static str, server: &'static str, client: &'static str, address: &'static str) -> Play {
    Play { name, server, client, address }
}

/// An address of the loopback interface that is not one of loopback: what a host calls its own.
const OWN: &str = "10.77.3.1";
/// The same of IPv6. Without one the C library finds no IPv6 addresses at all (AI_ADDRCONFIG).
const OWN_V6: &str = "fd77:3::1";

#[rustfmt::skip]
const PLAYS: [Play; 22] = [
    play("rping/loopback", "rping -s -a ADDR -C 100", "rping -c -a ADDR -C 100", "127.0.0.1"),
    play("rping/own_address", "rping -s -a ADDR -C 100", "rping -c -a ADDR -C 100", OWN),
    play("rping/any_address", "rping -s -C 10", "rping -c -a ADDR -C 10", OWN),
    play("rping/ipv6", "rping -s -a ADDR -C 100", "rping -c -a ADDR -C 100", OWN_V6),
    play("rping/any_ipv6", "rping -s -a :: -C 10", "rping -c -a ADDR -C 10", OWN_V6),
    play("rping/validated", "rping -s -a ADDR -v -V -C 20 -S 1000", "rping -c -a ADDR -v -V -C 20 -S 1000", OWN),
    play("rping/port", "rping -s -a ADDR -p 9999 -C 3", "rping -c -a ADDR -p 9999 -C 3", OWN),
    play("rping/own_queue_pair", "rping -s -a ADDR -q -C 10", "rping -c -a ADDR -q -C 10", OWN),
    play("ucmatose/one", "ucmatose", "ucmatose -s ADDR", OWN),
    play("ucmatose/hundred", "ucmatose -c 100 -C 5", "ucmatose -c 100 -C 5 -s ADDR", OWN),
    play("ucmatose/bound", "ucmatose -b 10.77.3.1 -c 3", "ucmatose -b 10.77.3.1 -c 3 -s ADDR", OWN),
    play("ucmatose/type_of_service", "ucmatose -t 32", "ucmatose -t 32 -s ADDR", OWN),
    play("ucmatose/migrate", "ucmatose -m -c 4", "ucmatose -m -c 4 -s ADDR", OWN),
    play("udaddy/one", "udaddy", "udaddy -s ADDR", OWN),
    play("udaddy/ten", "udaddy -c 10 -C 4", "udaddy -c 10 -C 4 -s ADDR", OWN),
    play("rdma_server", "rdma_server", "rdma_client -s ADDR", OWN),
    play("rdma_xserver/rc", "rdma_xserver -c r", "rdma_xclient -c r -s ADDR", OWN),
    play("rdma_xserver/xrc", "rdma_xserver -c x", "rdma_xclient -c x -s ADDR", OWN),
    play("perftest/write_bw", "ib_write_bw -R -n 500", "ib_write_bw -R -n 500 ADDR", OWN),
    play("perftest/send_lat", "ib_send_lat -R -n 500", "ib_send_lat -R -n 500 ADDR", OWN),
    play("perftest/read_lat", "ib_read_lat -R -n 500", "ib_read_lat -R -n 500 ADDR", OWN),
    play("perftest/send_bw_ud", "ib_send_bw -R -c UD -n 500", "ib_send_bw -R -c UD -n 500 ADDR", OWN),
];

fn main() -> ExitCode {
    let plays = PLAYS.iter().map(|play| matrix::row(play.name, move || run(play)));
    let others = trials![
        mckey,
        cmtime,
        nobody_listens,
        a_server_serves_one_client_after_the_other,
        a_killed_client_is_disconnected,
        connections_are_made_after_the_keeper_was_killed,
        two_servers_cannot_have_one_port,
        connections_do_not_run_out,
    ];
    matrix::run(plays.chain(others).collect())
}

fn run(play: &Play) {
    let _turn = Turn::wait();
    let sandbox = sandbox();
    let server = start_server(&sandbox, "lo", play.server, play.address);
    let client = start(&sandbox, "lo", play.client, play.address, &[]).finish(PATIENCE);
    let server = server.finish(PATIENCE);
    assert!(client.is_success() && server.is_success(), "server: {server}client: {client}");
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    privileged(&sandbox, &["addr", "add", &format!("{OWN}/32"), "dev", "lo"]);
    privileged(&sandbox, &["addr", "add", &format!("{OWN_V6}/128"), "dev", "lo"]);
    sandbox
}

fn privileged(sandbox: &Sandbox, arguments: &[&str]) {
    let ended = sandbox.privileged("ip", arguments).finish(PATIENCE);
    assert!(ended.is_success(), "{ended}");
}

fn start(sandbox: &Sandbox, device: &str, line: &str, address: &str, variables: &[(&str, &str)]) -> Program {
    let line = line.replace("ADDR", address);
    let mut words = line.split_whitespace();
    let program = words.next().expect("a program");
    let arguments: Vec<&str> = words.collect();
    let (mut command, mut text) = sandbox.run(device, Path::new(program));
    command.args(&arguments).envs(variables.iter().copied());
    append(&mut text, &arguments);
    Program::start(command, text)
}

/// Starts a server and waits until it listens, which its log tells.
fn start_server(sandbox: &Sandbox, device: &str, line: &str, address: &str) -> Program {
    let server = start(sandbox, device, line, address, &[("FERROCE_LOG", "ferroce=debug")]);
    assert!(server.says("listening service", PATIENCE), "{}", server.output_so_far());
    server
}

/// A group needs an interface that has groups.
fn mckey() {
    let _turn = Turn::wait();
    let sandbox = sandbox();
    privileged(&sandbox, &["link", "add", "v0", "type", "veth", "peer", "name", "v1"]);
    privileged(&sandbox, &["addr", "add", "10.77.4.1/24", "dev", "v0"]);
    privileged(&sandbox, &["link", "set", "v0", "up"]);
    privileged(&sandbox, &["link", "set", "v1", "up"]);
    let log = [("FERROCE_LOG", "ferroce=debug")];
    let server = start(&sandbox, "v0", "mckey -m 239.1.1.1 -b 10.77.4.1", "", &log);
    assert!(server.says("joined group", PATIENCE), "{}", server.output_so_far());
    let client = start(&sandbox, "v0", "mckey -m 239.1.1.1 -b 10.77.4.1 -s", "", &[]).finish(PATIENCE);
    let server = server.finish(PATIENCE);
    assert!(client.is_success() && server.is_success(), "server: {server}client: {client}");
}

/// Its server serves for ever.
fn cmtime() {
    let _turn = Turn::wait();
    let sandbox = sandbox();
    let mut server = start_server(&sandbox, "lo", "cmtime", OWN);
    let client = start(&sandbox, "lo", "cmtime -c 200 -s ADDR", OWN, &[]).finish(PATIENCE);
    server.kill();
    assert!(client.is_success(), "{client}");
    assert!(client.stdout.contains("us / conn"), "{client}");
}

/// Reason 8: invalid service ID.
fn nobody_listens() {
    let _turn = Turn::wait();
    let client = ping(&sandbox(), 1);
    assert!(!client.is_success(), "{client}");
    assert!(client.output().contains("RDMA_CM_EVENT_REJECTED, error 8"), "{client}");
}

fn ping(sandbox: &Sandbox, count: u32) -> Ended {
    start(sandbox, "lo", &format!("rping -c -a ADDR -C {count}"), OWN, &[]).finish(PATIENCE)
}

fn a_server_serves_one_client_after_the_other() {
    let _turn = Turn::wait();
    let sandbox = sandbox();
    let server = start_server(&sandbox, "lo", "rping -s -P -a ADDR", OWN);
    for _ in 0..5 {
        let client = ping(&sandbox, 5);
        assert!(client.is_success(), "{client}{}", server.output_so_far());
    }
}

fn a_killed_client_is_disconnected() {
    let _turn = Turn::wait();
    let sandbox = sandbox();
    let server = start_server(&sandbox, "lo", "rping -s -v -a ADDR", OWN);
    let mut client = start(&sandbox, "lo", "rping -c -v -a ADDR", OWN, &[]);
    assert!(server.says("server ping data", PATIENCE), "{}", server.output_so_far());
    client.kill();
    assert!(server.says("DISCONNECT EVENT", PATIENCE), "{}", server.output_so_far());
}

fn connections_are_made_after_the_keeper_was_killed() {
    let _turn = Turn::wait();
    let sandbox = sandbox();
    let server = start_server(&sandbox, "lo", "rping -s -P -v -a ADDR", OWN);
    let running = start(&sandbox, "lo", "rping -c -v -a ADDR", OWN, &[]);
    assert!(running.says("ping data", PATIENCE), "{}", running.output_so_far());
    kill_keeper(&sandbox);
    let client = ping(&sandbox, 5);
    assert!(client.is_success(), "{client}{}", server.output_so_far());
    assert!(!running.has_ended(), "{}", running.output_so_far());
}

/// Kills the keeper of the sandbox: the process of that name in its network namespace.
fn kill_keeper(sandbox: &Sandbox) {
    let script = "for p in /proc/[0-9]*; do \
        [ \"$(cat $p/comm 2>/dev/null)\" = ferroce-keeper ] && \
        [ \"$(readlink $p/ns/net)\" = \"$(readlink /proc/self/ns/net)\" ] && kill -9 ${p#/proc/} && echo killed; \
        done; true";
    let ended = sandbox.privileged("sh", &["-c", script]).finish(PATIENCE);
    assert_eq!(ended.stdout, "killed\n", "{ended}");
}

fn two_servers_cannot_have_one_port() {
    let _turn = Turn::wait();
    let sandbox = sandbox();
    let _first = start_server(&sandbox, "lo", "rping -s -a ADDR", OWN);
    let second = start(&sandbox, "lo", "rping -s -a ADDR", OWN, &[]).finish(PATIENCE);
    assert!(!second.is_success() && second.output().contains("Address already in use"), "{second}");
}

/// D22 of the faults that other stacks had: thousands of connections, and nothing of them is left.
fn connections_do_not_run_out() {
    let _turn = Turn::wait();
    let sandbox = sandbox();
    let program = CProgram::compile(&sandbox, "cycles");
    let path = program.path();
    for address in ["127.0.0.1", OWN] {
        let line = format!("{} ADDR 2000 200", path.display());
        let ended = start(&sandbox, "lo", &line, address, &[]).finish(PATIENCE);
        assert!(ended.is_success(), "{ended}");
        announce(ended.stdout.trim());
    }
}
