//! `nexus task watch`: what each agent of a task does, as its files say; whoever runs it.

use std::{
    fs,
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use nexus::{RecordedOutcome, TurnEvent, TurnRecord};
use nexus_tasks::{Task, TaskReport, TaskStatusRequest, Tasks};

use super::show;
use crate::{
    command_error::CommandError,
    interrupt::{self, Interrupts},
    output::{broken, is_broken, printable, say},
    spoken_time::spoken,
};

/// How often the files are looked at.
const PAUSE: Duration = Duration::from_millis(300);
/// Most turns that are shown at once; the newest.
const MOST_TURNS: usize = 12;

pub(super) async fn watch(tasks: &Tasks, id: &str) -> Result<ExitCode, CommandError> {
    let task = tasks.store().open(id)?;
    let mut board = Board::default();
    let mut turns = Turns::default();
    let mut interrupts = Interrupts::listen().map_err(CommandError::failed)?;
    loop {
        let report = tasks.status(TaskStatusRequest { task_id: id.to_owned(), wait_s: Some(0) }).await?;
        turns.read(&task);
        board.draw(&lines(&task, &report, &turns.all));
        let is_over = matches!(report.status.as_str(), "complete" | "blocked" | "escalated" | "cancelled");
        if is_over && !report.running || is_broken() {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = broken() => return Ok(ExitCode::SUCCESS),
            listened = interrupts.next() => {
                listened.map_err(CommandError::failed)?;
                return Ok(interrupt::exit_code());
            }
        }
    }
}

/// The turns in a task's record, read again when it has grown.
#[derive(Debug, Default)]
struct Turns {
    bytes: u64,
    all: Vec<TurnRecord>,
}

impl Turns {
    fn read(&mut self, task: &Task) {
        let path = task.turns_path();
        let bytes = fs::metadata(&path).map_or(0, |found| found.len());
        if bytes != self.bytes
            && let Ok(log) = task.turn_log()
        {
            *self = Self { bytes, all: log.turns };
        }
    }
}

fn lines(task: &Task, report: &TaskReport, turns: &[TurnRecord]) -> Vec<String> {
    let mut lines = vec![format!("{}  {}  {}", report.task_id, report.status.replace('_', " "), report.goal)];
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
        "spent ${:.4}{}, {}{} tokens out, {} turns",
        spent.usd,
        of(budget.usd.map(|usd| format!("${usd:.2}"))),
        spent.output_tokens,
        of(budget.output_tokens.map(|tokens| tokens.to_string())),
        spent.turns,
    ));
    lines
}

/// One turn: who runs it, what it does, what it used.
fn turn(turn: &TurnRecord) -> String {
    let (mut backend, mut calls, mut last) = (None, 0_usize, "started".to_owned());
    for envelope in &turn.events {
        match &envelope.event {
            TurnEvent::Started(started) => backend = Some(started.backend.to_string()),
            TurnEvent::Fallback(fallback) => backend = Some(fallback.to.to_string()),
            TurnEvent::ToolCallStarted(call) => {
                calls += 1;
                last = format!("calls {}", call.name);
            }
            TurnEvent::Retrying(retry) => last = format!("tries again: {}", retry.reason),
            _ => {}
        }
    }
    let state = match &turn.outcome {
        None => last,
        Some(RecordedOutcome::Result(result)) => format!("ended: {}", result.finish),
        Some(RecordedOutcome::Error(error)) => {
            format!("failed: {}", error.message.as_deref().unwrap_or("for no reason that was told"))
        }
        Some(_) => "ended".to_owned(),
    };
    let took = turn.took.or_else(|| SystemTime::now().duration_since(turn.began).ok()).unwrap_or_default();
    let tokens =
        turn.usage().and_then(|usage| usage.output_tokens).map(|tokens| format!(", {tokens} tokens out"));
    let cost = turn.cost().map(|cost| format!(", {}", cost.usd));
    format!(
        "  {} · {} · {state} · {calls} calls, {}{}{}",
        turn.name,
        backend.as_deref().unwrap_or("waiting"),
        spoken(took),
        tokens.unwrap_or_default(),
        cost.unwrap_or_default(),
    )
}

/// Lines that are drawn again in place on a terminal; elsewhere only those that are new.
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
        if io::stdout().is_terminal() {
            let up = match self.drawn.len() {
                0 => String::new(),
                drawn => format!("\u{1b}[{drawn}A"),
            };
            // Without wrapping, so that every line is one of the terminal's.
            let body: Vec<String> =
                lines.iter().map(|line| format!("\u{1b}[2K\u{1b}[?7l{line}\u{1b}[?7h")).collect();
            say(format_args!("{up}{}\u{1b}[J", body.join("\n")));
        } else {
            for line in lines.iter().filter(|line| !self.drawn.contains(line)) {
                say(line);
            }
        }
        self.drawn = lines;
    }
}
