//! How Codex is set up against the simulator.

use std::sync::{Arc, Mutex, PoisonError};

use nexus_backends::codex::cli::CodexCli;
use nexus_core::{EventEnvelope, TurnHost, TurnRequest};
use nexus_testkit::{
    real,
    sim::{Dialect, Scenario, Sim},
};
use serde_json::{Value, json};

pub(crate) use crate::support::ran::Ran;
use crate::support::stage;

pub(crate) type Stage = stage::Stage<CodexCli>;

/// The token that the backend is lent. It may be seen by the simulator alone.
pub(crate) const TOKEN: &str = "canary-token-of-a-plan";

impl Stage {
    /// A backend with a token, against a simulator that plays `scenario`.
    pub(crate) fn new(scenario: impl Into<Scenario>) -> Self {
        let sim = Sim::start(Dialect::Responses, scenario).unwrap();
        let settings = json!({
            "base_url": sim.base_url(),
            "credential": { "env": "TOKEN", "account": "account-of-the-test" },
        });
        Self::of(CodexCli, &real::last("NEXUS_REAL_CODEX"), sim, settings)
            .with_variable("TOKEN", TOKEN)
            .with_variable("PASSED_ON", "as-asked")
            .with_variable("OPENAI_API_KEY", "canary-stray-key")
    }

    /// The same, against a simulator that plays another scenario.
    pub(crate) fn playing(mut self, scenario: impl Into<Scenario>) -> Self {
        self.sim = Sim::start(Dialect::Responses, scenario).unwrap();
        let url = self.sim.base_url();
        self.with("base_url", json!(url))
    }

    /// Runs a turn in the folder `work`, with what the host brings.
    pub(crate) async fn run_in(&self, request: TurnRequest, host: TurnHost) -> Ran {
        let mut events = Vec::new();
        let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
        let request = request.in_directory(self.path("work"));
        let outcome = self.backend().run_turn(request, host, &mut sink).await;
        Ran { outcome, events }
    }

    /// Runs a turn in the folder `work`.
    pub(crate) async fn run(&self, request: TurnRequest) -> Ran {
        self.run_as_asked(request.in_directory(self.path("work"))).await
    }
}

/// What tools were asked, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deeds(Arc<Mutex<Vec<(String, Value)>>>);

impl Deeds {
    /// A tool was asked.
    pub(crate) fn note(&self, tool: &str, arguments: &Value) {
        let mut deeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        deeds.push((tool.to_owned(), arguments.clone()));
    }

    /// All of it.
    pub(crate) fn all(&self) -> Vec<(String, Value)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
