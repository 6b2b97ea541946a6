//! Views of a task for callers.

use std::time::SystemTime;

use nexus_files::IndexEntry;
use nexus_mcp::page::{cut, cut_list, fitted, most_of};

use super::{
    answer::{
        AttemptView, BaselineOutcome, BaselineView, CriterionState, CriterionView, CursorView, EntryProgress,
        EntryView, QueuedView, SpentView, StepView, TaskReport, TaskRow, UnitEnd, UnitView, VerdictView,
        VoteView, WaitView,
    },
    settle::end_in_words,
};
use nexus_work::{WorkspaceEvent, WorkspaceState as _};

use crate::{
    checks::{Baseline, SuiteEnd},
    handoff::{Handoff, HandoffAction},
    problem_brief::{BriefDraft, Plan, PlanEntry, ProblemBrief},
    review::{Judgement, Reflection, ReviewVerdict},
    step_record::StepRecord,
    store::{Task, TaskData, TaskDetails, TaskSnapshot},
    task_error::TaskError,
    task_state::{TaskState, TaskStatus},
};

/// Data from which reports of a task are built.
#[derive(Debug)]
pub(super) struct ReportParts {
    pub(super) task_id: String,
    pub(super) snapshot: TaskSnapshot,
    pub(super) brief: Option<ProblemBrief>,
    pub(super) records: Vec<StepRecord>,
    pub(super) spent: SpentView,
    /// Waits that the log knows. They count only while a job runs.
    waits: Vec<WaitView>,
}

impl ReportParts {
    pub(super) fn read(task: &Task) -> Result<Self, TaskError> {
        let snapshot = task.snapshot()?;
        let brief = task.brief(&snapshot.data)?;
        let records = task.step_records(&snapshot.state)?;
        let events = task.events()?.events;
        let (spent, waits) = (spent_of(&events), waits_of(&events));
        Ok(Self { task_id: task.id().to_string(), snapshot, brief, records, spent, waits })
    }

    /// Builds the report. `progress` is the progress of the task's running job, if it has one.
    pub(super) fn report(&self, progress: Option<&str>) -> TaskReport {
        fitted(|most| self.report_within(progress, most))
    }

    /// Returns the caller's next call. It also states that a step was interrupted, by a cancellation or by the end of its server.
    fn next_call(&self, is_running: bool) -> &'static str {
        let TaskSnapshot { state, data, .. } = &self.snapshot;
        match &state.status {
            TaskStatus::Active { cursor }
                if !is_running && [data.begun, data.interrupted].contains(&cursor.attempt) =>
            {
                "the step was interrupted: call task_run_turn, which starts it again"
            }
            _ => next_call(state, is_running),
        }
    }

    fn report_within(&self, progress: Option<&str>, most: usize) -> TaskReport {
        let TaskSnapshot { state, data, labels, parent, links, .. } = &self.snapshot;
        let (reason, error) = reason_of(state);
        let questions = match &state.status {
            TaskStatus::ClarificationNeeded { questions } => questions.as_slice(),
            _ => &[],
        };
        TaskReport {
            task_id: self.task_id.clone(),
            status: state.status.word(),
            next: self.next_call(progress.is_some()).to_owned(),
            running: progress.is_some(),
            progress: progress.map(|line| cut(line, most.min(300))),
            // The log still has the waits of jobs that ended, so show them only while a job runs.
            waiting: progress.map(|_| cut_waits(&self.waits, most)).unwrap_or_default(),
            queued: data
                .queued
                .filter(|_| !state.is_final())
                .map(|entry| QueuedView { priority: entry.priority, since: time(entry.since) }),
            goal: cut(&data.goal, most.min(300)),
            project: cut(&data.project.to_string_lossy(), most.max(60)),
            questions: questions.iter().map(|question| cut(question, most.max(500))).collect(),
            reason: reason.map(|reason| cut(&reason, most)),
            error: error.map(|error| cut(&error, most)),
            cursor: match &state.status {
                TaskStatus::Active { cursor } => {
                    Some(CursorView { entry: cursor.entry, attempt: cursor.attempt, retries: cursor.retries })
                }
                _ => None,
            },
            plan: self
                .brief
                .as_ref()
                .map(|brief| plan_view(brief.plan(), state, data, most))
                .unwrap_or_default(),
            criteria: self.criteria(most.min(300)),
            spent: self.spent,
            to_do: data.follow_ups.iter().map(ToString::to_string).collect(),
            warnings: self
                .used_up()
                .into_iter()
                .chain(self.criteria_left_out(most))
                .chain(cut_list(data.warnings.iter().map(String::as_str), most))
                .collect(),
            labels: labels
                .iter()
                .take(most_of(labels.len(), most))
                .map(|(name, value)| (cut(name, most.clamp(30, 64)), cut(value, most.max(12))))
                .collect(),
            parent_workspace_id: parent.as_ref().map(ToString::to_string),
            linked_workspace_ids: cut_list(links.iter().map(|id| id.as_str()), most.max(64)),
        }
    }

    /// Returns the criteria, each with the judgement of the last review of it.
    ///
    /// If texts are cut very short, only the first criteria are listed; [`Self::criteria_left_out`] reports the rest.
    pub(super) fn criteria(&self, most: usize) -> Vec<CriterionView> {
        let Some(brief) = &self.brief else { return Vec::new() };
        let shown = most_of(brief.criteria().len(), most);
        let views = brief.criteria().iter().take(shown).map(|criterion| {
            let judged = self.records.iter().rev().find_map(|record| {
                record.verdict.as_ref()?.criteria().iter().find(|judged| judged.id == criterion.id)
            });
            let judgement = match judged.map(|judged| judged.judgement) {
                Some(judgement) => CriterionState::from(judgement),
                None => CriterionState::Open,
            };
            CriterionView {
                id: criterion.id.clone(),
                text: cut(&criterion.text, most),
                judgement,
                evidence: evidence(judged.map(|judged| judged.evidence.as_slice()).unwrap_or_default(), most),
            }
        });
        views.collect()
    }

    /// Returns a warning if the budget is used up.
    fn used_up(&self) -> Option<String> {
        let TaskSnapshot { state, data, .. } = &self.snapshot;
        let is_over = self.spent.is_over(&data.settings.budget);
        (is_over && !state.is_final()).then(|| {
            "the task's budget is used up, so its next turn is rejected: after the task has ended, call \
             task_reopen with a larger `budget`"
                .to_owned()
        })
    }

    /// Returns a remark with the number of criteria that are not listed.
    fn criteria_left_out(&self, most: usize) -> Option<String> {
        let all = self.brief.as_ref()?.criteria().len();
        let left_out = all.saturating_sub(most_of(all, most));
        (left_out > 0).then(|| format!("{left_out} more criteria are in the artifact `brief`"))
    }
}

