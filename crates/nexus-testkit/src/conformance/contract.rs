//! Promises for the events and the outcome of every turn, independent of its task.
//!
//! No check is needed that no event follows the return: the turn borrows the sink.

use std::collections::BTreeMap;

use nexus_core::{
    CallId, Capabilities, CostReport, CostSource, Effects, ErrorKind, EventEnvelope, Message, MessageId,
    ToolCallRecord, ToolCallStatus, TurnEvent, TurnResult,
};

use super::{
    finding::{Finding, Verdict, ensure, same, same_text, short},
    trial::Observed,
};

/// Checks a turn against the contract of events and outcome.
pub(super) fn check(observed: &Observed, capabilities: &Capabilities) -> Verdict {
    secrecy(observed)?;
    order(&observed.events)?;
    let tool_calls = calls(&observed.events)?;
    let messages = messages(&observed.events, observed.is_whole)?;
    understanding(observed)?;
    honesty(observed, capabilities)?;
    match &observed.outcome {
        Ok(result) => outcome_of_result(observed, result, &messages, &tool_calls),
        Err(error) => {
            same("error names its backend", error.backend(), &observed.backend)?;
            ensure(error.kind() != ErrorKind::Exhausted, "error kind", || {
                "only a router is Exhausted".into()
            })?;
            if !observed.is_whole {
                return Ok(());
            }
            let partial = error.partial();
            same_text("partial text", &partial.text, &joined(&messages))?;
            same_tool_calls("partial tool calls", &partial.tool_calls, &tool_calls)?;
            effects("partial effects", partial.effects, &partial.tool_calls)
        }
    }
}

fn outcome_of_result(
    observed: &Observed,
    result: &TurnResult,
    messages: &[Message],
    tool_calls: &BTreeMap<CallId, Call>,
) -> Verdict {
    ensure(
        observed.events.iter().any(|envelope| matches!(envelope.event, TurnEvent::Started(_)))
            || !observed.is_whole,
        "started event",
        || "the turn ended well and was never started".into(),
    )?;
    same("provenance names the backend", &result.provenance.backend, &observed.backend)?;
    ensure(result.provenance.attempts >= 1, "provenance counts attempts", || "zero attempts".into())?;
    effects("effects are those of the tool calls", result.effects, &result.tool_calls)?;
    let last = result.messages.iter().rev().find(|message| message.parent.is_none());
    let last = last.map(|message| message.text.as_str()).unwrap_or_default();
    if result.output.is_none() {
        same_text("result text is the last message", &result.text, last)?;
    }
    if !observed.is_whole {
        return Ok(());
    }
    same_tool_calls("tool calls are what was seen", &result.tool_calls, tool_calls)?;
    let ids = |list: &[Message]| list.iter().map(|message| message.id.clone()).collect::<Vec<_>>();
    same("messages are what was seen", &ids(&result.messages), &ids(messages))?;
    for (kept, seen) in result.messages.iter().zip(messages) {
        same_text("messages are what was seen", &kept.text, &seen.text)?;
    }
    Ok(())
}

/// Checks the sequence, the times and the first event.
fn order(events: &[EventEnvelope]) -> Verdict {
    for (place, envelope) in (0_u64..).zip(events) {
        ensure(envelope.sequence == place, "sequence has no gaps", || {
            format!("event {place} has sequence {}", envelope.sequence)
        })?;
    }
    for pair in events.windows(2) {
        if let [before, after] = pair {
            ensure(before.elapsed <= after.elapsed, "time does not run backwards", || {
                format!("{:?} comes after {:?}", after.elapsed, before.elapsed)
            })?;
        }
    }
    // A turn may be queued or wait before it starts.
    let first = events
        .iter()
        .find(|envelope| !matches!(envelope.event, TurnEvent::Queued(_) | TurnEvent::Waiting(_)));
    match first.map(|envelope| &envelope.event) {
        None | Some(TurnEvent::Started(_)) => Ok(()),
        Some(other) => {
            Err(Finding::new("started comes first", format!("the first event is {}", short(other))))
        }
    }
}

