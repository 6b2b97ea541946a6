//! Text of tasks for people.

use std::{fmt::Write as _, io::IsTerminal as _};

use nexus_files::counted;
use nexus_tasks::{
    CriterionView, EntryProgress, LandingOutcome, LogEntryView, SpentView, StepView, TaskArtifactRequest,
    TaskLanding, TaskReport, TaskResult, TaskRow, TaskStatusWord, Tasks, spoken_probe, spoken_step,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    command_error::CommandError,
    for_a_person::for_a_person,
    output::{AnswerWriter, printable, printable_lines, say, say_bytes},
    show::described,
    spoken_time::age,
    terminal::fitted,
    works::{blocking, push_row},
};

/// Artifact of a task.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskArtifactText {
    /// The task.
    task_id: String,
    /// Name of the artifact.
    artifact: String,
    /// The whole text. Bytes that are not UTF-8 become U+FFFD.
    text: String,
}

pub(super) fn report(report: &TaskReport) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}  {}", report.task_id, report.status.spoken());
    let mut row = |name: &str, value: &str| push_row(&mut text, name, &printable_lines(value));
    row("goal", &report.goal);
    row("project", &report.project);
    row(
        "running",
        report.progress.as_deref().unwrap_or(if report.running { "in another program" } else { "" }),
    );
    let waits = report.waiting.iter().map(|wait| {
        format!("{} until {} for {}: {}", wait.agent, wait.until, wait.backends.join(", "), wait.reason)
    });
    row("waiting", &waits.collect::<Vec<_>>().join("\n"));
    let queued =
        report.queued.as_ref().map(|queued| format!("since {}, priority {}", queued.since, queued.priority));
    row("queued", &queued.unwrap_or_default());
    row("questions", &report.questions.join("\n"));
    row("reason", report.reason.as_deref().unwrap_or_default());
    row("error", report.error.as_deref().unwrap_or_default());
    row("plan", &plan(report).join("\n"));
    row("criteria", &criteria(&report.criteria));
    row("spent", &spent(&report.spent));
    row("to do", &report.to_do.join("\n"));
    row("warnings", &report.warnings.join("\n"));
    let labels: Vec<String> = report.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    row("labels", &labels.join("\n"));
    row("next", &next(report));
    text.truncate(text.trim_end().len());
    text
}

/// Names the commands that a person runs next.
fn next(report: &TaskReport) -> String {
    let id = &report.task_id;
    match report.status {
        TaskStatusWord::Complete => format!(
            "`nexus task land {id}` lands its commits\n`nexus task report {id} -o task.html` writes the report\n`nexus task \
             reopen {id} NOTE` continues it"
        ),
        TaskStatusWord::Blocked | TaskStatusWord::Escalated => format!(
            "`nexus task report {id} -o task.html` and `nexus task log {id}` show the reason\n`nexus task reopen {id} NOTE` \
             continues it"
        ),
        TaskStatusWord::Cancelled => format!("`nexus task reopen {id} NOTE` continues it"),
        TaskStatusWord::ClarificationNeeded => {
            format!("answer with `nexus task run {id} --answer TEXT`, once for each question")
        }
        TaskStatusWord::Framing | TaskStatusWord::Active => format!("`nexus task run {id}` continues it"),
    }
}

/// Describes the plan, one line for each entry.
pub(super) fn plan(report: &TaskReport) -> Vec<String> {
    let line = |entry: &nexus_tasks::EntryView| {
        let mark = match entry.progress {
            EntryProgress::Done => "done",
            EntryProgress::Current => "next",
            EntryProgress::ToDo => "open",
            EntryProgress::NotNeeded => "not needed",
        };
        let group = entry.parallel_group.as_ref().map(|group| format!(" [{group}]")).unwrap_or_default();
        printable(&format!("{}. {mark:<5} {}{group}: {}", entry.entry + 1, entry.agent_type, entry.outcome))
    };
    report.plan.iter().map(line).collect()
}

