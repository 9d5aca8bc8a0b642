//! What each chore needs from the machine, why, how to see that it is there, and what each distribution calls it.

use std::path::Path;
use std::process::{Command, Stdio};

/// What the machine is wanted for. A group includes those it builds on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Group {
    /// Compiling and linking
    Build,
    /// Running perftest
    Demo,
    /// Everything the tests use
    Test,
    /// Measuring
    Bench,
}

impl Group {
    /// Whether this group needs what `other` needs.
    fn includes(self, other: Group) -> bool {
        match self {
            Group::Build => other == Group::Build,
            Group::Demo => matches!(other, Group::Build | Group::Demo),
            Group::Test => other != Group::Bench,
            Group::Bench => other != Group::Test,
        }
    }
}

/// One thing a machine may lack.
pub struct Need {
    /// The smallest group that needs it.
    pub group: Group,
    /// Why it is needed, as the end of "… for".
    pub purpose: &'static str,
    probe: Probe,
    /// Debian's and Ubuntu's packages, separated by blanks.
    apt: &'static str,
    /// Fedora's.
    dnf: &'static str,
    /// Arch's; empty where only the user repository has it.
    pacman: &'static str,
}

/// How to see whether something is there without asking a package manager.
enum Probe {
    Program(&'static str),
    File(&'static str),
    PythonModule(&'static str),
}

/// The package managers we can drive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PackageManager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora and its kin.
    Dnf,
    /// Arch and its kin.
    Pacman,
}

impl PackageManager {
    /// The one this machine has.
    pub fn detect() -> Option<Self> {
        [(Self::Apt, "apt-get"), (Self::Dnf, "dnf"), (Self::Pacman, "pacman")]
            .into_iter()
            .find_map(|(manager, program)| ferroce_pair::find(program).map(|_| manager))
    }

    /// The shell command that installs these packages without asking anything.
    ///
    /// Debian's tshark asks whether ordinary users may capture; `noninteractive` takes the default, which is no.
    pub fn install_command(self, packages: &[&str]) -> String {
        let packages = packages.join(" ");
        match self {
            Self::Apt => format!(
                "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
                 --no-install-recommends -o DPkg::Lock::Timeout=120 {packages}"
            ),
            Self::Dnf => format!("dnf install -y {packages}"),
            Self::Pacman => format!("pacman -Sy --needed --noconfirm {packages}"),
        }
    }
}

impl Need {
    /// Whether the machine has it.
    pub fn is_met(&self) -> bool {
        match self.probe {
            Probe::Program(name) => ferroce_pair::find(name).is_some(),
            Probe::File(path) => Path::new(path).exists(),
            Probe::PythonModule(name) => has_python_module(name),
        }
    }

    /// The packages that bring it, separated by blanks; empty where the distribution has none.
    pub fn packages(&self, manager: PackageManager) -> &'static str {
        match manager {
            PackageManager::Apt => self.apt,
            PackageManager::Dnf => self.dnf,
            PackageManager::Pacman => self.pacman,
        }
    }

    /// What is looked for, as a person would name it.
    pub fn name(&self) -> &'static str {
        match self.probe {
            Probe::Program(name) | Probe::File(name) | Probe::PythonModule(name) => name,
        }
    }
}

/// Everything `group` needs.
pub fn needs(group: Group) -> impl Iterator<Item = &'static Need> {
    NEEDS.iter().filter(move |need| group.includes(need.group))
}

/// Asks the interpreter that package managers install modules for; another one may come first in PATH.
fn has_python_module(name: &str) -> bool {
    let script = format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{name}') is None)");
    Command::new(SYSTEM_PYTHON)
        .args(["-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

const SYSTEM_PYTHON: &str = "/usr/bin/python3";

const NEEDS: [Need; 11] = [
    Need {
        group: Group::Build,
        purpose: "linking libibverbs.so.1",
        probe: Probe::Program("cc"),
        apt: "gcc libc6-dev",
        dnf: "gcc",
        pacman: "gcc",
    },
    Need {
        group: Group::Build,
        purpose: "the commands of the Makefile",
        probe: Probe::Program("make"),
        apt: "make",
        dnf: "make",
        pacman: "make",
    },
    Need {
        group: Group::Demo,
        purpose: "ib_write_bw, ib_send_lat and their kin",
        probe: Probe::Program("ib_write_bw"),
        apt: "perftest",
        dnf: "perftest",
        pacman: "",
    },
    Need {
        group: Group::Demo,
        purpose: "ibv_devinfo and ibv_rc_pingpong",
        probe: Probe::Program("ibv_rc_pingpong"),
        apt: "ibverbs-utils",
        dnf: "libibverbs-utils",
        pacman: "rdma-core",
    },
    Need {
        group: Group::Test,
        purpose: "rping, ucmatose and their kin",
        probe: Probe::Program("rping"),
        apt: "rdmacm-utils",
        dnf: "librdmacm-utils",
        pacman: "rdma-core",
    },
    Need {
        group: Group::Test,
        purpose: "checking our C layouts against the system's verbs.h",
        probe: Probe::File("/usr/include/infiniband/verbs.h"),
        apt: "libibverbs-dev",
        dnf: "rdma-core-devel",
        pacman: "rdma-core",
    },
    Need {
        group: Group::Test,
        purpose: "compiling programs that use librdmacm",
        probe: Probe::File("/usr/include/rdma/rsocket.h"),
        apt: "librdmacm-dev",
        dnf: "rdma-core-devel",
        pacman: "rdma-core",
    },
    Need {
        group: Group::Test,
        purpose: "capturing our packets",
        probe: Probe::Program("tcpdump"),
        apt: "tcpdump",
        dnf: "tcpdump",
        pacman: "tcpdump",
    },
    Need {
        group: Group::Test,
        purpose: "decoding our packets with somebody else's eyes",
        probe: Probe::Program("tshark"),
        apt: "tshark",
        dnf: "wireshark-cli",
        pacman: "wireshark-cli",
    },
    Need {
        group: Group::Test,
        purpose: "checking our ICRC with somebody else's code",
        probe: Probe::PythonModule("scapy"),
        apt: "python3-scapy",
        dnf: "python3-scapy",
        pacman: "scapy",
    },
    Need {
        group: Group::Test,
        purpose: "network namespaces with addresses of their own",
        probe: Probe::Program("ip"),
        apt: "iproute2",
        dnf: "iproute",
        pacman: "iproute2",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_needs_no_capture_tools() {
        let names: Vec<_> = needs(Group::Demo).map(Need::name).collect();
        assert!(names.contains(&"cc") && names.contains(&"ib_write_bw"));
        assert!(!names.contains(&"tshark"));
    }

    #[test]
    fn apt_never_asks_a_question() {
        let command = PackageManager::Apt.install_command(&["tshark"]);
        assert!(command.contains("DEBIAN_FRONTEND=noninteractive") && command.ends_with(" tshark"));
    }
}
