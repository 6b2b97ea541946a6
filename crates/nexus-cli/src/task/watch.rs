//! `nexus task watch`: follows each agent of a task in its files, so it works for a task that another process runs.

use std::{fs, io, process::ExitCode, time::SystemTime};

use nexus::{RecordedOutcome, TurnEvent, TurnRecord};
use nexus_files::counted;
use nexus_tasks::{Task, TaskReport, Tasks};
use schemars::JsonSchema;
use serde::Serialize;

use super::{show, status};
use crate::{
    command_error::CommandError,
    interrupt,
    output::{AnswerWriter, printable, say, say_json},
    spoken_time::{spoken, spoken_instant},
    terminal,
    works::{self, WatchProgress},
};

/// Maximum number of turns shown at once: the newest.
const MOST_TURNS: usize = 12;

/// Event of `nexus task watch`.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum TaskWatchEvent {
    /// The task has advanced.
    Task {
        /// State of the task.
        task: Box<TaskReport>,
    },
    /// A turn of an agent started or advanced.
    Turn(TurnLine),
}

/// State of one turn: its backend, activity and usage.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct TurnLine {
    /// Id of the turn.
    id: String,
    /// The agent.
    name: String,
    /// Backend that runs it, once it is known.
    backend: Option<String>,
    /// Current activity, or the end of the turn.
    activity: String,
    /// Number of tool calls.
    calls: usize,
    /// Tokens that its model wrote, as far as they are known.
    output_tokens: Option<u64>,
    /// Cost, as far as it is known.
    cost: Option<String>,
    /// True if the turn has ended.
    is_over: bool,
}

pub(super) async fn watch(out: AnswerWriter, tasks: &Tasks, id: &str) -> Result<ExitCode, CommandError> {
    let task = tasks.store().open(id)?;
    let mut board = Board::default();
    let mut turns = Turns::default();
    let mut shown = (None, Vec::new());
    // The watch starts before the first look, so that a change during that look triggers the next one.
    let mut changes = task.watch();
    works::watch(
        async || changes.changed().await,
        interrupt::exit_code,
        async || {
            let report = status(tasks, id).await?;
            turns.read(&task);
            if out.is_json() {
                show_events(&mut shown, &report, &turns.all);
            } else {
                board.draw(&lines(&task, &report, &turns.all));
            }
            Ok(WatchProgress::until(report.status.is_final() && !report.running))
        },
    )
    .await
}

/// Writes an event for everything that changed since the last call.
fn show_events(shown: &mut (Option<TaskReport>, Vec<TurnLine>), report: &TaskReport, turns: &[TurnRecord]) {
    let (last, last_turns) = shown;
    if last.as_ref() != Some(report) {
        say_json(&TaskWatchEvent::Task { task: Box::new(report.clone()) });
        *last = Some(report.clone());
    }
    let lines: Vec<TurnLine> = turns.iter().map(TurnLine::of).collect();
    for line in lines.iter().filter(|line| !last_turns.contains(line)) {
        say_json(&TaskWatchEvent::Turn(line.clone()));
    }
    *last_turns = lines;
}

/// The turns in a task's record, which is read again after it has grown.
#[derive(Debug, Default)]
struct Turns {
    bytes: u64,
    all: Vec<TurnRecord>,
}

impl Turns {
    fn read(&mut self, task: &Task) {
        let path = task.turns_path();
        let bytes = fs::metadata(&path).map_or(0, |found| found.len());
        // The file only grows, so an equal length means that no turn has changed.
        if bytes != self.bytes
            && let Ok(log) = task.turn_log()
        {
            *self = Self { bytes, all: log.turns };
        }
    }
}

