//! Review of a step: its seats, each blind to the others, and the union of their votes.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::future::join_all;
use nexus_core::{
    BackendId, BeforeRetry, ErrorKind, FileTools, ParticipantScope, Retry, ScopeError, Skipped, Submission,
    ToolAccess, TurnError, TurnRequest, VendorId,
};
use nexus_router::{KindError, Panel, Router, Seat};
use nexus_trees::CommitId;
use nexus_work::{AgentFailure, AgentReport, AgentRoute, Assignment};

use super::{
    agent_evidence::{AgentEvidence, TestNumbers},
    attempt::{StepAttempt, StepInterrupted},
    blocking::on_tree,
    earlier::{shown_handoffs, shown_work},
    tools::{NowFiles, patterns, toolbox},
    units::FailureText,
    watcher::{StepAgent, StepRole},
    work::{ReviewOutcome, StepReview, StepWork},
};
use crate::{
    agent::{AgentPhase, briefing},
    evidence::StepEvidence,
    problem_brief::{PlanEntry, PlanStep},
    review::{PanelReview, ReviewBasis, ReviewVerdict, ReviewVote, VerdictDraft},
    step_record::SilentReviewer,
};

/// Folder in which reviewers and reflectors read.
pub(super) const REVIEW_FOLDER: &str = "review";

/// Longest time between the resets of seats that run together.
const SAME_RESET: Duration = Duration::from_secs(10 * 60);

/// Text above a reviewer's brief if the diff is empty.
const CHANGES_NOTHING: &str =
    "This step changes no file. The changes that its handoff claims are not in the project.\n\n";

/// Shared data of all seats of one review.
struct Gate<'a> {
    router: &'a Router,
    entry: &'a PlanEntry,
    /// Number of the review's entry in the plan.
    number: usize,
    phase: AgentPhase,
    names: Vec<&'static str>,
    scope: ParticipantScope,
    commit: CommitId,
    criteria: Vec<String>,
    briefing: String,
    handoffs: String,
    diff: Arc<String>,
    /// Evidence of earlier runs, and the lines of the diff.
    evidence: StepEvidence,
    numbers: TestNumbers,
    seats: usize,
}

/// Result of one seat.
struct SeatReport {
    vote: Result<ReviewVote, SilentReviewer>,
    runs: StepEvidence,
    /// Reset that it could wait for. `None` if it voted, failed otherwise, or has waited.
    reset: Option<SeatReset>,
}

/// Reset of the vendors' limits that prevented a seat from voting.
struct SeatReset {
    /// Earliest time at which one of its backends takes turns again.
    at: SystemTime,
    /// Vendors of the backends that refused the turn.
    vendors: Vec<VendorId>,
}

