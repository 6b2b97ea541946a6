//! Work of a step: its units, each in a folder of its own, and their handoffs.

use std::{path::PathBuf, sync::Arc};

use futures::future::join_all;
use nexus_core::{
    BeforeRetry, FileTools, ParticipantScope, PathAccess, Submission, ToolAccess, TurnRequest, VendorId,
};
use nexus_router::Router;
use nexus_trees::{ChangedPath, CommitId, TreeError, TreeId};
use nexus_work::Assignment;

use super::{
    agent_evidence::{AgentEvidence, TestNumbers},
    agents::reason_of,
    attempt::{StepAttempt, StepInterrupted},
    blocking::on_tree,
    earlier::{shown_handoffs, shown_history},
    tools::{NowFiles, ShownHistory, ToolPlace, patterns, refused_files, submit_handoff, toolbox, unnamed},
    watcher::{StepAgent, StepRole},
    write_guard::WriteGuard,
};
use crate::{
    agent::{AgentPhase, briefing},
    evidence::StepEvidence,
    handoff::{Handoff, HandoffAction, HandoffDraft},
    problem_brief::{PlanEntry, PlanStep},
    step_record::UnitRecord,
};

/// Maximum number of paths that a reason names.
const MOST_PATHS: usize = 5;

/// Result of the units of a step.
pub(super) struct UnitsReport {
    pub(super) units: Vec<UnitRecord>,
    /// Evidence of their runs.
    pub(super) evidence: StepEvidence,
    /// Their merged files, or the reason why they cannot be used.
    pub(super) work: Result<CommitId, FailureText>,
}

/// Reason and error text of a failure.
#[derive(Debug)]
pub(super) struct FailureText {
    /// Reason in the words of Nexus, without names of vendors.
    pub(super) reason: String,
    /// Full error: for the caller alone.
    pub(super) error: String,
}

impl FailureText {
    pub(super) fn new(reason: impl Into<String>, error: &(impl ToString + ?Sized)) -> Self {
        Self { reason: reason.into(), error: error.to_string() }
    }

    /// Returns reason and error, for a record.
    pub(super) fn in_full(&self) -> String {
        format!("{}: {}", self.reason, self.error)
    }
}

/// One unit after the end of its agent.
struct Unit {
    outcome: Result<(Handoff, Option<TreeId>), FailureText>,
    vendor: Option<VendorId>,
    runs: StepEvidence,
}

