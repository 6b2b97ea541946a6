//! Builds the record of a turn from its events.

use std::collections::HashMap;

use crate::{
    error::{Handover, Partial},
    id::{CallId, MessageId},
    turn::{
        Cost, Effects, FinishReason, Message, MessageEnded, MessageVoided, Provenance, ResumeHandle,
        ToolCallRecord, ToolCallStatus, TurnEvent, TurnResult, Usage,
    },
};

/// Builds the record of a turn from its events, so that a result and a partial result agree with the events.
///
/// A backend passes it every event, including events that a slow sink never gets, and adds the data that events
/// do not have.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    messages: Vec<Message>,
    /// Index of each message in `messages`.
    message_places: HashMap<MessageId, usize>,
    tool_calls: Vec<ToolCallRecord>,
    /// Index of each call in `tool_calls`. If a name was used twice, the index of the newest call.
    call_places: HashMap<CallId, usize>,
    /// Effects that no tool call shows.
    effects: Effects,
    is_without_tools: bool,
    usage_by_message: Usage,
    usage_of_turn: Option<Usage>,
    /// Cost of the turn, if known.
    pub cost: Option<Cost>,
    /// Resume handle of the conversation.
    pub resume: Option<ResumeHandle>,
    /// Backend that runs the turn.
    pub provenance: Option<Provenance>,
}

impl Recorder {
    /// Creates an empty record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if deltas of the message were shown and do not add up to the finished text.
    pub(super) fn differs(&self, ended: &MessageEnded) -> bool {
        let newest = self.messages.last().filter(|message| message.id == ended.message);
        let known = || self.messages.get(*self.message_places.get(&ended.message)?);
        // A complete message has the text of its earlier end and not that of its deltas, so it is not
        // compared.
        let shown = newest.or_else(known).filter(|message| !message.complete);
        shown.is_some_and(|message| !message.text.is_empty() && message.text != ended.text)
    }

    /// States that the turn has no tools of any kind, so that unknown events count as harmless.
    #[must_use]
    pub fn without_tools(mut self) -> Self {
        self.is_without_tools = true;
        self
    }

