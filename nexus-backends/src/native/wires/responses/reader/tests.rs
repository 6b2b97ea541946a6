//! What is made of odd streams; the recorded ones are read in `tests/it/native_transcripts.rs`.

use nexus_core::{ErrorKind, harness::Recorder, turn::FinishReason};
use serde_json::{Value, json};

use super::*;
use crate::generic::native::Generic;

fn reader() -> ResponseReader {
    ResponseReader::new(3, Arc::new(Generic::default()), CustomCalls::Client)
}

/// Reads the data of some events, to the end of the reply.
fn read(data: &[Value]) -> (Vec<TurnEvent>, ModelReply) {
    let data: Vec<String> = data.iter().map(Value::to_string).collect();
    read_text(&data.iter().map(String::as_str).collect::<Vec<_>>())
}

fn read_text(data: &[&str]) -> (Vec<TurnEvent>, ModelReply) {
    let mut reader = reader();
    let mut events = Vec::new();
    for data in data {
        reader.event(Event { name: "", data: data.as_bytes() }, &mut events);
    }
    let reply = reader.into_reply(&mut events);
    (events, reply)
}

fn whole(body: &Value) -> (Vec<TurnEvent>, ModelReply) {
    let mut reader = reader();
    let mut events = Vec::new();
    reader.whole(body.to_string().as_bytes(), &mut events);
    let reply = reader.into_reply(&mut events);
    (events, reply)
}

fn text_delta(text: &str) -> Value {
    json!({ "type": "response.output_text.delta", "delta": text })
}

