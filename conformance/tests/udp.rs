//! The whole suite on the backend `udp`: one test for each case, one after the other, as they share an engine.

mod suite;

use std::process::Command;

fn main() {
    build_keeper();
    let arguments =
        libtest_mimic::Arguments { test_threads: Some(1), ..libtest_mimic::Arguments::from_args() };
    suite::run("udp", &arguments);
}

/// Builds the keeper's program beside this test, where the library looks for it.
fn build_keeper() {
    let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "ferroce-keeper"])
        .args(profile)
        .status()
        .expect("cargo starts");
    assert!(built.success(), "the keeper does not build");
    let test = std::env::current_exe().expect("this test is a file");
    // Cargo puts tests into a folder `deps` inside the profile's.
    let keeper = test.ancestors().nth(2).expect("the profile's folder").join("ferroce-keeper");
    ferroce::Config::set_keeper_bin(keeper);
}
