//! A backend before a simulator, with folders of its own.

use std::{collections::BTreeMap, path::PathBuf};

use nexus_backends::delegated::codex::CodexCli;
use nexus_core::{
    BackendKind as _, BuildContext, EventEnvelope, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult,
};
use nexus_testkit::sim::{Dialect, Scenario, Sim};
use serde_json::{Value, json};

/// The token that the backend is lent. It may be seen by the simulator alone.
pub(crate) const TOKEN: &str = "canary-token-of-a-plan";

/// A backend, and all that it can touch.
pub(crate) struct Stage {
    pub(crate) sim: Sim,
    folder: tempfile::TempDir,
    settings: Value,
    environment: BTreeMap<String, String>,
}

/// How a turn went.
pub(crate) struct Ran {
    pub(crate) outcome: Result<TurnResult, TurnError>,
    pub(crate) events: Vec<TurnEvent>,
}

impl Stage {
    /// A backend with a token, before a simulator that plays `scenario`.
    pub(crate) fn new(scenario: impl Into<Scenario>) -> Self {
        let sim = Sim::start(Dialect::Responses, scenario).unwrap();
        let executable = std::env::var("NEXUS_REAL_CODEX").expect("NEXUS_REAL_CODEX names the program");
        let settings = json!({
            "executable": executable, "base_url": sim.base_url(),
            "credential": { "env": "TOKEN", "account": "account-of-the-test" },
        });
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "nexus", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("HOME".to_owned(), folder.path().join("home").to_str().unwrap().to_owned()),
            ("TOKEN".to_owned(), TOKEN.to_owned()),
            ("PASSED_ON".to_owned(), "as-asked".to_owned()),
            ("OPENAI_API_KEY".to_owned(), "canary-stray-key".to_owned()),
        ]);
        Self { sim, folder, settings, environment }
    }

    /// Changes a setting; `null` takes it away.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        match value {
            Value::Null => drop(self.settings.as_object_mut().unwrap().remove(key)),
            value => self.settings[key] = value,
        }
        self
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    /// Writes a file below the stage's folder.
    pub(crate) fn write(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs a turn in the folder `work`.
    pub(crate) async fn run(&self, request: TurnRequest) -> Ran {
        let context = BuildContext::new(self.path("nexus"), self.folder.path())
            .with_environment(self.environment.clone());
        let settings = self.settings.as_object().unwrap();
        let backend = CodexCli.build("codex-cli".into(), settings, &context).unwrap();
        let mut events = Vec::new();
        let mut sink = |event: EventEnvelope| events.push(event.event);
        let request = request.in_directory(self.path("work"));
        let outcome = backend.run_turn(request, TurnHost::new(), &mut sink).await;
        Ran { outcome, events }
    }
}
