//! The whole suite on the backend `sim`: one test for each case.

mod suite;

fn main() {
    suite::run("sim", &libtest_mimic::Arguments::from_args());
}