fn done(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn completed(output: &[Value]) -> Value {
    json!({ "type": "response.completed", "response": { "status": "completed", "output": output } })
}

fn message(id: &str, text: &str) -> Value {
    json!({ "type": "message", "id": id, "content": [{ "type": "output_text", "text": text }] })
}

fn call(id: &str, call_id: &str, arguments: &str) -> Value {
    json!({ "type": "function_call", "id": id, "call_id": call_id, "name": "add", "arguments": arguments })
}

fn texts(reply: &ModelReply) -> Vec<&str> {
    let text = |item: &'_ OutputItem| matches!(item, OutputItem::Message { .. });
    let items = reply.items.iter().filter(|item| text(item));
    items
        .map(|item| match item {
            OutputItem::Message { text, .. } => text.as_str(),
            _ => "",
        })
        .collect()
}

fn calls(reply: &ModelReply) -> Vec<(&str, &str)> {
    fn call(item: &OutputItem) -> Option<(&str, &str)> {
        match item {
            OutputItem::Call(call) => Some((call.call_id.as_str(), call.arguments.as_str())),
            _ => None,
        }
    }
    reply.items.iter().filter_map(call).collect()
}

fn unrecognized(events: &[TurnEvent]) -> usize {
    events.iter().filter(|event| matches!(event, TurnEvent::Unrecognized(_))).count()
}

fn last_end(events: &[TurnEvent]) -> &MessageEnded {
    let Some(TurnEvent::MessageEnded(ended)) = events.last() else { panic!("{events:?}") };
    ended
}

#[test]
fn the_type_need_not_be_the_first_key() {
    let late = r#"{"delta":"late","type":"response.output_text.delta"}"#;
    let spaced = "{ \"type\" :\n\"response.output_text.delta\", \"delta\": \", spaced\" }";
    let escaped = r#"{"type":"response.output\u005ftext.delta","delta":", escaped"}"#;
    let (_, reply) = read_text(&[late, spaced, escaped, r#"{"type":"response.completed"}"#]);
    assert_eq!(texts(&reply), ["late, spaced, escaped"]);
}

#[test]
fn the_name_of_an_event_counts_where_its_data_has_no_type() {
    let mut reader = reader();
    let mut events = Vec::new();
    reader.event(Event { name: "response.output_text.delta", data: br#"{"delta":"a"}"# }, &mut events);
    reader.event(Event { name: "response.completed", data: b"{}" }, &mut events);
    assert!(reader.is_finished());
    assert_eq!(texts(&reader.into_reply(&mut events)), ["a"]);
}

#[test]
fn deltas_need_neither_ids_nor_a_beginning() {
    let (events, reply) = read(&[text_delta("Hel"), text_delta("lo"), completed(&[])]);
    assert_eq!(texts(&reply), ["Hello"]);
    assert_eq!(reply.items[0].raw().unwrap().get(), written_message("Hello"));
    let ended = last_end(&events);
    assert_eq!((ended.message.as_str(), &*ended.text), ("c3.1", "Hello"));
    assert_eq!(ended.finish, Some(FinishReason::Stop));
}

fn written_message(text: &str) -> String {
    json!({ "type": "message", "role": "assistant", "content": text }).to_string()
}

#[test]
fn the_end_of_an_item_wins_over_its_deltas_and_the_final_output() {
    let (events, reply) =
        read(&[text_delta("Helo"), done(0, &message("m", "Hello")), completed(&[message("m", "Other")])]);
    assert_eq!(texts(&reply), ["Hello"]);
    assert_eq!(last_end(&events).text, "Hello");
}

#[test]
fn what_no_delta_told_is_told_at_the_end_of_the_item() {
    let (events, _) = read(&[text_delta("Hel"), done(0, &message("", "Hello")), completed(&[])]);
    let mut recorder = Recorder::new();
    events[..2].iter().for_each(|event| recorder.observe(event));
    assert_eq!(recorder.messages()[0].text, "Hello");
}

#[test]
fn an_end_without_text_leaves_the_deltas() {
    let empty = json!({ "type": "message", "id": "m", "content": null });
    let (_, reply) = read(&[text_delta("Hello"), done(0, &empty), completed(&[])]);
    assert_eq!(texts(&reply), ["Hello"]);
    assert_eq!(reply.items[0].raw().unwrap().get(), written_message("Hello"));
}

#[test]
fn content_may_be_a_plain_string() {
    let (_, reply) = read(&[completed(&[json!({ "type": "message", "content": "Hello" })])]);
    assert_eq!(texts(&reply), ["Hello"]);
}

/// Some servers name an item anew in each of its events.
#[test]
fn an_item_is_the_same_whatever_its_id() {
    let delta = json!({
        "type": "response.output_text.delta", "item_id": "a", "output_index": 0, "delta": "Hello",
    });
    let added = json!({
        "type": "response.output_item.added", "output_index": 0, "item": message("b", ""),
    });
    let end = done(0, &message("c", "Hello"));
    let (_, reply) = read(&[added, delta, end, completed(&[message("d", "Hello")])]);
    assert_eq!(texts(&reply), ["Hello"]);
}

#[test]
fn a_call_is_not_made_twice_because_the_final_output_names_it_otherwise() {
    let (_, reply) = read(&[done(0, &call("a", "1", "{}")), completed(&[call("b", "2", "{}")])]);
    assert_eq!(calls(&reply), [("1", "{}")]);
    let (_, reply) = read(&[done(0, &call("a", "1", "{}")), completed(&[call("b", "2", "{\"x\":1}")])]);
    assert_eq!(calls(&reply).len(), 2, "another call is another call");
}

#[test]
fn two_calls_of_one_name_are_two() {
    let both = [call("a", "1", "{}"), call("b", "1", "{}")];
    let (_, reply) = read(&[done(0, &both[0]), done(1, &both[1]), completed(&both)]);
    assert_eq!(calls(&reply), [("1", "{}"), ("1", "{}")]);
    let (_, reply) = read(&[done(0, &both[0]), done(0, &both[0]), completed(&[])]);
    assert_eq!(calls(&reply), [("1", "{}")], "an end told twice is one");
}

#[test]
fn the_final_output_adds_what_was_left_out_before() {
    let reasoning = json!({ "type": "reasoning", "id": "r", "summary": [] });
    let (_, reply) =
        read(&[done(0, &reasoning), completed(&[reasoning, message("m", "Hello"), call("c", "1", "{}")])]);
    assert_eq!(texts(&reply), ["Hello"]);
    assert_eq!(calls(&reply), [("1", "{}")]);
    assert!(matches!(reply.items[0], OutputItem::Reasoning { .. }));
    let (_, reply) = read(&[
        done(0, &json!({ "type": "reasoning", "id": "r", "summary": [] })),
        completed(&[message("m", "Hello")]),
    ]);
    assert_eq!(texts(&reply), ["Hello"], "also where it leaves out the rest");
}

#[test]
fn items_stand_in_the_order_of_the_output() {
    let (events, reply) =
        read(&[done(1, &message("b", "second")), done(0, &message("a", "first")), completed(&[])]);
    assert_eq!(texts(&reply), ["first", "second"]);
    assert_eq!(last_end(&events).text, "second");
}

#[test]
fn a_call_that_never_ends_is_what_its_pieces_add_up_to() {
    let added = json!({
        "type": "response.output_item.added",
        "output_index": 0,
        "item": { "type": "function_call", "id": "f", "call_id": "1", "name": "add", "arguments": "" },
    });
    let piece = |delta: &str| json!({ "type": "response.function_call_arguments.delta", "output_index": 0, "delta": delta });
    let pieces = [added.clone(), piece("{\"a\""), piece(":1}"), completed(&[])];
    let (events, reply) = read(&pieces);
    assert_eq!(calls(&reply), [("1", "{\"a\":1}")]);
    let raw = json!({ "type": "function_call", "call_id": "1", "name": "add", "arguments": "{\"a\":1}" });
    assert_eq!(serde_json::from_str::<Value>(reply.items[0].raw().unwrap().get()).unwrap(), raw);
    assert_eq!(last_end(&events).finish, Some(FinishReason::ToolCalls));

    let whole =
        json!({ "type": "response.function_call_arguments.done", "item_id": "f", "arguments": { "a": 1 } });
    let (_, reply) = read(&[added.clone(), whole, completed(&[])]);
    assert_eq!(calls(&reply), [("1", "{\"a\":1}")]);

    let (_, reply) = read(&[added, piece("{\"a\""), piece(":1}")]);
    assert!(reply.items.is_empty(), "no call is made of a reply that was cut off");
}

#[test]
fn a_call_without_a_name_of_its_own_gets_one_that_goes_back_with_it() {
    let bare = json!({ "type": "function_call", "id": "f", "name": "add", "arguments": { "a": 1 } });
    let (_, reply) = read(&[done(0, &bare), completed(&[])]);
    assert_eq!(calls(&reply), [("f", "{\"a\":1}")]);
    let raw: Value = serde_json::from_str(reply.items[0].raw().unwrap().get()).unwrap();
    assert_eq!(raw["call_id"], "f");
}

#[test]
fn items_go_back_as_they_came() {
    let item = r#"{"type":"function_call", "b":1.50, "call_id":"1","name":"add","arguments":"{}"}"#;
    let event = format!(r#"{{"type":"response.output_item.done","item":{item}}}"#);
    let (_, reply) = read_text(&[&event, r#"{"type":"response.completed"}"#]);
    assert_eq!(reply.items[0].raw().unwrap().get(), item);
}

#[test]
fn thinking_belongs_to_the_message_after_it() {
    let thought = |index: u64, delta: &str| {
        json!({
            "type": "response.reasoning_summary_text.delta", "item_id": "r", "summary_index": index, "delta": delta,
        })
    };
    let raw = json!({ "type": "response.reasoning_text.delta", "item_id": "s", "delta": "Raw." });
    let (events, _) = read(&[
        thought(0, "One."),
        thought(0, " Still one."),
        thought(1, "Two."),
        text_delta("Hello"),
        done(1, &message("h", "Hello")),
        raw,
        done(3, &message("m", "Bye")),
        completed(&[]),
    ]);
    let mut recorder = Recorder::new();
    events.iter().for_each(|event| recorder.observe(event));
    let messages: Vec<(&str, &str)> =
        recorder.messages().iter().map(|message| (&*message.thinking, &*message.text)).collect();
    assert_eq!(messages, [("One. Still one.\n\nTwo.", "Hello"), ("Raw.", "Bye")]);
}

#[test]
fn thinking_that_came_at_the_end_of_its_item_is_told_then() {
    let item = json!({
        "type": "reasoning", "id": "r", "summary": [{ "text": "One." }, { "text": "Two." }],
        "content": [{ "text": "not shown" }],
    });
    let (events, _) = read(&[done(0, &item), completed(&[])]);
    let mut recorder = Recorder::new();
    events.iter().for_each(|event| recorder.observe(event));
    assert_eq!(recorder.messages()[0].thinking, "One.\n\nTwo.");
    assert!(recorder.messages()[0].complete, "the message that it belongs to ends, though it has no text");
}

#[test]
fn thinking_after_the_answer_does_not_hide_the_answer() {
    let thought = json!({ "type": "response.reasoning_text.delta", "delta": "Hm." });
    let (events, _) = read(&[done(0, &message("m", "Hello")), thought, completed(&[])]);
    let mut recorder = Recorder::new();
    events.iter().for_each(|event| recorder.observe(event));
    assert_eq!(recorder.last_message().map(|message| &*message.text), Some("Hello"));
}

#[test]
fn a_message_without_words_does_not_hide_the_answer() {
    let thought = json!({ "type": "response.reasoning_text.delta", "delta": "Hm." });
    for before in [vec![], vec![thought]] {
        let mut data = vec![done(0, &message("m", "Hello"))];
        data.extend(before);
        data.extend([done(1, &message("n", "")), completed(&[])]);
        let (events, reply) = read(&data);
        let mut recorder = Recorder::new();
        events.iter().for_each(|event| recorder.observe(event));
        assert_eq!(recorder.last_message().map(|message| &*message.text), Some("Hello"));
        assert!(last_end(&events).finish.is_some());
        assert_eq!(reply.items.iter().filter(|item| matches!(item, OutputItem::Message { .. })).count(), 2);
    }
}

#[test]
fn a_call_id_that_is_no_text_goes_back_as_the_text_that_its_output_names() {
    for call in [
        r#"{"type":"function_call","name":"f","arguments":"{}","call_id":7}"#,
        r#"{"type":"custom_tool_call","name":"f","input":"x","call_id":7}"#,
    ] {
        let event = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{call}}}"#);
        let (_, reply) = read_text(&[&event, r#"{"type":"response.completed","response":{}}"#]);
        let sent: Value = serde_json::from_str(reply.items[0].raw().unwrap().get()).unwrap();
        assert_eq!(sent["call_id"], "7");
    }
}

#[test]
fn what_was_shown_can_be_taken_back() {
    let mut reader = reader();
    let mut events = Vec::new();
    for data in
        [json!({ "type": "response.reasoning_text.delta", "delta": "Hm." }), text_delta("a"), text_delta("b")]
    {
        reader.event(Event { name: "", data: data.to_string().as_bytes() }, &mut events);
    }
    assert_eq!(reader.shown(), [MessageId::from("c3.1")]);
    let reply = reader.into_reply(&mut events);
    assert!(matches!(reply.ending, CallEnding::Missing { unreadable: false }));
    assert!(!events.iter().any(|event| matches!(event, TurnEvent::MessageEnded(_))));
}

#[test]
fn a_refusal_is_the_text() {
    let refused = json!({ "type": "response.refusal.delta", "delta": "No." });
    let (events, reply) = read(&[refused, completed(&[])]);
    assert!(
        matches!(&reply.items[0], OutputItem::Message { refusal: Some(refusal), .. } if refusal == "No.")
    );
    assert_eq!(last_end(&events).text, "No.");
}

#[test]
fn the_status_of_the_response_says_how_it_ended() {
    let response =
        |kind: &str, response: Value| read(&[json!({ "type": kind, "response": response })]).1.ending;
    assert!(matches!(
        response("response.done", json!({ "status": "incomplete", "incomplete_details": { "reason": "x" } })),
        CallEnding::Incomplete { reason } if reason == "x"
    ));
    assert!(matches!(
        response("response.incomplete", json!({ "incomplete_details": null })),
        CallEnding::Incomplete { reason } if reason == "incomplete"
    ));
    assert!(matches!(
        response("response.cancelled", json!({ "status": "cancelled" })),
        CallEnding::Incomplete { reason } if reason == "cancelled"
    ));
    assert!(matches!(response("response.failed", json!(null)), CallEnding::Failed(_)));
    assert!(matches!(
        response("response.completed", json!({ "error": { "message": "m" } })),
        CallEnding::Failed(_)
    ));
    assert!(matches!(
        response("response.completed", json!({ "status": "in_progress", "end_turn": true })),
        CallEnding::Completed { end_turn: Some(true) }
    ));
}

#[test]
fn an_error_is_found_in_whatever_form() {
    for data in [
        json!({ "error": { "message": "slow down", "code": "rate_limit_exceeded" } }),
        json!({ "type": "error", "error": { "message": "slow down", "code": "rate_limit_exceeded" } }),
        json!({ "type": "error", "code": "rate_limit_exceeded", "message": "slow down" }),
        json!({ "type": "response.failed", "response": { "error": { "code": "rate_limit_exceeded" } } }),
    ] {
        let (_, reply) = read(&[text_delta("a"), data.clone()]);
        let CallEnding::Failed(failure) = reply.ending else { panic!("{data}") };
        assert_eq!(failure.kind, ErrorKind::RateLimited, "{data}");
        assert!(reply.items.is_empty());
    }
}

#[test]
fn a_failure_keeps_its_usage() {
    let response = json!({ "status": "failed", "usage": { "input_tokens": 3 } });
    let (events, reply) = read(&[json!({ "type": "response.failed", "response": response })]);
    assert_eq!(reply.usage.and_then(|usage| usage.input_tokens), Some(3));
    assert_eq!(last_end(&events).usage, reply.usage);
}

#[test]
fn nothing_counts_after_the_end() {
    let (events, reply) = read(&[completed(&[]), text_delta("late"), json!({ "type": "error" })]);
    assert!(matches!(reply.ending, CallEnding::Completed { .. }));
    assert_eq!(events.len(), 1);
}

#[test]
fn garbage_and_an_end_that_is_missing_are_told_apart() {
    let ending = |data: &[&str]| read_text(data).1.ending;
    assert!(matches!(ending(&["{\"type\":\"response.output_te"]), CallEnding::Missing { unreadable: false }));
    assert!(matches!(
        ending(&["{\"type\":\"response.completed\",\"resp"]),
        CallEnding::Missing { unreadable: false }
    ));
    for garbage in ["<html>", "{nothing", "42", "[1]", "{\"choices\":[]}", "\u{0}"] {
        let (events, reply) = read_text(&[garbage]);
        assert!(matches!(reply.ending, CallEnding::Missing { unreadable: true }), "{garbage}");
        assert_eq!(unrecognized(&events), 1, "{garbage}");
    }
    for nothing in ["", " ", "[DONE]"] {
        let (events, reply) = read_text(&[nothing]);
        assert!(matches!(reply.ending, CallEnding::Missing { unreadable: false }), "{nothing}");
        assert_eq!(unrecognized(&events), 0, "{nothing}");
    }
}

#[test]
fn what_cannot_be_read_is_kept_in_part() {
    let (events, _) = read_text(&[&format!("<{}", "ü".repeat(4096))]);
    let Some(TurnEvent::Unrecognized(event)) = events.first() else { panic!("{events:?}") };
    assert_eq!(event.truncated_from_bytes, Some(8193));
    assert_eq!(event.raw.as_str().map(str::len), Some(4095));
}

#[test]
fn bytes_that_are_no_text_spoil_no_event() {
    let mut reader = reader();
    let mut events = Vec::new();
    let data = b"{\"type\":\"response.output_text.delta\",\"delta\":\"a\xFFb\"}";
    reader.event(Event { name: "", data }, &mut events);
    let Some(TurnEvent::TextDelta(delta)) = events.first() else { panic!("{events:?}") };
    assert_eq!(delta.text, "a\u{FFFD}b");
}

#[test]
fn unknown_events_and_items_are_kept_word_for_word() {
    let (events, reply) = read(&[
        json!({ "type": "response.brand_new", "a": 1 }),
        json!({ "type": "response.output_item.added", "item": { "type": "brand_new", "id": "x" } }),
        done(0, &json!({ "type": "brand_new", "id": "x", "b": 2 })),
        json!({ "type": "response.content_part.added" }),
        json!({ "type": "response.mcp_call_arguments.delta", "delta": "{" }),
        completed(&[json!({ "type": "brand_new", "id": "x", "b": 3 })]),
    ]);
    assert_eq!(unrecognized(&events), 2);
    assert!(matches!(&reply.items[..], [OutputItem::Other { kind, .. }] if kind == "brand_new"));
}

#[test]
fn an_unknown_event_too_long_to_parse_is_harmless_only_without_an_item() {
    let long = "a".repeat(1 << 20);
    for (data, is_harmless) in [(json!({ "text": long }), true), (json!({ "item": { "text": long } }), false)]
    {
        let mut data = data;
        data["type"] = json!("response.brand_new");
        let (events, _) = read(&[data, completed(&[])]);
        let TurnEvent::Unrecognized(unknown) = &events[0] else { panic!("{:?}", events[0]) };
        assert_eq!(unknown.is_harmless, is_harmless);
        assert!(unknown.truncated_from_bytes > Some(1 << 20));
    }
}

#[test]
fn null_is_as_good_as_nothing() {
    let (events, reply) = read_text(&[
        r#"{"type":"response.created","response":null}"#,
        r#"{"type":"response.output_item.added","output_index":null,"item":null}"#,
        r#"{"type":"response.output_text.delta","item_id":null,"output_index":"0","delta":null}"#,
        r#"{"type":"response.output_text.delta","item_id":7,"output_index":"0","delta":"a"}"#,
        r#"{"type":"response.output_item.done","item":{"type":"message","id":null,"content":[null,{"text":"a"},3]}}"#,
        r#"{"type":"response.output_item.done","item":3}"#,
        r#"{"type":"response.completed","response":{"output":null,"usage":null,"error":null,"end_turn":"no","model":null}}"#,
    ]);
    assert!(matches!(reply.ending, CallEnding::Completed { end_turn: None }), "{events:?}");
    assert_eq!(texts(&reply), ["a"]);
    assert_eq!(reply.usage, None);
}

#[test]
fn hosted_tools_are_told_and_not_answered() {
    let search = json!({
        "type": "custom_tool_call", "id": "c", "call_id": "xs_1", "name": "x_user_search", "input": "{\"q\":1}",
    });
    let mcp = json!({ "type": "mcp_call", "id": "m", "name": "ask", "arguments": "{}", "error": "no", "output": null });
    let mut reader = ResponseReader::new(1, Arc::new(Generic::default()), CustomCalls::Server);
    let mut events = Vec::new();
    for data in [done(0, &search), done(1, &mcp), completed(&[search, mcp])] {
        reader.event(Event { name: "", data: data.to_string().as_bytes() }, &mut events);
    }
    let reply = reader.into_reply(&mut events);
    assert!(!reply.items.iter().any(OutputItem::is_call));
    let mut recorder = Recorder::new();
    events.iter().for_each(|event| recorder.observe(event));
    let [first, second] = recorder.tool_calls() else { panic!("{events:?}") };
    assert_eq!((first.call.as_str(), &*first.name), ("xs_1", "x_user_search"));
    assert_eq!(first.arguments, Some(json!({ "q": 1 })));
    assert_eq!(first.status, nexus_core::ToolCallStatus::Succeeded);
    assert_eq!((&*second.name, second.status), ("ask", nexus_core::ToolCallStatus::Failed));
}

#[test]
fn a_server_that_does_not_stream_is_read_too() {
    let (events, reply) = whole(&json!({
        "id": "r", "object": "response", "status": "completed", "model": "m",
        "output": [message("m", "Hello"), call("c", "1", "{}")], "usage": { "input_tokens": 3 },
    }));
    assert_eq!((texts(&reply), calls(&reply)), (vec!["Hello"], vec![("1", "{}")]));
    assert_eq!(reply.model, Some("m".into()));
    assert_eq!(last_end(&events).usage.and_then(|usage| usage.input_tokens), Some(3));
    assert!(matches!(whole(&json!({ "error": { "message": "m" } })).1.ending, CallEnding::Failed(_)));
    assert!(matches!(whole(&json!({ "ok": true })).1.ending, CallEnding::Missing { unreadable: true }));
    assert!(matches!(whole(&json!("text")).1.ending, CallEnding::Missing { unreadable: true }));
}

/// A delta costs the allocation of its text, not a copy of the text so far.
#[test]
fn many_deltas_are_read_in_linear_time() {
    let mut reader = reader();
    let mut events = Vec::new();
    let delta = text_delta(&"x".repeat(64)).to_string();
    for _ in 0..20_000 {
        reader.event(Event { name: "", data: delta.as_bytes() }, &mut events);
    }
    assert_eq!(events.len(), 20_000);
}

/// Deltas that jump between many items find theirs in bounded time.
#[test]
fn a_flood_of_items_is_read_in_bounded_time() {
    let mut reader = reader();
    let mut events = Vec::new();
    for index in 0..5_000_u64 {
        let delta = json!({
            "type": "response.output_text.delta", "item_id": index.to_string(), "output_index": index, "delta": "x",
        });
        reader.event(Event { name: "", data: delta.to_string().as_bytes() }, &mut events);
    }
    let output: Vec<Value> = (0..5_000).map(|index| message(&index.to_string(), "x")).collect();
    reader.event(Event { name: "", data: completed(&output).to_string().as_bytes() }, &mut events);
    assert_eq!(reader.into_reply(&mut events).items.len(), 5_000);
}

#[test]
fn a_text_that_is_told_in_one_piece_counts() {
    let told = json!({ "type": "response.output_text.done", "item_id": "m", "text": "Hello" });
    let (events, reply) = read(&[told.clone(), completed(&[])]);
    assert_eq!(texts(&reply), ["Hello"]);
    assert_eq!(events.len(), 2);
    let (_, reply) = read(&[text_delta("Hello"), told, done(0, &message("m", "Hello")), completed(&[])]);
    assert_eq!(texts(&reply), ["Hello"]);
}

#[test]
fn an_item_that_begins_twice_is_one() {
    let added = json!({
        "type": "response.output_item.added", "output_index": 0, "item": { "type": "message", "id": "m" },
    });
    let delta = json!({ "type": "response.output_text.delta", "item_id": "m", "delta": "Hello" });
    let (_, reply) = read(&[added.clone(), delta, added, done(0, &message("m", "Hello")), completed(&[])]);
    assert_eq!(texts(&reply), ["Hello"]);
}

#[test]
fn calls_without_ids_and_places_are_told_apart_by_call_id() {
    let added =
        |call_id: &str| json!({ "type": "response.output_item.added", "item": call("", call_id, "") });
    let end = |call_id: &str, arguments: &str| json!({ "type": "response.output_item.done", "item": call("", call_id, arguments) });
    let (_, reply) = read(&[added("1"), added("2"), end("1", "{}"), end("2", "[]"), completed(&[])]);
    assert_eq!(calls(&reply), [("1", "{}"), ("2", "[]")]);
}

#[test]
fn a_reply_without_an_end_is_ended() {
    let mut reader = reader();
    let mut events = Vec::new();
    let text = "x".repeat(4 << 20);
    let data = format!(r#"{{"type":"response.output_text.delta","delta":"{text}"}}"#);
    let mut pieces = 0;
    while !reader.is_finished() {
        reader.event(Event { name: "", data: data.as_bytes() }, &mut events);
        events.clear();
        pieces += 1;
        assert!(pieces < 40, "it is still read");
    }
    let reply = reader.into_reply(&mut events);
    assert!(matches!(reply.ending, CallEnding::Failed(failure) if failure.kind == ErrorKind::Protocol));
}

#[test]
fn a_reply_of_too_many_items_is_ended() {
    let mut reader = reader();
    let mut events = Vec::new();
    let items = vec!["{}"; 70_000].join(",");
    let data = format!(r#"{{"type":"response.completed","response":{{"output":[{items}]}}}}"#);
    reader.event(Event { name: "", data: data.as_bytes() }, &mut events);
    assert!(
        matches!(reader.into_reply(&mut events).ending, CallEnding::Failed(failure) if failure.kind == ErrorKind::Protocol)
    );
}

#[test]
fn halves_of_a_character_in_neighbouring_deltas_are_joined() {
    let delta =
        |text: &str| format!(r#"{{"type":"response.output_text.delta","item_id":"m","delta":"{text}"}}"#);
    let deltas = [delta(r"ab\ud83d"), delta(r"\ude00cd"), delta(r"\ud83d"), delta("e")];
    let mut data: Vec<&str> = deltas.iter().map(String::as_str).collect();
    data.push(r#"{"type":"response.completed","response":{"status":"completed"}}"#);
    let (events, reply) = read_text(&data);
    assert_eq!(texts(&reply), ["ab\u{1f600}cd\u{fffd}e"]);
    assert_eq!(unrecognized(&events), 0, "{events:?}");
    let shown: String = events
        .iter()
        .filter_map(|event| match event {
            TurnEvent::TextDelta(delta) => Some(delta.text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, "ab\u{1f600}cd\u{fffd}e");
    // The last delta may end in a half.
    let (_, reply) = read_text(&[&deltas[0], data[4]]);
    assert_eq!(texts(&reply), ["ab\u{fffd}"]);
}

#[test]
fn half_a_character_in_another_string_of_an_event_joins_nothing() {
    let delta = |text: &str| {
        format!(
            r#"{{"type":"response.output_text.delta","item_id":"m","delta":"{text}","obfuscation":"x\ud800"}}"#
        )
    };
    let end = r#"{"type":"response.completed","response":{"status":"completed"}}"#;
    let (_, reply) = read_text(&[&delta(r"a\ude00"), &delta(r"\ude00b"), end]);
    assert_eq!(texts(&reply), ["a\u{fffd}\u{fffd}b"]);
    let (_, reply) = read_text(&[&delta(r"a\ud83d"), &delta(r"\ude00b"), end]);
    assert_eq!(texts(&reply), ["a\u{1f600}b"]);
}

#[test]
fn a_finished_item_with_half_a_character_is_the_answer() {
    let item = r#"{"type":"message","id":"m","content":[{"type":"output_text","text":"cut \ud83d"}]}"#;
    let done = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#);
    let whole =
        format!(r#"{{"type":"response.completed","response":{{"status":"completed","output":[{item}]}}}}"#);
    for data in [vec![done.as_str(), whole.as_str()], vec![whole.as_str()]] {
        let (events, reply) = read_text(&data);
        assert_eq!(texts(&reply), ["cut \u{fffd}"], "{events:?}");
        serde_json::from_str::<Value>(reply.items[0].raw().unwrap().get()).expect("what goes back is valid");
        assert!(matches!(reply.ending, CallEnding::Completed { .. }));
    }
}

#[test]
fn a_number_that_is_none_costs_that_number_alone() {
    let (events, reply) = read_text(&[
        r#"{"type":"response.output_text.delta","delta":"a","logprobs":[{"logprob":-Infinity}]}"#,
        r#"{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":3,"cost":NaN}}}"#,
    ]);
    assert_eq!(texts(&reply), ["a"], "{events:?}");
    assert_eq!(reply.usage.and_then(|usage| usage.input_tokens), Some(3));
}

#[test]
fn a_delta_that_cannot_be_read_makes_the_answer_incomplete_unless_its_item_ends() {
    let broken = r#"{"type":"response.output_text.delta","item_id":"m","delta":"b""#.to_owned() + "\u{1}}";
    let delta = r#"{"type":"response.output_text.delta","item_id":"m","delta":"a"}"#;
    let end = r#"{"type":"response.completed","response":{"status":"completed"}}"#;
    let (events, reply) = read_text(&[delta, &broken, end]);
    assert!(matches!(reply.ending, CallEnding::Incomplete { .. }), "{:?}", reply.ending);
    assert!(events.iter().any(|event| matches!(event, TurnEvent::Warning(_))), "{events:?}");
    let item = done(0, &message("m", "ab")).to_string();
    let (_, reply) = read_text(&[delta, &broken, &item, end]);
    assert!(matches!(reply.ending, CallEnding::Completed { .. }), "{:?}", reply.ending);
    assert_eq!(texts(&reply), ["ab"]);
}

#[test]
fn a_terminal_event_ends_the_reply_whatever_is_wrong_in_it() {
    for kind in ["completed", "incomplete", "failed", "done", "cancelled"] {
        let mut reader = reader();
        let data = format!("{{\"type\":\"response.{kind}\",\"response\":{{\"status\":}}}}");
        reader.event(Event { name: "", data: data.as_bytes() }, &mut Vec::new());
        assert!(reader.is_finished(), "{kind}");
    }
}

#[test]
fn a_response_that_failed_without_a_reason_takes_the_one_that_follows() {
    let failed = r#"{"type":"response.failed","response":{"status":"failed","error":null,"output":[]}}"#;
    let reason = r#"{"type":"error","error":{"code":"too_many_requests","message":"over its rate limit"}}"#;
    let (_, reply) = read_text(&[failed, reason]);
    let CallEnding::Failed(failure) = reply.ending else { panic!("{:?}", reply.ending) };
    assert_eq!(failure.kind, ErrorKind::RateLimited);
    assert!(failure.message.unwrap().contains("over its rate limit"));
    let (_, reply) = read_text(&[failed]);
    assert!(matches!(reply.ending, CallEnding::Failed(failure) if failure.kind == ErrorKind::VendorFailure));
}

/// The thinking of the first message that has any.
fn thinking(events: &[TurnEvent]) -> String {
    let mut recorder = Recorder::new();
    events.iter().for_each(|event| recorder.observe(event));
    let thinking = recorder.messages().iter().map(|message| message.thinking.clone());
    thinking.into_iter().find(|thinking| !thinking.is_empty()).unwrap_or_default()
}

/// vLLM counts `content_index` up with every token of its thinking.
#[test]
fn thinking_is_one_text_however_its_deltas_are_counted() {
    let thought = |index: usize, word: &str| json!({ "type": "response.reasoning_text.delta", "item_id": "r", "content_index": index, "delta": word });
    let words = ["The", " user", " greets", "."];
    let mut data: Vec<Value> = (0..).zip(words).map(|(index, word)| thought(index, word)).collect();
    data.push(json!({ "type": "response.reasoning_text.done", "item_id": "r", "content_index": 4, "text": words.concat() }));
    data.push(completed(&[message("m", "Hello")]));
    assert_eq!(thinking(&read(&data).0), "The user greets.");
}

#[test]
fn a_text_that_comes_only_in_its_last_event_is_shown() {
    let thought = |kind: &str, index: usize, text: &str| json!({ "type": format!("response.{kind}.done"), "item_id": "r", "summary_index": index, "content_index": index, "text": text });
    for kind in ["reasoning_text", "reasoning_summary_text", "reasoning", "reasoning_summary"] {
        let (events, _) =
            read(&[thought(kind, 0, "One."), thought(kind, 1, "Two."), completed(&[message("m", "Hello")])]);
        assert_eq!(thinking(&events), "One.\n\nTwo.", "{kind}");
    }
    // The last event repeats what the deltas brought, and what the part as a whole says again.
    let delta = json!({ "type": "response.reasoning_text.delta", "item_id": "r", "content_index": 0, "delta": "One." });
    let part = json!({ "type": "response.reasoning_part.done", "item_id": "r", "content_index": 0, "part": { "text": "One." } });
    let data = [
        delta,
        thought("reasoning_text", 0, "One."),
        part,
        thought("reasoning_text", 1, "Two."),
        completed(&[message("m", "Hello")]),
    ];
    assert_eq!(thinking(&read(&data).0), "One.\n\nTwo.");
    // Of an answer, too: the second message, and a refusal.
    let text =
        |id: &str, text: &str| json!({ "type": "response.output_text.done", "item_id": id, "text": text });
    let (_, reply) = read(&[text("a", "One."), text("b", "Two."), completed(&[])]);
    assert_eq!(texts(&reply), ["One.", "Two."]);
    let refusal = json!({ "type": "response.refusal.done", "item_id": "a", "refusal": "No." });
    let (_, reply) = read(&[refusal, completed(&[])]);
    assert!(
        matches!(&reply.items[..], [OutputItem::Message { refusal: Some(refusal), .. }] if refusal == "No."),
        "{:?}",
        reply.items
    );
}

proptest::proptest! {
    /// Parts of thinking, each cut into deltas that are counted in one of the ways of servers, or told at its end alone.
    #[test]
    fn thinking_is_what_its_parts_say(
        parts in proptest::collection::vec("[a-z é]{1,12}", 1..5),
        cuts in proptest::collection::vec(0_usize..6, 1..5),
        counting in 0_u8..4,
        is_summary in proptest::bool::ANY,
    ) {
        let name = if is_summary { "reasoning_summary_text" } else { "reasoning_text" };
        let mut data = Vec::new();
        let mut counted = 0;
        for (number, part) in parts.iter().enumerate() {
            let index = |counted: usize| match (is_summary, counting) {
                (true, _) | (_, 0) => json!(number),
                (_, 1) => json!(counted),
                (_, 2) => Value::Null,
                _ => json!(counted.to_string()),
            };
            let event = |kind: &str, counted: usize| {
                json!({ "type": format!("response.{name}.{kind}"), "item_id": "r", "output_index": 0,
                        "content_index": index(counted), "summary_index": if is_summary { json!(number) } else { Value::Null } })
            };
            let letters: Vec<char> = part.chars().collect();
            // What has neither a delta nor a number is told twice, as far as that shows.
            let size = cuts[number % cuts.len()].max(usize::from(counting == 2 && !is_summary));
            if size > 0 {
                for piece in letters.chunks(size) {
                    let mut delta = event("delta", counted);
                    delta["delta"] = json!(piece.iter().collect::<String>());
                    data.push(delta);
                    counted += 1;
                }
            }
            let mut done = event("done", counted);
            done["text"] = json!(part);
            data.push(done);
            counted += 1;
        }
        data.push(completed(&[message("m", "Hello")]));
        let (events, reply) = read(&data);
        proptest::prop_assert_eq!(thinking(&events), parts.join("\n\n"));
        proptest::prop_assert_eq!(texts(&reply), ["Hello"]);
    }
}

/// As `transformers serve` 5.23.0 does.
#[test]
fn an_item_that_is_told_again_behind_a_call_is_one() {
    let text =
        json!({ "type": "response.output_text.done", "item_id": "m", "output_index": 1, "text": "Hello" });
    let again = json!({ "type": "response.output_item.added", "output_index": 1, "item": message("m", "") });
    let (events, reply) = read(&[
        json!({ "type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "Hello" }),
        done(0, &message("m", "Hello")),
        done(1, &call("c", "1", "{}")),
        again,
        text,
        done(1, &message("m", "Hello")),
        completed(&[message("m", "Hello")]),
    ]);
    assert_eq!(texts(&reply), ["Hello"], "{events:?}");
}
