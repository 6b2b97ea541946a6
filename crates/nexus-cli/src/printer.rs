//! Shows a turn to a person while it runs.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use nexus::{
    CostSource, EventEnvelope, EventSink, Handover, MessageId, ToolCallStatus, ToolContent, TurnError,
    TurnEvent, TurnResult, Usage,
    turn::{ContextUsage, ConversationCompacted, VoidCause},
};
use nexus_files::{counted, shortened};
use serde_json::Value;

use crate::{output::printable_lines, spoken_time::spoken_instant};

/// Maximum length of a displayed line of a tool's arguments or output, in characters.
const MAX_DETAIL_CHARS: usize = 96;

/// Maximum number of unknown names that are shown for one turn.
const MAX_NOT_UNDERSTOOD: usize = 8;

/// An [`EventSink`] that writes a turn for a person to watch: text as it comes, tool calls, warnings, and the
/// usage at the end.
///
/// After a failed write, the writer is not used again; the turn continues.
#[derive(Debug)]
pub(crate) struct TurnPrinter<W> {
    out: W,
    style: PrintStyle,
    is_at_line_start: bool,
    open: Option<(MessageId, Mode)>,
    has_failed: bool,
    not_understood: BTreeSet<String>,
    /// The fill of the context that was reported last.
    context: Option<ContextUsage>,
    /// Text of the message that is being shown.
    shown: String,
    /// Text of a message that was withdrawn for a retry. The next message often begins with the same words.
    withdrawn: Option<String>,
    /// Beginning of the next message, as long as it repeats the withdrawn text.
    repeated: String,
}

/// Use of the terminal's colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PrintStyle {
    /// Plain text.
    #[default]
    Plain,
    /// ANSI escape codes: everything except the answer is dimmed.
    Ansi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Text,
    Thinking,
}

