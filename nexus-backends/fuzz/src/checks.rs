//! Rules that hold at the end of every turn, with any behaviour of the server.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error as _,
};

use nexus_core::{
    ErrorKind, EventEnvelope, Limit, Recorder, ToolCallStatus, TurnError, TurnEvent, TurnResult,
    turn::{Message, ToolCallRecord, ToolOrigin},
};
use serde_json::Value;

use crate::{
    script::{KEY, Kind, Script},
    stage::{DEADLINE, MODEL_CALLS, Outcome, RETRIES},
    tools::{self, TOOL_COUNT},
};

/// Maximum number of requests of a turn. Each model call may be repeated, and once more without reasoning that the server
/// cannot read. Once in a turn each are a repetition for every tool that the server rejects, and with another credential.
const MAX_REQUESTS: usize = MODEL_CALLS as usize * (1 + RETRIES as usize + 1) + TOOL_COUNT + 1;

/// Beginning of the warning that a stream may cause.
const REPEATING: &str = "the vendor stopped the model because it repeats itself";

/// Checks a turn.
///
/// # Panics
///
/// A panic is a finding.
pub fn check(script: &Script, outcome: &Outcome) {
    let Outcome { result, events, requests, elapsed } = outcome;
    assert!(requests.len() <= MAX_REQUESTS, "{} requests", requests.len());
    let is_out_of_time = *elapsed >= DEADLINE;
    match result {
        Ok(result) => check_result(script, result),
        Err(error) => check_error(script, error, is_out_of_time),
    }
    check_events(script, events);
    check_record(script, outcome);
    for request in requests {
        check_request(script, request);
    }
}

fn check_result(script: &Script, result: &TurnResult) {
    let hands_in = |call: &ToolCallRecord| call.name == "submit" && call.status == ToolCallStatus::Succeeded;
    let is_handed_in = result.tool_calls.iter().any(hands_in);
    assert!(is_handed_in || !result.text.is_empty(), "a turn went well without a word");
    for call in &result.tool_calls {
        assert_ne!(call.status, ToolCallStatus::Unfinished, "a turn went well with an open call: {call:?}");
    }
    if script.ask.schema {
        let output = result.output.as_ref().expect("an answer of the shape asked for");
        tools::schema().check(output).expect("the output has the shape asked for");
    }
    assert_eq!(result.resume.is_some(), script.ask.keep, "a way to go on, if that was asked for");
    check_ledger(&result.tool_calls);
}

fn check_error(script: &Script, error: &TurnError, is_out_of_time: bool) {
    let kind = error.kind();
    let is_cut_short = matches!(kind, ErrorKind::Cancelled | ErrorKind::LimitReached(Limit::Deadline));
    assert!(is_out_of_time || kind != ErrorKind::LimitReached(Limit::Deadline), "the deadline came early");
    assert!(script.ask.cancel_after.is_some() || kind != ErrorKind::Cancelled, "nobody cancelled");
    for call in &error.partial().tool_calls {
        let is_open = call.status == ToolCallStatus::Unfinished;
        assert!(is_cut_short || !is_open, "{kind:?} with an open call: {call:?}");
    }
    check_ledger(&error.partial().tool_calls);

    let mut words = vec![error.to_string(), error.message().unwrap_or_default().to_owned()];
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push(error.to_string());
        cause = error.source();
    }
    for words in words {
        no_key(script, &words);
    }
}

/// Checks that each call of the caller's tools has a unique id.
fn check_ledger(calls: &[ToolCallRecord]) {
    let mut seen = BTreeSet::new();
    for call in calls.iter().filter(|call| call.origin == ToolOrigin::Caller) {
        assert!(seen.insert(&call.call), "two calls of one id: {call:?}");
    }
}