impl StepAttempt<'_> {
    /// Runs the units of a step at once, and takes their changes.
    pub(super) async fn run_units(
        &self,
        router: &Router,
        step: &PlanStep<'_>,
    ) -> Result<UnitsReport, StepInterrupted> {
        let numbers = TestNumbers::after(&StepEvidence::new());
        let entries = step.work().iter().enumerate();
        let units =
            join_all(entries.map(|(index, entry)| self.unit(router, step, index, entry, &numbers))).await;
        self.check_cancel()?;

        let mut evidence = StepEvidence::new();
        let (mut records, mut trees, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for ((index, entry), unit) in step.work().iter().enumerate().zip(units) {
            evidence.add_all(&unit.runs);
            let outcome = match unit.outcome {
                Ok((handoff, tree)) => {
                    trees.extend(tree);
                    Ok(handoff)
                }
                Err(failure) => {
                    let error = failure.in_full();
                    failures.push(failure);
                    Err(error)
                }
            };
            let agent_type = entry.agent_type().to_owned();
            records.push(UnitRecord {
                entry: step.first() + index,
                agent_type,
                outcome,
                vendor: unit.vendor,
            });
        }
        let work = match failures.is_empty() {
            true => self.joined(trees).await,
            false => Err(FailureText {
                reason: failures.iter().map(|failure| &*failure.reason).collect::<Vec<_>>().join("; "),
                error: failures.iter().map(FailureText::in_full).collect::<Vec<_>>().join("; "),
            }),
        };
        // A cancellation makes the merge fail, so report an interruption and no failure of the work.
        self.check_cancel()?;
        Ok(UnitsReport { units: records, evidence, work })
    }

    async fn unit(
        &self,
        router: &Router,
        step: &PlanStep<'_>,
        index: usize,
        entry: &PlanEntry,
        numbers: &TestNumbers,
    ) -> Unit {
        // Units of one attempt cannot cite each other's runs, so each starts without evidence.
        let evidence = AgentEvidence::new(StepEvidence::new(), numbers.clone());
        let mut vendor = None;
        let outcome = self.unit_outcome(router, step, index, entry, &evidence, &mut vendor).await;
        Unit { outcome, vendor, runs: evidence.runs() }
    }

    async fn unit_outcome(
        &self,
        router: &Router,
        step: &PlanStep<'_>,
        index: usize,
        entry: &PlanEntry,
        evidence: &AgentEvidence,
        vendor: &mut Option<VendorId>,
    ) -> Result<(Handoff, Option<TreeId>), FailureText> {
        let unknown =
            |error| FailureText::new(format!("the type {:?} is not registered", entry.agent_type()), &error);
        let phase = AgentPhase::of(entry.agent_type(), self.types).map_err(unknown)?;
        let names = AgentPhase::tools_of(entry.agent_type(), self.types).map_err(unknown)?;
        let role = StepRole::Unit { index };
        let agent = self.agent(step.first() + index, role, entry.agent_type(), phase);

        let folder = self.place.work.join(format!("unit-{}", index + 1));
        let laid_out = self.lay_out(&self.place.from, &folder).await;
        laid_out.map_err(|error| {
            FailureText::new(format!("the files of {agent} cannot be written to a folder"), &error)
        })?;
        let scope = self.brief.scope(&folder, patterns(&names), Some(entry));
        let scope = scope.map_err(|error| {
            FailureText::new(
                format!("the write permissions of {agent} cannot be enforced in this tree"),
                &error,
            )
        })?;

        let submission = {
            let evidence = evidence.clone();
            Submission::new().checked_by(move |draft: &HandoffDraft| {
                Handoff::accept(draft.clone(), &evidence.all()).map(drop).map_err(|error| error.to_string())
            })
        };
        let assignment =
            self.work_assignment(router, step, entry, &agent, &names, &folder, &scope, evidence, &submission);
        let report = self.run_agent(router, &agent, &assignment).await;
        *vendor = report.turns.last().and_then(|turn| turn.vendor.clone());
        let handoff =
            report.answer.map_err(|failure| FailureText::new(reason_of(&agent, &failure), &failure))?;
        // Changes of a blocked unit are dropped, and a reading agent makes none, so there is nothing to take.
        if !entry.is_execution() || matches!(handoff.action(), HandoffAction::Blocked { .. }) {
            return Ok((handoff, None));
        }
        let tree = self.take(&agent, folder, scope).await?;
        Ok((handoff, Some(tree)))
    }

    #[expect(clippy::too_many_arguments, reason = "they are the parts of an agent")]
    fn work_assignment(
        &self,
        router: &Router,
        step: &PlanStep<'_>,
        entry: &PlanEntry,
        agent: &StepAgent,
        names: &[&str],
        folder: &std::path::Path,
        scope: &ParticipantScope,
        evidence: &AgentEvidence,
        submission: &Submission<HandoffDraft>,
    ) -> Assignment<Handoff> {
        let is_last = self.brief.plan().step_after(step).is_none();
        let criteria = self.brief.criteria_of(step, is_last);
        let hints: Vec<&str> = self.hints.iter().map(String::as_str).collect();
        let briefing = briefing(self.brief, std::slice::from_ref(entry), &criteria, &hints);
        let now = NowFiles::Folder(folder.to_owned());
        let handoffs = shown_handoffs(&self.settled, self.cursor.entry);
        let place =
            Arc::new(self.tool_place(now, evidence.clone(), briefing.clone(), handoffs, Arc::default()));
        let submit = submit_handoff(&place, submission);
        let tools = toolbox(names, &place, &FileTools::new(scope.files()), &submit);

        let hook = {
            let (tree, from, folder) = (self.place.tree.clone(), self.place.from.clone(), folder.to_owned());
            let (cancel, evidence, submission) = (self.cancel.clone(), evidence.clone(), submission.clone());
            BeforeRetry::new(move |_attempt| {
                let (tree, cancel) = (tree.clone(), cancel.clone());
                let (from, folder) = (from.clone(), folder.clone());
                // The next backend starts without the submission and the evidence of the failed one.
                submission.take();
                evidence.take_back();
                async move { on_tree(&tree, &cancel, move |tree| tree.restore(&from, &folder, &[])).await }
            })
        };
        let of_the_type = self.types.find(entry.agent_type()).ok().and_then(|found| found.prompt.as_deref());
        let request = TurnRequest::new(briefing)
            .with_system(self.prompts.system_with(agent.phase, of_the_type))
            .with_tool_access(ToolAccess::ScopedOnly)
            .with_limits(self.limits(step.work().len()));
        // The submission holds only the draft, so build the checked handoff here.
        let answer = {
            let (submission, evidence) = (submission.clone(), evidence.clone());
            move || submission.take().and_then(|draft| Handoff::accept(draft, &evidence.all()).ok())
        };
        Assignment {
            route: self.route_of(router, entry),
            request,
            participant: agent.agent_type.as_str().into(),
            scope: scope.clone(),
            tools: Arc::new(WriteGuard {
                tools: Arc::new(tools),
                scope: scope.clone(),
                tree: self.place.tree.clone(),
                cancel: self.cancel.clone(),
            }),
            tool_calls: agent.phase.tool_calls(),
            refused_submissions: self.settings.max_refused_submissions,
            host: self.host().with_before_retry(hook),
            record: self.record_of(agent),
            answer: Box::new(answer),
        }
    }

    /// Returns the data that the tools of an agent work on.
    pub(super) fn tool_place(
        &self,
        now: NowFiles,
        evidence: AgentEvidence,
        briefing: String,
        handoffs: String,
        diff: Arc<String>,
    ) -> ToolPlace {
        let mut known = StepEvidence::new();
        self.settled.iter().for_each(|record| known.add_all(&record.evidence));
        let reviewed = self
            .settled
            .iter()
            .filter_map(|record| Some((record.attempt, record.step_base.clone(), record.work.clone()?)));
        ToolPlace {
            tree: self.place.tree.clone(),
            checks: self.place.checks.clone(),
            task_base: self.place.task_base.clone(),
            step_base: self.place.step_base.clone(),
            now,
            evidence,
            known,
            briefing,
            handoffs,
            diff,
            history: ShownHistory { text: shown_history(&self.settled), attempts: reviewed.collect() },
            cancel: self.cancel.clone(),
            watcher: Arc::clone(&self.watcher),
        }
    }

    /// Restores exactly the files of a commit in a folder.
    pub(super) async fn lay_out(&self, commit: &CommitId, folder: &std::path::Path) -> Result<(), TreeError> {
        let (commit, folder) = (commit.clone(), folder.to_owned());
        on_tree(&self.place.tree, &self.cancel, move |tree| tree.restore(&commit, folder, &[])).await
    }

    /// Takes the changes of a unit from its folder. Rejects changes outside of its scope, however they were made.
    async fn take(
        &self,
        agent: &StepAgent,
        folder: PathBuf,
        scope: ParticipantScope,
    ) -> Result<TreeId, FailureText> {
        let from = self.place.from.clone();
        let taken = on_tree(&self.place.tree, &self.cancel, move |tree| {
            // Compare the files themselves: a program that the agent ran may have written without a file tool.
            let snapshot = tree.snapshot(&folder)?;
            let changes = tree.changes(&from, &snapshot)?;
            Ok((snapshot, outside(&changes, &scope)))
        });
        let (snapshot, outside) =
            taken.await.map_err(|error| not_taken(&format!("the files of {agent}"), &error))?;
        if outside.is_empty() {
            return Ok(snapshot);
        }
        let reason = format!("{agent} changed files that it may not write");
        let named = outside.iter().take(MOST_PATHS).cloned().collect::<Vec<_>>().join(", ");
        let more = outside.len().saturating_sub(MOST_PATHS);
        let error = if more == 0 { named } else { format!("{named} and {more} more") };
        Err(FailureText { reason, error })
    }

    /// Merges the files of the units into one commit without a ref. Without any files it returns the commit at the start of the attempt.
    async fn joined(&self, trees: Vec<TreeId>) -> Result<CommitId, FailureText> {
        let (from, parent) = (self.place.from.clone(), self.place.step_base.clone());
        let joined = on_tree(&self.place.tree, &self.cancel, move |tree| {
            let joined = match &trees[..] {
                [] => return Ok(from),
                [only] => only.clone(),
                // Slices of a band do not overlap, so the units changed different files.
                several => tree.merge(&from, several)?,
            };
            tree.commit(&unnamed(joined, parent))
        });
        joined.await.map_err(|error| not_taken("the work", &error))
    }

    pub(super) fn check_cancel(&self) -> Result<(), StepInterrupted> {
        if self.cancel.is_cancelled() { Err(StepInterrupted) } else { Ok(()) }
    }
}

/// Returns the changed paths that a scope does not allow writing.
fn outside(changes: &[ChangedPath], scope: &ParticipantScope) -> Vec<String> {
    let is_allowed = |changed: &&ChangedPath| {
        // A scope names paths as UTF-8 text, so it allows no other path.
        changed.path.to_str().is_some_and(|path| scope.check_path(path, PathAccess::Write).is_ok())
    };
    changes
        .iter()
        .filter(|changed| !is_allowed(changed))
        .map(|changed| format!("{:?}", changed.path))
        .collect()
}

fn not_taken(what: &str, error: &TreeError) -> FailureText {
    let reason = match refused_files(error) {
        Some(reason) => format!("{what}: {reason}"),
        None => format!("{what} cannot be committed"),
    };
    FailureText::new(reason, &error)
}