impl<W: Write + Send> TurnPrinter<W> {
    /// Creates a printer that writes plain text to `out`.
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            style: PrintStyle::Plain,
            is_at_line_start: true,
            open: None,
            has_failed: false,
            not_understood: BTreeSet::new(),
            context: None,
            shown: String::new(),
            withdrawn: None,
            repeated: String::new(),
        }
    }

    /// Sets the use of colours.
    #[must_use]
    pub(crate) fn with_style(mut self, style: PrintStyle) -> Self {
        self.style = style;
        self
    }

    /// Writes the end of the turn: usage, cost and time of a success, the error chain of a failure.
    pub(crate) fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, elapsed: Duration) {
        match outcome {
            Ok(result) => {
                let mut parts = vec![format!("{}", result.finish)];
                parts.extend(usage_parts(&result.usage));
                parts.extend(self.context.map(|context| context_part(&context)));
                if let Some(cost) = result.cost {
                    let source = match cost.source {
                        CostSource::Reported => "reported",
                        CostSource::Estimated => "estimated",
                    };
                    parts.push(format!("{} ({source})", cost.usd));
                }
                if !result.tool_calls.is_empty() {
                    parts.push(counted(result.tool_calls.len(), "tool call"));
                }
                parts.push(format!("{:.1} s", elapsed.as_secs_f64()));
                self.note("=", &parts.join(" · "));
            }
            Err(error) => {
                self.note("x", &format!("{error}"));
                for cause in error.report().causes {
                    self.note(" ", &cause);
                }
                let partial = error.partial();
                if !partial.text.is_empty() {
                    let characters = counted(partial.text.chars().count(), "character");
                    self.note(" ", &format!("{characters} of text are stored"));
                }
            }
        }
        self.try_write(|out| out.flush());
    }

    /// Returns true if all writes so far succeeded.
    pub(crate) fn is_intact(&self) -> bool {
        !self.has_failed
    }

    fn try_write(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if !self.has_failed {
            self.has_failed = write(&mut self.out).is_err();
        }
    }

    /// Writes a line that is not part of the answer.
    fn note(&mut self, mark: &str, text: &str) {
        self.end_line();
        let (dim, plain) = match self.style {
            PrintStyle::Plain => ("", ""),
            PrintStyle::Ansi => ("\u{1b}[2m", "\u{1b}[0m"),
        };
        let text = printable_lines(text);
        self.try_write(|out| writeln!(out, "{dim}{mark} {text}{plain}"));
    }

    /// Reports an unknown part of the vendor's output once, with its consequence.
    fn not_understood(&mut self, name: &str, is_harmless: bool) {
        if self.not_understood.len() < MAX_NOT_UNDERSTOOD && self.not_understood.insert(name.to_owned()) {
            let so = if is_harmless { "" } else { "; the changes of the turn are not known for certain" };
            self.note("?", &format!("not understood: {name}{so}"));
        }
    }

    fn end_line(&mut self) {
        if let Some((_, Mode::Thinking)) = self.open.take()
            && self.style == PrintStyle::Ansi
        {
            self.try_write(|out| out.write_all(b"\x1b[0m"));
        }
        if !std::mem::replace(&mut self.is_at_line_start, true) {
            self.try_write(|out| out.write_all(b"\n"));
        }
    }

    /// Shows a piece of the answer. A retry repeats the text of the attempt before, and the repeated part is not shown again.
    fn answer(&mut self, message: &MessageId, text: &str) {
        let Some(withdrawn) = &self.withdrawn else {
            self.shown.push_str(text);
            return self.piece(message, Mode::Text, text);
        };
        self.repeated.push_str(text);
        // The repetition so far is on the screen already.
        if withdrawn.starts_with(&self.repeated) {
            return;
        }
        self.withdrawn = None;
        self.note("<", "the message above is withdrawn");
        self.shown = std::mem::take(&mut self.repeated);
        let whole = self.shown.clone();
        self.piece(message, Mode::Text, &whole);
    }

    /// Withdraws the message that was shown. Before a retry the note waits, because the same text may follow.
    fn withdraw(&mut self, is_retried: bool) {
        self.end_line();
        let shown = std::mem::take(&mut self.shown);
        self.repeated.clear();
        match (is_retried && !shown.is_empty(), &self.withdrawn) {
            (true, _) => self.withdrawn = Some(shown),
            // The repetition ended early as well: nothing new was shown.
            (false, Some(_)) if is_retried => {}
            _ => {
                self.withdrawn = None;
                self.note("<", "the message above is withdrawn");
            }
        }
    }

    /// Ends the message that was shown.
    fn end_message(&mut self, message: &MessageId) {
        let repeated = std::mem::take(&mut self.repeated);
        // A message that is exactly the withdrawn text is on the screen already.
        if self.withdrawn.take().is_some_and(|withdrawn| withdrawn != repeated) {
            self.note("<", "the message above is withdrawn");
            self.piece(message, Mode::Text, &repeated);
        }
        self.shown.clear();
        self.end_line();
    }

    fn piece(&mut self, message: &MessageId, mode: Mode, text: &str) {
        let goes_on = matches!(&self.open, Some((open, open_mode)) if open == message && *open_mode == mode);
        if !goes_on {
            self.end_line();
            if mode == Mode::Thinking && self.style == PrintStyle::Ansi {
                self.try_write(|out| out.write_all(b"\x1b[2;3m"));
            }
            self.open = Some((message.clone(), mode));
        }
        let text = printable_lines(text);
        self.try_write(|out| out.write_all(text.as_bytes()).and_then(|()| out.flush()));
        if let Some(last) = text.chars().last() {
            self.is_at_line_start = last == '\n';
        }
    }
}

