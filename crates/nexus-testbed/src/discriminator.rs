//! Review alone: presents an answer to the reviewers as the work of another agent, and runs no other part of a task.

use std::sync::Arc;

use nexus_core::{CancelToken, RecordFile};
use nexus_router::Router;
use nexus_tasks::{
    AttemptPlace, Claim, Cursor, EvidenceId, Handoff, HandoffAction, HandoffDraft, Prompts, ReviewDecision,
    ReviewOutcome, StepAttempt, StepEvidence, StepReview, StepWork, shown_probe,
};
use nexus_trees::CommitId;
use nexus_work::AgentTypes;

use crate::{
    error::TestbedError,
    laid_trap::LaidTrap,
    scorer::Ending,
    spent::{Spent, TurnStats},
    trap::{Answer, TrapClaim},
};

/// Maximum number of probes of a review whose output is stored as text.
const MOST_PROBES: usize = 64;

/// Files on which a probe runs for comparison with the current files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OlderTrees {
    /// The files as they were before the work.
    #[default]
    Shown,
    /// The current files again, so that no probe shows a difference. This tests if reviewers catch a wrong answer by their
    /// probe.
    Stubbed,
}

/// Result of a review.
#[derive(Clone, Debug)]
pub struct ReviewAlone {
    /// Commit of the reviewed files.
    pub commit: CommitId,
    /// The review.
    pub review: StepReview,
    /// Probes of the review, each as text for its reviewer.
    pub probes: Vec<(EvidenceId, String)>,
    /// Usage of the reviewers.
    pub spent: Spent,
}

impl ReviewAlone {
    /// Lets the panel of the work-kind `reviewer` review one answer of a trap. Runs the project's tests first. The
    /// reviewers get the result of that run and the claims that the trap makes for the answer.
    ///
    /// # Errors
    ///
    /// [`TestbedError`] if something could not be prepared; [`TestbedError::Cancelled`]. A failure to reach any
    /// reviewer is part of the returned review.
    pub async fn run(
        laid: &LaidTrap,
        answer: Answer,
        older: OlderTrees,
        router: &Router,
        turns: Option<RecordFile>,
        cancel: &CancelToken,
    ) -> Result<Self, TestbedError> {
        let commit = laid.commit(answer, cancel).await?;
        let checks = laid.checks();
        let mut evidence = StepEvidence::new();
        let mut tests = None;
        if laid.trap().claims().iter().any(|claim| claim.shown_by_tests) {
            let ran = checks.run_tests(&commit, cancel).await;
            let ran = ran.map_err(|error| TestbedError::check("the tests were not run", error))?;
            // The trap claims that the tests pass. A false claim would measure something else, so reject the trap.
            if !ran.run.is_green() {
                let problem = format!("the tests do not pass on {answer}: {:?}", ran.run.end);
                return Err(crate::trap_error::TrapError::new(laid.trap().origin(), problem).into());
            }
            tests = Some(evidence.add_test());
        }
        let claim = |claim: &TrapClaim| Claim {
            text: claim.text.clone(),
            // `tests` is `None` unless a claim cites the tests, so this is at most one id.
            evidence: tests.iter().filter(|_| claim.shown_by_tests).cloned().collect(),
        };
        let draft = HandoffDraft {
            claims: laid.trap().claims().iter().map(claim).collect(),
            files: laid.trap().changed(answer).into_iter().map(str::to_owned).collect(),
            action: HandoffAction::Complete,
        };
        let place = format!("the handoff of {}", laid.trap().origin());
        let handoff =
            Handoff::accept(draft, &evidence).map_err(|source| TestbedError::Draft { place, source })?;
        let work =
            StepWork { commit: commit.clone(), handoffs: vec![(0, handoff)], evidence, is_complete: true };
        let before = match older {
            OlderTrees::Shown => laid.base().clone(),
            OlderTrees::Stubbed => commit.clone(),
        };
        let (types, prompts, stats) =
            (AgentTypes::built_in(), Prompts::built_in(), Arc::new(TurnStats::default()));
        let attempt = StepAttempt {
            router,
            types: &types,
            prompts: &prompts,
            settings: laid.settings(),
            brief: laid.brief(),
            place: AttemptPlace {
                tree: laid.tree().clone(),
                checks,
                work: laid.work_folder(),
                task_base: before.clone(),
                step_base: before,
                from: laid.base().clone(),
            },
            cursor: Cursor { entry: 0, attempt: 1, retries: 0 },
            hints: Vec::new(),
            settled: Vec::new(),
            turns,
            watcher: Arc::clone(&stats) as _,
            budget: None,
            cancel: cancel.clone(),
        };
        let review = attempt.dispatch_review(&work).await.map_err(|_| TestbedError::Cancelled)?;
        let store = laid.probes();
        let probe = |number: u32| {
            let id = EvidenceId::probe(number);
            let text = match store.read(number) {
                Ok(probe) => shown_probe(&id, &probe),
                Err(error) => format!("it cannot be shown: {error}"),
            };
            (id, text)
        };
        let probes = review.evidence.probes().take(MOST_PROBES).map(probe).collect();
        Ok(Self { commit, review, probes, spent: stats.spent() })
    }

    /// Returns the ending of the review: shipped by a verdict that advances, refused by any other.
    ///
    /// # Errors
    ///
    /// Reason for a missing verdict: all requests to reviewers failed, or too few voted. Such a review does not judge the
    /// work.
    pub fn ending(&self) -> Result<Ending, String> {
        let silent = || -> String {
            let lines: Vec<String> =
                self.review.silent.iter().map(|seat| format!("{}: {}", seat.seat, seat.reason)).collect();
            lines.join("; ")
        };
        match &self.review.outcome {
            ReviewOutcome::Settled(verdict) => Ok(match verdict.decision() {
                ReviewDecision::Advance => Ending::Shipped,
                ReviewDecision::Retry | ReviewDecision::Escalate => Ending::Refused,
            }),
            ReviewOutcome::Short { vendors, needed } => {
                Err(format!("votes of {vendors} vendors, but {needed} are needed: {}", silent()))
            }
            ReviewOutcome::Failed { reason, error } => Err(format!("{reason}: {error}; {}", silent())),
        }
    }
}
