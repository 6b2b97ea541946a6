//! Each wire before a real inference server: llama.cpp's, with a model whose few weights were written by hand.
//!
//! Needs the variables of `real/wires/install`:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-backends --test it inference_server:: -- --ignored`

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use nexus_core::{
    Availability, BuildContext, ConversationMode, ErrorKind, EventEnvelope, ExecutionBackend, Limits,
    OutputSchema, Tool, Toolbox, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult,
};
use serde_json::{Value, json};

/// The wires that the server speaks, as kinds of a configuration.
const WIRES: [&str; 3] = ["responses", "chat", "messages"];

/// What the model answers without tools, and after the result of one.
const ANSWER: &str = "Hello from one real server";

/// llama.cpp's server on a port of its own. Dropped, it is gone.
struct Inference {
    child: Child,
    base_url: String,
    folder: tempfile::TempDir,
}

impl Inference {
    fn start(context_tokens: u32) -> Self {
        let named = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(named("NEXUS_REAL_INFERENCE_PYTHON"))
            .arg(named("NEXUS_REAL_INFERENCE_SERVER"))
            .arg(named("NEXUS_REAL_INFERENCE_MODEL"))
            .arg(context_tokens.to_string())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Python runs");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let base_url = lines
            .find_map(|line| Some(format!("{}/v1", line.unwrap().strip_prefix("listening on ")?)))
            .expect("the server says where it is");
        // Whoever does not read on lets the server wait, once the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, base_url, folder }
    }

    /// A backend by the provider's row, at the address of the server.
    fn provided(&self) -> Arc<dyn ExecutionBackend> {
        let entry = json!({ "base_url": self.base_url, "model": "tiny" });
        let context = BuildContext::in_home(self.folder.path()).with_base_directory(self.folder.path());
        let registry = nexus_backends::registry();
        let providers = registry.providers().unwrap();
        let provided = providers.complete("llamacpp", entry.as_object().unwrap(), None).unwrap();
        let kind = registry.kind(&provided.kind).unwrap();
        kind.build("real".into(), &provided.settings, &context).unwrap()
    }

    fn backend(&self, kind: &str, more: &Value) -> Arc<dyn ExecutionBackend> {
        let mut settings = json!({ "base_url": self.base_url, "model": "tiny" });
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let context = BuildContext::in_home(self.folder.path()).with_base_directory(self.folder.path());
        let registry = nexus_backends::registry();
        let kind = registry.kind(kind).unwrap();
        kind.build("real".into(), settings.as_object().unwrap(), &context).unwrap()
    }
}

