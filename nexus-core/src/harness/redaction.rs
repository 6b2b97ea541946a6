//! Removes the secrets of a turn from its output: events, result, error and spans. No other module does.

use serde_json::Value;

use super::Failure;
use crate::{
    FinishReason, ProcessReport, Provenance, ResumeHandle, TurnEvent,
    id::{CallId, MessageId},
    redact::{Redactor, Secrets, replace_in},
    tool::ToolContent,
    turn::{TextDelta, ThinkingDelta},
};

/// Removes the secrets of a turn from its output.
///
/// From the model's text, call arguments and call answers it removes only the known secrets. From a vendor's messages it also
/// removes text that looks like a token.
///
/// A secret may be split over several deltas. The end of a delta that may begin a secret is withheld until the next delta or
/// the end of the message. The withheld text is shorter than the secret, and usually empty or one letter.
#[derive(Default)]
pub(super) struct Redaction {
    redactor: Redactor,
    /// Copies of the redactor's secrets, their number, and the length of the shortest identifying part.
    secrets: Secrets,
    count: usize,
    shortest: usize,
    held: Vec<WithheldText>,
}

/// End of a delta that may begin a secret.
struct WithheldText {
    message: MessageId,
    parent: Option<CallId>,
    is_thinking: bool,
    text: String,
}

/// Returns the replacement of a text; `None` if it may be shown.
type Other<'a> = dyn Fn(&str) -> Option<String> + 'a;

