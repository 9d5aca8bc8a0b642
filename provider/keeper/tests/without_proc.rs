//! A keeper starts where /proc is not mounted, as in many a chroot. Needs a mount namespace.

use std::process::{Command, Output};

/// Runs a shell script with root's rights over mounts of its own; `None` where that is not allowed.
fn in_own_mounts(script: &str, arguments: &[&str]) -> Option<Output> {
    let unshare = |script: &str, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "--net", "sh", "-c", script]).args(arguments).output()
    };
    let allowed = unshare("mount -t tmpfs none /proc", &[]).is_ok_and(|output| output.status.success());
    allowed.then(|| unshare(script, arguments).expect("as before"))
}

#[test]
fn a_keeper_starts_without_proc() {
    let script = r#"mount -t tmpfs none /proc && exec "$0" --detach --name without-proc --idle-ms 50"#;
    let Some(output) = in_own_mounts(script, &[env!("CARGO_BIN_EXE_ferroce-keeper")]) else {
        println!("skipped: no mount namespaces here");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ready\n");
    assert!(output.status.success());
}
