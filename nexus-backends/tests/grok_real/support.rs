//! A backend before a simulator, with folders of its own.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use nexus_backends::delegated::grok::GrokCli;
use nexus_core::{
    BackendKind as _, BuildContext, EventEnvelope, ExecutionBackend, TurnError, TurnEvent, TurnHost,
    TurnRequest, TurnResult,
};
use nexus_testkit::sim::{Dialect, RecordedRequest, Scenario, Sim};
use serde_json::{Value, json};

/// The credential of every stage.
pub(crate) const TOKEN: &str = "canary-of-the-credential-that-nobody-may-read";

/// A backend, and all that it can touch.
pub(crate) struct Stage {
    pub(crate) sim: Sim,
    pub(crate) folder: tempfile::TempDir,
    settings: Value,
    environment: BTreeMap<String, String>,
}

/// How a turn went.
pub(crate) struct Ran {
    pub(crate) outcome: Result<TurnResult, TurnError>,
    pub(crate) events: Vec<TurnEvent>,
}

impl Stage {
    /// A backend with a subscription's token, before a simulator that plays `scenario`.
    pub(crate) fn new(scenario: impl Into<Scenario>) -> Self {
        let sim = Sim::start(Dialect::Xai, scenario).unwrap();
        let url = sim.base_url();
        Self::before(sim).with("base_url", json!(url))
    }

    /// A backend before `sim`, which it is not pointed at.
    pub(crate) fn before(sim: Sim) -> Self {
        let executable = std::env::var("NEXUS_REAL_GROK").expect("NEXUS_REAL_GROK names the program");
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "nexus", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("HOME".to_owned(), folder.path().join("home").to_str().unwrap().to_owned()),
            ("TOKEN".to_owned(), TOKEN.to_owned()),
            ("STRAY_API_KEY".to_owned(), "stray".to_owned()),
            ("FOR_TOOLS".to_owned(), "passed".to_owned()),
        ]);
        let settings = json!({ "executable": executable, "credential": { "env": "TOKEN" } });
        Self { sim, folder, settings, environment }
    }

    /// Changes a setting.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.settings[key] = value;
        self
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    /// Writes a file below the stage's folder.
    pub(crate) fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn backend(&self) -> Arc<dyn ExecutionBackend> {
        let context = BuildContext::new(self.path("nexus"), self.folder.path())
            .with_environment(self.environment.clone());
        let Value::Object(settings) = &self.settings else { panic!("settings are an object") };
        GrokCli.build("grok-cli".into(), settings, &context).unwrap()
    }

    pub(crate) async fn run(&self, request: TurnRequest) -> Ran {
        let mut events = Vec::new();
        let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
        let outcome = self.backend().run_turn(request, TurnHost::new(), &mut sink).await;
        Ran { outcome, events }
    }

    /// The requests to the model.
    pub(crate) fn calls(&self) -> Vec<RecordedRequest> {
        self.sim.main_calls()
    }
}

impl Ran {
    /// The result of a turn that ended well.
    pub(crate) fn result(&self) -> &TurnResult {
        self.outcome.as_ref().unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// What the tools of the turn answered, joined.
    pub(crate) fn tool_text(&self) -> String {
        self.result().tool_calls.iter().map(|call| format!("{:?}\n", call.output)).collect()
    }
}
