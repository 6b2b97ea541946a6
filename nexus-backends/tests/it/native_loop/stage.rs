//! A native backend before a server of the test's.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use nexus_backends::registry;
use nexus_core::{
    BackendId, BuildContext, EventEnvelope, ExecutionBackend, Limits, Tool, Toolbox, TurnError, TurnEvent,
    TurnHost, TurnRequest, TurnResult,
};
use serde_json::{Map, Value, json};

/// The token that every backend of these tests is given.
pub(crate) const TOKEN: &str = "canary-token-of-the-loop";

/// A backend of `kind` at `base_url`; `more` settings win over the defaults of these tests.
pub(crate) fn backend(kind: &str, base_url: &str, more: Value) -> Arc<dyn ExecutionBackend> {
    let Value::Object(more) = more else { panic!("settings are an object") };
    let mut settings = Map::from_iter([
        ("base_url".to_owned(), json!(base_url)),
        ("credential".to_owned(), json!({ "env": "TOKEN" })),
        ("retries".to_owned(), json!(0)),
    ]);
    settings.extend(more);
    let environment = BTreeMap::from([("TOKEN".to_owned(), TOKEN.to_owned())]);
    let context =
        BuildContext::in_home("/nonexistent/nexus").with_base_directory("/").with_environment(environment);
    let registry = registry();
    registry.kind(kind).unwrap().build(BackendId::new(kind), &settings, &context).unwrap()
}

/// What came of a turn.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: Result<TurnResult, TurnError>,
    pub(crate) events: Vec<TurnEvent>,
}

impl Ran {
    #[track_caller]
    pub(crate) fn result(&self) -> &TurnResult {
        self.outcome.as_ref().unwrap()
    }

    #[track_caller]
    pub(crate) fn error(&self) -> &TurnError {
        self.outcome.as_ref().unwrap_err()
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        let warnings = self.events.iter().filter_map(|event| match event {
            TurnEvent::Warning(warning) => Some(warning.text.as_str()),
            _ => None,
        });
        warnings.collect()
    }
}

/// Runs a turn that must end.
pub(crate) async fn run(backend: &dyn ExecutionBackend, request: TurnRequest, host: TurnHost) -> Ran {
    let mut events = Vec::new();
    let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
    let turn = backend.run_turn(request, host, &mut sink);
    let outcome = tokio::time::timeout(Duration::from_secs(120), turn).await.expect("the turn ends");
    Ran { outcome, events }
}

/// A request with a model and a deadline.
pub(crate) fn request() -> TurnRequest {
    let limits = Limits::new().with_deadline(Duration::from_secs(90));
    TurnRequest::new("Hello.").with_model("grok-4.6").with_limits(limits)
}

/// A host with one tool, `echo`, and one that hands the answer in, `submit`.
pub(crate) fn host() -> TurnHost {
    let empty = json!({ "type": "object" });
    let tools = Toolbox::new()
        .with(Tool::with_schema("echo", "Says it again.", empty.clone(), |value: Value| async move {
            value.to_string()
        }))
        .with(
            Tool::with_schema("submit", "Hands it in.", empty, |_: Value| async move { "received" })
                .terminal(),
        );
    assert!(tools.quarantined().is_empty());
    TurnHost::new().with_tools(Arc::new(tools))
}