impl Drop for Inference {
    fn drop(&mut self) {
        // It is gone already, or it goes now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn run(
    backend: &dyn ExecutionBackend,
    request: TurnRequest,
    host: TurnHost,
) -> (Vec<TurnEvent>, Result<TurnResult, TurnError>) {
    let mut events = Vec::new();
    let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
    let outcome = backend.run_turn(request, host, &mut sink).await;
    (events, outcome)
}

fn request(prompt: &str) -> TurnRequest {
    TurnRequest::new(prompt).with_limits(Limits::new().with_deadline(Duration::from_secs(60)))
}

fn double() -> TurnHost {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let tool = Tool::with_schema("double", "Doubles a number.", schema, |arguments: Value| async move {
        (arguments["n"].as_i64().unwrap_or_default() * 2).to_string()
    });
    TurnHost::new().with_tools(Arc::new(Toolbox::new().with(tool)))
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn text_streams_with_its_usage_and_the_probe_knows_the_server() {
    let server = Inference::start(16_384);
    for kind in WIRES {
        let backend = server.backend(kind, &json!({}));
        let probed = backend.probe().await;
        assert!(matches!(probed, Availability::Ready { .. }), "{kind}: {probed:?}");
        let (events, outcome) = run(&*backend, request("hi"), TurnHost::new()).await;
        let result = outcome.unwrap();
        assert_eq!(result.text, ANSWER, "{kind}");
        let deltas = events.iter().filter(|event| matches!(event, TurnEvent::TextDelta(_))).count();
        assert!(deltas > 1, "{kind}: the text streams, in {deltas} pieces");
        assert!(
            result.usage.input_tokens.unwrap_or(0) + result.usage.cache_read_tokens.unwrap_or(0) > 10,
            "{kind}"
        );
        assert_eq!(result.usage.output_tokens, Some(6), "{kind}");
        let warnings: Vec<_> = events.iter().filter(|event| matches!(event, TurnEvent::Warning(_))).collect();
        assert!(warnings.is_empty(), "{kind}: {warnings:?}");
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_tool_is_called_and_its_result_reaches_the_model() {
    let server = Inference::start(16_384);
    for kind in WIRES {
        let backend = server.backend(kind, &json!({}));
        let (_, outcome) = run(&*backend, request("double it").with_system("Be brief."), double()).await;
        let result = outcome.unwrap();
        let calls: Vec<_> =
            result.tool_calls.iter().map(|call| (call.name.as_str(), &call.arguments)).collect();
        assert_eq!(calls, [("double", &Some(json!({ "n": 21 })))], "{kind}");
        assert_eq!(result.text, ANSWER, "{kind}: it answers after the result");
        assert_eq!(result.provenance.attempts, 1);
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn the_row_of_the_provider_fits_the_server() {
    let server = Inference::start(16_384);
    let backend = server.provided();
    let listing = backend.models().await.unwrap();
    assert!(listing.models.iter().any(|model| model.context_tokens == Some(16_384)), "{listing:?}");
    let schema = json!({
        "type": "object", "properties": { "done": { "type": "boolean", "enum": [true] } }, "required": ["done"],
    });
    let asked = request("hi").with_output(OutputSchema::new(schema).unwrap());
    let (_, outcome) = run(&*backend, asked, TurnHost::new()).await;
    assert_eq!(outcome.unwrap().output, Some(json!({ "done": true })), "the server enforces the schema");
    let (_, outcome) = run(&*backend, request("double it"), double()).await;
    assert_eq!(outcome.unwrap().text, ANSWER);
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_schema_that_the_server_ignores_gives_no_wrong_answer() {
    let server = Inference::start(16_384);
    let schema = json!({
        "type": "object",
        "properties": { "done": { "type": "boolean", "enum": [true] } },
        "required": ["done"],
        "additionalProperties": false,
    });
    // llama.cpp enforces a schema on Chat Completions alone, and ignores the field on the other two wires.
    for kind in WIRES {
        let backend = server.backend(kind, &json!({}));
        let request = request("hi").with_output(OutputSchema::new(schema.clone()).unwrap());
        let (_, outcome) = run(&*backend, request, TurnHost::new()).await;
        match kind {
            "chat" => assert_eq!(outcome.unwrap().output, Some(json!({ "done": true })), "{kind}"),
            _ => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::OutputInvalid, "{kind}"),
        }
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_conversation_moves_over_the_wires_of_one_server() {
    let server = Inference::start(16_384);
    let (_, first) = run(
        &*server.backend("chat", &json!({})),
        request("double it").with_conversation(ConversationMode::Keep),
        double(),
    )
    .await;
    let mut handle = first.unwrap().resume.unwrap();
    for kind in ["messages", "responses", "chat"] {
        let again = request("and again").with_conversation(ConversationMode::resume(handle));
        let (_, outcome) = run(&*server.backend(kind, &json!({})), again, double()).await;
        let result = outcome.unwrap();
        assert_eq!(result.text, ANSWER, "{kind}");
        handle = result.resume.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_context_that_is_too_small_is_named_and_a_long_conversation_is_compacted() {
    let server = Inference::start(1_024);
    for kind in WIRES {
        let long = request(&"word ".repeat(4_000));
        let (_, outcome) = run(&*server.backend(kind, &json!({})), long, TurnHost::new()).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ContextExceeded, "{kind}: {error:?}");

        let backend = server.backend(kind, &json!({}));
        let mut handle = None;
        let mut compactions = 0;
        for number in 0..12 {
            let mode = handle.take().map_or(ConversationMode::Keep, ConversationMode::resume);
            let prompt = format!("turn {number}: {}", "ab ".repeat(60));
            let (events, outcome) =
                run(&*backend, request(&prompt).with_conversation(mode), TurnHost::new()).await;
            let result = outcome.unwrap();
            assert_eq!(result.text, ANSWER, "{kind}, turn {number}");
            compactions += events.iter().filter(|event| matches!(event, TurnEvent::Compacted(_))).count();
            handle = result.resume;
        }
        assert!(compactions > 0, "{kind}: twelve turns do not fit into the context");
    }
}
