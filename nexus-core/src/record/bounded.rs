//! Prepares the texts of a turn for a file: removes secrets, cuts long texts, and limits values so that they
//! can be read back.

use std::{
    borrow::Cow,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use super::{Cut, MAX_HANDLE_BYTES, MAX_LINE_BYTES, MAX_TEXT_BYTES, RecordedBlock, RecordedRequest};
use crate::{
    error::{Partial, ProcessReport, Retry, Skipped, TurnErrorReport},
    redact::Redactor,
    tool::ToolContent,
    turn::{
        Cost, FinishReason, Message, Provenance, ResumeHandle, ToolCallRecord, TurnEvent, TurnResult, Usd,
    },
};

/// Texts up to this length, mostly names, are always stored completely.
const SHORT_BYTES: usize = 256;
/// Deepest nesting at which a JSON value is stored as one. The reader accepts 128 levels, including those of
/// the line.
const MAX_DEPTH: usize = 64;

/// Cuts made in one line, and its remaining bytes.
#[derive(Debug)]
pub(super) struct Bounded<'a> {
    redactor: &'a Redactor,
    part: Cow<'static, str>,
    left: usize,
    pub(super) cuts: Vec<Cut>,
}

impl<'a> Bounded<'a> {
    /// Creates the limits for a line about `part` of a record.
    pub(super) fn new(redactor: &'a Redactor, part: impl Into<Cow<'static, str>>) -> Self {
        Self { redactor, part: part.into(), left: MAX_LINE_BYTES, cuts: Vec::new() }
    }

    fn cut(&mut self, field: &str, bytes: usize) {
        let place = format!("{}: {field}", self.part);
        self.cuts.push(Cut { place, bytes: bytes as u64 });
    }

    fn text(&mut self, field: &str, text: &mut String) {
        // Redact before the cut, because a part of a secret may not be recognised.
        if let Some(clean) = self.redactor.without_secrets(text) {
            *text = clean;
        }
        // Short texts are stored even after the line is full, so that the names in it remain usable.
        let kept = text.floor_char_boundary(MAX_TEXT_BYTES.min(self.left.max(SHORT_BYTES)));
        if kept < text.len() {
            self.cut(field, text.len() - kept);
            text.truncate(kept);
        }
        self.left = self.left.saturating_sub(text.len());
    }

