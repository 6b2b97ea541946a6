//! Settlement of an attempt at a step. A process that is killed at any moment leaves a state from which the task can resume.
//!
//! 1. The record of the attempt is written. It does not count yet.
//! 2. If there are changes to commit, the commit is decided: its intent, with the end of the attempt, is written into the status in one
//!    write.
//! 3. The commit is made, and the ref is moved by compare-and-set. The same intent gives the same commit.
//! 4. The status is written: the state after the step, the new head, no intent.
//!
//! If a process finds an intent in the status, it repeats 3 and 4. Without an intent it repeats the attempt. The caller owns the step's lock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nexus_core::Clock;
use nexus_trees::{CommitId, CommitIntent, Tree};

use super::StepEndWord;
use crate::{
    problem_brief::{BriefDraft, PlanEntry, PlanStep, ProblemBrief},
    review::Reflection,
    step_record::StepRecord,
    store::{FollowUp, SettledStep, StepIntent, Task, TaskData, TaskLogEvent},
    task_error::{TaskError, TaskErrorKind},
    task_state::{Cursor, StepEnd, TaskEvent, TaskState, TaskStatus},
};

/// Ref of a task's last commit, in its own repository.
pub(super) const HEAD: &str = "head";
/// Longest first line of a commit's message, in bytes.
const MOST_SUBJECT_BYTES: usize = 100;

/// Settles an attempt, and returns the commit that it made.
pub(super) fn settle(
    task: &Task,
    tree: &Tree,
    brief: &ProblemBrief,
    record: &StepRecord,
    clock: &dyn Clock,
) -> Result<Option<CommitId>, TaskError> {
    let (state, data) = task.data()?;
    let cursor = active(&state)?;
    if cursor.attempt != record.attempt || cursor.entry != record.entry {
        let message = format!("attempt {} is not the next attempt", record.attempt);
        return Err(TaskError::wrong_status(message, "call task_status"));
    }
    // Write the record before the status: it counts only once the status has moved on from the attempt.
    task.write_step_record(record)?;
    if let Some(commit) = commit_of(task, tree, brief, record, &data, clock.now())? {
        task.update(|state, data| {
            // Checked again under the lock of the status: another process may have settled the attempt.
            if active(state)?.attempt != record.attempt {
                return Err(moved_on());
            }
            data.intent =
                Some(StepIntent { attempt: record.attempt, end: record.end.clone(), commit: commit.clone() });
            Ok(())
        })?;
        return carry_out(task, tree);
    }
    let base = task.base_folder(tree)?;
    let amended = amended(brief, record, &data, &base);
    if let Err(reason) = &amended {
        let what = format!("the reflector's amendment is invalid, so the brief is unchanged: {reason}");
        let _ = task.log(&TaskLogEvent::WentWrong { what });
    }
    task.update(|state, data| {
        if active(state)?.attempt != record.attempt {
            return Err(moved_on());
        }
        leave(state, data, record.end.clone(), brief)?;
        match &record.end {
            StepEnd::Advanced | StepEnd::Completed | StepEnd::Blocked { .. } => {
                data.work = None;
                data.hints.clear();
            }
            StepEnd::Retried { .. } | StepEnd::Escalated { .. } => {
                // The next attempt begins with the work that was sent back. Without reviewed work, the earlier files
                // stay.
                if record.work.is_some() {
                    data.work.clone_from(&record.work);
                }
                data.hints = hints(record, amended.is_ok());
                if let Ok(Some(amended)) = amended {
                    data.brief = Some(amended);
                }
            }
        }
        Ok(())
    })?;
    log_settled(task, record.entry, record.attempt, &record.end, None);
    Ok(None)
}

