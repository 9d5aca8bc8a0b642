//! The ends of what there is.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use ferroce_keeper::protocol::{MESSAGE_MAX, Message};
use ferroce_keeper::{KeeperError, KeeperOptions, Lease, MAX_SLOTS, acquire};
use ferroce_port::{abstract_socket, fd_passing};

use crate::common::{LONG, assert_steered, keeper_pid, options, program};

/// A client that takes a slot and leaves the sockets where they are: 255 full leases would hold 33,000 descriptors.
fn take_slot(options: &KeeperOptions) -> (UnixStream, Message) {
    let mut stream = abstract_socket::connect(&options.socket_name(), LONG).unwrap();
    stream.write_all(&Message::Acquire { pid: std::process::id() }.encode()).unwrap();
    let mut answer = [0; MESSAGE_MAX];
    let (length, _) = fd_passing::receive(&stream, &mut answer).unwrap();
    let message = Message::decode(&answer[..length]).unwrap();
    (stream, message)
}

#[test]
fn the_256th_process_is_told_that_all_slots_are_taken() {
    let options = options();
    let first = acquire(&options).unwrap();
    let takers: Vec<_> = (2..=MAX_SLOTS)
        .map(|slot| {
            let (stream, answer) = take_slot(&options);
            assert_eq!(answer, Message::Granted { slot, generation: 1 });
            stream
        })
        .collect();
    let error = acquire(&options).unwrap_err();
    assert!(matches!(error, KeeperError::NoSlotFree), "{error}");
    assert_steered(options.port, &[&first]);
    drop(takers);
    let again = acquire(&options).unwrap();
    assert_ne!(again.slot(), first.slot());
    assert_steered(options.port, &[&first, &again]);
}

#[test]
fn two_hundred_clients_later_the_keeper_holds_as_many_descriptors_as_before() {
    let options = options();
    let lease = acquire(&options).unwrap();
    let held = |lease: &Lease| fs::read_dir(format!("/proc/{}/fd", keeper_pid(lease))).unwrap().count();
    let second = acquire(&options).unwrap();
    let before = held(&lease);
    drop(second);
    for _ in 0..200 {
        acquire(&options).unwrap();
    }
    // Whoever has been answered comes after all who left before have been swept out; only a child that another test forks
    // has the sockets of one of them until it executes its program.
    let counts: Vec<_> =
        (0..TRIES).map(|_| held(&acquire(&options).unwrap())).take_while(|held| *held != before).collect();
    assert!(counts.len() < TRIES, "{before} at first, then {counts:?}");
}

/// Many times longer than starting a program takes.
const TRIES: usize = 1000;

#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    let options = options();
    let lease = acquire(&options).unwrap();
    let silent: Vec<_> =
        (0..100).map(|_| abstract_socket::connect(&options.socket_name(), LONG).unwrap()).collect();
    let second = acquire(&options).unwrap();
    assert_steered(options.port, &[&lease, &second]);
    drop(silent);
}

#[test]
fn a_keeper_out_of_descriptors_says_so_and_lives_on() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("keeper");
    let text = format!("#!/bin/sh\nulimit -n 13\nexec '{}' \"$@\"\n", program().display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let fresh = options();
    let options = KeeperOptions { binary: Some(script), ..fresh.clone() };

    // Each client costs the keeper a connection and a socket.
    let mut leases = Vec::new();
    let error = loop {
        match acquire(&options) {
            Ok(lease) => leases.push(lease),
            Err(error) => break error,
        }
        assert!(leases.len() < 13, "the limit did not bite");
    };
    assert!(error.to_string().contains("Too many open files"), "{error}");
    assert!(leases.len() > 1);
    assert_steered(options.port, &leases.iter().collect::<Vec<_>>());
    leases.truncate(1);
    leases.push(acquire(&options).unwrap());
    assert_steered(options.port, &leases.iter().collect::<Vec<_>>());
}
