//! Backends that do as they are told, and turns that were never run.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use nexus_conversations::{ConversationName, ConversationTurn, Conversations, TurnOrder};
use nexus_core::{
    AccessEnforcer, AccessSupport, Availability, BackendId, BuildContext, Capabilities, ConversationMode,
    ErrorKind, EventEnvelope, EventSink, ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode,
    Outbox, PromptBlock, Provenance, Recorder, Registry, ResumeHandle, Support, TurnError, TurnEvent,
    TurnHost, TurnRequest, TurnResult,
    redact::Redactor,
    turn::{MessageEnded, TextDelta},
};
use nexus_router::Router;
use serde_json::{Value, json};

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

/// What a backend does with one turn.
#[derive(Clone)]
pub(crate) enum Act {
    Answer(&'static str),
    /// Tells of these events, then fails or answers.
    Say(Vec<TurnEvent>, Option<ErrorKind>),
    /// Fails so at once.
    Fail(ErrorKind),
}

/// A backend that does as it is told, one act per turn; the last act is repeated.
pub(crate) struct Fake {
    id: BackendId,
    acts: Mutex<VecDeque<Act>>,
    pub(crate) requests: Mutex<Vec<TurnRequest>>,
    takes_pictures: bool,
    keeps: bool,
    /// What its handles have. `None`: how many turns it ran.
    state: Option<Value>,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Fake {
    pub(crate) fn new(id: &str, acts: impl IntoIterator<Item = Act>) -> Arc<Self> {
        Arc::new(Self::bare(id, acts))
    }

    pub(crate) fn without_pictures(id: &str) -> Arc<Self> {
        Arc::new(Self { takes_pictures: false, ..Self::bare(id, [Act::Answer("No.")]) })
    }

    pub(crate) fn keeping_nothing(id: &str) -> Arc<Self> {
        Arc::new(Self { keeps: false, ..Self::bare(id, [Act::Answer("No.")]) })
    }

    /// One whose handles cannot be stored.
    pub(crate) fn with_deep_handle(id: &str) -> Arc<Self> {
        let state = (0..500).fold(json!(0), |inner, _| json!([inner]));
        Arc::new(Self { state: Some(state), ..Self::bare(id, [Act::Answer("One.")]) })
    }

    fn bare(id: &str, acts: impl IntoIterator<Item = Act>) -> Self {
        Self {
            id: id.into(),
            acts: Mutex::new(acts.into_iter().collect()),
            requests: Mutex::default(),
            takes_pictures: true,
            keeps: true,
            state: None,
        }
    }

    pub(crate) fn last(&self) -> TurnRequest {
        self.requests.lock().unwrap().last().cloned().unwrap()
    }

    pub(crate) fn last_texts(&self) -> Vec<String> {
        self.last().prompt_texts().map(str::to_owned).collect()
    }
}

#[async_trait]
impl ExecutionBackend for Fake {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Native);
        capabilities.resume = if self.keeps { Support::Yes } else { Support::No };
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
        capabilities.images = if self.takes_pictures { Support::Yes } else { Support::No };
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Err(ForgetError::Unsupported { backend: self.id.clone() })
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        _host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        // As the contract has it.
        if request.is_empty() {
            return Err(TurnError::new(ErrorKind::InvalidRequest, self.id.clone()));
        }
        self.requests.lock().unwrap().push(request.clone());
        let act = {
            let mut acts = self.acts.lock().unwrap();
            if acts.len() > 1 { acts.pop_front().unwrap() } else { acts[0].clone() }
        };
        let (said, failure) = match act {
            Act::Answer(text) => (
                vec![TextDelta::new("m1".into(), text).into(), MessageEnded::new("m1".into(), text).into()],
                None,
            ),
            Act::Say(said, failure) => (said, failure),
            Act::Fail(kind) => (Vec::new(), Some(kind)),
        };
        let (mut recorder, mut outbox) = (Recorder::new(), Outbox::new());
        for event in said {
            recorder.observe(&event);
            outbox.push(event);
        }
        outbox.flush(events).await;
        if request.conversation != ConversationMode::Ephemeral {
            let turns = self.requests.lock().unwrap().len();
            let state = self.state.clone().unwrap_or_else(|| json!({ "turns": turns }));
            recorder.resume = Some(ResumeHandle::new(self.id.clone(), state));
        }
        match failure {
            None => Ok(recorder.into_result(FinishReason::Stop, Provenance::new(self.id.clone()))),
            Some(kind) => Err(TurnError::new(kind, self.id.clone()).with_partial(recorder.into_partial())),
        }
    }
}

/// A router with a type of each backend's name, and `both`, which is all of them in order.
pub(crate) fn router(fakes: &[&Arc<Fake>]) -> Router {
    let ids: Vec<&str> = fakes.iter().map(|fake| fake.id.as_str()).collect();
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