    /// Adds an event to the record.
    pub fn observe(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::TextDelta(delta) => {
                self.message(&delta.message, delta.parent.as_ref()).text.push_str(&delta.text);
            }
            TurnEvent::ThinkingDelta(delta) => {
                self.message(&delta.message, delta.parent.as_ref()).thinking.push_str(&delta.text);
            }
            TurnEvent::MessageEnded(ended) => {
                let message = self.message(&ended.message, ended.parent.as_ref());
                // If the finished text differs from its deltas, it counts. `TurnLog::event` then warns.
                message.text.clone_from(&ended.text);
                message.complete = true;
                if let Some(usage) = &ended.usage {
                    self.usage_by_message = self.usage_by_message.plus(usage);
                }
            }
            TurnEvent::MessageVoided(MessageVoided { message, .. }) => {
                self.void(message);
            }
            TurnEvent::ToolCallStarted(started) => {
                // A vendor may use an id twice. Later events then belong to the newest call with this id.
                self.call_places.insert(started.call.clone(), self.tool_calls.len());
                self.tool_calls.push(ToolCallRecord {
                    call: started.call.clone(),
                    parent: started.parent.clone(),
                    name: started.name.clone(),
                    origin: started.origin,
                    arguments: None,
                    status: ToolCallStatus::Unfinished,
                    output: Vec::new(),
                    effects: started.effects,
                    is_undone: false,
                });
            }
            TurnEvent::ToolCallArguments(arguments) => {
                if let Some(record) = self.call(&arguments.call) {
                    record.arguments = Some(arguments.arguments.clone());
                }
            }
            TurnEvent::ToolCallFinished(finished) => {
                if let Some(record) = self.call(&finished.call) {
                    record.status = finished.status;
                    record.output.clone_from(&finished.output);
                    if finished.status == ToolCallStatus::Denied {
                        // The vendor announces effects before the decision. A denied call had none.
                        record.effects = Effects::None;
                    }
                }
            }
            // The host restored the changes of all earlier backends.
            TurnEvent::Fallback(fallback) if fallback.skipped.handover == Handover::Restored => {
                self.tool_calls.iter_mut().for_each(|call| call.is_undone = true);
                self.effects = Effects::None;
            }
            // An unknown event may have been a tool call.
            TurnEvent::Unrecognized(unknown) if !unknown.is_harmless && !self.is_without_tools => {
                self.add_effects(Effects::Unknown);
            }
            _ => {}
        }
    }

    /// Sets the usage of the whole turn as the vendor reports it. It replaces the sum over the messages.
    pub fn set_usage(&mut self, usage: Usage) {
        self.usage_of_turn = Some(usage);
    }

    /// Adds the usage of a model call that no message shows.
    pub fn add_usage(&mut self, usage: &Usage) {
        self.usage_by_message = self.usage_by_message.plus(usage);
    }

    /// Adds effects that no tool call shows.
    pub fn add_effects(&mut self, effects: Effects) {
        self.effects = self.effects.and(effects);
    }

    /// Returns the tokens used so far.
    pub fn usage(&self) -> Usage {
        // The vendor's total may include model calls that no message shows.
        self.usage_of_turn.unwrap_or(self.usage_by_message)
    }

    /// Returns the possible effects of the turn so far. An unknown event may have any effect. A denied call had none,
    /// even if its first event announced some. Reverted changes do not count.
    pub fn effects(&self) -> Effects {
        let standing = self.tool_calls.iter().filter(|call| !call.is_undone);
        standing.fold(self.effects, |effects, call| effects.and(call.effects))
    }

    /// Returns the messages so far, without voided ones.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the tool calls so far.
    pub fn tool_calls(&self) -> &[ToolCallRecord] {
        &self.tool_calls
    }

    /// Returns the last message of the turn's own agent.
    pub fn last_message(&self) -> Option<&Message> {
        self.messages.iter().rev().find(|message| message.parent.is_none())
    }

    /// Returns the record of a failed turn.
    pub fn into_partial(self) -> Partial {
        // Messages with a parent belong to sub-agents, whose text is not part of the turn's answer.
        let texts =
            self.messages.iter().filter(|message| message.parent.is_none() && !message.text.is_empty());
        let effects = self.effects();
        Partial {
            text: texts.map(|message| message.text.as_str()).collect::<Vec<_>>().join("\n\n"),
            usage: self.usage(),
            messages: self.messages,
            tool_calls: self.tool_calls,
            cost: self.cost,
            effects,
            resume: self.resume,
            provenance: self.provenance,
        }
    }

    /// Returns the record of a successful turn. Its text is that of the last message of the turn's own agent.
    pub fn into_result(self, finish: FinishReason, provenance: Provenance) -> TurnResult {
        let effects = self.effects();
        TurnResult {
            text: self.last_message().map(|message| message.text.clone()).unwrap_or_default(),
            output: None,
            usage: self.usage(),
            messages: self.messages,
            tool_calls: self.tool_calls,
            cost: self.cost,
            finish,
            effects,
            resume: self.resume,
            provenance,
        }
    }

    fn message(&mut self, id: &MessageId, parent: Option<&CallId>) -> &mut Message {
        // Most deltas belong to the newest message. Comparing its id first avoids a hash lookup for each
        // delta.
        let newest = self.messages.len().checked_sub(1);
        let is_newest = self.messages.last().is_some_and(|message| message.id == *id);
        let known = newest.filter(|_| is_newest).or_else(|| self.message_places.get(id).copied());
        let place = known.unwrap_or_else(|| {
            self.message_places.insert(id.clone(), self.messages.len());
            self.messages.push(Message::new(id.clone(), parent.cloned()));
            self.messages.len() - 1
        });
        &mut self.messages[place]
    }

    /// Removes a message. Later messages move up, so remove several messages from the newest to the oldest.
    fn void(&mut self, id: &MessageId) {
        let Some(place) = self.message_places.remove(id) else { return };
        self.messages.remove(place);
        for moved in self.messages.iter().skip(place) {
            if let Some(place) = self.message_places.get_mut(&moved.id) {
                *place -= 1;
            }
        }
    }

    fn call(&mut self, call: &CallId) -> Option<&mut ToolCallRecord> {
        let place = *self.call_places.get(call)?;
        self.tool_calls.get_mut(place)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::error::Skipped;
    use crate::turn::{
        Fallback, TextDelta, ToolCallFinished, ToolCallStarted, ToolOrigin, Unrecognized, VoidCause,
    };

    fn record(events: &[TurnEvent]) -> Recorder {
        let mut recorder = Recorder::new();
        for event in events {
            recorder.observe(event);
        }
        recorder
    }

    #[test]
    fn a_voided_message_is_gone() {
        let recorder = record(&[
            TextDelta::new("a".into(), "first").into(),
            MessageVoided::new("a".into(), VoidCause::Retry).into(),
            TextDelta::new("b".into(), "second").into(),
        ]);
        assert_eq!(recorder.into_partial().text, "second");
    }

    #[test]
    fn a_message_after_a_voided_one_goes_on() {
        let text = |message: &str, text: &str| TurnEvent::from(TextDelta::new(message.into(), text));
        let void = |message: &str| TurnEvent::from(MessageVoided::new(message.into(), VoidCause::Retry));
        let recorder = record(&[
            text("a", "A"),
            text("b", "B"),
            text("c", "C"),
            text("d", "D"),
            void("b"),
            text("c", "c"),
            void("a"),
            void("a"),
            text("d", "d"),
            text("b", "again"),
            text("c", "!"),
        ]);
        let texts: Vec<_> =
            recorder.messages().iter().map(|message| (message.id.as_str(), message.text.as_str())).collect();
        assert_eq!(texts, [("c", "Cc!"), ("d", "Dd"), ("b", "again")]);
    }

    #[test]
    fn a_name_that_is_used_twice_means_the_newest_call() {
        let start = |name: &str| {
            TurnEvent::from(ToolCallStarted::new("1".into(), name, ToolOrigin::Harness, Effects::None))
        };
        let end = ToolCallFinished::new("1".into(), ToolCallStatus::Succeeded, Vec::new());
        let recorder = record(&[start("first"), start("second"), end.into()]);
        let statuses: Vec<_> = recorder.tool_calls().iter().map(|call| call.status).collect();
        assert_eq!(statuses, [ToolCallStatus::Unfinished, ToolCallStatus::Succeeded]);
    }

    /// Searched one by one, so many names take minutes.
    #[test]
    fn a_turn_of_many_messages_and_calls_is_recorded_in_time() {
        const MANY: usize = 60_000;
        let started = Instant::now();
        let mut recorder = Recorder::new();
        for number in 0..MANY {
            let (message, call) = (format!("m{number}"), format!("c{number}"));
            recorder.observe(&TextDelta::new(message.into(), "word").into());
            let start = ToolCallStarted::new(call.into(), "tool", ToolOrigin::Harness, Effects::None);
            recorder.observe(&start.into());
        }
        for number in 0..MANY {
            let (message, call) = (format!("m{number}"), format!("c{number}"));
            recorder.observe(&MessageEnded::new(message.into(), "word").into());
            let end = ToolCallFinished::new(call.into(), ToolCallStatus::Succeeded, Vec::new());
            recorder.observe(&end.into());
        }
        for number in (1..MANY).rev() {
            recorder.observe(&MessageVoided::new(format!("m{number}").into(), VoidCause::Retry).into());
        }
        assert_eq!(recorder.messages().len(), 1);
        assert!(recorder.tool_calls().iter().all(|call| call.status == ToolCallStatus::Succeeded));
        assert!(started.elapsed() < Duration::from_secs(60), "took {:?}", started.elapsed());
    }

    #[test]
    fn the_record_wins_over_the_deltas() {
        let recorder = record(&[
            TextDelta::new("a".into(), "hal").into(),
            MessageEnded::new("a".into(), "half and whole").into(),
        ]);
        assert_eq!(recorder.last_message().unwrap().text, "half and whole");
    }

    #[test]
    fn a_sub_agent_never_gives_the_answer() {
        let recorder = record(&[
            MessageEnded::new("a".into(), "mine").into(),
            MessageEnded::new("b".into(), "its").with_parent(Some("call".into())).into(),
        ]);
        let result = recorder.into_result(FinishReason::Stop, Provenance::new("alpha".into()));
        assert_eq!(result.text, "mine");
        assert_eq!(result.messages.len(), 2);
    }

    #[test]
    fn a_call_that_was_denied_changed_nothing() {
        let denied = |origin| {
            record(&[
                ToolCallStarted::new("1".into(), "look", ToolOrigin::Caller, Effects::Read).into(),
                ToolCallStarted::new("2".into(), "save", origin, Effects::Wrote).into(),
                ToolCallFinished::new("2".into(), ToolCallStatus::Denied, Vec::new()).into(),
            ])
        };
        for origin in [ToolOrigin::Caller, ToolOrigin::Harness] {
            let recorder = denied(origin);
            assert_eq!(
                (recorder.effects(), recorder.tool_calls()[1].effects),
                (Effects::Read, Effects::None)
            );
            assert_eq!(recorder.into_partial().effects, Effects::Read);
        }
    }

    #[test]
    fn what_is_not_understood_may_have_been_a_call() {
        let unknown = || Unrecognized::new(None, serde_json::Value::Null);
        assert_eq!(record(&[unknown().into()]).effects(), Effects::Unknown);
        assert_eq!(record(&[unknown().harmless().into()]).effects(), Effects::None);
        let mut without = Recorder::new().without_tools();
        without.observe(&unknown().into());
        assert_eq!(without.effects(), Effects::None);
    }

    #[test]
    fn what_was_put_back_counts_no_more() {
        let start = |call: &str, effects| -> TurnEvent {
            ToolCallStarted::new(call.into(), "tool", ToolOrigin::Harness, effects).into()
        };
        let mut recorder = record(&[start("1", Effects::Wrote)]);
        recorder.add_effects(Effects::Unknown);
        let skipped = Skipped::new("alpha".into(), "gone");
        recorder.observe(&Fallback::new(skipped.clone(), "beta".into()).into());
        assert_eq!(recorder.effects(), Effects::Unknown, "nothing was put back");
        recorder.observe(&Fallback::new(skipped.with_handover(Handover::Restored), "gamma".into()).into());
        recorder.observe(&start("2", Effects::Read));
        assert_eq!(recorder.effects(), Effects::Read);
        let undone: Vec<_> = recorder.tool_calls().iter().map(|call| call.is_undone).collect();
        assert_eq!(undone, [true, false]);
    }

    #[test]
    fn effects_are_the_greatest_of_the_calls() {
        let start = |call: &str, effects| {
            ToolCallStarted::new(call.into(), "tool", ToolOrigin::Harness, effects).into()
        };
        let recorder = record(&[start("1", Effects::Wrote), start("2", Effects::Read)]);
        assert_eq!(recorder.effects(), Effects::Wrote);
    }
}
