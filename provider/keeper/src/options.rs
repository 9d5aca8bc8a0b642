//! What a process may say about its keeper.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use ferroce_port::process::effective_uid;
use ferroce_wire::ROCE_UDP_PORT;

use crate::KeeperError;

/// Whether a keeper is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeeperMode {
    /// Use the one that runs, or start one; if none can be started, take the port alone and warn.
    #[default]
    Auto,
    /// Take the port alone.
    Off,
}

/// How a process finds, and if need be starts, its keeper.
#[derive(Clone, Debug)]
pub struct KeeperOptions {
    /// Whether a keeper is used at all.
    pub mode: KeeperMode,
    /// The abstract Unix socket's name, without the leading zero byte. `None`: `ferroce-keeper-UID`.
    pub name: Option<String>,
    /// The UDP port shared. RoCEv2 peers know only [`ROCE_UDP_PORT`].
    pub port: u16,
    /// The keeper's program: this and no other.
    pub binary: Option<PathBuf>,
    /// Where the keeper's program is likely to be; skipped when nothing is there. A library names the place beside
    /// its own file.
    pub binary_hint: Option<PathBuf>,
    /// How long a keeper started by us stays after its last client has gone.
    pub idle: Duration,
}

/// How long a keeper stays after its last client has gone: long enough for one test of a suite to follow another.
pub const IDLE_SECONDS: u64 = 5;

impl Default for KeeperOptions {
    fn default() -> KeeperOptions {
        KeeperOptions {
            mode: KeeperMode::Auto,
            name: None,
            port: ROCE_UDP_PORT,
            binary: None,
            binary_hint: None,
            idle: Duration::from_secs(IDLE_SECONDS),
        }
    }
}

impl KeeperOptions {
    /// The defaults, changed by the environment: `FERROCE_KEEPER` (`auto` or `off`), `FERROCE_KEEPER_NAME` (the
    /// abstract socket's name) and `FERROCE_KEEPER_BIN` (the keeper's program).
    ///
    /// # Errors
    /// [`KeeperError::Setting`] for a value that means nothing.
    pub fn from_env() -> Result<KeeperOptions, KeeperError> {
        KeeperOptions::from_variables(|name| {
            env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        })
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<KeeperOptions, KeeperError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mode = match set("FERROCE_KEEPER").as_deref() {
            None | Some("auto") => KeeperMode::Auto,
            Some("off") => KeeperMode::Off,
            Some(value) => {
                return Err(KeeperError::Setting {
                    variable: "FERROCE_KEEPER",
                    value: value.to_owned(),
                    expected: "auto or off",
                });
            }
        };
        let name = set("FERROCE_KEEPER_NAME");
        if let Some(value) = name.as_ref().filter(|name| name.len() > NAME_MAX) {
            return Err(KeeperError::Setting {
                variable: "FERROCE_KEEPER_NAME",
                value: value.clone(),
                expected: "at most 100 bytes",
            });
        }
        let binary = set("FERROCE_KEEPER_BIN").map(PathBuf::from);
        Ok(KeeperOptions { mode, name, binary, ..KeeperOptions::default() })
    }

    /// The abstract socket's name.
    pub fn socket_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("ferroce-keeper-{}", effective_uid()))
    }
}

/// Longest abstract name accepted from the environment, in bytes; the kernel's address has room for 107 (unix(7)).
const NAME_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<KeeperOptions, KeeperError> {
        KeeperOptions::from_variables(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_overrides_the_defaults() {
        let options = from(&[]).unwrap();
        assert_eq!((options.mode, options.port), (KeeperMode::Auto, 4791));
        assert_eq!(options.socket_name(), format!("ferroce-keeper-{}", effective_uid()));
        let options = from(&[
            ("FERROCE_KEEPER", "off"),
            ("FERROCE_KEEPER_NAME", "mine"),
            ("FERROCE_KEEPER_BIN", "/opt/keeper"),
        ])
        .unwrap();
        assert_eq!((options.mode, options.socket_name().as_str()), (KeeperMode::Off, "mine"));
        assert_eq!(options.binary, Some(PathBuf::from("/opt/keeper")));
    }

    #[test]
    fn a_setting_that_means_nothing_is_an_error() {
        let error = from(&[("FERROCE_KEEPER", "of")]).unwrap_err().to_string();
        assert!(error.contains("FERROCE_KEEPER") && error.contains("auto or off"), "{error}");
        assert!(from(&[("FERROCE_KEEPER_NAME", &"x".repeat(101))]).is_err());
    }
}
