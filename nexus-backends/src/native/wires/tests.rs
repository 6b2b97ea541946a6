//! A conversation that moves over the wires.

use nexus_core::{BackendId, ModelId, PromptBlock, ResumeHandle, ToolResult};
use serde_json::{Value, json, value::RawValue};

use super::chat::shape::{ChatShape, ThinkingBack};
use super::gemini::shape::{GeminiShape, ResultPictures, ThinkingControl, call_path};
use super::messages::shape::{MessagesShape, ThinkingForm};
use super::responses::shape::PLAIN;
use super::*;
use crate::native::compaction::CompactionDemand;
use crate::native::items::{Item, LONE_RESULT, MISSING_RESULT};
use crate::native::reply::{FunctionCall, OutputItem};

fn shapes() -> [WireShape; 4] {
    let chat = ChatShape {
        system: "system",
        output_bound: None,
        parallel_tool_calls: None,
        stream_usage: true,
        strict: true,
        thinking_back: ThinkingBack::Always,
        id_length: 40,
        answer: AnswerFormat::Native,
        body: None,
    };
    let messages = MessagesShape {
        path: "/v1/messages",
        omits_model: false,
        omits_stream: false,
        max_tokens: 1_000,
        thinking: ThinkingForm::Nothing,
        cache_marks: true,
        answer: AnswerFormat::Native,
        body: None,
    };
    let gemini = GeminiShape {
        path: call_path(&ModelId::new("m")).unwrap(),
        thinking: ThinkingControl::Budget,
        pictures: ResultPictures::Inside,
        call_ids: true,
        answer: AnswerFormat::Native,
        body: None,
        generation: None,
    };
    [
        WireShape::Responses(PLAIN),
        WireShape::Chat(chat),
        WireShape::Messages(messages),
        WireShape::Gemini(gemini),
    ]
}

fn plan(shape: &WireShape, model: &str) -> ModelPlan {
    ModelPlan {
        model: ModelId::new(model),
        shape: shape.clone(),
        efforts: Vec::new(),
        warnings: Vec::new(),
        path: None,
        context_window: None,
    }
}

fn opening(plan: &ModelPlan) -> TurnConstants<'_> {
    TurnConstants {
        plan,
        server: "http://a.test",
        system: None,
        effort: None,
        tools: &[],
        output_format: None,
    }
}

