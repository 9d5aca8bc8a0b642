//! Test programs whose tests are the rows of a table.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// A test with a name of its own. It fails by panicking.
pub fn row(name: impl Into<String>, body: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        body();
        Ok(())
    })
}

/// The `main` of such a program. Understands the options of `cargo test -- …`.
pub fn run(rows: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), rows).exit_code()
}