fn criteria(criteria: &[CriterionView]) -> String {
    let line = |criterion: &CriterionView| {
        let shown = if criterion.evidence.is_empty() {
            String::new()
        } else {
            format!(" ({})", criterion.evidence.join(", "))
        };
        printable(&format!("{:<5} {}: {}{shown}", criterion.judgement, criterion.id, criterion.text))
    };
    criteria.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn spent(spent: &SpentView) -> String {
    let usd = spent
        .usd
        .map_or_else(|| "no cost reported".to_owned(), |usd| format!("${usd:.4} as far as reported"));
    format!("{}, {} out, {usd}", counted(spent.turns, "turn"), counted(spent.output_tokens, "token"))
}

/// Describes the end of a step, in several lines.
pub(super) fn step(step: &StepView) -> String {
    let mut text = format!("entry {}: {}", step.entry + 1, step.end);
    if let Some(commit) = &step.commit {
        let _ = write!(text, ", commit {}", commit.get(..12).unwrap_or(commit));
    }
    for attempt in &step.attempts {
        let votes: Vec<String> = attempt
            .votes
            .iter()
            .map(|vote| format!("{} ({}): {}", vote.seat, vote.vendor, vote.decision))
            .collect();
        let _ = write!(text, "\n  attempt {}: {}", attempt.attempt, attempt.end);
        if attempt.changes_nothing {
            text.push_str(", changes no file");
        }
        if !votes.is_empty() {
            let _ = write!(text, "; {}", votes.join("; "));
        }
        for concern in attempt.verdict.iter().flat_map(|verdict| &verdict.blocking_concerns) {
            let _ = write!(text, "\n    concern: {}", printable(concern));
        }
        for silent in &attempt.silent {
            let _ = write!(text, "\n    no vote: {}", printable(silent));
        }
    }
    for why in step.reason.iter().chain(&step.error) {
        let _ = write!(text, "\n  {}", printable(why));
    }
    text
}

pub(super) fn result(result: &TaskResult) -> String {
    let mut text = format!("{}  {}\n", result.task_id, result.status.spoken());
    let mut row = |name: &str, value: &str| push_row(&mut text, name, &printable_lines(value));
    row("reason", result.reason.as_deref().unwrap_or_default());
    row("criteria", &criteria(&result.criteria));
    let commits: Vec<String> = result
        .commits
        .iter()
        .map(|commit| format!("{}  {}", commit.id.get(..12).unwrap_or(&commit.id), commit.outcome))
        .collect();
    row("commits", &commits.join("\n"));
    row("files", &result.files.join("\n"));
    if result.files_in_all > result.files.len() as u64 {
        row("", &format!("and {} more", result.files_in_all - result.files.len() as u64));
    }
    row("spent", &spent(&result.spent));
    row("landing", &for_a_person(&result.landing));
    text.truncate(text.trim_end().len());
    text
}

pub(super) fn landing(landing: &TaskLanding, is_new_branch: bool) -> String {
    match landing.outcome {
        LandingOutcome::Nothing => "nothing to land: the task has committed nothing".to_owned(),
        LandingOutcome::Landed => {
            let commit = landing.commit.as_deref().unwrap_or_default();
            let branch = landing.branch.as_deref().unwrap_or_default();
            format!(
                "landed: {} branch {} has the commits of the task, and is now at {}",
                if is_new_branch { "the new" } else { "your" },
                printable(branch.strip_prefix("refs/heads/").unwrap_or(branch)),
                commit.get(..12).unwrap_or(commit)
            )
        }
        LandingOutcome::Patch => format!(
            "not landed: {}\nnothing was changed; apply it with: nexus task show {} {} | git apply --3way",
            printable_lines(landing.obstacle.as_deref().unwrap_or_default()),
            landing.task_id,
            landing.patch.as_deref().unwrap_or("patch"),
        ),
    }
}

/// Describes a task in one line.
pub(super) fn row(row: &TaskRow) -> String {
    fitted(&printable(&format!(
        "{}  {:<9}  {:>4}  {}",
        row.task_id,
        row.status.spoken(),
        age(&row.updated_at),
        row.goal.lines().next().unwrap_or_default()
    )))
}

/// Describes an event of a task in one line.
pub(super) fn logged(event: &LogEntryView) -> String {
    let mut text = format!("{}  {}", event.time, event.kind.replace('_', " "));
    for (name, value) in event.data.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Array(items) if items.is_empty() => continue,
            other => other.to_string(),
        };
        let _ = write!(text, "  {name}={shown}");
    }
    printable(&text)
}

