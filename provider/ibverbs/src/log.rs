//! Messages of the library: `FERROCE_LOG` and `FERROCE_LOG_FILE`.
//!
//! `FERROCE_LOG` takes a level (`error`, `warn`, `info`, `debug`, `trace`) or a list of directives as tracing's
//! `EnvFilter` does; without it only errors and warnings are shown. `FERROCE_LOG_FILE` names a file to append to in
//! place of stderr.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, Once};
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

/// Starts it; later calls do nothing.
pub(crate) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        let filter = EnvFilter::builder()
            .with_default_directive(LevelFilter::WARN.into())
            .with_env_var("FERROCE_LOG")
            .from_env_lossy();
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
        // Only another subscriber in the same program could be in the way, and then its choice stands.
        let _already = match log_file() {
            Some(file) => builder.with_ansi(false).with_writer(Mutex::new(file)).try_init(),
            None => builder.with_ansi(stderr().is_terminal()).with_writer(stderr).try_init(),
        };
    });
}

fn log_file() -> Option<File> {
    let path = std::env::var_os("FERROCE_LOG_FILE")?;
    OpenOptions::new().append(true).create(true).open(path).ok()
}
