//! How Claude Code is set up against the simulator, and what its tests ask of a turn.

use std::path::{Path, PathBuf};

use std::net::ToSocketAddrs as _;

use nexus_backends::claude::cli::ClaudeCli;
use nexus_core::{EventEnvelope, TurnHost, TurnRequest};
use nexus_testkit::sim::{Dialect, Scenario, Sim};
use serde_json::{Value, json};

use crate::support::stage;
pub(crate) use crate::support::{ran::Ran, stage::HTTPS_PORT};

pub(crate) type Stage = stage::Stage<ClaudeCli>;

/// The model that requests name.
pub(crate) const MODEL: &str = "claude-sonnet-5";

/// The vendor's host.
const HOST: &str = "api.anthropic.com";

/// The programs to test with, the oldest first.
pub(crate) fn programs() -> Vec<PathBuf> {
    const VARIABLE: &str = "NEXUS_REAL_CLAUDE";
    let programs = nexus_testkit::real::programs(VARIABLE);
    assert!(!programs.is_empty(), "{VARIABLE} names no program");
    programs
}

/// Makes one test of each function, which runs it for each program. They do not run by themselves.
macro_rules! with_each_program {
    ($($name:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "needs the real CLI; run by .ci/deep"]
        async fn $name() {
            for program in &$crate::claude_real::support::programs() {
                println!("with {}", program.display());
                super::$name(program).await;
            }
        }
    )*};
}
pub(crate) use with_each_program;

impl Stage {
    /// A backend with an API key, against a simulator that plays `scenario`.
    pub(crate) fn metered(program: &Path, scenario: impl Into<Scenario>) -> Self {
        let sim = Sim::start(Dialect::Anthropic, scenario).unwrap();
        let settings = json!({
            "base_url": sim.base_url(), "credential": { "env": "TOKEN" }, "billing": "metered",
        });
        Self::new(program, sim, settings)
    }

    /// A backend whose CLI believes that it speaks to its vendor. Only while [`HTTPS_PORT`] is held.
    pub(crate) fn at_the_vendors_host(
        program: &Path,
        scenario: impl Into<Scenario>,
        settings: Value,
    ) -> Self {
        let resolved: Vec<_> = (HOST, 443).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        assert!(
            resolved.iter().any(|address: &std::net::SocketAddr| address.ip().is_loopback()),
            "{HOST} must be 127.0.0.1 here: run this by real/clis/in-namespace --host {HOST}=127.0.0.1"
        );
        let sim = Sim::builder(Dialect::Anthropic, scenario).tls(HOST).port(443).start().unwrap();
        let authority = sim.ca_pem().expect("an authority").to_owned();
        let stage = Self::new(program, sim, settings);
        let file = stage.write("authority.pem", &authority);
        stage.with("network", json!({ "ca_file": file }))
    }

    /// A backend with these settings beside the executable. Its environment holds a token.
    fn new(program: &Path, sim: Sim, settings: Value) -> Self {
        Self::of(ClaudeCli, program, sim, settings).with_variable("TOKEN", "sk-ant-canary-token")
    }

    /// Runs a turn, with [`MODEL`] if the request names none.
    pub(crate) async fn run(&self, request: TurnRequest) -> Ran {
        let request = match request.model {
            Some(_) => request,
            None => request.with_model(MODEL),
        };
        self.run_as_asked(request).await
    }

    /// Runs a turn with [`MODEL`] and with what the host brings.
    pub(crate) async fn run_with(&self, request: TurnRequest, host: TurnHost) -> Ran {
        let mut events = Vec::new();
        let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
        let outcome = self.backend().run_turn(request.with_model(MODEL), host, &mut sink).await;
        Ran { outcome, events }
    }
}