/// Carries out a decided settlement, if the status has one. An earlier process may have started it.
pub(super) fn carry_out(task: &Task, tree: &Tree) -> Result<Option<CommitId>, TaskError> {
    let (state, data) = task.data()?;
    let Some(intent) = data.intent.clone() else { return Ok(None) };
    let cursor = active(&state)?;
    let brief =
        task.brief(&data)?.ok_or_else(|| TaskError::damaged(task.folder(), "the task has no brief"))?;
    // The intent fixes the time and the parent, so a repetition after a crash creates the same commit.
    let commit = tree.commit(&intent.commit)?;
    // An earlier process may have moved the ref before it was killed.
    if tree.read_ref(HEAD)?.as_ref() != Some(&commit) {
        tree.move_ref(HEAD, data.head.as_ref(), &commit)?;
    }
    task.update(|state, data| {
        // Checked under the lock of the status: another process may have carried out the intent first.
        if data.intent.as_ref() != Some(&intent) {
            return Err(moved_on());
        }
        data.intent = None;
        leave(state, data, intent.end.clone(), &brief)?;
        data.head = Some(commit.clone());
        data.commits.push(SettledStep {
            entry: cursor.entry,
            attempt: intent.attempt,
            commit: commit.clone(),
        });
        data.work = None;
        data.hints.clear();
        Ok(())
    })?;
    log_settled(task, cursor.entry, intent.attempt, &intent.end, Some(&commit));
    Ok(Some(commit))
}

/// Creates the ref of the last commit at the base, unless it exists.
pub(super) fn pin_head(tree: &Tree) -> Result<(), TaskError> {
    if tree.read_ref(HEAD)?.is_none() {
        tree.move_ref(HEAD, None, &tree.base().commit)?;
    }
    Ok(())
}

/// Resets the ref of the last commit to the head in the status. A settlement may have moved the ref before the caller cancelled it; then
/// no later settlement could move it. The caller owns the step's lock, and the status has no intent.
pub(super) fn reset_head(task: &Task, tree: &Tree) -> Result<(), TaskError> {
    let (_, data) = task.data()?;
    let head = data.head.as_ref().unwrap_or(&tree.base().commit);
    let found = tree.read_ref(HEAD)?;
    match found.as_ref() == Some(head) {
        true => Ok(()),
        false => Ok(tree.move_ref(HEAD, found.as_ref(), head)?),
    }
}

/// Returns the cursor of the step to do.
pub(super) fn active(state: &TaskState) -> Result<Cursor, TaskError> {
    match &state.status {
        TaskStatus::Active { cursor } => Ok(*cursor),
        status => Err(TaskError::wrong_status(format!("the task is {}", status.name()), status.next_call())),
    }
}

/// Applies the end of an attempt to the state.
fn leave(
    state: &mut TaskState,
    data: &mut TaskData,
    end: StepEnd,
    brief: &ProblemBrief,
) -> Result<(), TaskError> {
    let cursor = active(state)?;
    let after = state.after(TaskEvent::StepSettled(end), Some(brief.plan()))?;
    let is_retried =
        matches!(&after.status, TaskStatus::Active { cursor: next } if next.entry == cursor.entry);
    *state = after;
    // A retry stays in its step, so no result is due yet.
    if !is_retried {
        data.settled = cursor.attempt;
    }
    if matches!(state.status, TaskStatus::Complete { .. }) {
        data.follow_ups = FollowUp::ALL.to_vec();
    }
    Ok(())
}

/// Returns the commit of an attempt, if it advances and its reviewed work differs from the last commit.
fn commit_of(
    task: &Task,
    tree: &Tree,
    brief: &ProblemBrief,
    record: &StepRecord,
    data: &TaskData,
    now: SystemTime,
) -> Result<Option<CommitIntent>, TaskError> {
    let (StepEnd::Advanced | StepEnd::Completed, Some(work), Some(head)) =
        (&record.end, &record.work, &data.head)
    else {
        return Ok(None);
    };
    let content = tree.tree_of(work)?;
    if content == tree.tree_of(head)? {
        return Ok(None);
    }
    let step = brief.plan().step_of(record.entry);
    let units = step.as_ref().map(PlanStep::work).unwrap_or_default();
    // The status stores whole seconds, and the intent must give the same commit after it is read back.
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    let mut intent = CommitIntent::new(content, head.clone(), time, message(units))
        .with_trailer("Task", task.id().as_str())
        .with_trailer("Step", record.entry.to_string());
    for unit in units {
        intent = intent.with_trailer("Agent-Type", unit.agent_type());
    }
    Ok(Some(intent.with_trailer("Verdict", "advance")))
}

