//! What is made of the streams that servers of Chat Completions are known to send.

use nexus_core::turn::FinishReason;
use proptest::prelude::*;

use super::*;
use crate::generic::chat::ChatServer;
use crate::native::sse::EventSplitter;

/// What a stream comes to: text, thinking, calls, refusal, and the end.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    text: String,
    thinking: String,
    calls: Vec<(String, String, String)>,
    end: String,
}

fn seen(events: &[TurnEvent], reply: &ModelReply) -> Seen {
    let mut seen = Seen::default();
    for event in events {
        match event {
            TurnEvent::TextDelta(delta) => seen.text.push_str(&delta.text),
            TurnEvent::ThinkingDelta(delta) => seen.thinking.push_str(&delta.text),
            _ => {}
        }
    }
    for item in &reply.items {
        if let OutputItem::Call(call) = item {
            seen.calls.push((call.call_id.clone(), call.name.clone(), call.arguments.clone()));
        }
    }
    seen.end = match &reply.ending {
        CallEnding::Completed { .. } => "completed".to_owned(),
        CallEnding::Incomplete { reason } => format!("incomplete {reason}"),
        CallEnding::Failed(failure) => format!("{:?}", failure.kind),
        CallEnding::Missing { unreadable } => format!("missing {unreadable}"),
    };
    seen
}

fn read_with(has_answer_tool: bool, lines: &[&str]) -> (Vec<TurnEvent>, ModelReply) {
    let mut reader = Box::new(ChatReader::new(3, Arc::new(ChatServer::default()), has_answer_tool));
    let mut events = Vec::new();
    for line in lines {
        reader.event(Event { name: "", data: line.as_bytes() }, &mut events);
    }
    let reply = reader.into_reply(&mut events);
    (events, reply)
}

fn read(lines: &[&str]) -> Seen {
    let (events, reply) = read_with(false, lines);
    seen(&events, &reply)
}

fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
}

