//! A backend before a simulator, with folders of its own.

use std::{collections::BTreeMap, net::ToSocketAddrs as _, path::PathBuf, sync::Arc};

use nexus_backends::delegated::claude::ClaudeCli;
use nexus_core::{
    BackendKind as _, BuildContext, EventEnvelope, ExecutionBackend, TurnError, TurnEvent, TurnHost,
    TurnRequest, TurnResult,
};
use nexus_testkit::sim::{Dialect, RecordedRequest, Scenario, Sim};
use serde_json::{Value, json};

/// The model that requests name.
pub(crate) const MODEL: &str = "claude-sonnet-5";

/// The vendor's host.
const HOST: &str = "api.anthropic.com";

/// Only one server can be at the vendor's port.
pub(crate) static PORT: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Makes one test of each function for each version. They do not run by themselves.
#[macro_export]
macro_rules! with_each_version {
    ($($name:ident)*) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs the real CLI; run by .ci/run"]
            async fn on_2_1_197() {
                super::super::$name("NEXUS_REAL_CLAUDE_2_1_197").await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs the real CLI; run by .ci/run"]
            async fn on_2_1_329() {
                super::super::$name("NEXUS_REAL_CLAUDE_2_1_329").await;
            }
        }
    )*};
}

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
    pub(crate) events: Vec<EventEnvelope>,
}

impl Stage {
    /// A backend with an API key, before a simulator that plays `scenario`.
    pub(crate) fn metered(variable: &str, scenario: impl Into<Scenario>) -> Self {
        let sim = Sim::start(Dialect::Anthropic, scenario).unwrap();
        let settings = json!({
            "base_url": sim.base_url(), "credential": { "env": "TOKEN" }, "billing": "metered",
        });
        Self::new(variable, sim, settings)
    }

    /// A backend whose CLI believes that it speaks to its vendor. Only while [`PORT`] is held.
    pub(crate) fn at_the_vendors_host(
        variable: &str,
        scenario: impl Into<Scenario>,
        settings: Value,
    ) -> Self {
        let resolved: Vec<_> = (HOST, 443).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        assert!(
            resolved.iter().any(|address: &std::net::SocketAddr| address.ip().is_loopback()),
            "{HOST} must be 127.0.0.1 here: run this by real-clis/in-namespace --host {HOST}=127.0.0.1"
        );
        let sim = Sim::builder(Dialect::Anthropic, scenario).tls(HOST).port(443).start().unwrap();
        let authority = sim.ca_pem().expect("an authority").to_owned();
        let stage = Self::new(variable, sim, settings);
        stage.write("authority.pem", &authority);
        let file = stage.path("authority.pem");
        stage.with("network", json!({ "ca_file": file }))
    }

    /// A backend with these settings beside the executable. Its environment holds a token and a private home.
    pub(crate) fn new(variable: &str, sim: Sim, mut settings: Value) -> Self {
        let executable = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} names the program"));
        settings["executable"] = json!(executable);
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "nexus", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("HOME".to_owned(), folder.path().join("home").to_str().unwrap().to_owned()),
            ("TOKEN".to_owned(), "sk-ant-canary-token".to_owned()),
        ]);
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
    pub(crate) fn write(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn backend(&self) -> Arc<dyn ExecutionBackend> {
        let context = BuildContext::new(self.path("nexus"), self.folder.path())
            .with_environment(self.environment.clone());
        let Value::Object(settings) = &self.settings else { panic!("settings are an object") };
        ClaudeCli.build("claude-cli".into(), settings, &context).unwrap()
    }

    pub(crate) async fn run(&self, request: TurnRequest) -> Ran {
        let mut events = Vec::new();
        let mut sink = |event: EventEnvelope| events.push(event);
        let request = match request.model {
            Some(_) => request,
            None => request.with_model(MODEL),
        };
        let outcome = self.backend().run_turn(request, TurnHost::new(), &mut sink).await;
        Ran { outcome, events }
    }

    /// The requests to the model.
    pub(crate) fn calls(&self) -> Vec<RecordedRequest> {
        self.sim.main_calls()
    }

    /// Every file below a folder of the stage, by its path from there.
    pub(crate) fn files(&self, relative: &str) -> Vec<String> {
        let root = self.path(relative);
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(path.strip_prefix(&root).unwrap().to_string_lossy().into_owned()),
                }
            }
        }
        found.sort();
        found
    }
}

impl Ran {
    pub(crate) fn result(&self) -> &TurnResult {
        self.outcome.as_ref().unwrap_or_else(|error| panic!("{error:?}"))
    }

    pub(crate) fn error(&self) -> &TurnError {
        match &self.outcome {
            Err(error) => error,
            Ok(result) => panic!("it ended well: {result:?}"),
        }
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.events
            .iter()
            .filter_map(|envelope| match &envelope.event {
                TurnEvent::Warning(warning) => Some(warning.text.as_str()),
                _ => None,
            })
            .collect()
    }
}
