//! A backend of your own: one trait, registered by id, and named in `nexus.yaml` like any other. This one needs
//! no model at all; it counts words, and falls back to a vendor for what it cannot do.
//!
//!     cargo run --example custom_backend

mod stage;

use std::sync::Arc;

use async_trait::async_trait;
use nexus::{
    AccessEnforcer, AccessSupport, Availability, BackendId, Capabilities, EventSink, ExecutionBackend,
    FinishReason, ForgetError, Forgotten, LoopMode, ResumeHandle, TextGranularity, TurnError, TurnHost,
    TurnRequest, TurnResult,
    harness::RunningTurn,
    turn::{MessageEnded, TextDelta},
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
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
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
        // `begin` rejects a request that exceeds the capabilities. `RunningTurn` then handles limits, cancellation, the record and
        // the sink.
        let mut turn = RunningTurn::begin(&self.id, &self.capabilities(), request, host, events)?;
        let text = format!("{} words", turn.request.prompt_text().split_whitespace().count());
        turn.event(TextDelta::new("m1".into(), &*text));
        turn.event(MessageEnded::new("m1".into(), text));
        turn.end(Ok((FinishReason::Stop, None))).await
    }

    // This backend stores no conversation, so it has none to forget.
    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Err(ForgetError::Unsupported { backend: self.id.clone() })
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