/// Returns the first waits, as many as fit, with short reasons.
pub(super) fn cut_waits(waits: &[WaitView], most: usize) -> Vec<WaitView> {
    let shown = waits.iter().take(most_of(waits.len(), most));
    shown.map(|wait| WaitView { reason: cut(&wait.reason, most.min(300)), ..wait.clone() }).collect()
}

/// Returns the waits that began and did not end, by the log of a task whose job runs.
pub(super) fn waits_of(events: &[WorkspaceEvent]) -> Vec<WaitView> {
    let mut waits: Vec<WaitView> = Vec::new();
    for event in events {
        let of_agent = |wait: &WaitView| event.data["agent"] == wait.agent;
        match event.kind.as_str() {
            "wait_began" => {
                // A wait that changed is logged again, and replaces the earlier one of the same agent.
                waits.retain(|wait| !of_agent(wait));
                waits.extend(serde_json::from_value::<WaitView>(event.data.clone()));
            }
            "wait_ended" | "turn_ended" => waits.retain(|wait| !of_agent(wait)),
            // No agent of an earlier job waits any more.
            "step_began" | "step_settled" | "step_interrupted" | "framing_began" => waits.clear(),
            _ => {}
        }
    }
    waits
}

/// Returns the usage of a task's turns, by its log.
fn spent_of(events: &[WorkspaceEvent]) -> SpentView {
    let mut spent = SpentView::default();
    for event in events.iter().filter(|event| event.kind == "turn_ended") {
        if !has_run(&event.data) {
            continue;
        }
        spent.turns += 1;
        let cost =
            event.data.get("cost").and_then(|cost| cost.get("usd")).and_then(serde_json::Value::as_f64);
        // A person may have edited the log file.
        if let Some(cost) = cost.filter(|usd| usd.is_finite() && *usd >= 0.0) {
            *spent.usd.get_or_insert(0.0) += cost;
        }
        let tokens = event.data.get("output_tokens").and_then(serde_json::Value::as_u64);
        spent.output_tokens = spent.output_tokens.saturating_add(tokens.unwrap_or(0));
    }
    spent
}

/// Returns true if a backend was started for a logged turn. The log also contains turns that were rejected before.
fn has_run(turn: &serde_json::Value) -> bool {
    let is_known = |name: &str| turn.get(name).is_some_and(|value| !value.is_null());
    let has_called =
        turn.get("tool_calls").and_then(serde_json::Value::as_u64).is_some_and(|calls| calls > 0);
    !is_known("failure")
        || has_called
        || ["attempts", "input_tokens", "output_tokens", "cost"].iter().any(|name| is_known(name))
}

