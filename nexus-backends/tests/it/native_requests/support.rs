//! A turn of a native backend against the simulator, and recorded requests.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use nexus_core::{
    BackendKind, BuildContext, ExecutionBackend, SettingsError, Tool, Toolbox, TurnError, TurnEvent,
    TurnHost, TurnRequest, TurnResult,
};
use nexus_testkit::sim::{RecordedRequest, Reply, Sim, ToolCall};
use serde_json::{Map, Value, json};

/// The token that turns are run with.
pub(crate) const TOKEN: &str = "canary-token";

/// Asks for a sum, having thought about it; then says it.
pub(crate) fn sum() -> [Reply; 2] {
    let call = ToolCall::function("add", json!({ "a": 20, "b": 22 }));
    [Reply::thinking("I should add them.").and_call(call), Reply::text("The sum is 42.")]
}

/// The one tool of these turns.
pub(crate) fn adder() -> TurnHost {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        "required": ["a", "b"],
        "additionalProperties": false,
    });
    let add = |numbers: Value| async move {
        let number = |key: &str| numbers.get(key).and_then(Value::as_i64).unwrap_or_default();
        (number("a") + number("b")).to_string()
    };
    TurnHost::new().with_tools(Arc::new(Toolbox::new().with(Tool::with_schema("add", "Adds.", schema, add))))
}

/// Builds a backend in front of `base_url` with further settings. The variable `TOKEN` holds a token.
pub(crate) fn build(
    kind: &dyn BackendKind,
    base_url: &str,
    settings: Value,
) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
    let mut all =
        Map::from_iter([("base_url".to_owned(), json!(base_url)), ("retries".to_owned(), json!(0))]);
    if let Value::Object(settings) = settings {
        all.extend(settings);
    }
    let environment = BTreeMap::from([("TOKEN".to_owned(), TOKEN.to_owned())]);
    let context =
        BuildContext::in_home("/nonexistent").with_base_directory("/").with_environment(environment);
    kind.build(kind.name().into(), &all, &context)
}

/// A backend with its token, in front of a simulator.
pub(crate) fn backend(kind: &dyn BackendKind, sim: &Sim, settings: Value) -> Arc<dyn ExecutionBackend> {
    let mut all = json!({ "credential": { "env": "TOKEN", "account": "account-1" } });
    if let (Value::Object(all), Value::Object(settings)) = (&mut all, settings) {
        all.extend(settings);
    }
    build(kind, &sim.base_url(), all).unwrap()
}

/// Runs a turn; its warnings come with the outcome.
pub(crate) async fn run(
    backend: &Arc<dyn ExecutionBackend>,
    request: TurnRequest,
    host: TurnHost,
) -> (Result<TurnResult, TurnError>, Vec<TurnEvent>) {
    let mut events = Vec::new();
    let mut sink = |envelope: nexus_core::EventEnvelope| events.push(envelope.event);
    let outcome = backend.run_turn(request, host, &mut sink).await;
    (outcome, events)
}

/// The texts of the warnings among `events`.
pub(crate) fn warnings(events: &[TurnEvent]) -> Vec<String> {
    let text = |event: &TurnEvent| match event {
        TurnEvent::Warning(warning) => Some(warning.text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

/// A recorded request.
pub(crate) struct Recorded(Value);

impl Recorded {
    pub(crate) fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/native/requests");
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        Self(serde_json::from_str(&text).unwrap())
    }

    pub(crate) fn body(&self) -> &Value {
        &self.0["body"]
    }

    /// Items of the input, oldest first.
    pub(crate) fn input(&self) -> &[Value] {
        let input = self.0.get("input_tail").unwrap_or(&self.body()["input"]);
        input.as_array().unwrap()
    }

    /// The names of the headers.
    pub(crate) fn header_names(&self) -> Vec<String> {
        match &self.0["headers"] {
            Value::Array(pairs) => pairs.iter().map(|pair| pair[0].as_str().unwrap().to_owned()).collect(),
            Value::Object(headers) => headers.keys().cloned().collect(),
            other => panic!("{other} are no headers"),
        }
    }
}

/// Holds two objects against each other: the same keys but for `absent`, which are theirs alone, and the same
/// values but for `different`.
pub(crate) fn compare(ours: &Value, theirs: &Value, absent: &[&str], different: &[&str]) {
    let (ours, theirs) = (ours.as_object().unwrap(), theirs.as_object().unwrap());
    for key in ours.keys() {
        assert!(theirs.contains_key(key), "they do not send {key:?}");
    }
    for (key, value) in theirs {
        if absent.contains(&key.as_str()) {
            assert!(!ours.contains_key(key), "{key:?} is sent after all");
            continue;
        }
        let sent = ours.get(key).unwrap_or_else(|| panic!("{key:?} is not sent"));
        match different.contains(&key.as_str()) {
            true => assert_eq!(discriminant(sent), discriminant(value), "{key:?} is of another type"),
            false => assert_eq!(sent, value, "{key:?}"),
        }
    }
}

fn discriminant(value: &Value) -> std::mem::Discriminant<Value> {
    std::mem::discriminant(value)
}

/// Every header of ours is one of theirs, of `transport`'s, or among `own`; every one of theirs is sent, but for
/// `absent`.
pub(crate) fn compare_headers(sent: &RecordedRequest, theirs: &Recorded, absent: &[&str]) {
    let names = theirs.header_names();
    for (name, _) in sent.headers.iter() {
        let is_transports = ["accept-encoding", "host", "content-length"].contains(&name.as_str());
        assert!(is_transports || names.contains(name), "they do not send the header {name}");
        assert!(!absent.contains(&name.as_str()), "the header {name} is sent after all");
    }
    for name in names {
        let is_sent = sent.header(&name).is_some();
        assert!(is_sent || absent.contains(&name.as_str()), "the header {name} is not sent");
    }
}

/// The items of a request's input.
pub(crate) fn input(sent: &RecordedRequest) -> &[Value] {
    sent.json["input"].as_array().unwrap()
}

/// The items of one type.
pub(crate) fn of_type<'a>(items: &'a [Value], kind: &str) -> Vec<&'a Value> {
    items.iter().filter(|item| item["type"] == kind).collect()
}
