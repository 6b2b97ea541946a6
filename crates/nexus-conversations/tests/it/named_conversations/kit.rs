//! Backends that do as they are told, and turns that were never run.

use std::sync::Arc;

use nexus_conversations::{ConversationName, ConversationTurn, Conversations, TurnOrder};
use nexus_core::{
    BuildContext, Capabilities, ErrorKind, EventEnvelope, ExecutionBackend, FinishReason, PromptBlock,
    Provenance, Recorder, Registry, ResumeHandle, Support, TurnEvent, TurnRequest, redact::Redactor,
    turn::MessageEnded,
};
use nexus_router::Router;
use nexus_testkit::scripted::{Act, ScriptedBackend, answer};
use serde_json::json;

pub(crate) fn name(text: &str) -> ConversationName {
    text.parse().unwrap()
}

pub(crate) fn store() -> (tempfile::TempDir, Conversations) {
    let home = tempfile::tempdir().unwrap();
    let store = Conversations::in_home(home.path());
    (home, store)
}

/// A turn of two messages.
pub(crate) fn turn(question: &str, answer: &str) -> ConversationTurn {
    let mut recorder = Recorder::new();
    recorder.observe(&MessageEnded::new("m".into(), answer).into());
    let result = recorder.into_result(FinishReason::Stop, Provenance::new("alpha".into()));
    ConversationTurn::of(
        &TurnRequest::new(question),
        &Ok(result),
        &TurnOrder::default(),
        &Redactor::default(),
    )
    .unwrap()
}

/// A backend that takes pictures and plays these turns; the last one is repeated.
pub(crate) fn fake(id: &str, turns: impl IntoIterator<Item = Vec<Act>>) -> Arc<ScriptedBackend> {
    let backend = ScriptedBackend::repeating(id, turns);
    Arc::new(backend.capable(|capabilities| capabilities.images = Support::Yes))
}

/// One that can do less, as `change` says.
pub(crate) fn unable(id: &str, change: fn(&mut Capabilities)) -> Arc<ScriptedBackend> {
    Arc::new(ScriptedBackend::repeating(id, [answer("No.")]).capable(|capabilities| {
        capabilities.images = Support::Yes;
        change(capabilities);
    }))
}

/// One whose handles cannot be stored.
pub(crate) fn with_deep_handle(id: &str) -> Arc<ScriptedBackend> {
    Arc::new(ScriptedBackend::new(id, |turn| {
        let state = (0..500).fold(json!(0), |inner, _| json!([inner]));
        turn.log.resume = Some(ResumeHandle::new(turn.log.provenance.backend.clone(), state));
        Box::pin(turn.play(answer("One.")))
    }))
}

/// A turn that tells of these events, then fails or answers.
pub(crate) fn tell(events: Vec<TurnEvent>, failure: Option<ErrorKind>) -> Vec<Act> {
    events.into_iter().map(Act::Tell).chain(failure.map(Act::Fail)).collect()
}

pub(crate) fn last_texts(fake: &ScriptedBackend) -> Vec<String> {
    fake.last().prompt_texts().map(str::to_owned).collect()
}

/// A router with a type of each backend's name, and `both`, which is all of them in order.
pub(crate) fn router(fakes: &[&Arc<ScriptedBackend>]) -> Router {
    let ids: Vec<&str> = fakes.iter().map(|fake| fake.id().as_str()).collect();
    let mut text = format!("groups:\n  both: [{}]\n", ids.join(", "));
    ids.iter().for_each(|id| text.push_str(&format!("  {id}: [{id}]\n")));
    text.push_str("types:\n  both: { group: both }\n");
    ids.iter().for_each(|id| text.push_str(&format!("  {id}: {{ group: {id} }}\n")));
    let mut builder = Router::builder(Registry::new(), BuildContext::in_home("home"));
    for fake in fakes {
        builder = builder.backend(Arc::clone(fake) as Arc<dyn ExecutionBackend>);
    }
    builder.from_str(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// The warnings of a turn, and the numbers of all its events.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) warnings: Vec<String>,
    pub(crate) numbers: Vec<u64>,
}

impl Seen {
    pub(crate) fn sink(&mut self) -> impl FnMut(EventEnvelope) + Send + '_ {
        |envelope| {
            self.numbers.push(envelope.sequence);
            if let TurnEvent::Warning(warning) = envelope.event {
                self.warnings.push(warning.text);
            }
        }
    }
}

pub(crate) fn picture() -> PromptBlock {
    PromptBlock::image(b"\x89PNG\r\n").unwrap()
}
