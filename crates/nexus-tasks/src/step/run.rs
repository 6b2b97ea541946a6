//! Runs an attempt from its start to its record.

use std::time::SystemTime;

use nexus_trees::CommitId;

use super::{
    attempt::{StepAttempt, StepInterrupted},
    blocking::on_tree,
    units::{FailureText, UnitsReport},
    work::{ReviewOutcome, StepReview, StepWork},
};
use crate::{
    evidence::StepEvidence,
    handoff::{BandOutcome, Handoff},
    problem_brief::PlanStep,
    review::{Reflection, ReviewDecision, ReviewVerdict},
    step_record::{SilentReviewer, StepRecord},
    task_state::StepEnd,
};

impl StepAttempt<'_> {
    /// Runs the attempt: its units, its review, and the reflector if necessary.
    ///
    /// It changes neither the status nor the head of the task: the caller settles the returned record. If the future is dropped, all agents
    /// end, and the content of their folders no longer counts.
    ///
    /// # Errors
    ///
    /// [`StepInterrupted`] if it was cancelled: nothing is settled. Every other failure is an end of the record.
    pub async fn run(&self) -> Result<StepRecord, StepInterrupted> {
        let began = SystemTime::now();
        // The whole attempt uses one configuration, even if the file changes meanwhile.
        let router = self.router.snapshot();
        let mut record = StepRecord {
            entry: self.cursor.entry,
            attempt: self.cursor.attempt,
            began,
            ended: began,
            step_base: self.place.step_base.clone(),
            from: self.place.from.clone(),
            work: None,
            changes_nothing: false,
            units: Vec::new(),
            evidence: StepEvidence::new(),
            votes: Vec::new(),
            silent: Vec::new(),
            verdict: None,
            reflection: None,
            reflection_error: None,
            end: StepEnd::Advanced,
        };
        self.check_cancel()?;
        record.end = match self.brief.plan().step_of(self.cursor.entry) {
            Some(step) => self.end_of(&router, &step, &mut record).await?,
            None => {
                let reason = "the plan does not contain the next entry".to_owned();
                StepEnd::Escalated { reason, error: None }
            }
        };
        record.ended = SystemTime::now();
        Ok(record)
    }

    async fn end_of(
        &self,
        router: &nexus_router::Router,
        step: &PlanStep<'_>,
        record: &mut StepRecord,
    ) -> Result<StepEnd, StepInterrupted> {
        let UnitsReport { units, evidence, work } = self.run_units(router, step).await?;
        let outcomes = units.iter().map(|unit| unit.outcome.as_ref().map_err(Clone::clone));
        let outcome = BandOutcome::worst(outcomes);
        let handed_in =
            |unit: &crate::step_record::UnitRecord| Some((unit.entry, unit.outcome.as_ref().ok()?.clone()));
        let handoffs: Vec<(usize, Handoff)> = units.iter().filter_map(handed_in).collect();
        (record.units, record.evidence) = (units, evidence);
        let is_complete = match outcome {
            BandOutcome::Blocked { reasons } => return Ok(StepEnd::Blocked { reasons }),
            BandOutcome::StepDone | BandOutcome::Failed { .. } => false,
            BandOutcome::Complete => true,
        };
        let commit = match work {
            Ok(commit) => commit,
            Err(failure) => return Ok(escalated(failure)),
        };
        // Work that only reads may have no review. Then the step advances, but the task cannot complete.
        if step.review().is_none() {
            return Ok(StepEnd::Advanced);
        }
        let work = StepWork { commit, handoffs, evidence: record.evidence.clone(), is_complete };
        record.work = Some(work.commit.clone());
        record.changes_nothing = self.changes_nothing(&work.commit).await;
        self.watcher.said("the work is reviewed");
        let StepReview { votes, silent, evidence, outcome } = self.review_by(router, &work).await?;
        (record.votes, record.silent, record.evidence) = (votes, silent, evidence);
        let verdict = match outcome {
            ReviewOutcome::Settled(verdict) => verdict,
            ReviewOutcome::Short { vendors, needed } => {
                return Ok(short(vendors, needed, &record.silent));
            }
            ReviewOutcome::Failed { reason, error } => return Ok(escalated(FailureText { reason, error })),
        };
        record.verdict = Some(verdict.clone());
        if verdict.decision() == ReviewDecision::Advance {
            return Ok(if is_complete { StepEnd::Completed } else { StepEnd::Advanced });
        }
        if let Some((reflection, runs)) = self.reflect(router, step, &work, &verdict).await {
            self.check_cancel()?;
            record.evidence.add_all(&runs);
            match reflection {
                Ok(reflection) => record.reflection = Some(reflection),
                Err(error) => record.reflection_error = Some(error),
            }
        }
        Ok(self.gated(&verdict, record.reflection.as_ref()))
    }

    /// Returns true if a commit has the files of the step's base.
    async fn changes_nothing(&self, commit: &CommitId) -> bool {
        let (base, commit) = (self.place.step_base.clone(), commit.clone());
        let same = on_tree(&self.place.tree, &self.cancel, move |tree| {
            Ok(tree.tree_of(&base)? == tree.tree_of(&commit)?)
        });
        // The comparison is only a remark: if the commits cannot be read, the review itself fails.
        same.await.unwrap_or_default()
    }

    /// Returns the end of an attempt whose verdict does not advance, with the answer of the reflector.
    fn gated(&self, verdict: &ReviewVerdict, reflection: Option<&Reflection>) -> StepEnd {
        let again = StepEnd::Retried { max_retries: self.settings.max_review_retries };
        let ended = |reason: String| StepEnd::Escalated { reason, error: None };
        match (reflection, verdict.decision()) {
            (Some(Reflection::ReBrief { .. } | Reflection::ReDispatch { .. }), _) => again,
            (Some(Reflection::AcceptTerminal { reason }), _) => ended(format!(
                "the review rejected it, and the reflector decided against another attempt: {reason}"
            )),
            (None, ReviewDecision::Escalate) => {
                ended("the review decided that a person must decide".to_owned())
            }
            (None, ReviewDecision::Retry | ReviewDecision::Advance) => again,
        }
    }
}

fn escalated(FailureText { reason, error }: FailureText) -> StepEnd {
    StepEnd::Escalated { reason, error: Some(error) }
}

/// Returns the end of a step that no vote opposes, but too few vendors support.
fn short(vendors: usize, needed: usize, silent: &[SilentReviewer]) -> StepEnd {
    let were_silent = match silent {
        [] => "every seat voted, but some seats have the same vendor".to_owned(),
        silent => {
            let names: Vec<&str> = silent.iter().map(|seat| seat.seat.as_str()).collect();
            format!("without a vote: {}", names.join(", "))
        }
    };
    let reason =
        format!("no vote is against the work, but only {vendors} of {needed} vendors voted: {were_silent}");
    let errors: Vec<String> = silent.iter().map(|seat| format!("{}: {}", seat.seat, seat.reason)).collect();
    let error = (!errors.is_empty()).then(|| errors.join("; "));
    StepEnd::Escalated { reason, error }
}