/// Returns the caller's next call.
pub(super) fn next_call(state: &TaskState, is_running: bool) -> &'static str {
    match (&state.status, is_running) {
        (TaskStatus::Framing | TaskStatus::ClarificationNeeded { .. }, true) => {
            "call task_orchestrate again, which waits for the running work"
        }
        (TaskStatus::Active { .. }, true) => "call task_run_turn again, which waits for the running step",
        (status, _) => status.next_call(),
    }
}

/// Returns the reason for the end of a task, and the failure behind it.
pub(super) fn reason_of(state: &TaskState) -> (Option<String>, Option<String>) {
    match &state.status {
        TaskStatus::Blocked { reasons, .. } => (Some(reasons.join("; ")), None),
        TaskStatus::Escalated { reason, error, .. } => (Some(reason.clone()), error.clone()),
        _ => (None, None),
    }
}

fn plan_view(plan: &Plan, state: &TaskState, data: &TaskData, most: usize) -> Vec<EntryView> {
    let at = match &state.status {
        TaskStatus::Active { cursor } => Some(cursor.entry),
        // A complete task ended with this step, so every entry before its end is done.
        TaskStatus::Complete { entry, .. } => plan.step_of(*entry).map(|step| step.end()),
        TaskStatus::Blocked { entry, .. } => Some(*entry),
        TaskStatus::Escalated { entry, .. } | TaskStatus::Cancelled { entry } => *entry,
        TaskStatus::Framing | TaskStatus::ClarificationNeeded { .. } => Some(0),
    };
    let current = at.and_then(|at| plan.step_of(at));
    let is_complete = matches!(state.status, TaskStatus::Complete { .. });
    let is_committed = |entry: usize| {
        let of_step = plan.step_of(entry).map(|step| step.first());
        data.commits.iter().any(|commit| Some(commit.entry) == of_step)
    };
    let view = |(number, entry): (usize, &PlanEntry)| {
        let progress = match (&current, at) {
            (Some(step), _) if !is_complete && (step.first()..step.end()).contains(&number) => {
                EntryProgress::Current
            }
            (_, Some(at)) if number < at => EntryProgress::Done,
            _ if is_complete => EntryProgress::NotNeeded,
            // After a reopening at an earlier entry, later entries may already have commits.
            _ if is_committed(number) => EntryProgress::Done,
            _ => EntryProgress::ToDo,
        };
        EntryView {
            entry: number,
            agent_type: cut(entry.agent_type(), most.max(16)),
            phase: cut(entry.phase(), most.max(16)),
            outcome: cut(entry.outcome(), most),
            parallel_group: entry.parallel_group().map(|group| cut(group, most.max(16))),
            progress,
        }
    };
    plan.entries().iter().enumerate().map(view).collect()
}

/// Builds the view of a step from `records`, its attempts in order.
pub(super) fn step_view(records: &[StepRecord], data: &TaskData, most: usize) -> Option<StepView> {
    let last = records.last()?;
    let (end, reason, error) = end_in_words(&last.end);
    let commit = data.commits.iter().find(|commit| commit.attempt == last.attempt);
    Some(StepView {
        entry: last.entry,
        end,
        reason: reason.map(|reason| cut(&reason, most)),
        error: error.map(|error| cut(&error, most)),
        commit: commit.map(|commit| commit.commit.to_string()),
        attempts: records
            .iter()
            .rev()
            .take(most_attempts(most))
            .rev()
            .map(|record| attempt_view(record, most))
            .collect(),
    })
}

/// Returns the most attempts to show if texts have at most `most` bytes. The last ones are shown; artifacts have all details.
fn most_attempts(most: usize) -> usize {
    match most {
        0 => 1,
        1..=60 => 2,
        61..=250 => 4,
        _ => 6,
    }
}

pub(super) fn attempt_view(record: &StepRecord, most: usize) -> AttemptView {
    let units = record.units.iter().map(|unit| UnitView {
        entry: unit.entry,
        agent_type: unit.agent_type.clone(),
        outcome: outcome_of(&unit.outcome),
        claims: match &unit.outcome {
            Ok(handoff) => match handoff.action() {
                HandoffAction::Blocked { reason } => vec![cut(reason, most)],
                _ => cut_list(handoff.claims().iter().map(|claim| claim.text.as_str()), most),
            },
            Err(error) => vec![cut(error, most)],
        },
    });
    let votes = record.votes.iter().map(|vote| VoteView {
        seat: cut(&vote.seat, most.max(30)),
        vendor: cut(vote.vendor.as_str(), most.max(30)),
        decision: vote.verdict.decision(),
    });
    let silent: Vec<String> =
        record.silent.iter().map(|silent| format!("{}: {}", silent.seat, silent.reason)).collect();
    let reflection = match (&record.reflection, &record.reflection_error) {
        (Some(Reflection::ReBrief { amendment }), _) => {
            Some(format!("re_brief: {}", amendment.clarifications.join("; ")))
        }
        (Some(Reflection::ReDispatch { hint }), _) => Some(format!("re_dispatch: {hint}")),
        (Some(Reflection::AcceptTerminal { reason }), _) => Some(format!("accept_terminal: {reason}")),
        (None, Some(error)) => Some(format!("none: {error}")),
        (None, None) => None,
    };
    AttemptView {
        attempt: record.attempt,
        end: end_in_words(&record.end).0,
        changes_nothing: record.changes_nothing,
        units: units.collect(),
        verdict: record.verdict.as_ref().map(|verdict| verdict_view(verdict, most)),
        votes: votes.collect(),
        silent: cut_list(silent.iter().map(String::as_str), most),
        reflection: reflection.map(|reflection| cut(&reflection, most)),
    }
}