    fn texts<'t>(&mut self, field: &str, texts: impl IntoIterator<Item = &'t mut String>) {
        texts.into_iter().for_each(|text| self.text(field, text));
    }

    fn id<T: AsRef<str> + From<String>>(&mut self, field: &str, id: &mut T) {
        // Most ids are short and without secrets. Testing first avoids an allocation for each.
        let is_plain =
            id.as_ref().len() <= SHORT_BYTES && self.redactor.without_secrets(id.as_ref()).is_none();
        if !is_plain {
            let mut text = id.as_ref().to_owned();
            self.text(field, &mut text);
            *id = text.into();
        }
    }

    /// Replaces a value that is too large or too deep to read back by the beginning of its text.
    fn value(&mut self, field: &str, value: &mut Value) {
        if let Some(clean) = self.redactor.value_without_secrets(value) {
            *value = clean;
        }
        if let Value::String(text) = value {
            return self.text(field, text);
        }
        let depth = depth(value);
        let mut text = value.to_string();
        if depth > MAX_DEPTH || text.len() > MAX_TEXT_BYTES.min(self.left.max(SHORT_BYTES)) {
            // `text` reports a cut only if it shortens the value. Report here that its form changed.
            if depth > MAX_DEPTH && text.len() <= MAX_TEXT_BYTES {
                self.cut(&format!("{field}, nested {depth} levels and stored as text"), 0);
            }
            self.text(field, &mut text);
            *value = Value::String(text);
        } else {
            self.left = self.left.saturating_sub(text.len());
        }
    }

    fn contents(&mut self, field: &str, contents: &mut [ToolContent]) {
        for content in contents {
            match content {
                ToolContent::Text { text } => self.text(field, text),
                ToolContent::Json { value } => self.value(field, value),
                ToolContent::Image { media_type, data } => {
                    self.text(field, media_type);
                    if !data.is_empty() {
                        // A record is for reading and accounting, and base64 pictures would fill the line.
                        self.cut("picture", data.len());
                        data.clear();
                    }
                }
            }
        }
    }

    pub(super) fn request(&mut self, request: &mut RecordedRequest) {
        // Name every field, so that the compiler reports a new field without a bound.
        let RecordedRequest {
            prompt,
            system,
            model,
            effort: _,
            working_directory: _,
            extra_roots: _,
            environment,
            tool_access: _,
            tools,
            limits,
            output_schema,
            keeps_conversation: _,
            resumes,
            labels,
        } = request;
        for block in prompt {
            match block {
                RecordedBlock::Text { text } => self.text("prompt", text),
                RecordedBlock::Image { media_type, .. } => self.text("prompt", media_type),
                RecordedBlock::Unknown => {}
            }
        }
        self.texts("system", system);
        model.iter_mut().for_each(|model| self.id("model", model));
        self.texts("environment", environment);
        self.texts("tools", tools);
        // JSON cannot represent NaN and infinity: `serde_json` would write `null`.
        limits.cost = limits.cost.filter(is_number);
        output_schema.iter_mut().for_each(|schema| self.value("output schema", schema));
        resumes.iter_mut().for_each(|backend| self.id("resumes", backend));
        self.texts("labels", labels.values_mut());
    }

    pub(super) fn event(&mut self, event: &mut TurnEvent) {
        match event {
            TurnEvent::Queued(queued) => self.id("backend", &mut queued.backend),
            TurnEvent::Waiting(waiting) => {
                since_1970(&mut waiting.until);
                self.skipped(&mut waiting.held);
            }
            TurnEvent::Started(started) => {
                self.id("backend", &mut started.backend);
                started.model.iter_mut().for_each(|model| self.id("model", model));
                self.texts("version", &mut started.version);
            }
            TurnEvent::TextDelta(delta) => self.text("text", &mut delta.text),
            TurnEvent::ThinkingDelta(delta) => self.text("text", &mut delta.text),
            TurnEvent::ToolCallStarted(started) => {
                self.id("call", &mut started.call);
                started.parent.iter_mut().for_each(|call| self.id("parent", call));
                self.text("name", &mut started.name);
            }
            TurnEvent::ToolCallArguments(arguments) => {
                self.id("call", &mut arguments.call);
                self.value("arguments", &mut arguments.arguments);
            }
            TurnEvent::ToolCallFinished(finished) => {
                self.id("call", &mut finished.call);
                self.contents("output", &mut finished.output);
            }
            TurnEvent::InputReceived(input) => self.text("text", &mut input.text),
            TurnEvent::MessageEnded(ended) => {
                self.id("message", &mut ended.message);
                ended.parent.iter_mut().for_each(|call| self.id("parent", call));
                self.text("text", &mut ended.text);
                ended.finish.iter_mut().for_each(|finish| self.finish(finish));
            }
            TurnEvent::Compacted(_) | TurnEvent::ContextUsage(_) => {}
            TurnEvent::QuestionCompleted(completed) => self.text("question", &mut completed.question),
            TurnEvent::MessageVoided(voided) => self.id("message", &mut voided.message),
            TurnEvent::RateLimit(limit) => {
                self.texts("window", &mut limit.window);
                limit.used_percent = limit.used_percent.filter(|percent| percent.is_finite());
                limit.resets_at.iter_mut().for_each(since_1970);
            }
            TurnEvent::Retrying(retrying) => self.text("reason", &mut retrying.reason),
            TurnEvent::Fallback(fallback) => {
                self.skipped(std::slice::from_mut(&mut fallback.skipped));
                self.id("to", &mut fallback.to);
            }
            TurnEvent::Warning(warning) => self.text("text", &mut warning.text),
            TurnEvent::Unrecognized(unknown) => {
                self.texts("name", &mut unknown.name);
                self.value("raw", &mut unknown.raw);
            }
            TurnEvent::Repaired(repaired) => {
                self.text("raw", &mut repaired.raw);
                self.text("repairs", &mut repaired.repairs);
            }
        }
    }

    pub(super) fn result(&mut self, result: &mut TurnResult) {
        let TurnResult {
            text,
            output,
            messages,
            tool_calls,
            usage: _,
            cost,
            finish,
            effects: _,
            resume,
            provenance,
        } = result;
        // The order decides which fields get the remaining bytes of the line, so the answer comes first.
        self.text("text", text);
        output.iter_mut().for_each(|output| self.value("output", output));
        self.provenance(provenance);
        self.messages(messages);
        self.tool_calls(tool_calls);
        finite(cost);
        self.finish(finish);
        self.resume(resume);
    }

    pub(super) fn error(&mut self, error: &mut TurnErrorReport) {
        let TurnErrorReport { kind: _, backend, retry, message, partial, process, skipped, causes } = error;
        self.id("backend", backend);
        if let Retry::At(time) = retry {
            since_1970(time);
        }
        self.texts("message", message);
        self.texts("causes", causes);
        if let Some(ProcessReport { exit: _, stderr_tail, survivors }) = process {
            self.text("standard error", stderr_tail);
            self.texts("survivors", survivors.iter_mut().map(|survivor| &mut survivor.name));
        }
        self.skipped(skipped);
        let Partial { text, messages, tool_calls, usage: _, cost, effects: _, resume, provenance } = partial;
        self.text("text", text);
        provenance.iter_mut().for_each(|provenance| self.provenance(provenance));
        self.messages(messages);
        self.tool_calls(tool_calls);
        finite(cost);
        self.resume(resume);
    }

    fn messages(&mut self, messages: &mut [Message]) {
        for Message { id, parent, text, thinking, complete: _ } in messages {
            self.id("message", id);
            parent.iter_mut().for_each(|call| self.id("parent", call));
            self.text("messages", text);
            self.text("thinking", thinking);
        }
    }

    fn tool_calls(&mut self, calls: &mut [ToolCallRecord]) {
        for call in calls {
            self.id("call", &mut call.call);
            call.parent.iter_mut().for_each(|call| self.id("parent", call));
            self.text("tool", &mut call.name);
            call.arguments.iter_mut().for_each(|arguments| self.value("tool arguments", arguments));
            self.contents("tool output", &mut call.output);
        }
    }

    fn provenance(&mut self, provenance: &mut Provenance) {
        self.id("backend", &mut provenance.backend);
        provenance.model.iter_mut().for_each(|model| self.id("model", model));
        self.texts("version", &mut provenance.version);
        self.skipped(&mut provenance.skipped);
    }

    fn skipped(&mut self, skipped: &mut [Skipped]) {
        for Skipped { backend, kind: _, reason, until, handover: _ } in skipped {
            self.id("skipped", backend);
            self.text("skipped", reason);
            until.iter_mut().for_each(since_1970);
        }
    }

    fn finish(&mut self, finish: &mut FinishReason) {
        if let FinishReason::Other(word) = finish {
            self.text("finish", word);
        }
    }

    /// Stores a resume handle completely or not at all, because a part of it is useless.
    fn resume(&mut self, resume: &mut Option<ResumeHandle>) {
        let Some(handle) = resume else { return };
        let clean = handle.without_secrets(0, self.redactor);
        let stored = clean.as_ref().unwrap_or(handle);
        let items = serde_json::to_string(stored.items()).unwrap_or_default();
        // Measure the redacted handle, because this form is written.
        let bytes = stored.state().to_string().len() + items.len();
        if bytes > MAX_HANDLE_BYTES || depth(stored.state()) > MAX_DEPTH {
            self.cut("resume", bytes);
            *resume = None;
        } else if clean.is_some() {
            *resume = clean;
        }
    }
}

/// Drops a cost that JSON cannot represent, such as NaN.
fn finite(cost: &mut Option<Cost>) {
    *cost = cost.filter(|cost| is_number(&cost.usd));
}

fn is_number(usd: &Usd) -> bool {
    usd.0.is_finite()
}

/// Raises a time before 1970 to 1970, because it could not be written.
fn since_1970(time: &mut SystemTime) {
    *time = (*time).max(UNIX_EPOCH);
}

/// Returns the depth of a value, without recursion, because a hostile value may be very deep.
fn depth(value: &Value) -> usize {
    let (mut deepest, mut open) = (0, vec![(value, 1)]);
    while let Some((value, depth)) = open.pop() {
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth + 1))),
            _ => {}
        }
    }
    deepest
}
