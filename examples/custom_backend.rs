//! A backend of your own: one trait, registered by id, and named in `nexus.yaml` like any other. This one needs
//! no model at all; it counts words, and falls back to a vendor for what it cannot do.
//!
//!     cargo run --example custom_backend

mod stage;

use std::sync::Arc;

use async_trait::async_trait;
use nexus::{
    AccessSupport, Availability, BackendId, Capabilities, ErrorKind, EventSink, ExecutionBackend,
    FinishReason, LoopMode, Outbox, Provenance, Recorder, Sandbox, TextGranularity, TurnError, TurnEvent,
    TurnHost, TurnRequest, TurnResult,
    turn::{MessageEnded, Started, TextDelta},
};
use nexus_testkit::sim::Scenario;
use stage::{AnyError, Cast, Stage, show_turn};

const ROUTES: &str = "\
groups: { counters: [word-counter, claude-cli] }
types:
  counter: { tier: execution, phase: count, group: counters }
";

/// Counts the words of its prompt.
#[derive(Debug)]
struct WordCounter {
    id: BackendId,
}

#[async_trait]
impl ExecutionBackend for WordCounter {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Native);
        capabilities.text = TextGranularity::Deltas;
        capabilities.access.scoped_only = AccessSupport::Kept(Sandbox::None);
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(Some(env!("CARGO_PKG_VERSION").to_owned()))
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let error = |kind| TurnError::new(kind, self.id.clone());
        if host.cancel.is_cancelled() {
            return Err(error(ErrorKind::Cancelled));
        }
        if let Some(unmet) = self.capabilities().unmet(&request, host.session().definitions()).first() {
            return Err(error(ErrorKind::Unsupported).with_message(unmet.to_string()));
        }
        if request.is_empty() {
            return Err(error(ErrorKind::InvalidRequest).with_message("there are no words to count"));
        }
        let text = format!("{} words", request.prompt_text().split_whitespace().count());

        // What is seen and what is returned come from the same events.
        let mut outbox = Outbox::new();
        let mut recorder = Recorder::new();
        let events_of_the_turn: [TurnEvent; 3] = [
            Started::new(self.id.clone()).into(),
            TextDelta::new("m1".into(), &*text).into(),
            MessageEnded::new("m1".into(), text).into(),
        ];
        for event in events_of_the_turn {
            recorder.observe(&event);
            outbox.push(event);
        }
        outbox.flush(events).await;
        Ok(recorder.into_result(FinishReason::Stop, Provenance::new(self.id.clone())))
    }
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let cast = Cast::all(Scenario::text("A vendor answers what the counter cannot: seven."));
    let stage = Stage::open("Routes to a backend written in this very example.", cast)?;
    let counter = Arc::new(WordCounter { id: BackendId::new("word-counter") });
    let router = stage.builder(ROUTES, |builder| builder.backend(counter))?;
    println!("{}", router.explain("counter")?);

    let request = TurnRequest::new("How many words does this sentence have?");
    show_turn(&router, "counter", request.clone()).await?;

    println!("\nThe same with a system text, which the counter does not take:");
    show_turn(&router, "counter", request.with_system("Answer in one line.")).await?;
    Ok(())
}
