//! Another user's processes get nothing from our keeper, and take another user's keeper for none. Needs root, to be
//! another user.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use ferroce_keeper::{KeeperError, KeeperOptions, acquire, clients};
use ferroce_port::abstract_socket;
use ferroce_port::process::effective_uid;

/// What "nobody" is on most systems; any that is not ours would do.
const OTHER_UID: u32 = 65_534;

#[test]
fn a_keeper_and_a_client_of_different_users_do_not_talk() {
    if effective_uid() != 0 {
        println!("skipped: only root can be another user");
        return;
    }
    let name = format!("ferroce-keeper-test-user-{}", std::process::id());
    let binary = Some(PathBuf::from(env!("CARGO_BIN_EXE_ferroce-keeper")));
    // Beyond the ports of the other tests, below the ephemeral ones.
    let port = 30_000 + (std::process::id() % 2_000) as u16;
    let options = KeeperOptions { name: Some(name.clone()), port, binary, ..KeeperOptions::default() };
    let lease = acquire(&options).unwrap();

    // Where the other user can run it.
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("other-user");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new(&program)
        .args(["--exact", "other_user_process", "--ignored", "--nocapture"])
        .env("TEST_NAME", &name)
        .env("TEST_PORT", port.to_string())
        .current_dir("/")
        .uid(OTHER_UID)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let slots: Vec<_> = clients(&options).unwrap().iter().map(|client| client.slot).collect();
    assert_eq!(slots, [lease.slot()]);
}

/// The other user's half; no test.
#[test]
#[ignore = "started by the test as a process of another user"]
fn other_user_process() {
    let name = env::var("TEST_NAME").unwrap();
    let port = env::var("TEST_PORT").unwrap().parse().unwrap();
    let options = KeeperOptions { name: Some(name.clone()), port, ..KeeperOptions::default() };
    assert_eq!(effective_uid(), OTHER_UID);
    for error in [acquire(&options).unwrap_err(), clients(&options).unwrap_err()] {
        assert!(matches!(error, KeeperError::ForeignKeeper { theirs: 0, ours: OTHER_UID, .. }), "{error}");
        assert!(error.to_string().contains("FERROCE_KEEPER_NAME"), "{error}");
    }
    // And if we do not look: the keeper does, and hangs up.
    let mut stream = abstract_socket::connect(&name, Duration::from_secs(20)).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
}
