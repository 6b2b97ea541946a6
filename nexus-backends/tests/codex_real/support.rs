//! How Codex is set up before the simulator.

use nexus_backends::delegated::codex::CodexCli;
use nexus_core::TurnRequest;
use nexus_testkit::sim::{Dialect, Scenario, Sim};
use serde_json::json;

use crate::ran::Ran;
pub(crate) use crate::stage::Stage;

/// The token that the backend is lent. It may be seen by the simulator alone.
pub(crate) const TOKEN: &str = "canary-token-of-a-plan";

impl Stage {
    /// A backend with a token, before a simulator that plays `scenario`.
    pub(crate) fn new(scenario: impl Into<Scenario>) -> Self {
        let sim = Sim::start(Dialect::Responses, scenario).unwrap();
        let settings = json!({
            "base_url": sim.base_url(),
            "credential": { "env": "TOKEN", "account": "account-of-the-test" },
        });
        Self::of(CodexCli, "NEXUS_REAL_CODEX", sim, settings)
            .with_variable("TOKEN", TOKEN)
            .with_variable("PASSED_ON", "as-asked")
            .with_variable("OPENAI_API_KEY", "canary-stray-key")
    }

    /// Runs a turn in the folder `work`.
    pub(crate) async fn run(&self, request: TurnRequest) -> Ran {
        self.run_as_asked(request.in_directory(self.path("work"))).await
    }
}