fn finish(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

fn deltas(list: &[&str], reason: &str) -> Seen {
    let mut lines: Vec<String> = list.iter().map(|text| delta(text)).collect();
    lines.push(finish(reason));
    lines.push("[DONE]".to_owned());
    read(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

fn answer(text: &str, thinking: &str) -> Seen {
    Seen { text: text.into(), thinking: thinking.into(), calls: Vec::new(), end: "completed".into() }
}

#[test]
fn content_and_thinking_are_read_in_every_form() {
    for (list, text, thinking) in [
        (
            &[r#"{"role":"assistant","content":""}"#, r#"{"content":"Hel"}"#, r#"{"content":"lo"}"#][..],
            "Hello",
            "",
        ),
        (&[r#"{"content":null}"#, r#"{"content":"a"}"#, "{}"], "a", ""),
        (&[r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#], "ab", ""),
        (
            &[
                r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}]}"#,
                r#"{"content":"a"}"#,
            ],
            "a",
            "Hm.",
        ),
        (&[r#"{"reasoning_content":"Hm."}"#, r#"{"content":"a","reasoning_content":null}"#], "a", "Hm."),
        (&[r#"{"reasoning":"Hm."}"#, r#"{"content":"a"}"#], "a", "Hm."),
        (&[r#"{"reasoning":"Hm.","reasoning_content":"Hm."}"#, r#"{"content":"a"}"#], "a", "Hm."),
        (&[r#"{"content":"<thi"}"#, r#"{"content":"nk>Hm.</think>"}"#, r#"{"content":"\n\na"}"#], "a", "Hm."),
        (&[r#"{"content":"a\ud83d"}"#, r#"{"content":"\ude00b"}"#], "a😀b", ""),
        (&[r#"{"content":"a\ud83d"}"#], "a\u{fffd}", ""),
        (&[r#"{"content":"a\ud800b"}"#], "a\u{fffd}b", ""),
        (&[r#"{"content":7}"#, r#"{"content":{"odd":1}}"#, r#"{"content":"a"}"#], "a", ""),
    ] {
        assert_eq!(deltas(list, "stop"), answer(text, thinking), "{list:?}");
    }
}

#[test]
fn calls_are_assembled_from_every_form_of_their_pieces() {
    let one = |id: &str, arguments: &str| vec![(id.to_owned(), "add".to_owned(), arguments.to_owned())];
    for (list, calls) in [
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":""}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\""}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":": 1}"}}]}"#,
            ][..],
            one("a", "{\"x\": 1}"),
        ),
        // No index: the pieces belong to the last call.
        (
            &[
                r#"{"tool_calls":[{"id":"a","function":{"name":"add","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"function":{"arguments":"}"}}]}"#,
            ],
            one("a", "{}"),
        ),
        // The id comes late, and the name with every piece.
        (
            &[
                r#"{"tool_calls":[{"index":0,"function":{"name":"add","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"}"}}]}"#,
            ],
            one("a", "{}"),
        ),
        // No id at all.
        (
            &[r#"{"tool_calls":[{"index":0,"function":{"name":"add","arguments":"{}"}}]}"#],
            one("call_3_0", "{}"),
        ),
        // An object in place of a text stays byte for byte.
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":{ "b":1, "a" : 2 }}}]}"#,
            ],
            one("a", r#"{ "b":1, "a" : 2 }"#),
        ),
        (
            &[r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":null}}]}"#],
            one("a", ""),
        ),
        (
            &[r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"no"}}]}"#],
            one("a", "no"),
        ),
        (
            &[
                r#"{"function_call":{"name":"add","arguments":"{"}}"#,
                r#"{"function_call":{"arguments":"}"}}"#,
            ],
            one("call_3_0", "{}"),
        ),
        (
            &[
                r#"{"tool_calls":null}"#,
                r#"{"tool_calls":[null,3,{"index":0,"id":"a","function":{"name":"add"}}]}"#,
            ],
            one("a", ""),
        ),
    ] {
        let wanted = Seen { calls, end: "completed".into(), ..Seen::default() };
        assert_eq!(deltas(list, "tool_calls"), wanted, "{list:?}");
        assert_eq!(deltas(list, "stop"), wanted, "some servers end calls with `stop`: {list:?}");
        assert_eq!(deltas(list, "length").calls, [], "a call that may be cut off is not made");
    }
}

#[test]
fn several_calls_stay_apart_whatever_their_index() {
    for list in [
        &[
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\":"}},{"index":1,"id":"b","function":{"name":"sub","arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"index":1,"function":{"arguments":"}"}},{"index":0,"function":{"arguments":"1}"}}]}"#,
        ][..],
        // Every call has the index 0, or none.
        &[
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\":1}"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"sub","arguments":"{}"}}]}"#,
        ],
        &[
            r#"{"tool_calls":[{"id":"a","function":{"name":"add","arguments":"{\"n\":1}"}}]}"#,
            r#"{"tool_calls":[{"id":"b","function":{"name":"sub","arguments":"{}"}}]}"#,
        ],
    ] {
        let call =
            |id: &str, name: &str, arguments: &str| (id.to_owned(), name.to_owned(), arguments.to_owned());
        assert_eq!(
            deltas(list, "tool_calls").calls,
            [call("a", "add", "{\"n\":1}"), call("b", "sub", "{}")],
            "{list:?}"
        );
    }
}

#[test]
fn only_a_stated_end_is_an_end() {
    let text = delta(r#"{"content":"a"}"#);
    let text = text.as_str();
    for (lines, end) in [
        (vec![text], "missing false"),
        (vec![], "missing false"),
        (vec![text, "[DONE]"], "completed"),
        (vec![text, &finish("stop")], "completed"),
        (vec![text, &finish("length")], "incomplete max_output_tokens"),
        (vec![text, &finish("content_filter")], "incomplete content_filter"),
        (vec![text, &finish("who_knows")], "incomplete who_knows"),
        (vec![text, &finish("insufficient_system_resource")], "Overloaded"),
        (vec![text, &finish("error")], "VendorFailure"),
        (vec![text, "{\"choices\":[{\"del"], "missing false"),
        (vec![&finish("stop"), text], "missing false"),
        (vec![&finish("stop"), text, "[DONE]"], "completed"),
        (vec![text, "{{{ not json"], "missing true"),
        (vec![text, "{{{ not json", &finish("stop")], "incomplete a part of the answer could not be read"),
    ] {
        assert_eq!(read(&lines).end, end, "{lines:?}");
    }
}

#[test]
fn silence_proves_no_end_that_came_with_content() {
    let stop =
        |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":"stop"}}]}}"#);
    for (lines, awaits) in [
        (vec![stop("{}")], true),
        (vec![stop(r#"{"content":""}"#)], true),
        (vec![stop(r#"{"content":"a"}"#)], false),
        (vec![stop(r#"{"reasoning_content":"a"}"#)], false),
        (vec![stop(r#"{"content":"a"}"#), stop("{}")], false),
        (vec![stop("{}"), delta(r#"{"content":"a"}"#), stop("{}")], false),
    ] {
        let mut reader = ChatReader::new(1, Arc::new(ChatServer::default()), false);
        for line in &lines {
            reader.event(Event { name: "", data: line.as_bytes() }, &mut Vec::new());
        }
        assert_eq!(reader.awaits_rest(), awaits, "{lines:?}");
    }
}

#[test]
fn an_error_in_the_stream_keeps_its_meaning() {
    let text = delta(r#"{"content":"a"}"#);
    for (error, end) in [
        (r#"{"error":{"code":429,"message":"slow down"}}"#, "RateLimited"),
        (r#"{"error":{"code":"401","message":"no"},"choices":[]}"#, "Unauthenticated"),
        (
            r#"{"id":"x","error":{"code":502,"message":"upstream"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
            "VendorFailure",
        ),
        (r#"{"object":"error","message":"The model is overloaded","type":"x","code":503}"#, "Overloaded"),
        (r#"{"error":"it broke"}"#, "VendorFailure"),
        (r#"{"message":"too many","code":429}"#, "RateLimited"),
        (r#"{"choices":[{"index":0,"delta":{},"error":{"code":402,"message":"pay"}}]}"#, "UsageLimit"),
        (
            r#"{"error":{"message":"maximum context length is 8192 tokens","type":"invalid_request_error","code":400}}"#,
            "ContextExceeded",
        ),
    ] {
        assert_eq!(read(&[&text, error, "[DONE]"]).end, end, "{error}");
    }
}

#[test]
fn usage_is_read_wherever_it_is() {
    let usage = r#""usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2},"cost":0.5}"#;
    let text = delta(r#"{"content":"a"}"#);
    for last in [
        format!(r#"{{"choices":[],{usage}}}"#),
        format!("{{{usage}}}"),
        format!(r#"{{"choices":[],"x_groq":{{{usage}}}}}"#),
        format!(r#"{{"choices":[{{"index":0,"delta":{{}},{usage}}}]}}"#),
    ] {
        let (events, reply) = read_with(false, &[&text, &finish("stop"), &last, "[DONE]"]);
        let counted = reply.usage.unwrap();
        assert_eq!((counted.input_tokens, counted.cache_read_tokens), (Some(6), Some(4)), "{last}");
        assert_eq!((counted.output_tokens, counted.reasoning_tokens), (Some(3), Some(2)), "{last}");
        assert!(reply.cost.is_some());
        let Some(TurnEvent::MessageEnded(ended)) = events.last() else { panic!("{events:?}") };
        assert_eq!((ended.message.as_str(), &*ended.text), ("c3.1", "a"));
        assert_eq!((ended.usage, ended.finish.clone()), (Some(counted), Some(FinishReason::Stop)));
    }
    // Without choices and after the end, the usage is the last chunk: the connection need not be closed.
    let mut reader = ChatReader::new(1, Arc::new(ChatServer::default()), false);
    let mut events = Vec::new();
    for line in [text.as_str(), &finish("stop")] {
        reader.event(Event { name: "", data: line.as_bytes() }, &mut events);
    }
    assert!(!reader.is_finished() && reader.awaits_rest());
    reader.event(Event { name: "", data: format!(r#"{{"choices":[],{usage}}}"#).as_bytes() }, &mut events);
    assert!(reader.is_finished());
}

#[test]
fn one_of_several_answers_is_read_and_the_others_are_mentioned_once() {
    let other = r#"{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}"#;
    let (events, reply) = read_with(false, &[other, other, &finish("stop")]);
    assert_eq!(seen(&events, &reply), answer("aa", ""));
    assert_eq!(events.iter().filter(|event| matches!(event, TurnEvent::Warning(_))).count(), 1);
}

#[test]
fn a_refusal_is_a_refusal() {
    let refusal = delta(r#"{"refusal":"I cannot."}"#);
    let (_, reply) = read_with(false, &[&refusal, &finish("stop")]);
    let [OutputItem::Message { text, refusal, .. }] = reply.items.as_slice() else { panic!("{reply:?}") };
    assert_eq!((text.as_str(), refusal.as_deref()), ("I cannot.", Some("I cannot.")));
}

#[test]
fn thinking_goes_back_in_the_field_in_which_it_came() {
    for (list, sealed) in [
        (
            &[r#"{"reasoning_content":"Hm"}"#, r#"{"reasoning_content":"."}"#][..],
            r#"{"reasoning_content":"Hm."}"#,
        ),
        (
            &[
                r#"{"reasoning":"H","reasoning_details":[{"type":"reasoning.text","text":"H","index":0}]}"#,
                r#"{"reasoning":"m","reasoning_details":[{"type":"reasoning.text","text":"m","index":0,"signature":"s"}]}"#,
                r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"x","index":1}]}"#,
            ],
            r#"{"reasoning":"Hm","reasoning_details":[{"index":0,"signature":"s","text":"Hm","type":"reasoning.text"},{"data":"x","index":1,"type":"reasoning.encrypted"}]}"#,
        ),
    ] {
        let lines: Vec<String> = list.iter().map(|text| delta(text)).chain([finish("stop")]).collect();
        let (_, reply) = read_with(false, &lines.iter().map(String::as_str).collect::<Vec<_>>());
        let [OutputItem::Reasoning { raw }] = reply.items.as_slice() else { panic!("{reply:?}") };
        let (raw, wanted): (Value, Value) =
            (serde_json::from_str(raw.get()).unwrap(), serde_json::from_str(sealed).unwrap());
        assert_eq!(raw, wanted);
    }
}

#[test]
fn the_answers_tool_is_the_answer() {
    let call = delta(
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"final_answer","arguments":"{\"n\": 1}"}}]}"#,
    );
    let (events, reply) = read_with(true, &[&call, &finish("tool_calls")]);
    assert_eq!(seen(&events, &reply), answer("{\"n\": 1}", ""));
    let other = delta(r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"add","arguments":"{}"}}]}"#);
    let (events, reply) = read_with(true, &[&call, &other, &finish("tool_calls")]);
    let seen = seen(&events, &reply);
    assert_eq!((seen.text.as_str(), seen.calls.len()), ("", 1), "another call has to be answered first");
}

#[test]
fn a_whole_completion_is_read_like_a_stream() {
    let mut reader = Box::new(ChatReader::new(3, Arc::new(ChatServer::default()), false));
    let mut events = Vec::new();
    let body = r#"{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning_content":"Hm.","tool_calls":[{"id":"c","type":"function","function":{"name":"add","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
    reader.whole(body.as_bytes(), &mut events);
    let reply = reader.into_reply(&mut events);
    let mut wanted = answer("a", "Hm.");
    wanted.calls.push(("c".into(), "add".into(), "{}".into()));
    assert_eq!(seen(&events, &reply), wanted);
    assert_eq!(reply.model, Some(ModelId::from("m")));
}

/// Events of a stream, as debug text, however its bytes are split.
fn split(bytes: &[u8], cuts: &[usize]) -> String {
    let mut splitter = EventSplitter::new(1 << 20);
    let mut reader = Box::new(ChatReader::new(3, Arc::new(ChatServer::default()), false));
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
    fn any_split_of_the_bytes_gives_equal_events(cuts in proptest::collection::vec(0_usize..120, 0..12), end in 0_usize..700) {
        let stream = [
            ": keep-alive\n\n".to_owned(),
            format!("data: {}\r\n\r\n", delta(r#"{"content":"<think>Hü\ud83d"}"#)),
            format!("data: {}\n\n", delta(r#"{"content":"\ude00</think> a"}"#)),
            format!("data: {}\n\n", delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}}]}"#)),
            format!("data: {}\n\n", finish("tool_calls")),
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n".to_owned(),
        ]
        .concat();
        let cut = &stream.as_bytes()[..end.min(stream.len())];
        prop_assert_eq!(split(cut, &cuts), split(cut, &[]));
        let is_ended = cut.windows(15).any(|window| window == b"\"tool_calls\"}]}");
        prop_assert_eq!(split(cut, &[]).contains("Completed"), is_ended);
    }

    #[test]
    fn no_bytes_break_the_reader(lines in proptest::collection::vec("\\PC{0,60}|\\{\"choices\":\\[\\{\"delta\":.{0,40}", 0..6)) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let _ = read(&lines);
    }
}
