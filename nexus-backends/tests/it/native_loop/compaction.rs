//! Long turns before a server whose model has a small context: older parts are dropped, and the turn ends well.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use nexus_core::{
    ConversationMode, ErrorKind, Limits, OnLost, Tool, ToolResult, Toolbox, TurnEvent, TurnHost, TurnRequest,
    turn::ConversationCompacted,
};
use nexus_testkit::sim::{
    Conversation, Dialect, Fault, Item, Reply, Scenario, Sim, StatusFault, ToolCall, Usage,
};
use serde_json::{Value, json};

use super::stage::{Ran, backend, run};

/// Size of the model's context, in bytes of text. The simulated server counts four bytes as one token.
const WINDOW_BYTES: usize = 64_000;

/// Result that a caller pinned, in the third round.
const FACT: &str = "The release branch is frozen until Friday.";

/// The wires, with the simulator's dialect and the vendor's words for a request that is too long.
const WIRES: [(&str, Dialect, &str); 4] = [
    ("responses", Dialect::Responses, "Your input exceeds the context window of this model."),
    ("chat", Dialect::Chat, "This model's maximum context length is 16000 tokens."),
    ("messages", Dialect::Anthropic, "prompt is too long: 16400 tokens > 16000 maximum"),
    (
        "gemini",
        Dialect::Gemini,
        "The input token count (16400) exceeds the maximum number of tokens allowed (16000).",
    ),
];

fn text_bytes(conversation: &Conversation) -> usize {
    let of_item = |item: &Item| match item {
        Item::User(text) | Item::Assistant(text) | Item::Thinking(text) => text.len(),
        Item::ToolCall { arguments, .. } => arguments.len(),
        Item::ToolResult { text, .. } => text.len(),
        _ => 0,
    };
    conversation.system.len() + conversation.items.iter().map(of_item).sum::<usize>()
}

/// Returns the id of a result whose call is not in the conversation.
fn lone_result(conversation: &Conversation) -> Option<&str> {
    conversation.items.iter().find_map(|item| match item {
        Item::ToolResult { id, .. } => {
            let is_call = |item: &Item| matches!(item, Item::ToolCall { id: call, .. } if call == id);
            (!conversation.items.iter().any(is_call)).then_some(id.as_str())
        }
        _ => None,
    })
}

fn refused(code: &str, message: &str) -> Reply {
    Reply::fault(Fault::Status(StatusFault {
        code: Some(code.to_owned()),
        message: Some(message.to_owned()),
        ..StatusFault::new(400)
    }))
}

/// A server whose model calls `read_log` for `rounds` rounds. `reports_usage`: each answer counts its tokens.
fn small_model(dialect: Dialect, words: &'static str, rounds: usize, reports_usage: bool) -> Sim {
    let answered = Arc::new(AtomicUsize::new(0));
    Sim::builder(dialect, Scenario::text("never"))
        .answered_by(move |conversation| {
            if let Some(id) = lone_result(conversation) {
                return Some(refused("invalid_request_error", &format!("no tool call found for {id}")));
            }
            let bytes = text_bytes(conversation);
            if bytes > WINDOW_BYTES {
                return Some(refused("context_length_exceeded", words));
            }
            let round = answered.fetch_add(1, Ordering::Relaxed);
            let reply = match round < rounds {
                true => Reply::call(ToolCall::function("read_log", json!({ "page": round }))),
                false => Reply::text("Done."),
            };
            let usage = Usage { input: bytes as u64 / 4, cached: 0, output: 10, ..Usage::default() };
            Some(if reports_usage { reply.usage(usage) } else { reply.without_usage() })
        })
        .start()
        .unwrap()
}

/// A host whose tool answers with 2 KB, and pins the answer of the third round.
fn log_reader() -> TurnHost {
    let schema = json!({ "type": "object", "properties": { "page": { "type": "integer" } } });
    let tool =
        Tool::with_schema("read_log", "Reads a page of the log.", schema, |arguments: Value| async move {
            match arguments["page"].as_u64() {
                Some(2) => ToolResult::text(FACT).pinned(),
                page => ToolResult::text(format!("page {page:?} {}", "a line of the log\n".repeat(110))),
            }
        });
    TurnHost::new().with_tools(Arc::new(Toolbox::new().with(tool)))
}

fn base_url(kind: &str, sim: &Sim) -> String {
    format!("{}/{}", sim.root_url(), if kind == "gemini" { "v1beta" } else { "v1" })
}