struct Call {
    status: ToolCallStatus,
    has_arguments: bool,
}

/// Started, arguments, finished: each at most once and in this order.
fn calls(events: &[EventEnvelope]) -> Result<BTreeMap<CallId, Call>, Finding> {
    let mut calls = BTreeMap::<CallId, Call>::new();
    let wrong = |call: &CallId, what: &str| {
        Err(Finding::new("tool events keep their order", format!("{call}: {what}")))
    };
    for envelope in events {
        match &envelope.event {
            TurnEvent::ToolCallStarted(started) => {
                let fresh = Call { status: ToolCallStatus::Unfinished, has_arguments: false };
                if calls.insert(started.call.clone(), fresh).is_some() {
                    return wrong(&started.call, "started twice");
                }
            }
            TurnEvent::ToolCallArguments(arguments) => match calls.get_mut(&arguments.call) {
                None => return wrong(&arguments.call, "arguments before the start"),
                Some(call) if call.has_arguments => return wrong(&arguments.call, "arguments twice"),
                Some(call) if call.status != ToolCallStatus::Unfinished => {
                    return wrong(&arguments.call, "arguments after the end");
                }
                Some(call) => call.has_arguments = true,
            },
            TurnEvent::ToolCallFinished(finished) => match calls.get_mut(&finished.call) {
                None => return wrong(&finished.call, "finished before the start"),
                Some(call) if call.status != ToolCallStatus::Unfinished => {
                    return wrong(&finished.call, "finished twice");
                }
                Some(call) => call.status = finished.status,
            },
            _ => {}
        }
    }
    Ok(calls)
}

fn same_tool_calls(check: &'static str, kept: &[ToolCallRecord], seen: &BTreeMap<CallId, Call>) -> Verdict {
    let kept: BTreeMap<_, _> = kept.iter().map(|record| (record.call.clone(), record.status)).collect();
    let seen: BTreeMap<_, _> = seen.iter().map(|(id, call)| (id.clone(), call.status)).collect();
    same(check, &kept, &seen)
}

/// The messages that were not voided, rebuilt from the events.
fn messages(events: &[EventEnvelope], is_whole: bool) -> Result<Vec<Message>, Finding> {
    let mut messages = Vec::<Message>::new();
    let mut voided = Vec::<MessageId>::new();
    for envelope in events {
        match &envelope.event {
            TurnEvent::TextDelta(delta) => {
                let message = open(&mut messages, &voided, &delta.message, delta.parent.as_ref())?;
                message.text.push_str(&delta.text);
            }
            TurnEvent::ThinkingDelta(delta) => {
                open(&mut messages, &voided, &delta.message, delta.parent.as_ref())?;
            }
            TurnEvent::MessageEnded(ended) => {
                let message = open(&mut messages, &voided, &ended.message, ended.parent.as_ref())?;
                if is_whole && !message.text.is_empty() {
                    same_text("deltas add up to the message", &message.text, &ended.text)?;
                }
                message.text.clone_from(&ended.text);
                message.complete = true;
            }
            TurnEvent::MessageVoided(gone) => {
                ensure(!voided.contains(&gone.message), "a message is voided once", || {
                    gone.message.to_string()
                })?;
                messages.retain(|message| message.id != gone.message);
                voided.push(gone.message.clone());
            }
            _ => {}
        }
    }
    Ok(messages)
}

fn open<'a>(
    messages: &'a mut Vec<Message>,
    voided: &[MessageId],
    id: &MessageId,
    parent: Option<&CallId>,
) -> Result<&'a mut Message, Finding> {
    if voided.contains(id) {
        return Err(Finding::new("nothing comes of a voided message", id.to_string()));
    }
    let index = match messages.iter().position(|message| message.id == *id) {
        Some(index) => index,
        None => {
            messages.push(Message::new(id.clone(), parent.cloned()));
            messages.len() - 1
        }
    };
    match messages.get_mut(index) {
        Some(message) if !message.complete => Ok(message),
        _ => Err(Finding::new("nothing comes after the end of a message", id.to_string())),
    }
}