impl<W: Write + Send> EventSink for TurnPrinter<W> {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, event: EventEnvelope) {
        match event.event {
            TurnEvent::Queued(queued) => {
                let limit = counted(queued.limit, "turn");
                self.note("~", &format!("{} already runs {limit}; waiting", queued.backend));
            }
            TurnEvent::Waiting(waiting) => {
                let now = SystemTime::now();
                for held in &waiting.held {
                    self.note("~", &format!("{}: {}", held.backend, held.reason));
                }
                self.note(
                    "~",
                    &format!("waiting until {}; Ctrl-C ends the turn", spoken_instant(waiting.until, now)),
                );
            }
            TurnEvent::Started(started) => {
                let mut parts = vec![started.backend.to_string()];
                parts.extend(started.model.map(|model| model.to_string()));
                parts.extend(started.effort.map(|effort| format!("effort {}", effort.applied)));
                parts.extend(started.version);
                self.note(">", &parts.join(" · "));
            }
            TurnEvent::TextDelta(delta) if delta.parent.is_none() => {
                self.answer(&delta.message, &delta.text);
            }
            TurnEvent::ThinkingDelta(delta) if delta.parent.is_none() => {
                self.piece(&delta.message, Mode::Thinking, &delta.text);
            }
            TurnEvent::ToolCallStarted(call) => self.note("*", &call.name),
            TurnEvent::ToolCallArguments(call) => self.note(" ", &shorten(&arguments_text(&call.arguments))),
            TurnEvent::ToolCallFinished(call) => {
                let mark = if call.status == ToolCallStatus::Succeeded { "  ->" } else { "  !!" };
                self.note(mark, &shorten(&content_text(&call.output)));
            }
            TurnEvent::InputReceived(input) => self.note(">", &shorten(&input.text)),
            TurnEvent::Compacted(compacted) => self.note("~", &compaction_in_words(&compacted)),
            TurnEvent::ContextUsage(context) => self.context = Some(context),
            TurnEvent::QuestionCompleted(_) => {
                self.note("+", "the page that the agent asked you to open is complete");
            }
            TurnEvent::MessageEnded(ended) => self.end_message(&ended.message),
            TurnEvent::MessageVoided(voided) => self.withdraw(voided.cause == VoidCause::Retry),
            TurnEvent::RateLimit(limit) => {
                let used =
                    limit.used_percent.map(|percent| format!(", {percent:.0} % used")).unwrap_or_default();
                let window = limit.window.unwrap_or_else(|| "rate limit".to_owned());
                self.note("%", &format!("{window}: {:?}{used}", limit.status).to_lowercase());
            }
            TurnEvent::Retrying(retry) => {
                self.note("~", &format!("attempt {}: {}", retry.attempt, retry.reason));
            }
            TurnEvent::Fallback(fallback) => {
                let skipped = &fallback.skipped;
                let takes_over = match skipped.handover {
                    Handover::Continued => "continues from its present state",
                    Handover::Restored => "takes over; the earlier changes were reverted",
                    _ => "takes over",
                };
                self.note(
                    "~",
                    &format!("{}: {}; {} {takes_over}", skipped.backend, skipped.reason, fallback.to),
                );
            }
            TurnEvent::Warning(warning) => self.note("!", &warning.text),
            TurnEvent::Unrecognized(unknown) => {
                let name = unknown.name.unwrap_or_else(|| unknown.raw.to_string());
                self.not_understood(&shorten(&name), unknown.is_harmless);
            }
            // Print neither the text of sub-agents nor events that only programs use.
            _ => {}
        }
    }
}

