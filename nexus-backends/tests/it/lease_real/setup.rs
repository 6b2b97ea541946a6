//! A login of ours that has run out, its issuer, a server of models, and the backends that live on it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_backends::OwnLogin;
use nexus_backends::auth::store::{LoginStore, StoredLogin, TokenStore as _};
use nexus_backends::auth::{CredentialManager, Identity, Login};
use nexus_backends::codex::cli::CodexCli;
use nexus_backends::grok::cli::GrokCli;
use nexus_backends::http::Network;
use nexus_backends::{
    codex::{ChatgptSubToken, CodexSubToken},
    grok::GrokSubToken,
};
use nexus_core::{BackendKind, BuildContext, ExecutionBackend};
use nexus_testkit::{
    issuer::{Account, Issuer},
    sim::{Dialect, RecordedRequest, Reply, Scenario, Sim},
};
use serde_json::{Value, json};

/// What every refresh token begins with. It may be seen in the store and by the issuer alone.
pub(crate) const REFRESH_MARK: &str = "canary-of-what-makes-new-tokens";

pub(crate) struct Setup {
    which: OwnLogin,
    folder: tempfile::TempDir,
    pub(crate) issuer: Issuer,
    pub(crate) sim: Servers,
}

/// One server of models for the program, and one for the engine.
pub(crate) struct Servers {
    program: Sim,
    engine: Sim,
}

impl Servers {
    /// The program's turns each play `scenario`; the engine's answer the same text at once.
    pub(crate) fn play(&self, scenario: Scenario, text: &str) {
        self.program.set_scenario(scenario.per_conversation());
        self.engine.set_scenario(Scenario::text(text));
    }

    /// Nobody is let in.
    pub(crate) fn refuse(&self) {
        self.program.set_scenario(Reply::status(401));
        self.engine.set_scenario(Reply::status(401));
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.program.requests().into_iter().chain(self.engine.requests()).collect()
    }

    pub(crate) fn main_calls(&self) -> Vec<RecordedRequest> {
        self.program.main_calls().into_iter().chain(self.engine.main_calls()).collect()
    }
}

impl Setup {
    /// A login of this name, whose access token ran out an hour ago.
    pub(crate) fn new(which: OwnLogin) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "nexus", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let issuer = Issuer::builder()
            .refresh_token_mark(REFRESH_MARK)
            .access_token_life(Duration::from_secs(12 * 3_600))
            .start()
            .unwrap();
        let dialect = match which.as_str() {
            "grok" => Dialect::Xai,
            _ => Dialect::Responses,
        };
        let start = || Sim::start(dialect, Scenario::text("unused")).unwrap();
        let setup = Self { which, folder, issuer, sim: Servers { program: start(), engine: start() } };
        setup.log_in();
        setup
    }

    fn log_in(&self) {
        let origin = self.which.issuer().with_url(self.issuer.url());
        let tokens = self.issuer.issue(&origin.client_id);
        let Ok(Value::Object(origin)) = serde_json::to_value(&origin) else {
            panic!("an issuer is written as an object")
        };
        let mut identity = Identity::default();
        // As the issuer's tokens name it to each vendor's reader.
        let account = Account::default().id;
        identity.account = match self.which.as_str() {
            "codex" => Some(account),
            "grok" => Some(format!("user-{account}")),
            _ => None,
        };
        let login = Login::new(tokens.access_token, SystemTime::now() - Duration::from_secs(7_200))
            .with_refresh_token(tokens.refresh_token)
            .with_lifetime(Some(Duration::from_secs(3_600)))
            .with_identity(identity)
            .with_origin(origin);
        let store = LoginStore::at(&self.path("nexus"), self.which.file_name());
        store.prepare().unwrap().commit(&StoredLogin::new(login).to_text()).unwrap();
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    pub(crate) fn model(&self) -> &'static str {
        match self.which.as_str() {
            "grok" => "grok-4.6",
            _ => "gpt-5.5",
        }
    }

    fn context(&self) -> BuildContext {
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("HOME".to_owned(), self.path("home").display().to_string()),
        ]);
        BuildContext::in_home(self.path("nexus"))
            .with_base_directory(self.folder.path())
            .with_environment(environment)
    }

    /// The owner of the login.
    pub(crate) fn manager(&self) -> CredentialManager {
        self.which.manager(&self.context(), &Network::default()).unwrap()
    }

    /// The vendor's program. No credential is named: it is lent from the login.
    pub(crate) fn cli(&self) -> Arc<dyn ExecutionBackend> {
        let (kind, variable): (&dyn BackendKind, _) = match self.which.as_str() {
            "grok" => (&GrokCli, "NEXUS_REAL_GROK"),
            _ => (&CodexCli, "NEXUS_REAL_CODEX"),
        };
        let executable = nexus_testkit::real::last(variable);
        let mut settings = json!({
            "executable": executable,
            "base_url": self.sim.program.base_url(),
            "record": self.path("record"),
        });
        if self.which.as_str() == "chatgpt" {
            settings["login"] = "chatgpt".into();
        }
        kind.build(kind.name().into(), settings.as_object().unwrap(), &self.context()).unwrap()
    }

    /// The engine, on the same login.
    pub(crate) fn native(&self) -> Arc<dyn ExecutionBackend> {
        let kind: &dyn BackendKind = match self.which.as_str() {
            "codex" => &CodexSubToken,
            "grok" => &GrokSubToken,
            _ => &ChatgptSubToken,
        };
        let settings = json!({ "base_url": self.sim.engine.base_url(), "credential": { "source": "login" } });
        let context = self.context().with_credential_source("login", Arc::new(self.manager()));
        kind.build(kind.name().into(), settings.as_object().unwrap(), &context).unwrap()
    }
}