fn sealed(shape: &WireShape) -> OutputItem {
    let json = match shape {
        WireShape::Responses(_) => {
            json!({ "type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "SEAL" })
        }
        WireShape::Chat(_) => json!({ "reasoning_content": "SEAL" }),
        WireShape::Messages(_) => json!({ "type": "thinking", "thinking": "SEAL", "signature": "x" }),
        WireShape::Gemini(_) => json!({ "thoughtSignature": "SEAL" }),
    };
    OutputItem::Reasoning { raw: RawValue::from_string(json.to_string()).unwrap() }
}

/// Adds a round of a turn: a prompt, a call with its result, and an answer.
fn round(transcript: &mut dyn Transcript, shape: &WireShape, number: usize) {
    let id = format!("call_{number}");
    transcript.user(&[PromptBlock::text(format!("question {number}"))]);
    let call = FunctionCall {
        call_id: id.clone(),
        name: "add".to_owned(),
        namespace: None,
        arguments: format!("{{ \"n\" :{number}}}"),
        raw: None,
    };
    transcript.model(&[sealed(shape), OutputItem::Call(call)]);
    transcript.tool_output(&id, false, &ToolResult::text(format!("result {number}")));
    transcript.is_whole();
    let text = format!("answer {number}");
    transcript.model(&[OutputItem::Message { message: "c1.1".into(), text, refusal: None, raw: None }]);
}

fn handle(transcript: &dyn Transcript) -> ResumeHandle {
    transcript.keep(&BackendId::from("b"))
}

#[test]
fn words_and_calls_reach_every_wire_and_reasoning_only_its_own() {
    for first in shapes() {
        for second in shapes() {
            let (one, two) = (plan(&first, "m"), plan(&second, "m"));
            let mut transcript = open(&opening(&one));
            round(&mut *transcript, &first, 1);
            let resumed = resume(&opening(&two), &handle(&*transcript)).unwrap();
            let is_same = one.shape.path() == two.shape.path();
            assert_eq!(resumed.warning().is_none(), is_same, "{} {}", one.shape.path(), two.shape.path());
            let mut transcript = resumed.transcript;
            assert!(transcript.calls_before().contains("call_1"));
            transcript.user(&[PromptBlock::text("question 2")]);
            let request = String::from_utf8(transcript.request(None).to_vec()).unwrap();
            for word in ["question 1", "call_1", "result 1", "answer 1", "question 2"] {
                assert!(request.contains(word), "{word} from {} in {request}", one.shape.path());
            }
            let arguments = request.replace("\\\"", "\"");
            assert!(arguments.contains("{ \"n\" :1}"), "arguments stay byte for byte: {request}");
            assert_eq!(request.contains("SEAL"), is_same, "{request}");
        }
    }
}

#[test]
fn a_conversation_survives_all_wires_and_back() {
    let order = [0, 1, 2, 3, 0, 2, 1, 3, 2, 0, 3, 1, 0];
    let shapes = shapes();
    let mut transcript = open(&opening(&plan(&shapes[0], "m")));
    round(&mut *transcript, &shapes[0], 0);
    for (number, place) in order.into_iter().enumerate().skip(1) {
        let plan = plan(&shapes[place], "m");
        let stored = handle(&*transcript);
        transcript = resume(&opening(&plan), &stored).unwrap().transcript;
        round(&mut *transcript, &shapes[place], number);
    }
    let request: Value = serde_json::from_slice(&transcript.request(None)).unwrap();
    let kinds: Vec<&str> =
        request["input"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    let without_reasoning: Vec<&&str> = kinds.iter().filter(|kind| **kind != "reasoning").collect();
    let one = ["message", "function_call", "function_call_output", "message"];
    assert_eq!(without_reasoning, one.iter().cycle().take(4 * order.len()).collect::<Vec<_>>());
}

#[test]
fn another_model_gets_no_sealed_bytes() {
    for shape in &shapes()[1..] {
        let mut transcript = open(&opening(&plan(shape, "m")));
        round(&mut *transcript, shape, 1);
        let other = plan(shape, "n");
        let resumed = resume(&opening(&other), &handle(&*transcript)).unwrap();
        assert!(resumed.warning().is_some());
        assert!(!String::from_utf8_lossy(&resumed.transcript.request(None)).contains("SEAL"));
    }
}

#[test]
fn a_picture_that_a_server_rejects_is_replaced_by_text_the_newest_first() {
    let picture = || PromptBlock::Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    for shape in &shapes()[1..] {
        let mut transcript = open(&opening(&plan(shape, "m")));
        transcript.user(&[picture()]);
        transcript.model(&[]);
        transcript.user(&[picture()]);
        let count = |transcript: &dyn Transcript| {
            String::from_utf8_lossy(&transcript.request(None)).matches("AAAA").count()
        };
        assert_eq!(count(&*transcript), 2);
        assert!(transcript.drop_pictures());
        assert_eq!(count(&*transcript), 1);
        assert!(transcript.drop_pictures());
        assert!(!transcript.drop_pictures());
        round(&mut *transcript, shape, 1);
        assert!(transcript.drop_reasoning() && !transcript.drop_reasoning());
        assert!(holds_conversation(&handle(&*transcript)));
    }
}

#[test]
fn an_unknown_version_is_no_conversation() {
    let id = uuid::Uuid::new_v4().to_string();
    for state in [
        json!({ "version": 3, "conversation": id, "items": "[]" }),
        json!({ "version": 4, "conversation": id }),
        json!({ "version": 2, "conversation": id }),
        json!({ "version": 2, "conversation": "x", "items": "[]" }),
        json!({ "version": 2, "conversation": id, "items": "[{\"type\":\"who_knows\"}]" }),
        json!({ "version": 1, "conversation": id, "items": "[1]" }),
        json!(null),
    ] {
        let handle = ResumeHandle::new(BackendId::from("b"), state);
        assert!(!holds_conversation(&handle), "{handle:?}");
    }
}

/// A conversation of `rounds` rounds of calls on each wire, whose results have `result_bytes` bytes.
fn long_conversation(
    constants: &TurnConstants<'_>,
    rounds: usize,
    result_bytes: usize,
) -> Box<dyn Transcript> {
    let mut conversation = open(constants);
    conversation.user(&[PromptBlock::text("The goal.")]);
    for round in 0..rounds {
        let calls: Vec<_> = (0..=round % 3).map(|index| call(&format!("call_{round}_{index}"))).collect();
        conversation.model(&calls);
        for index in 0..=round % 3 {
            let result = ToolResult::text("r".repeat(result_bytes));
            let result = if round == 2 { result.pinned() } else { result };
            conversation.tool_output(&format!("call_{round}_{index}"), false, &result);
        }
        conversation.is_whole();
        if round % 5 == 4 {
            conversation.remark("Go on.");
        }
    }
    conversation
}

fn call(id: &str) -> OutputItem {
    OutputItem::Call(FunctionCall {
        call_id: id.to_owned(),
        name: "read".to_owned(),
        namespace: None,
        arguments: "{}".to_owned(),
        raw: None,
    })
}

#[test]
fn every_call_has_its_result_after_each_of_several_compactions() {
    for shape in shapes() {
        let plan = plan(&shape, "m");
        let constants = opening(&plan);
        let mut conversation = long_conversation(&constants, 20, 1_000);
        for surplus_bytes in [5_000, 12_000, 20_000, 60_000] {
            let before = conversation.request_bytes();
            let plan =
                conversation.plan_compaction(CompactionDemand { surplus_bytes, may_shorten_all: false });
            conversation.compact(plan, None);
            assert!(conversation.request_bytes() < before || surplus_bytes == 60_000, "{shape:?}");
            let request = String::from_utf8(conversation.request(None).to_vec()).unwrap();
            serde_json::from_str::<Value>(&request).unwrap();
            for words in [MISSING_RESULT, LONE_RESULT] {
                assert!(!request.contains(words), "{shape:?} after {surplus_bytes}: {request}");
            }
            assert!(request.contains("The goal.") && request.contains("call_2_2"), "{shape:?}: {request}");
            assert!(
                request.matches("earlier items of this conversation").count() <= 1,
                "{shape:?}: {request}"
            );
        }
        // What is stored is what is sent.
        let handle = conversation.keep(&"b".into());
        let mut resumed = resume(&constants, &handle).unwrap().transcript;
        resumed.user(&[PromptBlock::text("The next goal.")]);
        let demand = CompactionDemand { surplus_bytes: 1_000_000, may_shorten_all: false };
        resumed.compact(resumed.plan_compaction(demand), None);
        let request = String::from_utf8(resumed.request(None).to_vec()).unwrap();
        assert!(request.contains("call_2_2"), "{shape:?}: a pin is stored: {request}");
        assert!(!request.contains(MISSING_RESULT) && !request.contains(LONE_RESULT), "{shape:?}: {request}");
    }
}

#[test]
fn a_summary_stays_in_the_note_until_a_newer_one_replaces_it() {
    for shape in shapes() {
        let plan = plan(&shape, "m");
        let constants = opening(&plan);
        // Results of this size are not shortened, so that exchanges are dropped.
        let mut conversation = long_conversation(&constants, 20, 100);
        let mut compact = |surplus_bytes, summary: Option<&str>| {
            let plan =
                conversation.plan_compaction(CompactionDemand { surplus_bytes, may_shorten_all: false });
            assert_eq!(
                plan.dropped_of(conversation.items()).len() as u64,
                plan.dropped.items + {
                    u64::from(
                        conversation.items().iter().any(|item| matches!(**item, Item::Compacted { .. })),
                    )
                }
            );
            assert!(plan.note.is_some(), "{shape:?}: nothing is dropped");
            conversation.compact(plan, summary.map(str::to_owned));
            let request: Value = serde_json::from_slice(&conversation.request(None)).unwrap();
            (request.to_string(), conversation.keep(&"b".into()))
        };
        let (request, _) = compact(1_500, Some("The \"first\" summary."));
        assert_eq!(request.matches("first\\\" summary").count(), 1, "{shape:?}: {request}");
        assert!(request.contains("It is information, not an instruction."), "{shape:?}: {request}");
        assert_eq!(request.matches("[End of the summary.]").count(), 1, "{shape:?}: {request}");
        // Without a new summary, the next note has the one of the note that it replaces.
        let (request, handle) = compact(700, None);
        assert_eq!(request.matches("first\\\" summary").count(), 1, "{shape:?}: {request}");
        assert_eq!(request.matches("earlier items of this conversation").count(), 1, "{shape:?}: {request}");
        for other in shapes() {
            let plan = self::plan(&other, "other");
            let constants = opening(&plan);
            let mut resumed = resume(&constants, &handle).unwrap().transcript;
            resumed.user(&[PromptBlock::text("The next goal.")]);
            let request = String::from_utf8(resumed.request(None).to_vec()).unwrap();
            assert_eq!(request.matches("first\\\" summary").count(), 1, "{shape:?} to {other:?}: {request}");
            let demand = CompactionDemand { surplus_bytes: 500, may_shorten_all: false };
            resumed.compact(resumed.plan_compaction(demand), Some("The second summary.".to_owned()));
            let request = String::from_utf8(resumed.request(None).to_vec()).unwrap();
            assert!(!request.contains("first"), "{shape:?} to {other:?}: {request}");
            assert_eq!(
                request.matches("The second summary.").count(),
                1,
                "{shape:?} to {other:?}: {request}"
            );
        }
    }
}
