//! `nexus debate watch`: follows a debate in its files, so it works for a debate that another process runs.

use std::process::ExitCode;

use nexus_debates::{DebateStatusRequest, DebateStatusWord, DebateView, Debates};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::show;
use crate::{
    command_error::CommandError,
    interrupt,
    output::{AnswerWriter, printable, say},
    works::{self, WatchProgress},
};

/// Fields of an event that are shown to people.
const SHOWN: [&str; 8] = ["stage", "agent", "panelist", "reason", "vendor", "failure", "status", "task_id"];

/// Event of `nexus debate watch`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum DebateWatchEvent {
    /// The debate has entered another stage.
    Debate {
        /// State of the debate.
        debate: DebateView,
    },
    /// An event of the debate.
    Event {
        /// Time, such as `2026-01-31T12:00:00Z`.
        time: String,
        /// Kind of the event.
        kind: String,
        /// Other fields of the event.
        data: Value,
    },
}

pub(super) async fn watch(out: AnswerWriter, debates: &Debates, id: &str) -> Result<ExitCode, CommandError> {
    let debate = debates.store().open(id)?;
    let (mut known, mut last) = (0, String::new());
    // The watch starts before the first look, so that a change during that look triggers the next one.
    let mut changes = debate.watch();
    works::watch(
        async || changes.changed().await,
        interrupt::exit_code,
        async || {
            let request = DebateStatusRequest { debate_id: id.to_owned(), wait_s: Some(0) };
            let view = debates.status(request).await?;
            let line = format!("{}  {}", view.debate_id, show::status(&view));
            if line != last {
                out.event(|| DebateWatchEvent::Debate { debate: view.clone() }, || say(&line));
                last = line;
            }
            let events = debate.events()?.events;
            for event in events.iter().skip(known) {
                let time = nexus_files::rfc3339::seconds(event.time);
                let about = SHOWN.iter().filter_map(|name| {
                    let value = event.data.get(name)?.as_str()?;
                    Some(format!("{name} {}", printable(value)))
                });
                let about = about.collect::<Vec<_>>().join(", ");
                let line = format!("{time}  {}  {about}", event.kind.replace('_', " "));
                let (kind, data) = (event.kind.clone(), event.data.clone());
                out.event(|| DebateWatchEvent::Event { time, kind, data }, || say(line));
            }
            known = events.len();
            let is_over = matches!(view.status, DebateStatusWord::Done | DebateStatusWord::Cancelled);
            Ok(WatchProgress::until(is_over && !view.running))
        },
    )
    .await
}
