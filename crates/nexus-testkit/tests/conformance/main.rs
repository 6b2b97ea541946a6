//! The fakes, which are this program itself, and the conformance suite for the subjects that `it` does not try.

mod conformance_remote;
mod fake_cli_imitation;

use std::{process::ExitCode, sync::Arc};

use nexus_testkit::{
    conformance::{self, Subject, reference::BareReferenceSubject},
    effort,
};

fn main() -> ExitCode {
    fake_cli_imitation::run_if_invoked();
    let mut trials = fake_cli_imitation::trials();
    if effort::is_deep() {
        let bare: Arc<dyn Subject> = Arc::new(BareReferenceSubject);
        trials.extend(conformance::trials("reference_without_a_harness", &bare));
        trials.extend(conformance_remote::trials());
    }
    conformance::run_trials(trials)
}
