//! When there is nothing to be had, the reason reaches the first who asks.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use ferroce_keeper::{KeeperError, acquire};
use ferroce_port::{Sharing, abstract_socket, open_receive_socket};

use crate::common::{assert_steered, options};

#[test]
fn a_foreign_socket_on_the_port_is_named_with_its_process() {
    let options = options();
    // Of one address only, which is in the way all the same.
    let foreign = UdpSocket::bind(("127.0.0.1", options.port)).unwrap();
    let error = acquire(&options).unwrap_err();
    assert!(matches!(error, KeeperError::PortTaken { port, .. } if port == options.port), "{error}");
    let text = error.to_string();
    for part in [
        format!("UDP port {} is taken: process {} (", options.port, std::process::id()),
        "unshare -Urn".to_owned(),
        "FERROCE=off".to_owned(),
    ] {
        assert!(text.contains(&part), "{text}");
    }
    drop(foreign);
    assert_eq!(acquire(&options).unwrap().slot(), 1, "once it is gone, all is well");
}

#[test]
fn a_foreign_socket_that_would_share_is_not_taken_for_a_group_of_ours() {
    let options = options();
    let foreign: OwnedFd = open_receive_socket(options.port, Sharing::Group).unwrap();
    let error = acquire(&options).unwrap_err().to_string();
    assert!(error.contains(&format!("process {} (", std::process::id())), "{error}");
    drop(foreign);
    acquire(&options).unwrap();
}

#[test]
fn a_socket_that_sneaks_into_the_group_stops_its_growth_and_moves_nobody() {
    let options = options();
    let lease = acquire(&options).unwrap();
    let sneaked = open_receive_socket(options.port, Sharing::Group).unwrap();
    let error = acquire(&options).unwrap_err();
    assert!(matches!(error, KeeperError::GroupIncomplete { .. }), "{error}");
    assert_steered(options.port, &[&lease]);
    drop(sneaked);
    let second = acquire(&options).unwrap();
    assert_steered(options.port, &[&lease, &second]);
}

#[test]
fn a_listener_that_never_answers_is_no_keeper_for_ever() {
    let options = options();
    // It closes each connection; after some attempts we stop asking.
    let listener = abstract_socket::listen(&options.socket_name()).unwrap();
    let closer = std::thread::spawn(move || {
        let mut connections = 0;
        while connections < 10 {
            drop(listener.accept().unwrap());
            connections += 1;
        }
    });
    let error = acquire(&options).unwrap_err();
    assert!(matches!(error, KeeperError::Vanishing { attempts: 10, .. }), "{error}");
    closer.join().unwrap();
}
