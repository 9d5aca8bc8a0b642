//! The `main` of the test programs: each test is a row with a name of its own, made in a loop where a loop is due.
//!
//! A row that this machine, or this user, cannot run is not passed over in silence: it is listed as ignored, with the
//! reason in front of its name.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::announce;
use crate::sandbox::Sandbox;

/// A test. It fails by panicking.
pub fn row(name: impl Into<String>, body: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        body();
        Ok(())
    })
}

/// A test that cannot be run if there is an obstacle.
pub fn row_unless(
    obstacle: Option<&str>,
    name: impl Into<String>,
    body: impl FnOnce() + Send + 'static,
) -> Trial {
    hinder(row(name, body), obstacle)
}

/// Options as a part of a row's name.
pub fn name(options: &str) -> String {
    let words: Vec<_> = options.split_whitespace().map(|word| word.trim_start_matches('-')).collect();
    if words.is_empty() { "default".to_owned() } else { words.join("_") }
}

/// Rows named after their functions.
#[macro_export]
macro_rules! trials {
    ($($test:ident),+ $(,)?) => {
        vec![$($crate::matrix::row(stringify!($test), $test)),+]
    };
}

/// Runs them, if there can be sandboxes at all. Understands the options of `cargo test -- …`.
pub fn run(rows: Vec<Trial>) -> ExitCode {
    let arguments = Arguments::from_args();
    let obstacle = if arguments.list { None } else { Sandbox::obstacle() };
    if let Some(obstacle) = &obstacle {
        announce(format_args!("skipped, all of them: {obstacle}"));
    }
    let rows = rows.into_iter().map(|row| hinder(row, obstacle.as_deref())).collect();
    libtest_mimic::run(&arguments, rows).exit_code()
}

fn hinder(row: Trial, obstacle: Option<&str>) -> Trial {
    match obstacle {
        Some(obstacle) => row.with_kind(obstacle).with_ignored_flag(true),
        None => row,
    }
}
