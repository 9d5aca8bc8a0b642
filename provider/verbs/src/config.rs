//! The environment variables that steer the device. Read once, when it is needed first.

use ferroce_core::Reacts;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What the environment says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// `FERROCE_DEVICES`: interfaces to show, by name; all when empty.
    pub devices: Vec<String>,
    /// `FERROCE_CHECK_MEMORY=1`: access application memory through the kernel, which survives unmapped pages.
    pub check_memory: bool,
    /// `FERROCE_KEEPER=off`: bind UDP 4791 alone.
    pub alone: bool,
    /// `FERROCE_PORT_GSO=off`: one datagram per system call entry.
    pub no_gso: bool,
    /// `FERROCE_ASSIST=off`: leave all progress to the engine's thread.
    pub no_assist: bool,
    /// `FERROCE_DCQCN`: which QPs slow down when CNPs come.
    pub reacts: Reacts,
    /// `FERROCE_SELECTIVE_REPEAT=on`: QPs may agree with their peers on selective repeat.
    pub selective_repeat: bool,
    /// Where the keeper's program lies, as found beside the loaded library.
    pub keeper_bin: Option<PathBuf>,
}

static CONFIG: OnceLock<Config> = OnceLock::new();

impl Config {
    /// The process's configuration.
    pub fn current() -> &'static Config {
        CONFIG.get_or_init(|| Config::from_vars(|name| std::env::var(name).ok()))
    }

    /// Names the keeper's program beside the library that holds this code. Has no effect after the first use.
    pub fn set_keeper_bin(path: PathBuf) {
        CONFIG.get_or_init(|| Config {
            keeper_bin: Some(path),
            ..Config::from_vars(|name| std::env::var(name).ok())
        });
    }

    fn from_vars(var: impl Fn(&str) -> Option<String>) -> Config {
        let is_off = |name| var(name).is_some_and(|value| matches!(value.as_str(), "off" | "0" | "no"));
        let is_on = |name| var(name).is_some_and(|value| matches!(value.as_str(), "on" | "1" | "yes"));
        let devices = var("FERROCE_DEVICES").unwrap_or_default();
        Config {
            devices: devices
                .split(',')
                .map(|name| name.trim().trim_start_matches("ferroce_").to_owned())
                .filter(|name| !name.is_empty())
                .collect(),
            check_memory: is_on("FERROCE_CHECK_MEMORY"),
            alone: is_off("FERROCE_KEEPER"),
            no_gso: is_off("FERROCE_PORT_GSO"),
            no_assist: is_off("FERROCE_ASSIST"),
            reacts: match () {
                () if is_on("FERROCE_DCQCN") => Reacts::Always,
                () if is_off("FERROCE_DCQCN") => Reacts::Never,
                () => Reacts::OffHost,
            },
            selective_repeat: is_on("FERROCE_SELECTIVE_REPEAT"),
            keeper_bin: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_list_takes_interface_or_device_names() {
        let config =
            Config::from_vars(|name| (name == "FERROCE_DEVICES").then(|| "lo, ferroce_eth0,,".to_owned()));
        assert_eq!(config.devices, ["lo", "eth0"]);
        assert!(!config.alone);
    }

    #[test]
    fn switches_are_understood() {
        let config = Config::from_vars(|name| match name {
            "FERROCE_KEEPER" => Some("off".to_owned()),
            "FERROCE_CHECK_MEMORY" => Some("1".to_owned()),
            _ => None,
        });
        assert!(config.alone && config.check_memory && !config.no_gso);
    }

    #[test]
    fn congestion_control_is_off_on_loopback_unless_asked_for() {
        let reacts = |value: Option<&str>| {
            Config::from_vars(|name| value.filter(|_| name == "FERROCE_DCQCN").map(str::to_owned)).reacts
        };
        assert_eq!(reacts(None), Reacts::OffHost);
        assert_eq!([Some("on"), Some("off")].map(reacts), [Reacts::Always, Reacts::Never]);
    }
}
