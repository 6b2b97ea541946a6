//! Writes a turn to standard output as it happens. A sink takes events one by one; an unneeded one it leaves alone.

use std::{
    io::{self, Write as _},
    task::{Context, Poll},
};

use nexus::{EventEnvelope, EventSink, ToolCallStatus, ToolContent, TurnError, TurnEvent, TurnResult};

/// Shows text as it comes, tool calls, warnings, and who takes over.
#[derive(Debug, Default)]
pub(crate) struct Show {
    /// What the last thing written was a piece of.
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
            // Texts with a parent are those of a sub-agent.
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
    /// Writes how the turn ended.
    pub(crate) fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>) {
        match outcome {
            Ok(result) => self.note(&format!("= {} · {} tool calls", result.finish, result.tool_calls.len())),
            Err(error) => self.note(&format!("x {error}")),
        }
    }

    /// A piece of text, on a line with the pieces of its kind before it.
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

    /// A line beside the answer.
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
