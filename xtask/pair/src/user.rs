//! Who the programs run as.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

/// A user without privilege, where there is one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum User {
    /// Whoever called, who has no privileges.
    Caller,
    /// The user `nobody`, because root called.
    Nobody {
        /// The user id.
        uid: u32,
        /// The group id.
        gid: u32,
    },
    /// Root, because `nobody` cannot run what is to be run.
    Root,
}

impl User {
    /// An ordinary user that can run these programs of ours, which all know `--version`.
    pub fn choose(programs: &[&Path]) -> User {
        if !geteuid().is_root() {
            return User::Caller;
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let Some((uid, gid)) = nobody(&users) else { return User::Root };
        let nobody = User::Nobody { uid, gid };
        let can_run = |program: &&Path| {
            let mut probe = Command::new(program);
            nobody.apply(probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()));
            probe.status().is_ok_and(|status| status.success())
        };
        if programs.iter().all(can_run) { nobody } else { User::Root }
    }

    /// Makes `command` run as this user, with no supplementary groups.
    pub fn apply(self, command: &mut Command) {
        if let User::Nobody { uid, gid } = self {
            command.uid(uid).gid(gid).current_dir("/");
        }
    }

    /// Who it was, for the person who watches.
    pub fn remark(self) -> &'static str {
        match self {
            User::Caller => "All of it ran as you, without any privilege.",
            User::Nobody { .. } => {
                "You are root, so all of it ran as the user nobody: no privilege is needed."
            }
            User::Root => {
                "It ran as root only because the user nobody cannot run these files; no privilege is needed."
            }
        }
    }
}

/// The user and group id of `nobody`, from the lines of passwd(5).
fn nobody(users: &str) -> Option<(u32, u32)> {
    let line = users.lines().find(|line| line.starts_with("nobody:"))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_found_by_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/nonexistent:/bin/false\n";
        assert_eq!(nobody(users), Some((65534, 65533)));
        assert_eq!(nobody("root:x:0:0:root:/root:/bin/sh\n"), None);
    }

    #[test]
    fn a_program_that_nobody_can_run_is_left_to_the_caller() {
        let chosen = User::choose(&[Path::new("/nonexistent/ferroce")]);
        assert!(!matches!(chosen, User::Nobody { .. }));
    }
}