fn long_request() -> TurnRequest {
    let limits = Limits::new().with_deadline(Duration::from_secs(90));
    TurnRequest::new("Read the whole log, from the first page on.")
        .with_model("grok-4.6")
        .with_limits(limits)
        .with_system("Answer in one word.")
}

fn retries(ran: &Ran) -> Vec<String> {
    let retries = ran.events.iter().filter_map(|event| match event {
        TurnEvent::Retrying(retry) => Some(retry.reason.clone()),
        _ => None,
    });
    retries.collect()
}

fn compactions(ran: &Ran) -> Vec<&ConversationCompacted> {
    let compactions = ran.events.iter().filter_map(|event| match event {
        TurnEvent::Compacted(compacted) => Some(compacted),
        _ => None,
    });
    compactions.collect()
}

#[tokio::test]
async fn a_turn_of_two_hundred_rounds_ends_well_in_a_small_context() {
    for (kind, dialect, words) in WIRES {
        for (settings, reports_usage) in
            [(json!({ "context_window": WINDOW_BYTES / 4 }), true), (json!({}), false)]
        {
            let has_window = reports_usage;
            let sim = small_model(dialect, words, 200, reports_usage);
            let backend = backend(kind, &base_url(kind, &sim), settings);
            let ran = run(&*backend, long_request(), log_reader()).await;
            assert_eq!(ran.result().text, "Done.", "{kind}: {:?}", ran.warnings());
            let calls = sim.main_calls();
            let refusals = calls.iter().filter(|call| call.status == Some(400)).count();
            let compactions = compactions(&ran);
            assert!(compactions.len() > 3, "{kind}: {compactions:?}");
            match has_window {
                true => {
                    assert_eq!(refusals, 0, "{kind}: a known context is never exceeded: {:?}", retries(&ran));
                }
                false => assert_eq!(refusals, compactions.len(), "{kind}: each refusal has one compaction"),
            }
            let last = &calls.last().unwrap().conversation;
            let users = last.user_texts().join("\n");
            assert!(users.contains("Read the whole log"), "{kind}: {users}");
            assert!(last.system.contains("Answer in one word."), "{kind}");
            assert!(last.tool_results().iter().any(|result| result.contains(FACT)), "{kind}");
            let dropped = last
                .tool_results()
                .iter()
                .any(|result| result.contains(" bytes of read_log dropped; record "));
            assert!(dropped, "{kind}: {:?}", last.tool_results());
        }
    }
}

#[tokio::test]
async fn a_conversation_that_was_compacted_is_resumed_and_moves_to_another_wire() {
    let (kind, dialect, words) = WIRES[0];
    let sim = small_model(dialect, words, 60, false);
    let first = backend(kind, &base_url(kind, &sim), json!({}));
    let begins = long_request().with_conversation(ConversationMode::Keep);
    let ran = run(&*first, begins, log_reader()).await;
    let handle = ran.result().resume.clone().unwrap();
    for (kind, dialect, words) in WIRES {
        let sim = small_model(dialect, words, 0, false);
        let backend = backend(kind, &base_url(kind, &sim), json!({}));
        let again =
            TurnRequest::new("And now?").with_model("grok-4.6").with_conversation(ConversationMode::Resume {
                // The conversation of another backend.
                handle: handle.clone(),
                on_lost: OnLost::Fail,
            });
        let ran = run(&*backend, again, log_reader()).await;
        // The conversation is close to the limit, so a wire that writes more than another compacts once more.
        assert_eq!(ran.result().text, "Done.", "{kind}");
        let last = &sim.main_calls().last().unwrap().conversation.clone();
        assert!(last.tool_results().iter().any(|result| result.contains(FACT)), "{kind}: pins are stored");
        let users = last.user_texts().join("\n");
        assert!(users.contains("Read the whole log") && users.contains("And now?"), "{kind}: {users}");
    }
}

#[tokio::test]
async fn a_prompt_that_is_too_long_alone_is_refused_once() {
    for (kind, dialect, words) in WIRES {
        let sim = small_model(dialect, words, 0, true);
        let backend = backend(kind, &base_url(kind, &sim), json!({}));
        let prompt = "a word ".repeat(WINDOW_BYTES / 4);
        let ran = run(&*backend, TurnRequest::new(prompt).with_model("m"), TurnHost::new()).await;
        assert_eq!(ran.error().kind(), ErrorKind::ContextExceeded, "{kind}");
        assert_eq!(sim.main_calls().len(), 1, "{kind}: nothing can be dropped, so nothing is sent again");
        assert!(compactions(&ran).is_empty());
    }
}