/// Builds the message: the outcomes of the step, in one line, so that no text in it can look like a trailer.
fn message(units: &[PlanEntry]) -> String {
    let joined = units.iter().map(PlanEntry::outcome).collect::<Vec<_>>().join("; ");
    let words: Vec<&str> = joined
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    if line.len() <= MOST_SUBJECT_BYTES {
        return line;
    }
    format!("{}…", &line[..line.floor_char_boundary(MOST_SUBJECT_BYTES)])
}

/// Returns the advice for the next attempt. Of an invalid amendment only the clarifications remain, as advice.
fn hints(record: &StepRecord, is_amended: bool) -> Vec<String> {
    let of_the_verdict = record.verdict.as_ref().and_then(|verdict| verdict.retry_hint());
    let of_the_reflector = match &record.reflection {
        Some(Reflection::ReDispatch { hint }) => std::slice::from_ref(hint),
        Some(Reflection::ReBrief { amendment }) if !is_amended => &amendment.clarifications,
        _ => &[],
    };
    of_the_verdict.into_iter().map(str::to_owned).chain(of_the_reflector.iter().cloned()).collect()
}

/// Returns the amended brief, or the reason why the reflector's amendment is invalid.
fn amended(
    brief: &ProblemBrief,
    record: &StepRecord,
    data: &TaskData,
    base: &std::path::Path,
) -> Result<Option<BriefDraft>, String> {
    let Some(Reflection::ReBrief { amendment }) = &record.reflection else { return Ok(None) };
    let amended = brief.amended(amendment, &data.types, base).map_err(|error| error.to_string())?;
    Ok(draft_of(&amended))
}

/// Returns a brief in its stored form.
pub(super) fn draft_of(brief: &ProblemBrief) -> Option<BriefDraft> {
    serde_json::from_value(serde_json::to_value(brief).ok()?).ok()
}

fn log_settled(task: &Task, entry: usize, attempt: u32, end: &StepEnd, commit: Option<&CommitId>) {
    let (name, reason, error) = end_in_words(end);
    let status = task.data().map_or("unknown", |(state, _)| state.status.name());
    let event = TaskLogEvent::StepSettled {
        entry,
        attempt,
        end: name.to_string(),
        reason,
        error,
        commit: commit.map(ToString::to_string),
        status: status.to_owned(),
    };
    // No decision depends on the log, so a failed write is ignored.
    let _ = task.log(&event);
}

/// Returns the end of an attempt in words: its name, the reason, and the failure behind it.
pub(super) fn end_in_words(end: &StepEnd) -> (StepEndWord, Option<String>, Option<String>) {
    match end {
        StepEnd::Advanced => (StepEndWord::Advanced, None, None),
        StepEnd::Completed => (StepEndWord::Completed, None, None),
        StepEnd::Retried { .. } => (StepEndWord::Retried, None, None),
        StepEnd::Blocked { reasons } => (StepEndWord::Blocked, Some(reasons.join("; ")), None),
        StepEnd::Escalated { reason, error } => (StepEndWord::Escalated, Some(reason.clone()), error.clone()),
    }
}

fn moved_on() -> TaskError {
    TaskError::new(
        TaskErrorKind::InUse,
        "another process has settled the step in the meantime",
        "call task_status",
    )
}

impl From<crate::task_state::WrongStatus> for TaskError {
    fn from(wrong: crate::task_state::WrongStatus) -> Self {
        Self::new(TaskErrorKind::WrongStatus, format!("the task is {}", wrong.status), wrong.instead)
    }
}
