//! The span of a turn: which kind, which backend, how it ended; never what was said.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
};

use nexus_core::{ErrorKind, Retry, TurnRequest};
use nexus_testkit::child_test;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    instrument::WithSubscriber,
    span::{Attributes, Id, Record},
};

use super::support::{Act, fake, router, run};

/// Keeps every field of every span and event.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, String>>>);

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.lock().unwrap().insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Seen {
    // The backend's own spans are tested elsewhere.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() || metadata.name() == "turn"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        assert_eq!(attributes.metadata().name(), "turn");
        attributes.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

const FILE: &str = "\
groups: { main: [alpha, beta] }
models: { strong: { main: big } }
types: { work: { group: main, model: strong } }
";

#[tokio::test]
async fn a_turn_has_a_span_that_says_who_ran_it_and_no_prompt() {
    // Where one subscriber exists, `tracing` asks the one of the thread that comes by first, which may have none.
    if !child_test::runs_alone(a_turn_has_a_span_that_says_who_ran_it_and_no_prompt) {
        return;
    }
    let alpha = fake("alpha", [Act::Fail(ErrorKind::Transport, Retry::Never, "no route")]);
    let beta =
        fake("beta", [Act::Answer("canary answer".into()), Act::Fail(ErrorKind::Refused, Retry::Never, "")]);
    let router = router(FILE, &[&alpha, &beta]);
    let seen = Seen::default();
    let request = TurnRequest::new("canary prompt").with_system("canary system");
    run(&router, request.clone()).with_subscriber(seen.clone()).await.1.unwrap();
    let fields = std::mem::take(&mut *seen.0.lock().unwrap());
    let expected = [
        ("otel.name", "\"turn work\""),
        ("nexus.kind", "\"work\""),
        ("nexus.group", "\"main\""),
        ("nexus.backend", "\"beta\""),
        ("nexus.skipped", "1"),
    ];
    for (name, value) in expected {
        assert_eq!(fields.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!fields.contains_key("error.type"));
    // The backend's own span is the agent's; a second one would double what is summed over them.
    assert!(!fields.keys().any(|name| name.starts_with("gen_ai.")), "{fields:?}");

    run(&router, request).with_subscriber(seen.clone()).await.1.unwrap_err();
    let failed = seen.0.lock().unwrap().clone();
    assert_eq!(failed.get("error.type").map(String::as_str), Some("\"Refused\""));
    assert_eq!(failed.get("otel.status_code").map(String::as_str), Some("\"ERROR\""));
    for (name, value) in fields.iter().chain(&failed) {
        assert!(!value.contains("canary"), "{name} holds {value}");
    }
}
