//! Messages of the library: `FERROCE_LOG` and `FERROCE_LOG_FILE`.
//!
//! `FERROCE_LOG` takes a level (`error`, `warn`, `info`, `debug`, `trace`) or a list of directives as tracing's
//! `EnvFilter` does; without it only errors and warnings are shown. `FERROCE_LOG_FILE` names a file to append to in
//! place of stderr.
//!
//! A message that cannot be written is lost, and nothing else happens: the process is somebody else's.

use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write, stderr};
use std::os::fd::AsFd;
use std::sync::Once;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

/// Starts it; later calls do nothing.
pub fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        let directives = EnvFilter::builder()
            .with_default_directive(LevelFilter::WARN.into())
            .with_env_var("FERROCE_LOG")
            .from_env();
        let (filter, misunderstood) = match directives {
            Ok(filter) => (filter, None),
            Err(error) => (EnvFilter::default().add_directive(LevelFilter::WARN.into()), Some(error)),
        };
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
        // What tracing has to say about itself goes to stderr, and panics where that fails.
        let builder = builder.log_internal_errors(false);
        // Only another subscriber in the same program could be in the way, and then its choice stands.
        let _already = match log_file() {
            Some(file) => builder.with_ansi(false).with_writer(move || Log(file)).try_init(),
            None if stderr_is_closed() => Ok(()),
            None => builder.with_ansi(stderr().is_terminal()).with_writer(|| Log(stderr())).try_init(),
        };
        if let Some(error) = misunderstood {
            tracing::warn!(%error, "FERROCE_LOG is not understood: only errors and warnings are shown");
        }
    });
}

/// Whether the program has closed it; its number is something else's soon.
fn stderr_is_closed() -> bool {
    stderr().as_fd().try_clone_to_owned().is_err_and(|error| error.raw_os_error() == Some(libc::EBADF))
}

/// It stays open for good: there is one, and it is used until the process ends.
fn log_file() -> Option<&'static File> {
    let path = std::env::var_os("FERROCE_LOG_FILE")?;
    let file = OpenOptions::new().append(true).create(true).open(path).ok()?;
    Some(Box::leak(Box::new(file)))
}

/// Where messages go.
///
/// No lock is held while it writes, so that a child that was forked in the middle of another thread's message can write
/// its own. And it always succeeds: tracing's way to report an error would be to write to stderr.
struct Log<F>(F);

impl<F: AsFd> Write for Log<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        // A message comes in one piece and nearly always leaves so.
        while !rest.is_empty() {
            match rustix::io::write(&self.0, rest) {
                Ok(count @ 1..) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => break,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_no_error() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        Log(full).write_all(b"lost").unwrap();
    }

    #[test]
    fn a_message_arrives() {
        let (mut reader, writer) = io::pipe().unwrap();
        Log(writer).write_all(b"a message").unwrap();
        assert_eq!(io::read_to_string(&mut reader).unwrap(), "a message");
    }
}
