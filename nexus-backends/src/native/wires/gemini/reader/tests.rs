//! Results of streams of the Gemini API, and of servers that imitate it.

use nexus_core::turn::FinishReason;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::generic::gemini::GeminiServer;
use crate::native::sse::EventSplitter;

const STOP: &str = r#"{"candidates":[{"content":{"role":"model"},"finishReason":"STOP","index":0}]}"#;

fn reader(has_answer_tool: bool) -> Box<GeminiReader> {
    Box::new(GeminiReader::new(3, Arc::new(GeminiServer::default()), has_answer_tool))
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

fn chunk(parts: &[&str]) -> String {
    format!(r#"{{"candidates":[{{"content":{{"parts":[{}],"role":"model"}},"index":0}}]}}"#, parts.join(","))
}

fn reason(reason: &str) -> String {
    format!(r#"{{"candidates":[{{"finishReason":"{reason}","finishMessage":"Why."}}]}}"#)
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

/// Items in short: reasoning as its JSON, messages by their text, calls by id, name and arguments.
fn items(reply: &ModelReply) -> Vec<String> {
    let short = |item: &OutputItem| match item {
        OutputItem::Reasoning { raw } => raw.get().to_owned(),
        OutputItem::Message { text, .. } => text.clone(),
        OutputItem::Call(call) => format!("{} {} {}", call.call_id, call.name, call.arguments),
        other => format!("{other:?}"),
    };
    reply.items.iter().map(short).collect()
}

fn end(reply: &ModelReply) -> String {
    match &reply.ending {
        CallEnding::Completed { .. } => "completed".to_owned(),
        CallEnding::Incomplete { reason } => format!("incomplete {reason}"),
        CallEnding::Failed(failure) => format!("{:?}", failure.kind),
        CallEnding::Missing { unreadable } => format!("missing {unreadable}"),
    }
}

fn warnings(events: &[TurnEvent]) -> Vec<String> {
    events
        .iter()
        .filter(|event| matches!(event, TurnEvent::Warning(_)))
        .map(|event| format!("{event:?}"))
        .collect()
}

#[test]
fn thinking_text_and_calls_stay_in_order_with_their_signatures() {
    let lines = [
        chunk(&[r#"{"text":"H","thought":true}"#]),
        chunk(&[r#"{"text":"m.","thought":true}"#]),
        chunk(&[r#"{"text":"Loo"}"#, r#"{"text":"k","thoughtSignature":"QQ=="}"#]),
        chunk(&[r#"{"text":".","thought_signature":"Qg=="}"#]),
        chunk(&[
            r#"{"functionCall":{"id":"fc-1","name":"add","args":{"a" : 1}},"thoughtSignature":"Qw=="}"#,
            r#"{"functionCall":{"name":"now"}}"#,
            r#"{"functionCall":{"id":null,"name":"sub","args":"{\"b\" :2}"}}"#,
        ]),
        STOP.to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (events, reply) = read_with(false, &lines);
    assert_eq!(texts(&events), ("Look.".to_owned(), "Hm.".to_owned()));
    let wanted = [
        r#"{"thoughtSignature":"QQ==","range":[3,4]}"#,
        r#"{"thoughtSignature":"Qg==","range":[4,5]}"#,
        "Look.",
        r#"{"thoughtSignature":"Qw=="}"#,
        r#"fc-1 add {"a" : 1}"#,
        "unnamed_call_3_2 now {}",
        r#"unnamed_call_3_3 sub {"b" :2}"#,
    ];
    assert_eq!(items(&reply), wanted);
    let Some(TurnEvent::MessageEnded(ended)) = events.last() else { panic!("{events:?}") };
    assert_eq!((ended.message.as_str(), &*ended.text), ("c3.1", "Look."));
    assert_eq!(ended.finish, Some(FinishReason::ToolCalls));
}

#[test]
fn signed_thinking_and_an_empty_signed_part_are_kept_and_other_thinking_is_not() {
    let lines = [
        chunk(&[r#"{"text":"a","thought":true}"#]),
        chunk(&[r#"{"text":"","thought":true,"thoughtSignature":"QQ=="}"#]),
        chunk(&[r#"{"text":"b","thought":true}"#, r#"{"text":"c"}"#]),
        chunk(&[r#"{"text":"","thoughtSignature":"Qg=="}"#]),
        STOP.to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (_, reply) = read_with(false, &lines);
    let wanted =
        [r#"{"thoughtSignature":"QQ==","thought":"a"}"#, r#"{"thoughtSignature":"Qg==","range":[1,1]}"#, "c"];
    assert_eq!(items(&reply), wanted);
}

#[test]
fn counts_share_no_token_and_the_last_report_counts() {
    let usage = |counts: &str| format!(r#"{{"usageMetadata":{counts}}}"#);
    let first = usage(r#"{"promptTokenCount":50,"totalTokenCount":50}"#);
    let last = usage(
        r#"{"promptTokenCount":50,"cachedContentTokenCount":30,"candidatesTokenCount":7,"thoughtsTokenCount":3,"toolUsePromptTokenCount":2}"#,
    );
    let (_, reply) = read_with(false, &[&first, STOP, &last]);
    let usage = reply.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.cache_read_tokens), (Some(22), Some(30)));
    assert_eq!((usage.output_tokens, usage.reasoning_tokens), (Some(7), Some(3)));
    assert_eq!(end(&reply), "completed", "the usage may follow the end");
    assert_eq!(read_with(false, &[&first, STOP]).1.usage.unwrap().output_tokens, None);
}

#[test]
fn every_finish_reason_has_its_meaning() {
    let call = chunk(&[r#"{"text":"a"}"#, r#"{"functionCall":{"name":"x"}}"#]);
    for (word, wanted, calls) in [
        ("STOP", "completed", 1),
        ("MAX_TOKENS", "incomplete max_output_tokens", 0),
        ("SAFETY", "incomplete content_filter", 0),
        ("RECITATION", "incomplete content_filter", 0),
        ("PROHIBITED_CONTENT", "incomplete content_filter", 0),
        ("MALFORMED_FUNCTION_CALL", "VendorFailure", 0),
        ("UNEXPECTED_TOOL_CALL", "VendorFailure", 0),
        ("MISSING_THOUGHT_SIGNATURE", "InvalidRequest", 0),
        ("TOO_MANY_TOOL_CALLS", "incomplete TOO_MANY_TOOL_CALLS", 0),
        ("FUNCTION_CALL", "completed", 1),
        ("WHO_KNOWS", "incomplete WHO_KNOWS", 0),
        ("FINISH_REASON_UNSPECIFIED", "missing false", 0),
    ] {
        let (events, reply) = read_with(false, &[&call, &reason(word)]);
        assert_eq!(end(&reply), wanted, "{word}");
        assert_eq!(reply.items.iter().filter(|item| item.is_call()).count(), calls, "{word}");
        let is_named =
            warnings(&events).iter().any(|warning| warning.contains(word) && warning.contains("Why."));
        assert_eq!(is_named, wanted == "incomplete content_filter", "{word}");
    }
}

#[test]
fn a_stream_without_a_finish_reason_is_no_answer() {
    let text = chunk(&[r#"{"text":"a"}"#]);
    let usage = r#"{"usageMetadata":{"promptTokenCount":1}}"#;
    let text = text.as_str();
    for lines in [
        &[][..],
        &[text],
        &[text, usage],
        &[r#"{"candidates":[]}"#],
        &[r#"{"candidates":[{}]}"#],
        &["[DONE]"],
    ] {
        let (_, reply) = read_with(false, lines);
        assert_eq!((end(&reply), reply.items.len()), ("missing false".to_owned(), 0), "{lines:?}");
    }
    assert_eq!(
        end(&read_with(false, &[text, "{{{", STOP]).1),
        "incomplete a part of the answer could not be read"
    );
    assert_eq!(end(&read_with(false, &[text, "{{{"]).1), "missing true");
}

#[test]
fn content_after_an_end_refutes_the_end() {
    let false_end = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}"#;
    let text = chunk(&[r#"{"text":"b"}"#]);
    assert_eq!(end(&read_with(false, &[false_end, &text]).1), "missing false");
    assert_eq!(items(&read_with(false, &[false_end, &text, STOP]).1), ["ab"]);
    let mut open = reader(false);
    let mut events = Vec::new();
    open.event(Event { name: "", data: false_end.as_bytes() }, &mut events);
    assert!(!open.awaits_rest() && !open.is_finished(), "more may follow an end with content");
    open.event(Event { name: "", data: text.as_bytes() }, &mut events);
    open.event(Event { name: "", data: STOP.as_bytes() }, &mut events);
    assert!(!open.awaits_rest(), "such a server is read to its end");
    let mut ended = reader(false);
    ended.event(Event { name: "", data: STOP.as_bytes() }, &mut events);
    assert!(ended.awaits_rest(), "only the usage may follow");
}

#[test]
fn a_broken_body_ends_no_answer_whose_every_chunk_states_an_end() {
    let stop = |text: &str| {
        format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}},"finishReason":"STOP"}}]}}"#)
    };
    for (chunks, is_broken, wanted) in [
        (&["a", "b"][..], false, "completed"),
        (&["a", "b"], true, "missing false"),
        // One end, which nothing refutes.
        (&["a"], true, "completed"),
    ] {
        let mut reader = reader(false);
        let mut events = Vec::new();
        for text in chunks {
            reader.event(Event { name: "", data: stop(text).as_bytes() }, &mut events);
        }
        if is_broken {
            reader.body_broke();
        }
        assert_eq!(end(&reader.into_reply(&mut events)), wanted, "{chunks:?} {is_broken}");
    }
}

#[test]
fn a_blocked_prompt_is_refused() {
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY","blockReasonMessage":"No."},"usageMetadata":{"promptTokenCount":4}}"#;
    let (_, reply) = read_with(false, &[blocked]);
    let CallEnding::Failed(failure) = &reply.ending else { panic!("{reply:?}") };
    assert_eq!(failure.kind, ErrorKind::Refused);
    assert_eq!(failure.message.as_deref(), Some("the server's filter blocked the prompt: SAFETY: No."));
    assert_eq!(reply.usage.unwrap().input_tokens, Some(4));
    let rated = r#"{"promptFeedback":{"safetyRatings":[]}}"#;
    assert_eq!(end(&read_with(false, &[rated, &chunk(&[r#"{"text":"a"}"#]), STOP]).1), "completed");
}

#[test]
fn an_error_in_the_stream_keeps_its_meaning() {
    for (code, status, wanted) in [
        (503, "UNAVAILABLE", "Overloaded"),
        (429, "RESOURCE_EXHAUSTED", "RateLimited"),
        (500, "INTERNAL", "VendorFailure"),
        (400, "INVALID_ARGUMENT", "InvalidRequest"),
        (504, "DEADLINE_EXCEEDED", "Transport"),
    ] {
        let error = json!({ "error": { "code": code, "message": "no", "status": status } }).to_string();
        assert_eq!(end(&read_with(false, &[&chunk(&[r#"{"text":"a"}"#]), &error]).1), wanted, "{status}");
    }
}

#[test]
fn an_error_outside_of_the_events_counts_also_after_an_end() {
    let error = b"{\n  \"error\": {\"code\": 503, \"status\": \"UNAVAILABLE\"}\n}\n";
    for ends in [false, true] {
        let mut reader = reader(false);
        let mut events = Vec::new();
        reader.event(Event { name: "", data: chunk(&[r#"{"text":"a"}"#]).as_bytes() }, &mut events);
        if ends {
            reader.event(Event { name: "", data: STOP.as_bytes() }, &mut events);
        }
        reader.received(error);
        assert_eq!(end(&reader.into_reply(&mut events)), "Overloaded");
    }
}

#[test]
fn only_the_first_candidate_counts() {
    let two = r#"{"candidates":[{"index":1,"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"},{"content":{"parts":[{"text":"a"}]}}]}"#;
    let (events, reply) = read_with(false, &[two, two]);
    assert_eq!((end(&reply).as_str(), texts(&events).0.as_str()), ("missing false", "aa"));
    assert_eq!(warnings(&events).len(), 1);
    assert_eq!(items(&read_with(false, &[two, STOP]).1), ["a"]);
}

#[test]
fn a_part_of_an_unknown_kind_is_reported() {
    for part in [
        r#"{"executableCode":{"code":"1"}}"#,
        r#"{"inlineData":{"mimeType":"image/png","data":""}}"#,
        r#"{"functionCall":{"willContinue":true}}"#,
        r#"{"inlineData":{"mimeType":"image/png","data":""},"thoughtSignature":"QQ=="}"#,
        r#"{"thought":true,"thoughtSignature":"QQ==","inlineData":{"mimeType":"image/png","data":""}}"#,
        r#"{"functionCall":{"willContinue":true},"thoughtSignature":"QQ=="}"#,
        "7",
    ] {
        let (events, reply) = read_with(false, &[&chunk(&[part, r#"{"text":"a"}"#]), STOP]);
        assert_eq!(items(&reply), ["a"], "{part}");
        assert!(events.iter().any(|event| matches!(event, TurnEvent::Unrecognized(_))), "{part}");
    }
    let bare = chunk(&[r#"{"text":null,"thoughtSignature":"QQ=="}"#]);
    let (events, reply) = read_with(false, &[&bare, STOP]);
    assert_eq!(items(&reply), [r#"{"thoughtSignature":"QQ==","range":[0,0]}"#]);
    assert!(!events.iter().any(|event| matches!(event, TurnEvent::Unrecognized(_))));
    let (events, _) = read_with(false, &[r#"{"news":1}"#, STOP]);
    assert!(events.iter().any(|event| matches!(event, TurnEvent::Unrecognized(_))));
}

#[test]
fn a_split_character_is_joined_and_a_lone_half_is_replaced() {
    for (parts, wanted) in [
        (&[r#"{"text":"a\ud83d"}"#, r#"{"text":"\ude00b"}"#][..], "a😀b"),
        (&[r#"{"text":"a\ud83d"}"#], "a\u{fffd}"),
        (&[r#"{"text":"a\ud800b"}"#], "a\u{fffd}b"),
    ] {
        let lines: Vec<String> = parts.iter().map(|part| chunk(&[part])).chain([STOP.to_owned()]).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (events, reply) = read_with(false, &lines);
        assert_eq!((texts(&events).0.as_str(), end(&reply).as_str()), (wanted, "completed"), "{parts:?}");
        assert_eq!(items(&reply), [wanted]);
    }
}

#[test]
fn a_whole_answer_and_a_list_of_chunks_are_read_like_a_stream() {
    let text = chunk(&[r#"{"text":"a"}"#]);
    let whole = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"candidatesTokenCount":1}}"#;
    for (body, wanted) in [
        (whole.to_owned(), "completed"),
        (format!("[{text}\n,\r\n{STOP}]"), "completed"),
        (format!("[{text}]"), "missing false"),
        (text.clone(), "missing false"),
        (format!(r#"[{text},{{"error":{{"code":503}}}}]"#), "Overloaded"),
        (format!("[{text},"), "missing false"),
    ] {
        let mut reader = reader(false);
        let mut events = Vec::new();
        reader.whole(body.as_bytes(), &mut events);
        assert_eq!(end(&reader.into_reply(&mut events)), wanted, "{body}");
    }
}

#[test]
fn a_call_of_the_answers_tool_is_the_answer_unless_another_tool_is_called() {
    let answer = r#"{"functionCall":{"name":"final_answer","args":{"n":1}},"thoughtSignature":"QQ=="}"#;
    let other = r#"{"functionCall":{"name":"add"}}"#;
    assert_eq!(items(&read_with(true, &[&chunk(&[answer]), STOP]).1), [r#"{"n":1}"#]);
    let wanted = [r#"{"thoughtSignature":"QQ=="}"#, "unnamed_call_3_1 add {}"];
    assert_eq!(items(&read_with(true, &[&chunk(&[answer, other]), STOP]).1), wanted);
    let signed = r#"{"functionCall":{"name":"add"},"thoughtSignature":"Qg=="}"#;
    let both = read_with(true, &[&chunk(&[answer, signed, other]), STOP]).1;
    let wanted = [r#"{"thoughtSignature":"Qg=="}"#, "unnamed_call_3_1 add {}", "unnamed_call_3_2 add {}"];
    assert_eq!(items(&both), wanted);
    let named = read_with(false, &[&chunk(&[answer]), STOP]).1;
    assert!(items(&named)[1].contains("final_answer"));
}

proptest! {
    #[test]
    fn any_events_are_read_and_only_a_finish_reason_ends(
        events in proptest::collection::vec((0_usize..9, "[a-z{}\\[\\]\":,]{0,6}"), 0..12),
    ) {
        let mut body = String::new();
        for (kind, text) in &events {
            let text = text.replace('"', "'");
            body.push_str("data: ");
            body.push_str(&match kind {
                0 => chunk(&[&json!({ "text": text }).to_string()]),
                1 => chunk(&[&json!({ "text": text, "thought": true, "thoughtSignature": text }).to_string()]),
                2 => chunk(&[&json!({ "functionCall": { "name": text, "args": { "a": text } } }).to_string()]),
                3 => reason(&text.replace(['{', '}', '[', ']'], "")),
                4 => json!({ "promptFeedback": { "blockReason": text } }).to_string(),
                5 => json!({ "usageMetadata": { "promptTokenCount": text } }).to_string(),
                6 => format!("{{\"candidates\":[{{\"content\":{text}"),
                7 => chunk(&[&text]),
                _ => json!({ "candidates": text, "error": null }).to_string(),
            });
            body.push_str("\n\n");
        }
        let mut splitter = EventSplitter::new(1 << 20);
        let mut reader = reader(true);
        let mut seen = Vec::new();
        splitter.push(body.clone().into());
        while let Some(event) = splitter.next().unwrap() {
            reader.event(event, &mut seen);
        }
        let reply = reader.into_reply(&mut seen);
        prop_assert!(end(&reply) != "completed" || body.contains("finishReason"));
    }
}