impl Redaction {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, ..Self::default() }
    }

    /// Copies new secrets from the redactor.
    #[inline]
    fn refresh(&mut self) {
        if let Some((count, secrets)) = self.redactor.more_than(self.count) {
            (self.count, self.shortest, self.secrets) = (count, secrets.shortest(), secrets);
        }
    }

    /// Removes the secrets from an event. Returns false if nothing of the event can be shown yet.
    #[inline(always)]
    pub(super) fn apply(&mut self, event: &mut TurnEvent) -> bool {
        self.refresh();
        match event {
            TurnEvent::TextDelta(TextDelta { message, parent, text }) => {
                self.delta(message, parent, false, text)
            }
            TurnEvent::ThinkingDelta(ThinkingDelta { message, parent, text }) => {
                self.delta(message, parent, true, text)
            }
            _ => {
                self.event(event);
                true
            }
        }
    }

    #[inline(always)]
    fn delta(
        &mut self,
        message: &mut MessageId,
        parent: &mut Option<CallId>,
        is_thinking: bool,
        text: &mut String,
    ) -> bool {
        self.ids(message, parent);
        // Fast path for most deltas: no secret is known, or no part of this text can belong to one.
        if self.count == 0 || (self.held.is_empty() && !self.secrets.may_be_in(text.as_bytes())) {
            return true;
        }
        self.piece(message, parent, is_thinking, text)
    }

    #[cold]
    fn piece(
        &mut self,
        message: &MessageId,
        parent: &Option<CallId>,
        is_thinking: bool,
        text: &mut String,
    ) -> bool {
        let is_its = |held: &WithheldText| held.message == *message && held.is_thinking == is_thinking;
        // A message has at most one withheld text per kind, so `swap_remove` cannot reorder its texts.
        if let Some(index) = self.held.iter().position(is_its) {
            text.insert_str(0, &self.held.swap_remove(index).text);
        } else if text.is_empty() {
            return true;
        }
        // `open_end` counts bytes. Move the split down to a character boundary, because both parts are UTF-8
        // strings.
        let open = text.floor_char_boundary(self.secrets.open_end(text.as_bytes()));
        let end = text.split_off(open);
        if !end.is_empty() {
            let (message, parent) = (message.clone(), parent.clone());
            self.held.push(WithheldText { message, parent, is_thinking, text: end });
        }
        // Redact only the part in front of the split. The withheld end is checked together with the next
        // delta.
        if let Some(clean) = self.redactor.without_secrets(text) {
            *text = clean;
        }
        !text.is_empty()
    }

    /// Returns true if any text is withheld.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the withheld text that must precede `event`: that of the message which the event ends. The
    /// withheld text of a voided message is never shown.
    pub(super) fn before(&mut self, event: &TurnEvent) -> Vec<TurnEvent> {
        match event {
            TurnEvent::MessageEnded(ended) => self.release(Some(&ended.message)),
            TurnEvent::MessageVoided(voided) => {
                self.held.retain(|held| held.message != voided.message);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the withheld text of `message`, or of all messages, because no more text will follow.
    pub(super) fn release(&mut self, message: Option<&MessageId>) -> Vec<TurnEvent> {
        let is_its = |held: &mut WithheldText| message.is_none_or(|message| held.message == *message);
        let released =
            self.held.extract_if(.., is_its).map(|WithheldText { message, parent, is_thinking, text }| {
                // A text that contains most of a secret is redacted like the whole secret.
                let text = self.redactor.without_secrets(&text).unwrap_or(text);
                match is_thinking {
                    true => ThinkingDelta::new(message, text).with_parent(parent).into(),
                    false => TextDelta::new(message, text).with_parent(parent).into(),
                }
            });
        released.collect()
    }

    #[inline]
    fn ids(&self, message: &mut MessageId, parent: &mut Option<CallId>) {
        // A name shorter than the shortest secret cannot contain one.
        let is_short = |name: &str| name.len() < self.shortest;
        if self.count == 0
            || is_short(message.as_str()) && parent.as_ref().is_none_or(|call| is_short(call.as_str()))
        {
            return;
        }
        let given = |text: &str| self.given(text);
        id(message, &given);
        parent.iter_mut().for_each(|call| id(call, &given));
    }

    /// Returns `text` without the known secrets. Returns `None` if it contains none.
    #[inline]
    fn given(&self, text: &str) -> Option<String> {
        if self.count == 0 || text.len() < self.shortest { None } else { self.redactor.without_secrets(text) }
    }

    fn event(&self, event: &mut TurnEvent) {
        let given: &Other<'_> = &|text| self.given(text);
        let vendors: &Other<'_> = &|text| self.redactor.redacted(text);
        match event {
            TurnEvent::Started(started) => {
                started.model.iter_mut().for_each(|model| id(model, given));
                started.version.iter_mut().for_each(|version| words(version, given));
            }
            TurnEvent::ToolCallStarted(started) => {
                id(&mut started.call, given);
                started.parent.iter_mut().for_each(|call| id(call, given));
                words(&mut started.name, given);
            }
            TurnEvent::ToolCallArguments(arguments) => {
                id(&mut arguments.call, given);
                replace_in(&mut arguments.arguments, given);
            }
            TurnEvent::ToolCallFinished(finished) => {
                id(&mut finished.call, given);
                for content in &mut finished.output {
                    match content {
                        ToolContent::Text { text } => words(text, given),
                        ToolContent::Json { value } => replace_in(value, given),
                        ToolContent::Image { media_type, data } => {
                            words(media_type, given);
                            words(data, given);
                        }
                    }
                }
            }
            TurnEvent::InputReceived(input) => words(&mut input.text, given),
            TurnEvent::MessageEnded(ended) => {
                self.ids(&mut ended.message, &mut ended.parent);
                words(&mut ended.text, given);
                ended.finish.iter_mut().for_each(|finish| self.finish(finish));
            }
            TurnEvent::MessageVoided(voided) => id(&mut voided.message, given),
            TurnEvent::RateLimit(limit) => limit.window.iter_mut().for_each(|window| words(window, vendors)),
            TurnEvent::Retrying(retrying) => words(&mut retrying.reason, vendors),
            TurnEvent::Fallback(fallback) => words(&mut fallback.skipped.reason, vendors),
            TurnEvent::Waiting(waiting) => {
                waiting.held.iter_mut().for_each(|held| words(&mut held.reason, vendors));
            }
            TurnEvent::QuestionCompleted(completed) => words(&mut completed.question, vendors),
            TurnEvent::Warning(warning) => words(&mut warning.text, vendors),
            TurnEvent::Unrecognized(unknown) => {
                unknown.name.iter_mut().for_each(|name| words(name, vendors));
                replace_in(&mut unknown.raw, vendors);
            }
            TurnEvent::Repaired(repaired) => words(&mut repaired.raw, vendors),
            // `delta` handles deltas. The other events contain no text of a vendor or a model.
            TurnEvent::Queued(_)
            | TurnEvent::Compacted(_)
            | TurnEvent::ContextUsage(_)
            | TurnEvent::TextDelta(_)
            | TurnEvent::ThinkingDelta(_) => {}
        }
    }

    /// Removes secrets from a name that a vendor sent.
    pub(super) fn name(&self, name: &str) -> String {
        self.redactor.without_secrets(name).unwrap_or_else(|| name.to_owned())
    }

    pub(super) fn finish(&self, finish: &mut FinishReason) {
        if let FinishReason::Other(reason) = finish {
            words(reason, &|text| self.redactor.redacted(text));
        }
    }

    pub(super) fn provenance(&mut self, provenance: &mut Provenance) {
        self.refresh();
        let given: &Other<'_> = &|text| self.given(text);
        provenance.model.iter_mut().for_each(|model| id(model, given));
        provenance.version.iter_mut().for_each(|version| words(version, given));
    }

    pub(super) fn value(&self, value: &mut Value) {
        replace_in(value, &|text| self.redactor.without_secrets(text));
    }

    pub(super) fn resume(&self, resume: &mut ResumeHandle) {
        if let Some(clean) = resume.without_secrets(0, &self.redactor) {
            *resume = clean;
        }
    }

    pub(super) fn process(&self, process: &mut ProcessReport) {
        let vendors: &Other<'_> = &|text| self.redactor.redacted(text);
        words(&mut process.stderr_tail, vendors);
        process.survivors.iter_mut().for_each(|survivor| words(&mut survivor.name, vendors));
    }

    pub(super) fn failure(&self, failure: &mut Failure) {
        failure.message.iter_mut().for_each(|message| words(message, &|text| self.redactor.redacted(text)));
        let Some(source) = &failure.source else { return };
        let mut causes = source.to_string();
        let mut cause = source.source();
        while let Some(error) = cause {
            causes = format!("{causes}: {error}");
            cause = error.source();
        }
        // The text of a cause cannot be changed, so a new cause with the redacted text replaces it.
        if let Some(clean) = self.redactor.redacted(&causes) {
            failure.source = Some(clean.into());
        }
    }
}

/// Prints only the amount of withheld text.
impl std::fmt::Debug for Redaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redaction").field("held", &self.held.len()).finish_non_exhaustive()
    }
}

