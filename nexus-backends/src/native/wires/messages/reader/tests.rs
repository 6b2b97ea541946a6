//! What is made of the streams of the Messages API, and of servers that imitate it.

use nexus_core::turn::FinishReason;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::generic::messages::MessagesServer;
use crate::native::sse::EventSplitter;

const START: &str = r#"{"type":"message_start","message":{"id":"m","model":"claude-x","content":[],"usage":{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn reader(has_answer_tool: bool) -> Box<MessagesReader> {
    Box::new(MessagesReader::new(3, Arc::new(MessagesServer::default()), has_answer_tool))
}

fn read_with(has_answer_tool: bool, lines: &[&str]) -> (Vec<TurnEvent>, ModelReply) {
    let mut reader = reader(has_answer_tool);
    let mut events = Vec::new();
    for line in lines {
        reader.event(Event { name: "", data: line.as_bytes() }, &mut events);
    }
    let reply = reader.into_reply(&mut events);
    (events, reply)
}

fn start(index: u64, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn delta(index: u64, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn stop(index: u64) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

fn reason(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":9}}}}"#
    )
}

fn block(index: u64, begin: &str, deltas: &[&str]) -> Vec<String> {
    let mut lines = vec![start(index, begin)];
    lines.extend(deltas.iter().map(|text| delta(index, text)));
    lines.push(stop(index));
    lines
}

fn texts(events: &[TurnEvent]) -> (String, String) {
    let (mut text, mut thinking) = (String::new(), String::new());
    for event in events {
        match event {
            TurnEvent::TextDelta(delta) => text.push_str(&delta.text),
            TurnEvent::ThinkingDelta(delta) => thinking.push_str(&delta.text),
            _ => {}
        }
    }
    (text, thinking)
}

fn calls(reply: &ModelReply) -> Vec<(&str, &str, &str)> {
    fn call(item: &OutputItem) -> Option<(&str, &str, &str)> {
        match item {
            OutputItem::Call(call) => Some((&call.call_id, &call.name, &call.arguments)),
            _ => None,
        }
    }
    reply.items.iter().filter_map(call).collect()
}

fn end(reply: &ModelReply) -> String {
    match &reply.ending {
        CallEnding::Completed { end_turn: Some(false) } => "paused".to_owned(),
        CallEnding::Completed { .. } => "completed".to_owned(),
        CallEnding::Incomplete { reason } => format!("incomplete {reason}"),
        CallEnding::Failed(failure) => format!("{:?}", failure.kind),
        CallEnding::Missing { unreadable } => format!("missing {unreadable}"),
    }
}

fn answer(blocks: &[Vec<String>], stop_reason: &str) -> (Vec<TurnEvent>, ModelReply) {
    let reason = reason(stop_reason);
    let mut lines = vec![START, r#"{"type":"ping"}"#];
    lines.extend(blocks.iter().flatten().map(String::as_str));
    lines.extend([reason.as_str(), STOP]);
    read_with(false, &lines)
}

#[test]
fn thinking_text_and_calls_stay_in_order_and_go_back_as_they_came() {
    let blocks = [
        block(
            0,
            r#"{"type":"thinking","thinking":"","signature":""}"#,
            &[
                r#"{"type":"thinking_delta","thinking":"Hm"}"#,
                r#"{"type":"thinking_delta","thinking":"."}"#,
                r#"{"type":"signature_delta","signature":"c2ln"}"#,
            ],
        ),
        block(1, r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#, &[]),
        block(2, r#"{"type":"text","text":""}"#, &[r#"{"type":"text_delta","text":"Look"}"#]),
        block(
            3,
            r#"{"type":"tool_use","id":"toolu_1","name":"add","input":{}}"#,
            &[
                r#"{"type":"input_json_delta","partial_json":""}"#,
                r#"{"type":"input_json_delta","partial_json":"{\"a\" :"}"#,
                r#"{"type":"input_json_delta","partial_json":" 1}"}"#,
            ],
        ),
        block(4, r#"{"type":"tool_use","id":"toolu_2","name":"now","input":{}}"#, &[]),
        // Imitating servers send the whole input at the start.
        block(5, r#"{"type":"tool_use","id":"toolu_3","name":"sub","input":{ "b":2 }}"#, &[]),
    ];
    let (events, reply) = answer(&blocks, "tool_use");
    assert_eq!(texts(&events), ("Look".to_owned(), "Hm.".to_owned()));
    let wanted =
        [("toolu_1", "add", "{\"a\" : 1}"), ("toolu_2", "now", "{}"), ("toolu_3", "sub", "{ \"b\":2 }")];
    assert_eq!(calls(&reply), wanted);
    let [
        OutputItem::Reasoning { raw },
        OutputItem::Reasoning { raw: redacted },
        OutputItem::Message { .. },
        ..,
    ] = reply.items.as_slice()
    else {
        panic!("{reply:?}")
    };
    let raw: Value = serde_json::from_str(raw.get()).unwrap();
    assert_eq!(raw, json!({ "type": "thinking", "thinking": "Hm.", "signature": "c2ln" }));
    assert_eq!(redacted.get(), r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#);
    let Some(TurnEvent::MessageEnded(ended)) = events.last() else { panic!("{events:?}") };
    assert_eq!((ended.message.as_str(), &*ended.text), ("c3.1", "Look"));
    assert_eq!(ended.finish, Some(FinishReason::ToolCalls));
}

#[test]
fn counts_of_both_ends_are_merged() {
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20,"input_tokens":0,"output_tokens_details":{"thinking_tokens":5}}}"#;
    let (_, reply) = read_with(false, &[START, end, STOP]);
    let usage = reply.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.cache_write_tokens, usage.cache_read_tokens),
        (Some(10), Some(3), Some(4))
    );
    assert_eq!((usage.output_tokens, usage.reasoning_tokens), (Some(15), Some(5)));
    // Imitating servers know the input only at the end.
    let begin = r#"{"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":7,"output_tokens":2}}"#;
    let usage = read_with(false, &[begin, end, STOP]).1.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(7), Some(2)));
}

#[test]
fn every_stop_reason_has_its_meaning() {
    let text = block(0, r#"{"type":"text","text":""}"#, &[r#"{"type":"text_delta","text":"a"}"#]);
    for (reason, wanted) in [
        ("end_turn", "completed"),
        ("stop_sequence", "completed"),
        ("tool_use", "completed"),
        ("pause_turn", "paused"),
        ("max_tokens", "incomplete max_output_tokens"),
        ("model_context_window_exceeded", "ContextExceeded"),
        ("who_knows", "incomplete who_knows"),
    ] {
        let (_, reply) = answer(std::slice::from_ref(&text), reason);
        assert_eq!(end(&reply), wanted, "{reason}");
    }
    let refusal = r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","explanation":"Not this."}},"usage":{"output_tokens":1}}"#;
    let (_, reply) = read_with(false, &[START, refusal, STOP]);
    let [OutputItem::Message { refusal: Some(refusal), .. }] = reply.items.as_slice() else {
        panic!("{reply:?}")
    };
    assert_eq!(refusal, "Not this.");
}

#[test]
fn only_the_last_event_is_an_end() {
    let text = block(0, r#"{"type":"text","text":""}"#, &[r#"{"type":"text_delta","text":"a"}"#]);
    let mut lines: Vec<&str> = vec![START];
    lines.extend(text.iter().map(String::as_str));
    let reason = reason("end_turn");
    lines.push(&reason);
    for count in 0..=lines.len() {
        let (_, reply) = read_with(false, &lines[..count]);
        assert_eq!((end(&reply), reply.items.len()), ("missing false".to_owned(), 0), "after {count} events");
    }
    lines.push(STOP);
    assert_eq!(end(&read_with(false, &lines).1), "completed");
    let with_hole = [START, "{{{", &reason, STOP];
    assert_eq!(end(&read_with(false, &with_hole).1), "incomplete a part of the answer could not be read");
}

#[test]
fn an_error_in_the_stream_keeps_its_meaning() {
    for (kind, wanted) in [
        ("overloaded_error", "Overloaded"),
        ("rate_limit_error", "RateLimited"),
        ("api_error", "VendorFailure"),
        ("authentication_error", "Unauthenticated"),
        ("permission_error", "Forbidden"),
        ("billing_error", "UsageLimit"),
        ("timeout_error", "Transport"),
        ("invalid_request_error", "InvalidRequest"),
    ] {
        let error = json!({ "type": "error", "error": { "type": kind, "message": "no" } }).to_string();
        assert_eq!(end(&read_with(false, &[START, &error]).1), wanted, "{kind}");
    }
    let numeric = r#"{"error":{"code":429,"message":"no"}}"#;
    assert_eq!(end(&read_with(false, &[START, numeric]).1), "RateLimited");
}

#[test]
fn a_split_character_is_joined_and_a_lone_half_is_replaced() {
    for (deltas, wanted) in [
        (
            &[r#"{"type":"text_delta","text":"a\ud83d"}"#, r#"{"type":"text_delta","text":"\ude00b"}"#][..],
            "a😀b",
        ),
        (&[r#"{"type":"text_delta","text":"a\ud83d"}"#], "a\u{fffd}"),
        (&[r#"{"type":"text_delta","text":"a\ud800b"}"#], "a\u{fffd}b"),
    ] {
        let (events, reply) = answer(&[block(0, r#"{"type":"text","text":""}"#, deltas)], "end_turn");
        assert_eq!((texts(&events).0.as_str(), end(&reply).as_str()), (wanted, "completed"), "{deltas:?}");
    }
}

#[test]
fn blocks_that_nobody_knows_are_reported_and_not_sent_back() {
    let odd = block(0, r#"{"type":"server_tool_use","id":"s","name":"x","input":{}}"#, &[]);
    let text = block(1, r#"{"type":"text","text":"a"}"#, &[]);
    let (events, reply) = answer(&[odd, text], "end_turn");
    assert_eq!(reply.items.len(), 1);
    let is_harmful = |event: &TurnEvent| matches!(event, TurnEvent::Unrecognized(odd) if !odd.is_harmless);
    assert!(events.iter().any(is_harmful), "the server may have run a tool");
}

#[test]
fn blocks_with_one_index_are_different_blocks() {
    let one = block(0, r#"{"type":"text","text":""}"#, &[r#"{"type":"text_delta","text":"a"}"#]);
    let two = block(
        0,
        r#"{"type":"tool_use","id":"t","name":"add","input":{}}"#,
        &[r#"{"type":"input_json_delta","partial_json":"{}"}"#],
    );
    let (events, reply) = answer(&[one, two], "tool_use");
    assert_eq!((texts(&events).0.as_str(), calls(&reply)), ("a", vec![("t", "add", "{}")]));
}

#[test]
fn thinking_that_was_cut_off_does_not_go_back() {
    let lines = [
        START.to_owned(),
        start(0, r#"{"type":"thinking","thinking":"H","signature":""}"#),
        reason("max_tokens"),
        STOP.to_owned(),
    ];
    let (_, reply) = read_with(false, &lines.each_ref().map(String::as_str));
    assert_eq!((end(&reply).as_str(), reply.items.len()), ("incomplete max_output_tokens", 0));
}

#[test]
fn the_answers_tool_is_the_answer() {
    let lines: Vec<String> = [START.to_owned()]
        .into_iter()
        .chain(block(
            0,
            r#"{"type":"tool_use","id":"t","name":"final_answer","input":{}}"#,
            &[r#"{"type":"input_json_delta","partial_json":"{\"n\": 1}"}"#],
        ))
        .chain([reason("tool_use"), STOP.to_owned()])
        .collect();
    let (events, reply) = read_with(true, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(texts(&events).0, "{\"n\": 1}");
    assert!(calls(&reply).is_empty());
}

#[test]
fn a_whole_message_is_read_like_a_stream() {
    let body = r#"{"type":"message","model":"m","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"add","input":{"x":1}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}"#;
    let mut reader = reader(false);
    let mut events = Vec::new();
    reader.whole(body.as_bytes(), &mut events);
    let reply = reader.into_reply(&mut events);
    assert_eq!(texts(&events), ("a".to_owned(), "Hm.".to_owned()));
    assert_eq!(calls(&reply), [("t", "add", "{\"x\":1}")]);
    assert_eq!(end(&reply), "completed");
}

fn split(bytes: &[u8], cuts: &[usize]) -> String {
    let mut splitter = EventSplitter::new(1 << 20);
    let mut reader = reader(false);
    let mut events = Vec::new();
    let mut rest = bytes;
    for cut in cuts.iter().chain([&bytes.len()]) {
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        rest = after;
        splitter.push(piece.to_vec().into());
        while let Some(event) = splitter.next().unwrap() {
            reader.event(event, &mut events);
        }
    }
    if let Some(event) = splitter.finish().unwrap() {
        reader.event(event, &mut events);
    }
    let reply = reader.into_reply(&mut events);
    format!("{events:?} {reply:?}")
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_equal_events(cuts in proptest::collection::vec(0_usize..120, 0..12), end in 0_usize..900) {
        let lines: Vec<String> = [START.to_owned()]
            .into_iter()
            .chain(block(0, r#"{"type":"text","text":""}"#, &[
                r#"{"type":"text_delta","text":"ü\ud83d"}"#,
                r#"{"type":"text_delta","text":"\ude00"}"#,
            ]))
            .chain([reason("end_turn"), STOP.to_owned()])
            .collect();
        let stream: String = lines.iter().map(|line| format!("event: x\ndata: {line}\n\n: comment\n\n")).collect();
        let cut = &stream.as_bytes()[..end.min(stream.len())];
        prop_assert_eq!(split(cut, &cuts), split(cut, &[]));
        let is_ended = cut.windows(14).any(|window| window == b"message_stop\"}");
        prop_assert_eq!(split(cut, &[]).contains("Completed"), is_ended);
    }

    #[test]
    fn no_bytes_break_the_reader(lines in proptest::collection::vec("\\PC{0,60}|\\{\"type\":\"content_block_(start|delta|stop)\".{0,40}", 0..6)) {
        let _ = read_with(false, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
