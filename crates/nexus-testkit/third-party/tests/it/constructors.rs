//! Everything that a backend has to make can be made from outside.

use std::time::{Duration, SystemTime};

use nexus_core::{
    AppliedEffort, Availability, BackendId, CallId, Cost, CostSource, Effects, Effort, ErrorKind,
    EventEnvelope, FinishReason, Message, MessageId, Partial, ProcessExit, ProcessReport, Provenance,
    Recorder, Retry, Skipped, Survivor, ToolCallStatus, ToolContent, TurnError, TurnEvent, Usage, Usd,
    turn::{
        Fallback, MessageEnded, MessageVoided, Queued, RateLimitNotification, RateLimitStatus, Retrying,
        Started, TextDelta, ThinkingDelta, ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin,
        Unrecognized, VoidCause, Warning,
    },
};
use serde_json::json;

#[test]
fn every_event_can_be_made() {
    let id = BackendId::new("parrot");
    let (message, call) = (MessageId::new("m"), CallId::new("c"));
    let effort = AppliedEffort { requested: Effort::Max, applied: Effort::High };
    let skipped = Skipped::new(id.clone(), "asleep").with_kind(Some(ErrorKind::Overloaded)).with_until(None);
    let events: Vec<TurnEvent> = vec![
        Queued::new(id.clone(), 1).into(),
        Started::new(id.clone()).with_effort(Some(effort)).with_version(Some("1".into())).into(),
        TextDelta::new(message.clone(), "a").with_parent(Some(call.clone())).into(),
        ThinkingDelta::new(message.clone(), "b").into(),
        ToolCallStarted::new(call.clone(), "t", ToolOrigin::Harness, Effects::Read).with_parent(None).into(),
        ToolCallArguments::new(call.clone(), json!({})).into(),
        ToolCallFinished::new(call.clone(), ToolCallStatus::Succeeded, vec![ToolContent::text("c")]).into(),
        MessageEnded::new(message.clone(), "a")
            .with_usage(Some(Usage::new()))
            .with_finish(Some(FinishReason::Stop))
            .into(),
        MessageVoided::new(message.clone(), VoidCause::Retry).into(),
        RateLimitNotification::new(RateLimitStatus::Warning)
            .with_used_percent(Some(91.0))
            .with_resets_at(Some(SystemTime::now()))
            .into(),
        Retrying::new(2, "again")
            .with_delay(Some(Duration::from_secs(1)))
            .with_kind(Some(ErrorKind::Transport))
            .into(),
        Fallback::new(skipped, BackendId::new("owl")).into(),
        Warning::new("careful").into(),
        Unrecognized::new(Some("squawk".into()), json!({ "x": 1 })).truncated_from(70_000_000).into(),
    ];
    let mut recorder = Recorder::new();
    for (sequence, event) in (0..).zip(events) {
        recorder.observe(&event);
        let envelope = EventEnvelope::new(sequence, Duration::ZERO, event);
        let written = serde_json::to_string(&envelope).unwrap();
        assert_eq!(serde_json::from_str::<EventEnvelope>(&written).unwrap(), envelope);
    }
    recorder.cost = Some(Cost { usd: Usd(0.1), source: CostSource::Reported });
    let result = recorder.into_result(FinishReason::Stop, Provenance::new(id));
    // The squawk may have been a call that wrote.
    assert_eq!(result.effects, Effects::Unknown);
    assert_eq!(result.tool_calls.len(), 1);
}

#[test]
fn every_part_of_an_error_can_be_made() {
    let mut partial = Partial::default();
    partial.messages.push(Message::new(MessageId::new("m"), None));
    let report = ProcessReport::new(Some(ProcessExit::Signal(9)), "tail")
        .with_survivors(vec![Survivor::new(7, "owl")]);
    let error = TurnError::new(ErrorKind::Crashed, BackendId::new("parrot"))
        .with_retry(Retry::Now)
        .with_message("it fell off the perch")
        .with_partial(partial)
        .with_process(report)
        .with_skipped(Vec::new())
        .with_source(std::io::Error::other("gone"));
    assert_eq!(error.to_string(), "parrot ended without an outcome: it fell off the perch");
}

#[test]
fn every_availability_can_be_made() {
    let remedies = [
        Availability::NotInstalled { looked_in: Vec::new(), remedy: "buy one".into() },
        Availability::Unauthenticated { remedy: "introduce yourself".into() },
        Availability::Unusable { reason: "asleep".into() },
    ];
    assert!(remedies.iter().all(|availability| !availability.is_ready()));
}
