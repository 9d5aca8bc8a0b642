//! Strange things on the control socket.

use std::io::{ErrorKind, Read, Write};

use ferroce_keeper::protocol::{MESSAGE_MAX, Message, PROTOCOL_VERSION, ProtocolError, Reason};
use ferroce_keeper::{KeeperError, KeeperOptions, acquire, clients};
use ferroce_port::abstract_socket;

use crate::common::{LONG, assert_steered, keeper_pid, options};

/// Says `record` to the keeper and returns its answer; `None` when it hung up.
fn say(options: &KeeperOptions, record: &[u8]) -> Option<Result<Message, ProtocolError>> {
    let mut stream = abstract_socket::connect(&options.socket_name(), LONG).unwrap();
    stream.write_all(record).unwrap();
    let mut answer = [0; MESSAGE_MAX];
    match stream.read(&mut answer) {
        Ok(0) => None,
        Ok(length) => Some(Message::decode(&answer[..length])),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn garbage_is_refused_and_disturbs_nobody() {
    let options = options();
    let lease = acquire(&options).unwrap();
    let pid = keeper_pid(&lease);
    let valid = Message::Acquire { pid: 1 }.encode();
    let mut records =
        vec![vec![0], vec![0xff; MESSAGE_MAX], vec![7; 2 * MESSAGE_MAX], valid[..valid.len() - 1].to_vec()];
    for kind in [0u16, 17, 0xffff] {
        let mut record = valid.clone();
        record[6..8].copy_from_slice(&kind.to_ne_bytes());
        records.push(record);
    }
    for record in records {
        let answer = say(&options, &record).expect("an answer").expect("a message");
        assert!(matches!(answer, Message::Refused { reason: Reason::Other, .. }), "{answer:?}");
    }
    let second = acquire(&options).unwrap();
    assert_eq!((second.slot(), keeper_pid(&second)), (2, pid));
    assert_steered(options.port, &[&lease, &second]);
}

#[test]
fn messages_at_the_wrong_time_are_refused() {
    let options = options();
    let lease = acquire(&options).unwrap();
    for message in [
        Message::Fetch { first: 0, count: 1 },
        Message::Sockets { first: 0, count: 1 },
        Message::Granted { slot: 1, generation: 1 },
        Message::Wanted { first: 0, count: 1 },
        Message::BoardAttached,
        Message::Refused { reason: Reason::Other, text: "no".into() },
        // An offer without its board.
        Message::Recover { slot: 1, generation: 1, pid: 1 },
    ] {
        let answer = say(&options, &message.encode()).expect("an answer").expect("a message");
        assert!(matches!(answer, Message::Refused { .. }), "{message:?}: {answer:?}");
    }
    assert_eq!(clients(&options).unwrap().len(), 1);
    assert_steered(options.port, &[&lease]);
}

#[test]
fn a_client_of_another_release_is_told_our_version() {
    let options = options();
    let _lease = acquire(&options).unwrap();
    let mut record = Message::Inspect.encode();
    record[4..6].copy_from_slice(&(PROTOCOL_VERSION + 1).to_ne_bytes());
    let answer = say(&options, &record).expect("an answer").expect("a message of our version");
    assert!(matches!(answer, Message::Refused { reason: Reason::Version, .. }), "{answer:?}");
}

#[test]
fn a_keeper_of_another_release_is_an_error_that_says_what_to_do() {
    let options = options();
    let listener = abstract_socket::listen(&options.socket_name()).unwrap();
    let other_release = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; MESSAGE_MAX]).unwrap();
        let mut record = Message::Refused { reason: Reason::Version, text: String::new() }.encode();
        record[4..6].copy_from_slice(&7u16.to_ne_bytes());
        stream.write_all(&record).unwrap();
    });
    let error = acquire(&options).unwrap_err();
    assert!(matches!(error, KeeperError::Version { theirs: 7 }), "{error}");
    assert!(error.to_string().contains("same release everywhere"), "{error}");
    other_release.join().unwrap();
}