impl StepAttempt<'_> {
    /// Reviews work as the plan's review of this step requires: all seats of its panel run at once.
    ///
    /// The work need not come from this attempt. One vote against the work suffices to stop it. An advance needs votes of as many vendors
    /// as the settings, or the panel, require.
    ///
    /// # Errors
    ///
    /// [`StepInterrupted`] if it was cancelled. A review that could not run is an outcome, not an error.
    pub async fn dispatch_review(&self, work: &StepWork) -> Result<StepReview, StepInterrupted> {
        let router = self.router.snapshot();
        self.review_by(&router, work).await
    }

    pub(super) async fn review_by(
        &self,
        router: &Router,
        work: &StepWork,
    ) -> Result<StepReview, StepInterrupted> {
        let reviewed = self.reviewed(router, work).await;
        self.check_cancel()?;
        Ok(reviewed.unwrap_or_else(|failure| {
            let FailureText { reason, error } = failure;
            StepReview {
                votes: Vec::new(),
                silent: Vec::new(),
                evidence: work.evidence.clone(),
                outcome: ReviewOutcome::Failed { reason, error },
            }
        }))
    }

    async fn reviewed(&self, router: &Router, work: &StepWork) -> Result<StepReview, FailureText> {
        let plan = self.brief.plan();
        let step = plan.step_of(self.cursor.entry);
        let step = step.ok_or_else(|| FailureText::new("the plan has no such step", &self.cursor.entry))?;
        let entry = step.review().ok_or_else(|| {
            let reason = "the plan does not review this step";
            FailureText::new(reason, "only steps with a review in the plan can")
        })?;
        let panel = self.panel_of(router, entry)?;
        let needed = self.settings.min_vendors.unwrap_or(panel.min_vendors).max(1);

        let gate = self.gate(router, &step, entry, work, panel.seats.len()).await?;
        let seats = panel.seats.iter().map(|seat| self.seat(&gate, seat, None));
        let mut reports: Vec<SeatReport> = join_all(seats).await;
        loop {
            let review = united(&gate, &reports, needed);
            // The votes may suffice without a vendor that refuses turns, so the review waits for it only if they do not.
            let is_short = matches!(review.outcome, ReviewOutcome::Short { .. });
            let (Some(longest), true) = (self.settings.max_wait_seconds.longest(), is_short) else {
                return Ok(review);
            };
            let resets = || reports.iter().filter_map(|report| report.reset.as_ref());
            let voted = review.votes.iter().map(|vote| &vote.vendor);
            let possible: BTreeSet<_> = voted.chain(resets().flat_map(|reset| &reset.vendors)).collect();
            let first = resets().map(|reset| reset.at).min();
            // A wait is of no use if the vendors would be too few even after it.
            let is_useful = possible.len() >= needed && !self.cancel.is_cancelled();
            let Some(first) = first.filter(|_| is_useful) else { return Ok(review) };
            let returns = |report: &SeatReport| {
                report.reset.as_ref().is_some_and(|reset| reset.at <= first + SAME_RESET)
            };
            let again = reports.iter_mut().zip(&panel.seats).filter(|(report, _)| returns(report));
            join_all(again.map(async |(report, seat)| *report = self.seat(&gate, seat, Some(longest)).await))
                .await;
        }
    }

    /// Returns the panel to which an entry's type is bound. A group counts as a panel with one seat.
    fn panel_of(&self, router: &Router, entry: &PlanEntry) -> Result<Panel, FailureText> {
        let kind = self.kind_of(router, entry);
        let panel = match router.panel(&kind) {
            Err(KindError::IsNoPanel { .. }) => {
                router.seat(0, &kind).map(|seat| Panel::new(kind.to_string(), [seat]))
            }
            panel => panel,
        };
        panel.map_err(|error| FailureText::new(format!("no reviewer is configured for {kind}"), &error))
    }

    async fn gate<'g>(
        &self,
        router: &'g Router,
        step: &PlanStep<'g>,
        entry: &'g PlanEntry,
        work: &StepWork,
        seats: usize,
    ) -> Result<Gate<'g>, FailureText> {
        let unknown =
            |error| FailureText::new(format!("the type {:?} is not registered", entry.agent_type()), &error);
        let phase = AgentPhase::of(entry.agent_type(), self.types).map_err(unknown)?;
        let names = AgentPhase::tools_of(entry.agent_type(), self.types).map_err(unknown)?;
        let (scope, diff) = self.reviewable(work, &names).await?;
        let mut evidence = work.evidence.clone();
        evidence.add_patch(diff.as_bytes());
        // A claim to have solved everything is judged like the last step, so that no criterion is skipped.
        let is_last = work.is_complete || self.brief.plan().step_after(step).is_none();
        let criteria = self.brief.criteria_of(step, is_last);
        let hints: Vec<&str> = self.hints.iter().map(String::as_str).collect();
        let mut briefing = briefing(self.brief, step.work(), &criteria, &hints);
        if diff.is_empty() {
            briefing.insert_str(0, CHANGES_NOTHING);
        }
        Ok(Gate {
            router,
            entry,
            number: step.end() - 1,
            phase,
            names,
            scope,
            commit: work.commit.clone(),
            briefing,
            criteria,
            handoffs: shown_handoffs(&self.settled, self.cursor.entry) + &shown_work(&work.handoffs),
            diff: Arc::new(diff.text()),
            numbers: TestNumbers::after(&evidence),
            evidence,
            seats,
        })
    }

    /// Creates a folder with the files of the work. Returns the scope of its readers, and the diff of the work.
    pub(super) async fn reviewable(
        &self,
        work: &StepWork,
        names: &[&str],
    ) -> Result<(ParticipantScope, nexus_trees::Patch), FailureText> {
        let folder = self.review_folder();
        let laid_out = self.lay_out(&work.commit, &folder).await;
        laid_out
            .map_err(|error| FailureText::new("the files to review cannot be written to a folder", &error))?;
        let scope = self.reading_scope(&folder, names);
        let scope = scope.map_err(|error| {
            FailureText::new("the reviewer's read permissions cannot be enforced in this tree", &error)
        })?;
        let (from, to) = (self.place.step_base.clone(), work.commit.clone());
        let diff = on_tree(&self.place.tree, &self.cancel, move |tree| tree.patch(&from, &to)).await;
        let diff =
            diff.map_err(|error| FailureText::new("the diff of the work cannot be created", &error))?;
        Ok((scope, diff))
    }

    pub(super) fn review_folder(&self) -> PathBuf {
        self.place.work.join(REVIEW_FOLDER)
    }

    /// Returns a scope that allows reading as the brief does, and no writing.
    fn reading_scope(&self, folder: &Path, names: &[&str]) -> Result<ParticipantScope, ScopeError> {
        let scope = self.brief.scope(folder, patterns(names), None)?;
        scope.with_write_slice(Vec::<PathBuf>::new())
    }

    /// Runs one seat, which may wait for a vendor's limit. If it stays silent, the next backend of its group gets one more turn.
    async fn seat(&self, gate: &Gate<'_>, seat: &Seat, longest_wait: Option<Duration>) -> SeatReport {
        let lens = seat.lens.as_ref().map(|lens| lens.name.clone());
        let role = StepRole::Seat { index: seat.index, lens };
        let agent = self.agent(gate.number, role, gate.entry.agent_type(), gate.phase);
        let evidence = AgentEvidence::new(gate.evidence.clone(), gate.numbers.clone());
        let mut report = self.ask(gate, &agent, &evidence, seat.clone().asking_again(), longest_wait).await;
        // The router already moved on from a backend that failed or returned nothing. A backend that talked but submitted nothing is also
        // silent, and only this code notices it.
        if let (Err(AgentFailure::Silent { backend }), false) = (&report.answer, self.cancel.is_cancelled())
            && let Some(next) = without(seat, backend, &report)
        {
            evidence.take_back();
            report = self.ask(gate, &agent, &evidence, next, longest_wait).await;
        }
        let reset = match report.turns.last().map(|turn| turn.outcome.as_ref()) {
            // A seat waits at most once, so the loop of the review ends.
            Some(Err(error)) if longest_wait.is_none() => reset_of(error, gate.router),
            _ => None,
        };
        let vendor = report.turns.last().and_then(|turn| turn.vendor.clone());
        let vote = match (report.answer, vendor) {
            (Ok(verdict), Some(vendor)) => Ok(ReviewVote { seat: agent.to_string(), vendor, verdict }),
            (Ok(_), None) => Err("the vendor that ran it is unknown, so its vote does not count".to_owned()),
            (Err(failure), _) => Err(failure.to_string()),
        };
        let silent = |reason| SilentReviewer { seat: agent.to_string(), reason };
        let vote = vote.map_err(silent);
        let reset = reset.filter(|_| vote.is_err());
        SeatReport { vote, runs: evidence.runs(), reset }
    }

    async fn ask(
        &self,
        gate: &Gate<'_>,
        agent: &StepAgent,
        evidence: &AgentEvidence,
        seat: Seat,
        longest_wait: Option<Duration>,
    ) -> AgentReport<ReviewVerdict> {
        let now = NowFiles::Commit(gate.commit.clone());
        let (briefing, handoffs, diff) =
            (gate.briefing.clone(), gate.handoffs.clone(), Arc::clone(&gate.diff));
        let place = Arc::new(self.tool_place(now, evidence.clone(), briefing, handoffs, diff));
        let criteria = gate.criteria.iter().cloned().collect();
        // The evidence grows while the seat runs tests, so `settle` fills it in each time.
        let basis = ReviewBasis { criteria, evidence: StepEvidence::new() };
        let settle = {
            let evidence = evidence.clone();
            move |draft: VerdictDraft| {
                let basis = ReviewBasis { evidence: evidence.all(), ..basis.clone() };
                ReviewVerdict::settle(draft, basis)
            }
        };
        let submission = {
            let settle = settle.clone();
            Submission::new().checked_by(move |draft: &VerdictDraft| {
                settle(draft.clone()).map(drop).map_err(|error| error.to_string())
            })
        };
        let submit = nexus_core::Tool::submit(
            "submit_verdict",
            "Submits your verdict, and ends your work. Judge every criterion, and give the ids of the \
            evidence. Fails if a criterion is missing, or if evidence is unknown: correct that, and submit \
            again.",
            &submission,
        );
        let tools = toolbox(&gate.names, &place, &FileTools::new(gate.scope.files()), &submit);
        // The next backend starts without the submission and the evidence of the failed one. A reviewer changes no
        // files.
        let hook = {
            let (submission, evidence) = (submission.clone(), evidence.clone());
            BeforeRetry::new(move |_attempt| {
                submission.take();
                evidence.take_back();
                async { Ok::<(), std::convert::Infallible>(()) }
            })
        };
        let of_the_type =
            self.types.find(gate.entry.agent_type()).ok().and_then(|found| found.prompt.as_deref());
        let request = TurnRequest::new(gate.briefing.clone())
            .with_system(self.prompts.system_with(gate.phase, of_the_type))
            .with_tool_access(ToolAccess::ScopedOnly)
            .with_limits(self.limits(gate.seats));
        let assignment = Assignment {
            route: AgentRoute::Seat(Box::new(seat)),
            request,
            participant: agent.to_string().as_str().into(),
            scope: gate.scope.clone(),
            tools: Arc::new(tools),
            tool_calls: gate.phase.tool_calls(),
            refused_submissions: self.settings.max_refused_submissions,
            host: self.host().with_before_retry(hook).with_longest_wait(longest_wait),
            record: self.record_of(agent),
            answer: Box::new(move || submission.take().and_then(|draft| settle(draft).ok())),
        };
        self.run_agent(gate.router, agent, &assignment).await
    }
}

