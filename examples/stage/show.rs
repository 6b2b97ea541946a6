//! Prints the events of a turn while it runs. It is a sink, which receives the events one by one and ignores some.

use std::{
    io::{self, Write as _},
    task::{Context, Poll},
};

use nexus::{EventEnvelope, EventSink, ToolCallStatus, ToolContent, TurnError, TurnEvent, TurnResult};

/// Prints the text as it arrives, tool calls, warnings and fallbacks.
#[derive(Debug, Default)]
pub(crate) struct Show {
    /// Kind of the text that the current line contains, if it is not complete.
    writing: Option<Writing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Thinking,
    Text,
}

impl EventSink for Show {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, event: EventEnvelope) {
        match event.event {
            // Print only text of the main agent: a delta with a parent comes from a sub-agent.
            TurnEvent::TextDelta(delta) if delta.parent.is_none() => {
                self.piece(Writing::Text, "", &delta.text);
            }
            TurnEvent::ThinkingDelta(delta) if delta.parent.is_none() => {
                self.piece(Writing::Thinking, "thinking: ", &delta.text);
            }
            TurnEvent::Started(started) => {
                let model = started.model.map(|model| format!(" · {model}")).unwrap_or_default();
                self.note(&format!("> {}{model}", started.backend));
            }
            TurnEvent::ToolCallStarted(call) => self.note(&format!("* {}", call.name)),
            TurnEvent::ToolCallArguments(call) => self.note(&format!("  {}", call.arguments)),
            TurnEvent::ToolCallFinished(call) => {
                let mark = if call.status == ToolCallStatus::Succeeded { "->" } else { "!!" };
                self.note(&format!("  {mark} {}", call.output.iter().map(text).collect::<String>()));
            }
            TurnEvent::MessageVoided(_) => self.note("< the message above is withdrawn"),
            TurnEvent::Retrying(retry) => {
                self.note(&format!("~ attempt {}: {}", retry.attempt, retry.reason));
            }
            TurnEvent::Fallback(fallback) => {
                let skipped = &fallback.skipped;
                self.note(&format!("~ {}: {}; {} takes over", skipped.backend, skipped.reason, fallback.to));
            }
            TurnEvent::Warning(warning) => self.note(&format!("! {}", warning.text)),
            _ => {}
        }
    }
}

impl Show {
    /// Prints the outcome of the turn.
    pub(crate) fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>) {
        match outcome {
            Ok(result) => self.note(&format!("= {} · {} tool calls", result.finish, result.tool_calls.len())),
            Err(error) => self.note(&format!("x {error}")),
        }
    }

    /// Prints a piece of text. Pieces of the same kind share a line.
    fn piece(&mut self, writing: Writing, label: &str, text: &str) {
        if self.writing != Some(writing) {
            self.end_line();
            print!("{label}");
        }
        self.writing = Some(writing);
        print!("{text}");
        let _ = io::stdout().flush();
    }

    fn end_line(&mut self) {
        if self.writing.take().is_some() {
            println!();
        }
    }

    /// Prints a line that is not part of the answer.
    fn note(&mut self, line: &str) {
        self.end_line();
        println!("{line}");
    }
}

fn text(content: &ToolContent) -> String {
    match content {
        ToolContent::Text { text } => text.clone(),
        ToolContent::Json { value } => value.to_string(),
        ToolContent::Image { media_type, .. } => format!("[{media_type}]"),
        other => format!("{other:?}"),
    }
}