pub(super) async fn artifact(
    out: AnswerWriter,
    tasks: &Tasks,
    task: &str,
    artifact: &str,
) -> Result<(), CommandError> {
    let is_terminal = std::io::stdout().is_terminal();
    if let Some(attempt) = patch_of(artifact).filter(|_| !is_terminal && !out.is_json()) {
        // A program may apply the patch, so every byte is written unchanged.
        let opened = tasks.store().open(task)?;
        let patch = blocking(move || opened.patch(attempt)).await?;
        let patch = patch.ok_or_else(|| format!("the task {task} has no {artifact}"))?;
        say_bytes(patch.as_bytes());
        return Ok(());
    }
    // A person reads words. A program reads the record with `--json`.
    if !out.is_json()
        && let Some(text) = for_reading(tasks, task, artifact).await?
    {
        say(printable_lines(text.trim_end()));
        return Ok(());
    }
    let mut offset = Some(0);
    let mut text = String::new();
    while let Some(at) = offset {
        let request =
            TaskArtifactRequest { task_id: task.to_owned(), artifact: artifact.to_owned(), offset: at };
        let page = tasks.artifact(request).await?;
        text.push_str(&page.text);
        offset = page.next_offset;
    }
    let answer = TaskArtifactText { task_id: task.to_owned(), artifact: artifact.to_owned(), text };
    // A terminal obeys control characters, so they are removed. A file gets the text unchanged.
    out.show(&answer, |TaskArtifactText { text, .. }| match is_terminal {
        true => say(printable_lines(text.trim_end_matches('\n'))),
        false => say(text.strip_suffix('\n').unwrap_or(text)),
    });
    Ok(())
}

/// Returns the text of a probe, a step or a turn for a person; `None` for another artifact, or if the task does not have it.
async fn for_reading(tasks: &Tasks, task: &str, artifact: &str) -> Result<Option<String>, CommandError> {
    let opened = tasks.store().open(task)?;
    let number = |prefix: &str| artifact.strip_prefix(prefix).and_then(|number| number.parse().ok());
    if let Some(number) = number("probe-") {
        let read = blocking(move || {
            let read = opened.probes().read(number);
            read.map_err(|error| {
                CommandError::failed(error).with_advice("`nexus task show TASK step-N` lists the evidence")
            })
        });
        return Ok(Some(spoken_probe(&read.await?)));
    }
    if let Some(number) = number("step-") {
        let record = blocking(move || opened.step_record(number).map_err(CommandError::from)).await?;
        return Ok(record.as_ref().map(spoken_step));
    }
    let Some(turn) = artifact.strip_prefix("turn-").map(ToOwned::to_owned) else { return Ok(None) };
    let log = blocking(move || opened.turn_log().map_err(CommandError::from)).await?;
    Ok(log.turns.iter().find(|record| record.id == turn).map(described))
}

/// Parses the name of a patch: that of one attempt, or of all.
fn patch_of(artifact: &str) -> Option<Option<u32>> {
    match artifact {
        "patch" => Some(None),
        _ => artifact.strip_prefix("patch-")?.parse().ok().map(Some),
    }
}