/// Returns the union of the seats' votes.
fn united(gate: &Gate<'_>, reports: &[SeatReport], needed: usize) -> StepReview {
    let (mut votes, mut silent) = (Vec::new(), Vec::new());
    let mut evidence = gate.evidence.clone();
    for report in reports {
        evidence.add_all(&report.runs);
        match &report.vote {
            Ok(vote) => votes.push(vote.clone()),
            Err(seat) => silent.push(seat.clone()),
        }
    }
    // The union may cite the runs of every seat, so its basis has the evidence of all.
    let basis = ReviewBasis { criteria: gate.criteria.iter().cloned().collect(), evidence: evidence.clone() };
    let outcome = match PanelReview::of(&votes, &basis, needed) {
        Ok(PanelReview::Settled(verdict)) => ReviewOutcome::Settled(verdict),
        Ok(PanelReview::Short { vendors, needed }) => ReviewOutcome::Short { vendors, needed },
        Err(error) => ReviewOutcome::Failed {
            reason: "the votes cannot be combined into one verdict".to_owned(),
            error: error.to_string(),
        },
    };
    StepReview { votes, silent, evidence, outcome }
}

/// Returns the reset of the backends that refused a turn.
fn reset_of(error: &TurnError, router: &Router) -> Option<SeatReset> {
    let now = SystemTime::now();
    let until = match error.retry() {
        Retry::At(at) => Some(at),
        other => other.delay(now).map(|delay| now + delay),
    };
    // The error lists the backends before the last one; add the last one, which the error itself describes.
    let own = Skipped::new(error.backend().clone(), "").with_kind(Some(error.kind())).with_until(until);
    let is_refused =
        |kind| matches!(kind, ErrorKind::RateLimited | ErrorKind::UsageLimit | ErrorKind::Overloaded);
    let skipped = error.skipped().iter().chain([&own]);
    let refused = skipped.filter(|skipped| skipped.kind.is_some_and(is_refused));
    let known: Vec<_> = refused.filter_map(|skipped| Some((skipped.until?, &skipped.backend))).collect();
    let at = known.iter().map(|(until, _)| *until).min()?;
    let vendors = known.iter().filter_map(|(_, backend)| router.vendor(backend)).collect();
    Some(SeatReset { at, vendors })
}

/// Returns the seat without the silent backend, and without the backends that failed before it.
fn without<T>(seat: &Seat, silent: &BackendId, report: &AgentReport<T>) -> Option<Seat> {
    let skipped = report.turns.iter().flat_map(|turn| match &turn.outcome {
        Ok(result) => result.provenance.skipped.as_slice(),
        Err(error) => error.skipped(),
    });
    let failed = skipped.filter(|skipped| skipped.kind.is_some()).map(|skipped| &skipped.backend);
    failed.fold(seat.without(silent), |seat, backend| seat?.without(backend))
}
