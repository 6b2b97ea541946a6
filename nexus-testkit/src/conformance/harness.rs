//! The suite as the whole of a test program.

use std::{process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Failed, Trial};

use super::{
    catalogue::CASES,
    run::{declarations, run_case_blocking},
    subject::Subject,
};

/// Runs the suite for each subject as a test program does: it takes the arguments of `cargo test`, and names its
/// tests as `alpha_cli::dropping_the_turn_stops_its_processes`.
///
/// For a test target with `harness = false`, whose `main` can therefore begin with
/// [`fake_cli::run_if_invoked`](crate::fake_cli::run_if_invoked):
///
/// ```no_run
/// use std::{process::ExitCode, sync::Arc};
/// use nexus_testkit::{conformance, fake_cli};
///
/// fn main() -> ExitCode {
///     fake_cli::run_if_invoked();
///     conformance::harness(&[("reference", Arc::new(conformance::reference::ReferenceSubject))])
/// }
/// ```
pub fn harness<N: AsRef<str>>(subjects: &[(N, Arc<dyn Subject>)]) -> ExitCode {
    run_trials(subjects.iter().flat_map(|(name, subject)| trials(name.as_ref(), subject)).collect())
}

/// Runs tests that were made at run time: those of [`trials`], and others of the same test program.
///
/// Most cases wait for a limit to pass, so more are tried at once than there are processors, unless `--test-threads` or
/// `RUST_TEST_THREADS` says how many.
pub fn run_trials(trials: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or_else(at_once);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// How many cases are tried at once where nobody says so.
fn at_once() -> Option<usize> {
    const PER_PROCESSOR: usize = 3;
    let named = std::env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
    named.or_else(|| std::thread::available_parallelism().ok().map(|many| many.get() * PER_PROCESSOR))
}

/// The suite for one subject: a test for each case, named `module::case`.
pub fn trials(module: &str, subject: &Arc<dyn Subject>) -> Vec<Trial> {
    let case = |name: &'static str| {
        let subject = Arc::clone(subject);
        Trial::test(format!("{module}::{name}"), move || {
            let skipped =
                run_case_blocking(&*subject, name).map_err(|finding| Failed::from(finding.to_string()))?;
            if let Some(reason) = skipped {
                println!("skipped {name}: {reason}");
            }
            Ok(())
        })
    };
    let mut trials: Vec<_> = CASES.iter().map(|known| case(known.name)).collect();
    let subject = Arc::clone(subject);
    let name = format!("{module}::every_declared_capability_has_a_case_that_runs");
    trials.push(Trial::test(name, move || {
        declarations(&*subject).map_err(|finding| Failed::from(finding.to_string()))
    }));
    trials
}
