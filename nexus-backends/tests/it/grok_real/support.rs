//! How Grok Build is set up against the simulator, and what its tests ask of a turn.

use nexus_backends::grok::cli::GrokCli;
use nexus_core::{EventEnvelope, TurnHost, TurnRequest};
use nexus_testkit::{
    real,
    sim::{Dialect, Scenario, Sim},
};
use serde_json::json;

pub(crate) use crate::support::ran::Ran;
use crate::support::stage;

pub(crate) type Stage = stage::Stage<GrokCli>;

/// The credential of every stage.
pub(crate) const TOKEN: &str = "canary-of-the-credential-that-nobody-may-read";

impl Stage {
    /// A backend with a subscription's token, against a simulator that plays `scenario`.
    pub(crate) fn new(scenario: impl Into<Scenario>) -> Self {
        Self::before(Sim::start(Dialect::Xai, scenario).unwrap())
    }

    /// A backend with a subscription's token, before `sim`.
    pub(crate) fn before(sim: Sim) -> Self {
        let settings = json!({ "base_url": sim.base_url(), "credential": { "env": "TOKEN" } });
        Self::of(GrokCli, &real::last("NEXUS_REAL_GROK"), sim, settings)
            .with_variable("TOKEN", TOKEN)
            .with_variable("STRAY_API_KEY", "stray")
            .with_variable("FOR_TOOLS", "passed")
    }

    /// Runs a turn with this very request, for this host.
    pub(crate) async fn run_for(&self, request: TurnRequest, host: TurnHost) -> Ran {
        let mut events = Vec::new();
        let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
        let outcome = self.backend().run_turn(request, host, &mut sink).await;
        Ran { outcome, events }
    }
}

impl Ran {
    /// What the tools of the turn answered, joined.
    pub(crate) fn tool_text(&self) -> String {
        self.result().tool_calls.iter().map(|call| format!("{:?}\n", call.output)).collect()
    }
}
