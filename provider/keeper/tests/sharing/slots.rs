//! Slots: granting, steering, returning; the keeper's coming and going.

use std::io::{ErrorKind, Read};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use ferroce_keeper::{KeeperMode, KeeperOptions, acquire, clients};
use ferroce_port::abstract_socket;

use crate::common::{Holder, LONG, assert_steered, keeper_pid, options, program, received, send};

#[test]
fn two_processes_that_race_to_start_the_keeper_share_one() {
    for round in 0..20 {
        let options = options();
        let mut racers = [Holder::start(&options), Holder::start(&options)];
        let mut slots = racers.each_mut().map(|racer| racer.slot());
        slots.sort_unstable();
        assert_eq!(slots, [1, 2], "round {round}");
    }
}

#[test]
fn packets_go_to_the_client_whose_slot_is_in_their_qpn() {
    let options = options();
    let leases: Vec<_> = (0..10).map(|_| acquire(&options).unwrap()).collect();
    let slots: Vec<_> = leases.iter().map(|lease| lease.slot()).collect();
    assert_eq!(slots, (1..=10).collect::<Vec<u8>>());
    assert_eq!(leases[9].qpn_base(), 0x0a_0000);
    assert_steered(options.port, &leases.iter().collect::<Vec<_>>());
    // Slots that nobody has are the keeper's business.
    for slot in [0, 11, 255] {
        send(options.port, slot);
    }
    assert!(leases.iter().all(|lease| received(lease).is_empty()));
}

#[test]
fn the_slot_of_a_killed_client_comes_back_empty_and_the_others_keep_theirs() {
    let options = options();
    let first = acquire(&options).unwrap();
    let mut victim = Holder::start(&options);
    assert_eq!(victim.slot(), 2);
    let last = acquire(&options).unwrap();
    victim.kill();
    send(options.port, 2);
    assert_steered(options.port, &[&first, &last]);
    let heir = acquire(&options).unwrap();
    assert_eq!(heir.slot(), 2);
    assert!(received(&heir).is_empty(), "packets for the dead");
    assert_eq!(heir.board().slot(2).unwrap().generation(), 2);
    assert_steered(options.port, &[&first, &heir, &last]);
}

#[test]
fn the_slot_that_has_rested_longest_is_granted_next() {
    let options = options();
    let mut leases: Vec<_> = (0..4).map(|_| Some(acquire(&options).unwrap())).collect();
    let slots: Vec<_> = [2, 0, 1]
        .map(|at| {
            leases[at] = None;
            // The keeper takes back what is free before it answers anybody who comes later.
            clients(&options).unwrap();
            at + 1
        })
        .to_vec();
    let again: Vec<_> = (0..3).map(|_| acquire(&options).unwrap()).collect();
    assert_eq!(again.iter().map(|lease| usize::from(lease.slot())).collect::<Vec<_>>(), slots);
}

#[test]
fn clients_are_listed_with_their_counters() {
    let options = options();
    assert_eq!(clients(&options).unwrap(), [], "no keeper is no error");
    let socket = abstract_socket::connect(&options.socket_name(), LONG);
    assert_eq!(socket.unwrap_err().kind(), ErrorKind::ConnectionRefused, "and none was started");

    let before = SystemTime::now();
    let lease = acquire(&options).unwrap();
    let mut other = Holder::start(&options);
    assert_eq!(other.slot(), 2);
    lease.board().slot(1).unwrap().counters()[5].store(42, Ordering::Relaxed);
    let listed = clients(&options).unwrap();
    let pids: Vec<_> = listed.iter().map(|client| (client.slot, client.pid)).collect();
    assert_eq!(pids, [(1, std::process::id()), (2, other.pid())]);
    assert_eq!(listed[0].counters[5], 42);
    assert!(listed[0].since >= before && listed[0].since <= SystemTime::now());
    assert!(!listed[0].name.is_empty());
    assert_ne!(keeper_pid(&lease), std::process::id());
}

#[test]
fn the_keeper_leaves_after_its_last_client() {
    let options = options();
    let lease = acquire(&options).unwrap();
    let other = acquire(&options).unwrap();
    // A connection that asks for nothing keeps no keeper, and sees it go.
    let mut witness = abstract_socket::connect(&options.socket_name(), LONG).unwrap();
    drop(lease);
    drop(other);
    assert_eq!(witness.read(&mut [0; 8]).unwrap(), 0);
    let gone = abstract_socket::connect(&options.socket_name(), LONG).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(acquire(&options).unwrap().slot(), 1, "a new keeper starts from nothing");
}

#[test]
fn the_keeper_has_nothing_of_the_process_that_started_it() {
    let options = options();
    let lease = acquire(&options).unwrap();
    let proc = |file: &str| format!("/proc/{}/{file}", keeper_pid(&lease));
    assert_eq!(std::fs::read_link(proc("cwd")).unwrap().to_str(), Some("/"));
    let environment = std::fs::read(proc("environ")).unwrap();
    let variables: Vec<_> = environment.split(|&byte| byte == 0).filter(|v| !v.is_empty()).collect();
    assert!(variables.iter().all(|v| v.starts_with(b"RUST_LOG=") || v.starts_with(b"FERROCE_KEEPER_LOG=")));
    // pid (comm) state ppid pgrp session
    let stat = std::fs::read_to_string(proc("stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ours = std::fs::read_to_string("/proc/self/stat").unwrap();
    let our_fields: Vec<&str> = ours.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_ne!(fields[3], our_fields[3], "session");
    assert_ne!(fields[1], std::process::id().to_string(), "parent");
}

#[test]
fn descriptors_that_the_starting_process_forgot_to_mark_are_closed_in_the_keeper() {
    let options = options();
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 9<'{path}'; exec \"$0\" \"$@\"")]).arg(std::env::current_exe().unwrap());
    let mut starter = Holder::start_by(shell, &options);
    starter.slot();
    let open = |pid: u32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        files
            .filter(|fd| std::fs::read_link(fd.as_ref().unwrap().path()).is_ok_and(|at| at == file.path()))
            .count()
    };
    assert_eq!(open(starter.pid()), 1, "the process that started the keeper has it");
    let lease = acquire(&options).unwrap();
    assert_eq!(open(keeper_pid(&lease)), 0);
}

#[test]
fn without_a_keeper_a_process_has_the_port_alone() {
    let options = options();
    let forbidden = KeeperOptions { mode: KeeperMode::Off, ..options.clone() };
    let missing = KeeperOptions { binary: Some("/nonexistent/keeper".into()), ..options.clone() };
    for options in [forbidden, missing] {
        let lease = acquire(&options).unwrap();
        assert!(lease.is_alone() && lease.connection_fd().is_none());
        assert_steered(options.port, &[&lease]);
        assert_eq!(lease.board().slot(lease.slot().into()).unwrap().owner(), std::process::id());

        let error = acquire(&options).unwrap_err().to_string();
        assert!(error.contains(&format!("process {} (", std::process::id())), "{error}");
        let with_keeper = KeeperOptions { mode: KeeperMode::Auto, binary: Some(program()), ..options };
        let error = acquire(&with_keeper).unwrap_err().to_string();
        assert!(error.contains(&format!("process {} (", std::process::id())), "{error}");
    }
}