fn check_events(script: &Script, events: &[EventEnvelope]) {
    let mut over = BTreeSet::new();
    let mut open = BTreeMap::new();
    for (index, envelope) in events.iter().enumerate() {
        assert_eq!(envelope.sequence, index as u64, "a gap");
        let event = &envelope.event;
        assert_eq!(matches!(event, TurnEvent::Started(_)), index == 0, "a turn starts once, and first");
        let delta = match event {
            TurnEvent::TextDelta(delta) => Some(&delta.message),
            TurnEvent::ThinkingDelta(delta) => Some(&delta.message),
            _ => None,
        };
        assert!(
            delta.is_none_or(|message| !over.contains(message)),
            "a delta of a message that is over: {event:?}"
        );
        match event {
            TurnEvent::MessageEnded(end) => {
                assert!(over.insert(end.message.clone()), "a message ended twice: {end:?}");
            }
            TurnEvent::MessageVoided(voided) => {
                over.insert(voided.message.clone());
            }
            TurnEvent::ToolCallStarted(call) => *open.entry(call.call.clone()).or_insert(0) += 1,
            TurnEvent::ToolCallFinished(call) => {
                let count = open.get_mut(&call.call).expect("a call that ends has begun");
                *count -= 1;
                assert!(*count >= 0, "a call ended twice: {call:?}");
            }
            TurnEvent::Retrying(retrying) => no_key(script, &retrying.reason),
            // This warning quotes the stream, like the model's text, so it may contain the credential.
            TurnEvent::Warning(warning) if !warning.text.starts_with(REPEATING) => {
                no_key(script, &warning.text)
            }
            _ => {}
        }
    }
}

fn no_key(script: &Script, words: &str) {
    let is_ours = script.ask.key || script.ask.kind != Kind::Responses;
    assert!(!is_ours || !words.contains(KEY), "the credential is told: {words}");
}

/// Checks that the result equals the events, and contains no voided message.
fn check_record(script: &Script, outcome: &Outcome) {
    let (messages, calls, text) = match &outcome.result {
        Ok(result) => (&result.messages, &result.tool_calls, Some(&result.text)),
        Err(error) => (&error.partial().messages, &error.partial().tool_calls, None),
    };
    for envelope in &outcome.events {
        if let TurnEvent::MessageVoided(voided) = &envelope.event {
            assert!(
                messages.iter().all(|message| message.id != voided.message),
                "{voided:?} is in the record"
            );
        }
    }
    let is_seen_whole = script.ask.cancel_after.is_none();
    if is_seen_whole {
        let mut recorder = Recorder::new();
        for envelope in &outcome.events {
            recorder.observe(&envelope.event);
        }
        assert_eq!(
            recorder.messages(),
            messages.as_slice(),
            "the events tell other messages than the record"
        );
        assert_eq!(recorder.tool_calls(), calls.as_slice(), "the events tell other calls than the record");
    }
    let last = messages.iter().rev().find(|message| message.parent.is_none());
    if let Some(text) = text {
        assert_eq!(last.map(|message: &Message| &message.text), Some(text), "the answer is the last message");
    }
}

/// Checks that a request is valid, and has one output for each call.
fn check_request(script: &Script, request: &[u8]) {
    let request: Value = serde_json::from_slice(request).expect("a request is JSON");
    let input = request["input"].as_array().expect("a request has its input");
    // A server that sent outputs as items of its own gets them back, in addition to ours.
    let is_odd = script.replies.iter().any(|reply| contains(&reply.body, b"_call_output"));
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for item in input {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call") => {
                assert!(seen.insert(id), "two calls of the id {id:?} in {request}");
                *open.entry(id).or_insert(0) += 1;
            }
            Some("custom_tool_call") if script.ask.kind != Kind::Grok => *open.entry(id).or_insert(0) += 1,
            Some("function_call_output" | "custom_tool_call_output") if !is_odd => {
                let count = open.get_mut(id).filter(|count| **count > 0);
                *count.unwrap_or_else(|| panic!("an output of no call: {item} in {request}")) -= 1;
            }
            _ => {}
        }
    }
    if !is_odd {
        assert!(open.values().all(|count| *count == 0), "a call without its output: {open:?} in {request}");
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