fn words(text: &mut String, other: &Other<'_>) {
    if let Some(other) = other(text) {
        *text = other;
    }
}

fn id<T: AsRef<str> + From<String>>(id: &mut T, other: &Other<'_>) {
    if let Some(other) = other(id.as_ref()) {
        *id = other.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::{MessageEnded, MessageVoided, ToolCallArguments, VoidCause, Warning};

    const SECRET: &str = "secret-0123456789-0123456789-0123456789";

    fn text(message: &str, text: &str) -> TurnEvent {
        TextDelta::new(message.into(), text).into()
    }

    /// The texts that are shown of these events, by message, and everything that was shown.
    fn shown(events: Vec<TurnEvent>) -> (Vec<(String, String)>, String) {
        let mut redaction = Redaction::new(Redactor::new([SECRET]));
        let mut shown = Vec::new();
        for mut event in events {
            shown.extend(redaction.before(&event));
            if redaction.apply(&mut event) {
                shown.push(event);
            }
        }
        shown.extend(redaction.release(None));
        let mut texts: Vec<(String, String)> = Vec::new();
        for event in &shown {
            let (TurnEvent::TextDelta(TextDelta { message, text, .. })
            | TurnEvent::ThinkingDelta(ThinkingDelta { message, text, .. })) = event
            else {
                continue;
            };
            match texts.iter_mut().find(|(known, _)| known == message.as_str()) {
                Some((_, known)) => known.push_str(text),
                None => texts.push((message.to_string(), text.clone())),
            }
        }
        (texts, format!("{shown:?}"))
    }

    #[test]
    fn a_secret_is_taken_out_however_its_text_is_cut() {
        let whole = format!("ä so secre {SECRET}{SECRET} and ä {SECRET}");
        for size in 1..whole.len() {
            let mut pieces = vec![String::new()];
            for letter in whole.chars() {
                if pieces.last().is_some_and(|last| last.len() >= size) {
                    pieces.push(String::new());
                }
                pieces.last_mut().unwrap().push(letter);
            }
            let (texts, all) = shown(pieces.iter().map(|piece| text("m", piece)).collect());
            assert!(!all.contains(SECRET));
            let expected = "ä so secre [redacted][redacted] and ä [redacted]";
            assert_eq!(texts, [("m".to_owned(), expected.to_owned())], "pieces of {size}");
        }
    }

    #[test]
    fn only_what_may_begin_a_secret_is_held_back_and_no_longer_than_that() {
        let mut redaction = Redaction::new(Redactor::new([SECRET]));
        let mut piece = |piece: &str| {
            let mut event = text("m", piece);
            match (redaction.apply(&mut event), event) {
                (true, TurnEvent::TextDelta(delta)) => delta.text,
                _ => String::new(),
            }
        };
        for (given, passed) in [
            ("it is so", "it is so"),
            ("it is", "it i"),
            (" so", "s so"),
            ("it is secr", "it is "),
            ("acy", "secracy"),
            ("", ""),
            ("secret-", ""),
            ("!", "secret-!"),
        ] {
            assert_eq!(piece(given), passed, "{given}");
        }
    }

    #[test]
    fn messages_and_thoughts_are_told_apart() {
        let (first, second) = SECRET.split_at(9);
        let thought = TurnEvent::from(ThinkingDelta::new("b".into(), first));
        let (texts, all) = shown(vec![text("a", first), thought, text("a", second), text("b", second)]);
        assert!(!all.contains(SECRET), "{all}");
        let texts: Vec<_> = texts.iter().map(|(message, text)| (message.as_str(), text.as_str())).collect();
        // What comes of two texts is no secret of one.
        assert_eq!(texts, [("a", "[redacted]"), ("b", &*format!("{second}{first}"))]);
    }

    #[test]
    fn what_is_held_is_shown_when_its_message_ends_and_dropped_when_it_is_taken_back() {
        let ended = MessageEnded::new("a".into(), "secret-").into();
        let voided = MessageVoided::new("b".into(), VoidCause::Retry).into();
        let (texts, _) = shown(vec![text("a", "secret-"), text("b", "secret-"), ended, voided]);
        assert_eq!(texts, [("a".to_owned(), "secret-".to_owned())]);
        // A secret of which most came is none that is shown.
        let (texts, _) = shown(vec![text("a", &SECRET[..SECRET.len() - 1])]);
        assert_eq!(texts, [("a".to_owned(), "[redacted]".to_owned())]);
    }

    #[test]
    fn no_field_of_an_event_shows_a_secret() {
        let arguments = serde_json::json!({ "a": [SECRET], SECRET: format!("x{SECRET}") });
        let (_, all) = shown(vec![
            ToolCallArguments::new(SECRET.into(), arguments).into(),
            Warning::new(format!("{SECRET}, sk-0123456789abcdef")).into(),
            MessageEnded::new(SECRET.into(), SECRET)
                .with_parent(Some(SECRET.into()))
                .with_finish(Some(FinishReason::Other(SECRET.into())))
                .into(),
        ]);
        assert!(!all.contains("0123456789"), "{all}");
        assert!(all.contains("[redacted]"));
    }

    #[test]
    fn a_cause_that_shows_a_secret_is_replaced() {
        let redaction = Redaction::new(Redactor::new([SECRET]));
        let mut failure = Failure::new(crate::ErrorKind::Transport, SECRET)
            .with_source(std::io::Error::other(format!("no way to {SECRET}")));
        redaction.failure(&mut failure);
        let shown = format!("{failure:?}");
        assert!(shown.contains("no way to [redacted]") && !shown.contains(SECRET), "{shown}");
    }
}