fn verdict_view(verdict: &ReviewVerdict, most: usize) -> VerdictView {
    let judged = |passed: bool| {
        verdict.criteria().iter().filter(move |judged| (judged.judgement == Judgement::Pass) == passed)
    };
    // Failed criteria come first, since callers look for them.
    let criteria =
        judged(false).chain(judged(true)).take(most_of(16, most).min(16)).map(|judged| CriterionView {
            id: judged.id.clone(),
            text: String::new(),
            judgement: judged.judgement.into(),
            evidence: evidence(&judged.evidence, most),
        });
    VerdictView {
        decision: verdict.decision(),
        alignment: verdict.alignment(),
        criteria: criteria.collect(),
        blocking_concerns: cut_list(
            verdict.blocking_concerns().iter().map(|concern| concern.text.as_str()),
            most,
        ),
        retry_hint: verdict.retry_hint().map(|hint| cut(hint, most)),
    }
}

fn evidence(ids: &[crate::evidence::EvidenceId], most: usize) -> Vec<String> {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    cut_list(ids.iter().map(String::as_str), most.min(200))
}

impl From<Judgement> for CriterionState {
    fn from(judgement: Judgement) -> Self {
        match judgement {
            Judgement::Pass => Self::Pass,
            Judgement::Fail => Self::Fail,
        }
    }
}

/// Returns the end of a unit.
pub(super) fn outcome_of(outcome: &Result<Handoff, String>) -> UnitEnd {
    match outcome.as_ref().map(Handoff::action) {
        Ok(HandoffAction::StepDone) => UnitEnd::StepDone,
        Ok(HandoffAction::Complete) => UnitEnd::Complete,
        Ok(HandoffAction::Blocked { .. }) => UnitEnd::Blocked,
        Err(_) => UnitEnd::Failed,
    }
}

pub(super) fn baseline_view(baseline: &Baseline, most: usize) -> BaselineView {
    let (outcome, output) = match &baseline.run.end {
        SuiteEnd::Passed => (BaselineOutcome::Passed, String::new()),
        SuiteEnd::Failed { .. } => (BaselineOutcome::Failed, printed(baseline)),
        SuiteEnd::DidNotStart { missing } => (BaselineOutcome::DidNotStart, missing.clone()),
        SuiteEnd::TimedOut => (BaselineOutcome::TimedOut, printed(baseline)),
        SuiteEnd::ReachedLimit { limit } => {
            // Append the limit: of a long output only the end remains.
            (BaselineOutcome::ReachedLimit, format!("{}\nreached the limit: {limit}", printed(baseline)))
        }
    };
    // Return the end of the output: test runners print their summary last.
    let begin = output.ceil_char_boundary(output.len().saturating_sub(most));
    BaselineView { outcome, output: output[begin..].to_owned() }
}

fn printed(baseline: &Baseline) -> String {
    let output = &baseline.run.output;
    let shown = |kept: &crate::checks::KeptText| format!("{}{}", kept.head, kept.tail);
    format!("{}{}", shown(&output.stdout), shown(&output.stderr))
}

pub(super) fn row(task: &IndexEntry<TaskDetails>, details: &TaskDetails) -> TaskRow {
    let labels = details.labels.iter().take(16);
    TaskRow {
        task_id: task.id.clone(),
        status: details.status,
        goal: task.title.clone(),
        project: cut(&details.project.to_string_lossy(), 500),
        created_at: time(task.created_at.unwrap_or(task.updated_at)),
        updated_at: time(task.updated_at),
        labels: labels.map(|(name, value)| (cut(name, 64), cut(value, 100))).collect(),
    }
}

/// Formats a time for callers.
pub(super) fn time(time: SystemTime) -> String {
    nexus_files::rfc3339::seconds(time)
}

/// Returns the outcome of a plan entry, as written in the brief.
pub(super) fn outcome(brief: &BriefDraft, entry: usize) -> String {
    brief.plan.get(entry).map(|entry| entry.outcome.clone()).unwrap_or_default()
}
