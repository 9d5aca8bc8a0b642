//! A network namespace of its own for a test, and who runs in it.
//!
//! Root tests as the user `nobody`; anybody else inside a user namespace, in which the programs lose the capabilities
//! that making a namespace gives. Either way they run as a user without privilege does.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::program::Program;
use crate::tree::Tree;

/// A network namespace whose only interface is `lo`. It lasts until this is dropped and its programs have ended.
pub struct Sandbox {
    tree: Tree,
    user: User,
    namespace: Namespace,
    next_port: AtomicU16,
    /// Whether each program has a folder for temporary files of its own.
    own_tmp: bool,
}

/// Who the programs run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    /// We are root and become `nobody`.
    Nobody,
    /// We are root, and `nobody` cannot read the tree: root without any capability.
    RootWithoutCapabilities,
    /// We are somebody, and called root inside a user namespace of our own.
    Caller,
}

impl Sandbox {
    /// Makes a namespace.
    ///
    /// # Panics
    /// When the system lets us make none, with what it said.
    pub fn new() -> Sandbox {
        let tree = Tree::locate();
        let user = User::choose(&tree);
        Sandbox::hold(tree, user, user.unshare())
    }

    /// A second namespace under the same user namespace, so that interfaces can be moved between the two.
    pub fn beside(&self) -> Sandbox {
        let mut command = self.enter_user();
        command.arg("unshare");
        Sandbox::hold(self.tree.clone(), self.user, command)
    }

    /// Why there can be no sandbox for this user on this system, if so.
    pub fn obstacle() -> Option<String> {
        Namespace::create(User::choose(&Tree::locate()).unshare()).err()
    }

    fn hold(tree: Tree, user: User, unshare: Command) -> Sandbox {
        let namespace = Namespace::create(unshare).unwrap_or_else(|obstacle| panic!("{obstacle}"));
        Sandbox { tree, user, namespace, next_port: AtomicU16::new(FIRST_PORT), own_tmp: false }
    }

    /// Gives each program an empty `/tmp` of its own, for programs that use fixed names there, which somebody else may
    /// have taken.
    #[must_use]
    pub fn own_tmp(mut self) -> Sandbox {
        self.own_tmp = true;
        self
    }

    /// The tree under test.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Process that holds the namespace; `/proc/PID/net` shows the namespace's tables.
    pub fn holder_pid(&self) -> u32 {
        self.namespace.holder.id()
    }

    /// A TCP port of this namespace that was not handed out before. They lie below the ephemeral ports.
    pub fn tcp_port(&self) -> u16 {
        self.next_port.fetch_add(1, Ordering::Relaxed)
    }

    /// A program as a user without privilege runs it, through `ferroce run --device DEVICE`.
    pub fn run(&self, device: &str, program: &Path) -> (Command, String) {
        let mut command = self.unprivileged();
        command.arg(self.tree.command()).args(["run", "--device", device, "--"]).arg(program);
        let line =
            format!("{} run --device {device} -- {}", self.tree.command().display(), program.display());
        (command, line)
    }

    /// Runs an application with arguments on `lo`'s device.
    pub fn application(&self, program: &str, arguments: &[&str]) -> Program {
        self.application_with(program, arguments, &[])
    }