fn lines(task: &Task, report: &TaskReport, turns: &[TurnRecord]) -> Vec<String> {
    let mut lines = vec![format!("{}  {}  {}", report.task_id, report.status.spoken(), report.goal)];
    lines.extend(show::plan(report));
    let first = turns.len().saturating_sub(MOST_TURNS);
    if first > 0 {
        lines.push(format!("… {first} earlier turns"));
    }
    lines.extend(turns[first..].iter().map(turn));
    let spent = &report.spent;
    let budget = task.data().map(|(_, data)| data.settings.budget).unwrap_or_default();
    let of = |bound: Option<String>| bound.map(|bound| format!(" of {bound}")).unwrap_or_default();
    lines.push(format!(
        "spent {}{}, {}{} tokens out, {}",
        spent.usd.map_or_else(|| "no reported cost".to_owned(), |usd| format!("${usd:.4}")),
        of(budget.usd.map(|usd| format!("${usd:.2}"))),
        spent.output_tokens,
        of(budget.output_tokens.map(|tokens| tokens.to_string())),
        counted(spent.turns, "turn"),
    ));
    lines
}

impl TurnLine {
    fn of(turn: &TurnRecord) -> Self {
        let (mut backend, mut calls, mut last) = (None, 0_usize, "started".to_owned());
        for envelope in &turn.events {
            match &envelope.event {
                TurnEvent::Started(started) => backend = Some(started.backend.to_string()),
                TurnEvent::Fallback(fallback) => backend = Some(fallback.to.to_string()),
                TurnEvent::ToolCallStarted(call) => {
                    calls += 1;
                    last = format!("calls {}", call.name);
                }
                TurnEvent::Waiting(waiting) => {
                    last = format!("waits until {}", spoken_instant(waiting.until, SystemTime::now()));
                }
                TurnEvent::Retrying(retry) => last = format!("tries again: {}", retry.reason),
                _ => {}
            }
        }
        let activity = match &turn.outcome {
            None => last,
            Some(RecordedOutcome::Result(result)) => format!("ended: {}", result.finish),
            Some(RecordedOutcome::Error(error)) => {
                format!("failed: {}", error.message.as_deref().unwrap_or("without a reported reason"))
            }
            Some(_) => "ended".to_owned(),
        };
        Self {
            id: turn.id.clone(),
            name: turn.name.clone(),
            backend,
            activity,
            calls,
            output_tokens: turn.usage().and_then(|usage| usage.output_tokens),
            cost: turn.cost().map(|cost| cost.usd.to_string()),
            is_over: turn.outcome.is_some(),
        }
    }
}

/// Describes a turn in one line.
fn turn(turn: &TurnRecord) -> String {
    let line = TurnLine::of(turn);
    let took = turn.took.or_else(|| SystemTime::now().duration_since(turn.began).ok()).unwrap_or_default();
    format!(
        "  {} · {} · {} · {}, {}{}{}",
        line.name,
        line.backend.as_deref().unwrap_or("waiting"),
        line.activity,
        counted(line.calls, "call"),
        spoken(took),
        line.output_tokens.map(|tokens| format!(", {tokens} tokens out")).unwrap_or_default(),
        line.cost.map(|cost| format!(", {cost}")).unwrap_or_default(),
    )
}

/// Lines that a terminal redraws in place. Elsewhere only new lines are printed.
#[derive(Debug, Default)]
struct Board {
    drawn: Vec<String>,
}

impl Board {
    fn draw(&mut self, lines: &[String]) {
        let lines: Vec<String> = lines.iter().map(|line| printable(line)).collect();
        if lines == self.drawn {
            return;
        }
        if terminal::takes_escapes(&io::stdout()) {
            let up = match self.drawn.len() {
                0 => String::new(),
                drawn => format!("\u{1b}[{drawn}A"),
            };
            // Every line takes exactly one line of the terminal. Wrapping is disabled for characters that are two columns wide.
            let body: Vec<String> = lines
                .iter()
                .map(|line| format!("\u{1b}[2K\u{1b}[?7l{}\u{1b}[?7h", terminal::fitted(line)))
                .collect();
            // The last sequence erases what remains of a longer board.
            say(format_args!("{up}{}\u{1b}[J", body.join("\n")));
        } else {
            for line in lines.iter().filter(|line| !self.drawn.contains(line)) {
                say(line);
            }
        }
        self.drawn = lines;
    }
}
