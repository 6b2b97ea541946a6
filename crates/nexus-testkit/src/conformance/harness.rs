//! The suite as a complete test program.

use std::{process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Failed, Trial};

use super::{
    catalogue::CASES,
    run::{declarations, run_case_blocking},
    subject::Subject,
};

/// Runs the suite for each subject as a test program: it accepts the arguments of `cargo test`, and names its
/// tests like `alpha_cli::dropping_the_turn_stops_its_processes`.
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

/// Runs tests that were created at run time: those of [`trials`], and others of the same test program.
///
/// Most cases wait for a limit to pass, so by default more cases run at once than there are processors. `--test-threads` or
/// `RUST_TEST_THREADS` sets the number.
pub fn run_trials(trials: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or_else(at_once);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The suite for one subject that runs a vendor's own program: the named cases only, since a real program takes seconds for
/// each. All cases if [`effort::is_deep`](crate::effort::is_deep).
///
/// # Panics
///
/// Panics if a name does not belong to a case.
pub fn program_trials(module: &str, subject: &Arc<dyn Subject>, cases: &[&str]) -> Vec<Trial> {
    let mut trials = trials(module, subject);
    if !crate::effort::is_deep() {
        let names: Vec<String> = cases.iter().map(|case| format!("{module}::{case}")).collect();
        trials.retain(|trial| names.iter().any(|name| name == trial.name()));
        assert_eq!(trials.len(), cases.len(), "some of {cases:?} are not cases");
    }
    trials
}

/// Cases that a vendor's own program runs on every commit: an ordinary turn, a tool of the caller's, scope, cancellation,
/// secrets, resume, a limit and structured output.
pub const PROGRAM_CASES: [&str; 8] = [
    "an_ordinary_turn_is_understood",
    "a_tool_of_the_callers_is_answered_by_the_caller",
    "a_tool_out_of_scope_is_invisible_and_never_asked",
    "a_token_stops_a_turn_while_a_tool_runs",
    "a_tool_sees_no_credential_and_no_variable_but_those_named",
    "a_kept_conversation_goes_on",
    "tool_calls_are_limited",
    "an_answer_in_shape_is_a_value",
];

/// Default number of concurrent cases.
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
