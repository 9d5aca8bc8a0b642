//! Cases as tests of a harness that counts them.

use ferroce_conformance::{Expectations, Expected, Verdict, backend, cases, run_case};
use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::Arc;

/// Runs all cases on a backend and ends the process. Cases that the backend's file has an excuse for are ignored.
pub fn run(name: &'static str, arguments: &Arguments) -> ! {
    let expectations = Arc::new(Expectations::of(name).expect("the backend's file is right"));
    let trials = cases::all().into_iter().map(|case| {
        let skips = matches!(expectations.expected(&case), Expected::Skip(_));
        let expectations = Arc::clone(&expectations);
        let title = case.name.clone();
        let trial = Trial::test(title, move || {
            let backend = backend::by_name(name).ok_or("no such backend")?;
            match run_case(&*backend, &case, &expectations)?.verdict {
                Verdict::Failed(text) => Err(Failed::from(text)),
                Verdict::Passed | Verdict::Skipped(_) => Ok(()),
            }
        });
        trial.with_ignored_flag(skips)
    });
    libtest_mimic::run(arguments, trials.collect()).exit()
}