fn joined(messages: &[Message]) -> String {
    let own = messages.iter().filter(|message| message.parent.is_none() && !message.text.is_empty());
    own.map(|message| message.text.as_str()).collect::<Vec<_>>().join("\n\n")
}

/// Checks the effects of a turn. They must include those of every call, except that a denied call may be left out.
fn effects(check: &'static str, stated: Effects, tool_calls: &[ToolCallRecord]) -> Verdict {
    let let_through = tool_calls.iter().filter(|record| record.status != ToolCallStatus::Denied);
    let least = let_through.map(|record| record.effects).fold(Effects::None, Effects::and);
    ensure(stated >= least, check, || format!("stated {stated:?}, the tool calls have {least:?}"))
}

/// An event that a backend does not understand may have been a tool call. Then no other backend may take the turn over.
fn understanding(observed: &Observed) -> Verdict {
    let is_unknown =
        |envelope: &EventEnvelope| matches!(&envelope.event, TurnEvent::Unrecognized(it) if !it.is_harmless);
    let stated = match &observed.outcome {
        Ok(result) => result.effects,
        Err(error) => error.partial().effects,
    };
    let must_be_unknown = observed.has_tools && observed.events.iter().any(is_unknown);
    ensure(
        !must_be_unknown || stated == Effects::Unknown,
        "an unknown message makes all effects possible",
        || format!("stated {stated:?}"),
    )
}

/// Checks that everything the turn shows was declared.
fn honesty(observed: &Observed, capabilities: &Capabilities) -> Verdict {
    let thinks = observed.events.iter().any(|envelope| matches!(envelope.event, TurnEvent::ThinkingDelta(_)));
    ensure(!thinks || capabilities.thinking.is_yes(), "thinking was declared", || {
        "it was not, and is shown".into()
    })?;
    let cost = match &observed.outcome {
        Ok(result) => result.cost,
        Err(error) => error.partial().cost,
    };
    let declared = match cost.map(|cost| cost.source) {
        None => true,
        Some(CostSource::Reported) => capabilities.cost == CostReport::Reported,
        Some(CostSource::Estimated) => capabilities.cost != CostReport::Never,
    };
    ensure(declared, "cost was declared", || format!("declared {:?}, saw {cost:?}", capabilities.cost))
}

/// Checks that nothing the turn returns contains the credential.
fn secrecy(observed: &Observed) -> Verdict {
    let mut text = observed.events.iter().map(|envelope| written(&envelope.event)).collect::<String>();
    text.push_str(&match &observed.outcome {
        Ok(result) => written(result),
        Err(error) => format!("{error} {error:?} {}", written(&error.report())),
    });
    let holds = |text: &str| observed.secrets.iter().any(|secret| text.contains(secret));
    // A secret that arrives in several deltas is in no single event.
    ensure(!holds(&text) && !holds(&in_pieces(&observed.events)), "no secret comes back", || {
        "the credential is in an event or the outcome".into()
    })?;
    ensure(!holds(&observed.telemetry.words()), "no secret is traced", || {
        "the credential is in a span or a log".into()
    })
}

/// The texts of all deltas, those of each message together.
fn in_pieces(events: &[EventEnvelope]) -> String {
    let mut texts = BTreeMap::<(&MessageId, bool), String>::new();
    for envelope in events {
        let (message, is_thinking, text) = match &envelope.event {
            TurnEvent::TextDelta(delta) => (&delta.message, false, &delta.text),
            TurnEvent::ThinkingDelta(delta) => (&delta.message, true, &delta.text),
            _ => continue,
        };
        texts.entry((message, is_thinking)).or_default().push_str(text);
    }
    texts.into_values().collect::<Vec<_>>().join("\n")
}

fn written(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