    /// Like [`Sandbox::application`], with environment variables.
    pub fn application_with(&self, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Program {
        let (mut command, mut line) = self.run("lo", Path::new(program));
        command.args(arguments).envs(variables.iter().copied());
        for (name, value) in variables.iter().rev() {
            line = format!("{name}={value} {line}");
        }
        append(&mut line, arguments);
        Program::start(command, line)
    }

    /// The command `ferroce` itself, as the same user.
    pub fn ferroce(&self, arguments: &[&str]) -> Program {
        let mut command = self.unprivileged();
        command.arg(self.tree.command()).args(arguments);
        let mut line = self.tree.command().display().to_string();
        append(&mut line, arguments);
        Program::start(command, line)
    }

    /// A program with the rights of the namespace's owner: for ethtool, tcpdump and the like.
    pub fn privileged(&self, program: &str, arguments: &[&str]) -> Program {
        let mut command = self.privileged_command(program);
        command.args(arguments);
        let mut line = format!("nsenter --net=/proc/{}/ns/net {program}", self.holder_pid());
        append(&mut line, arguments);
        Program::start(command, line)
    }

    /// The same, not started yet.
    pub fn privileged_command(&self, program: &str) -> Command {
        let mut command = self.enter();
        command.arg(program);
        command
    }

    /// A program as the same user that the applications run as, but without `ferroce run`.
    pub fn bystander(&self, program: &str, arguments: &[&str]) -> Program {
        let mut command = self.unprivileged();
        command.arg(program).args(arguments);
        let mut line = program.to_owned();
        append(&mut line, arguments);
        Program::start(command, line)
    }

    /// A folder that the programs can read, for what a test compiles or writes. Gone when dropped.
    ///
    /// # Panics
    /// When the system's folder for temporary files is not usable.
    pub fn folder(&self) -> tempfile::TempDir {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::Builder::new()
            .prefix("ferroce-tests-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir();
        folder.expect("the folder for temporary files is writable")
    }

    /// Enters the namespaces and gives up every right there.
    fn unprivileged(&self) -> Command {
        let mut command = self.enter();
        if self.own_tmp {
            command.args(["unshare", "--mount", "--", "sh", "-c", MOUNT_TMP]).arg(self.tree.root());
        }
        command.arg("setpriv").arg("--no-new-privs");
        match self.user {
            User::Nobody => {
                command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--", "env"]);
                // Root's PATH may begin with folders that only root can search.
                command.arg(format!("PATH={SYSTEM_PATH}")).arg("HOME=/nonexistent")
            }
            User::RootWithoutCapabilities | User::Caller => {
                command.args(["--bounding-set=-all", "--inh-caps=-all", "--"])
            }
        };
        command
    }

    /// Enters the namespaces.
    fn enter(&self) -> Command {
        let mut command = self.enter_user();
        command.arg("nsenter").arg(format!("--net=/proc/{}/ns/net", self.holder_pid())).arg("--");
        command
    }

    /// Enters the user namespace, if there is one of our own. What is run has to follow as an argument.
    fn enter_user(&self) -> Command {
        let mut command = Command::new("env");
        // Cargo puts its own folders there, which the applications of a user do not see.
        command.args(["--unset=LD_LIBRARY_PATH", "--chdir=/"]);
        if self.user == User::Caller {
            let namespace = format!("--user=/proc/{}/ns/user", self.holder_pid());
            command.args(["nsenter", namespace.as_str(), "--preserve-credentials", "--"]);
        }
        command
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

/// A network namespace, held by a shell that lives in it.
struct Namespace {
    holder: Child,
}

impl Namespace {
    /// Lets `unshare`, which may have options for other namespaces already, make one and bring up its `lo`.
    fn create(mut unshare: Command) -> Result<Namespace, String> {
        // The shell ends, and the namespace with it, when our end of its stdin closes: also when we are killed.
        unshare.args(["--net", "--", "sh", "-c", "ip link set lo up && echo up && exec cat"]);
        let holder = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut holder = holder.map_err(|error| format!("cannot start unshare(1): {error}"))?;
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("stdout was asked for");
        if BufReader::new(stdout).read_line(&mut line).is_ok() && line == "up\n" {
            return Ok(Namespace { holder });
        }
        let output = holder.wait_with_output().expect("our own child");
        let text = String::from_utf8_lossy(&output.stderr);
        Err(format!("no network namespace (run as root, or allow user namespaces): {}", text.trim()))
    }

    /// The shell ends; the namespace lasts until the programs in it have ended, too.
    fn end(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.end();
    }
}

impl User {
    fn choose(tree: &Tree) -> User {
        static CHOICE: OnceLock<User> = OnceLock::new();
        *CHOICE.get_or_init(|| {
            if !rustix::process::geteuid().is_root() {
                return User::Caller;
            }
            if tree.is_public() { User::Nobody } else { User::RootWithoutCapabilities }
        })
    }

    /// What makes the namespaces of this user's sandbox; the options of the network namespace follow.
    fn unshare(self) -> Command {
        let mut command = Command::new("unshare");
        if self == User::Caller {
            command.args(["--user", "--map-root-user"]);
        }
        command
    }
}

/// Adds arguments to a command line as one would type them.
pub fn append(line: &mut String, arguments: &[&str]) {
    for argument in arguments {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
        if !argument.is_empty() && argument.chars().all(plain) {
            line.push_str(&format!(" {argument}"));
        } else {
            line.push_str(&format!(" '{}'", argument.replace('\'', r"'\''")));
        }
    }
}

/// Where a program of the system lies, also in the folders that an ordinary user's PATH lacks on Debian.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(std::env::split_paths(SYSTEM_PATH));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

const NOBODY: &str = "65534";
/// What a shell does before it becomes the program that its arguments name. The tree, `$0`, stays where it is, should that be
/// in `/tmp`.
const MOUNT_TMP: &str = r#"exec 9<"$0" && mount -t tmpfs -o mode=1777 tmpfs /tmp && mkdir -p "$0" &&
mount --no-canonicalize --bind /proc/self/fd/9 "$0" && exec 9<&- && exec "$@""#;
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// perftest's own default.
const FIRST_PORT: u16 = 18515;
