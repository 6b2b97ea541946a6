//! The reference backend keeps every promise, and the report is strict about what was not shown.

use async_trait::async_trait;
use nexus_testkit::conformance::{
    Case, Entry, Feature, Outcome, Report, Setting, Stage, StageError, Subject, TOKEN_VARIABLE, Timing,
    hold_declarations,
    reference::{BareReferenceSubject, ReferenceSubject},
    run,
};

mod reference {
    nexus_testkit::conformance_tests!(nexus_testkit::conformance::reference::ReferenceSubject);
}

/// The reference backend before a counterpart that cannot do much.
#[derive(Debug)]
struct Limited;

#[async_trait]
impl Subject for Limited {
    fn name(&self) -> &str {
        "limited"
    }

    async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
        ReferenceSubject.stage(setting).await
    }

    fn timing(&self) -> Timing {
        ReferenceSubject.timing()
    }

    fn cannot_stage(&self, case: &str) -> Option<String> {
        let cannot = [
            "a_picture_arrives",
            "a_tiny_picture_arrives_or_is_reported",
            "a_picture_that_a_tool_returns_reaches_the_model",
            "a_refusal_is_refused",
        ];
        cannot.contains(&case).then(|| "the counterpart knows no pictures and never refuses".to_owned())
    }
}

#[tokio::test]
async fn a_promise_that_is_declared_and_not_shown_is_unproven() {
    let report = run(&Limited, |case| ["prompt", "failure"].contains(&case.family)).await.unwrap();
    assert_eq!(report.failures().count(), 0, "{report}");
    assert!(report.unproven().contains(&Feature::Images), "{report}");
    assert!(!report.unproven().contains(&Feature::System), "{report}");
    assert!(!report.is_conformant());
    let not_staged = report.entries.iter().filter(|entry| matches!(entry.outcome, Outcome::NotStaged(_)));
    assert_eq!(not_staged.count(), 3);
}

/// The reference backend where nobody lends it anything.
#[derive(Debug)]
struct Lent {
    nothing: bool,
    says_so: bool,
}

#[async_trait]
impl Subject for Lent {
    fn name(&self) -> &str {
        "lent nothing"
    }

    async fn stage(&self, mut setting: Setting) -> Result<Stage, StageError> {
        if self.nothing {
            setting.environment.remove(TOKEN_VARIABLE);
            setting.renewable = None;
        }
        ReferenceSubject.stage(setting).await
    }

    fn timing(&self) -> Timing {
        ReferenceSubject.timing()
    }

    fn is_lent_credential(&self) -> bool {
        !self.says_so
    }
}

#[tokio::test]
async fn what_is_about_a_credential_does_not_apply_where_none_is_declared() {
    let subject = Lent { nothing: true, says_so: true };
    let report = run(&subject, |case| case.family == "credential" || case.family == "text").await.unwrap();
    assert_eq!(report.failures().count(), 0, "{report}");
    assert!(!report.unproven().contains(&Feature::Credential), "{report}");
    let undeclared = |entry: &&Entry| entry.outcome == Outcome::NotDeclared(Feature::Credential);
    assert_eq!(report.entries.iter().filter(undeclared).count(), 7, "{report}");

    let untrue = Lent { nothing: false, says_so: true };
    let report =
        run(&untrue, |case| case.name == "what_was_done_is_not_done_again_for_a_credential").await.unwrap();
    let (_, finding) = report.failures().next().unwrap();
    assert_eq!(finding.check, "a credential is declared");
}

#[tokio::test]
async fn a_case_that_needs_a_shell_shows_whose_shell_it_was() {
    let is_shell = |case: &Case| case.name == "a_shell_command_runs_in_the_working_directory";
    let of_the_harness = run(&ReferenceSubject, is_shell).await.unwrap();
    let of_the_caller = run(&BareReferenceSubject, is_shell).await.unwrap();
    let shown =
        |report: &Report| report.entries.iter().flat_map(|entry| entry.shows.clone()).collect::<Vec<_>>();
    assert_eq!(shown(&of_the_harness), [Feature::AnyShell, Feature::HarnessTools, Feature::Unrestricted]);
    assert_eq!(shown(&of_the_caller), [Feature::AnyShell, Feature::CallerTools, Feature::ScopedOnly]);
    assert_eq!(of_the_caller.failures().count(), 0, "{of_the_caller}");
}

#[test]
#[should_panic(expected = "declared and shown by no case: [Images]")]
fn a_subject_that_leaves_a_declaration_unshown_is_told() {
    hold_declarations(&Limited);
}