pub(crate) fn usage_parts(usage: &Usage) -> Vec<String> {
    let cached = usage.cache_read_tokens.filter(|tokens| *tokens > 0);
    [
        usage.input_tokens.map(|tokens| format!("{} in", counted(tokens, "token"))),
        cached.map(|tokens| format!("{tokens} cached")),
        usage.output_tokens.map(|tokens| format!("{tokens} out")),
        usage.reasoning_tokens.map(|tokens| format!("{tokens} reasoning")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Describes how full the context is.
fn context_part(context: &ContextUsage) -> String {
    match context.window_tokens {
        Some(window) => format!("context {} of {window}", context.used_tokens),
        None => format!("context {}", context.used_tokens),
    }
}

fn arguments_text(arguments: &Value) -> String {
    // Most calls have one argument that describes them.
    match arguments {
        Value::Object(map) if map.len() == 1 => {
            map.values().next().and_then(Value::as_str).map_or_else(|| arguments.to_string(), str::to_owned)
        }
        other => other.to_string(),
    }
}

fn content_text(content: &[ToolContent]) -> String {
    let texts = content.iter().map(|piece| match piece {
        ToolContent::Text { text } => text.clone(),
        ToolContent::Json { value } => value.to_string(),
        ToolContent::Image { media_type, .. } => format!("[{media_type}]"),
        other => format!("{other:?}"),
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Returns the extent of a compaction, as far as it is known.
fn compaction_in_words(compacted: &ConversationCompacted) -> String {
    let results = compacted.results.filter(|count| *count > 0).map(|count| counted(count, "result"));
    let items = compacted.items.filter(|count| *count > 0).map(|count| counted(count, "older item"));
    let dropped: Vec<_> = results.into_iter().chain(items).collect();
    match dropped.is_empty() {
        true => "the conversation was compacted, so that it fits into the model's context".to_owned(),
        false => format!(
            "{} dropped{}, so that the conversation fits into the model's context",
            dropped.join(" and "),
            if compacted.is_summarized { " and summarized" } else { "" }
        ),
    }
}

/// Shortens a text to one line of limited length.
fn shorten(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), MAX_DETAIL_CHARS)
}

#[cfg(test)]
mod tests {
    use nexus::turn::{
        Effects, MessageEnded, MessageVoided, TextDelta, ThinkingDelta, ToolCallArguments, ToolCallStarted,
        ToolOrigin, Unrecognized,
    };

    use super::*;

    fn print(events: Vec<TurnEvent>) -> String {
        let mut printer = TurnPrinter::new(Vec::new());
        for (sequence, event) in events.into_iter().enumerate() {
            printer.accept(EventEnvelope::new(sequence as u64, Duration::ZERO, event));
        }
        String::from_utf8(printer.out).unwrap()
    }

    #[test]
    fn text_comes_as_it_is_and_notes_get_lines_of_their_own() {
        let shown = print(vec![
            TextDelta::new("m".into(), "Hel").into(),
            TextDelta::new("m".into(), "lo").into(),
            ToolCallStarted::new("c".into(), "shell", ToolOrigin::Harness, Effects::Wrote).into(),
            ToolCallArguments::new("c".into(), serde_json::json!({ "command": "ls\n-l" })).into(),
            TextDelta::new("n".into(), "Done").into(),
        ]);
        assert_eq!(shown, "Hello\n* shell\n  ls -l\nDone");
    }

    #[test]
    fn thinking_and_text_do_not_run_together() {
        let shown = print(vec![
            ThinkingDelta::new("m".into(), "hm").into(),
            TextDelta::new("m".into(), "yes").into(),
        ]);
        assert_eq!(shown, "hm\nyes");
    }

    #[test]
    fn a_retried_message_is_not_shown_again_as_far_as_it_repeats() {
        let text = |text: &str| TextDelta::new("m".into(), text).into();
        let withdrawn = || MessageVoided::new("m".into(), VoidCause::Retry).into();
        let torn = [text("Half of "), text("an ans"), withdrawn()];
        let mut events: Vec<TurnEvent> = torn.iter().cloned().cycle().take(9).collect();
        events.extend([text("Half of an"), text(" answer is whole.")]);
        assert_eq!(
            print(events),
            "Half of an ans\n< the message above is withdrawn\nHalf of an answer is whole."
        );
        let mut events: Vec<TurnEvent> = torn.to_vec();
        events.extend([text("Hal"), withdrawn(), text("No.")]);
        assert_eq!(print(events), "Half of an ans\n< the message above is withdrawn\nNo.");
        for (again, shown) in [("Half of an ans", ""), ("Half", "< the message above is withdrawn\nHalf\n")] {
            let mut events: Vec<TurnEvent> = torn.to_vec();
            events.extend([text(again), MessageEnded::new("m".into(), again).into()]);
            assert_eq!(print(events), format!("Half of an ans\n{shown}"));
        }
    }

    #[test]
    fn a_message_that_a_record_does_not_have_is_withdrawn_at_once() {
        let shown = print(vec![
            TextDelta::new("m".into(), "Guess").into(),
            MessageVoided::new("m".into(), VoidCause::NotInRecord).into(),
            TextDelta::new("n".into(), "Guess again").into(),
        ]);
        assert_eq!(shown, "Guess\n< the message above is withdrawn\nGuess again");
    }

    #[test]
    fn what_is_not_understood_is_shown_once() {
        let unknown = |name: &str| Unrecognized::new(Some(name.to_owned()), Value::Null);
        let shown = print(vec![
            unknown("tool_call_v2").into(),
            unknown("tool_call_v2").into(),
            unknown("delta").harmless().into(),
        ]);
        let expected = "? not understood: tool_call_v2; the changes of the turn are not known for certain\n? \
                        not understood: delta\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn no_escape_code_of_the_model_reaches_the_terminal() {
        assert_eq!(print(vec![TextDelta::new("m".into(), "a\u{1b}[2Jb\u{9b}c").into()]), "a[2Jbc");
    }
}
