//! A real program against a simulator, with folders of its own. How each vendor's is set up is told beside that
//! vendor's tests.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_core::{BackendKind, BuildContext, CredentialSource, ExecutionBackend, TurnRequest};
use nexus_testkit::sim::{RecordedRequest, Sim};
use serde_json::{Value, json};

use super::{program::write_script, ran::Ran};

/// Locked by a test that serves the names of vendors at port 443, which all tests share.
pub(crate) static HTTPS_PORT: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A backend of `kind`, and all that it can touch: the folders `home`, `nexus` and `work`, and a few variables. Each
/// vendor's tests add how its own is set up.
pub(crate) struct Stage<Kind> {
    pub(crate) sim: Sim,
    kind: Kind,
    folder: tempfile::TempDir,
    settings: Value,
    environment: BTreeMap<String, String>,
    sources: Vec<(String, Arc<dyn CredentialSource>)>,
}

impl<Kind: BackendKind> Stage<Kind> {
    /// A backend with these settings, whose program is this one. It is not pointed at `sim`.
    pub(crate) fn of(kind: Kind, executable: &Path, sim: Sim, settings: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "nexus", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let home = folder.path().join("home").to_str().unwrap().to_owned();
        Self { sim, kind, folder, settings, environment: BTreeMap::new(), sources: Vec::new() }
            .with("executable", json!(executable))
            .with_variable("PATH", &std::env::var("PATH").unwrap())
            .with_variable("HOME", &home)
    }

    /// Changes a setting; `null` takes it away.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        match value {
            Value::Null => drop(self.settings.as_object_mut().unwrap().remove(key)),
            value => self.settings[key] = value,
        }
        self
    }

    /// Lets `program` be started by a script, which hands it its arguments with `before` in front and rewrites what it
    /// writes by the commands of `sed` in `rewriting`, if there are any.
    pub(crate) fn started_by(self, program: &Path, before: &str, rewriting: &str) -> Self {
        let program = program.display();
        let filter = if rewriting.is_empty() { String::new() } else { format!(" | sed -u '{rewriting}'") };
        let script = format!(
            "[ \"$1\" = --version ] && exec '{program}' --version\n'{program}' {before} \"$@\"{filter}"
        );
        self.running("started", &script)
    }

    /// Lets the file `name` with this script for the shell be the program.
    pub(crate) fn running(self, name: &str, script: &str) -> Self {
        let path = self.path(name);
        write_script(&path, script);
        self.with("executable", json!(path))
    }

    /// Sets a variable of the host.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Brings a source of credentials along.
    pub(crate) fn with_source(mut self, name: &str, source: Arc<dyn CredentialSource>) -> Self {
        self.sources.push((name.to_owned(), source));
        self
    }

    /// A path below the stage's folder.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    /// Writes a file below the stage's folder, and says where it is.
    pub(crate) fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Every file below a folder of the stage, by its path from there, sorted. A missing folder has none.
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

    /// The backend, built anew.
    pub(crate) fn backend(&self) -> Arc<dyn ExecutionBackend> {
        let context = BuildContext::in_home(self.path("nexus"))
            .with_base_directory(self.folder.path())
            .with_environment(self.environment.clone());
        let with = |context: BuildContext, (name, source): &(String, Arc<dyn CredentialSource>)| {
            context.with_credential_source(name, Arc::clone(source))
        };
        let context = self.sources.iter().fold(context, with);
        let settings = self.settings.as_object().expect("settings are an object");
        self.kind.build(self.kind.name().into(), settings, &context).unwrap()
    }

    /// Runs a turn with this very request.
    pub(crate) async fn run_as_asked(&self, request: TurnRequest) -> Ran {
        Ran::of(&*self.backend(), request).await
    }

    /// The requests to the model.
    pub(crate) fn calls(&self) -> Vec<RecordedRequest> {
        self.sim.main_calls()
    }
}
