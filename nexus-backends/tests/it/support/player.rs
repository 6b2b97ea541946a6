//! A program that plays what a vendor's program was seen to write, and a backend that runs it.

use std::{collections::BTreeMap, sync::Arc};

use nexus_core::{BackendKind, BuildContext, ExecutionBackend, TurnEvent, TurnRequest, turn::Unrecognized};
use serde_json::{Value, json};

use super::{program::write_script, ran::Ran};

/// A program in a folder of its own, named as the kind of its backend is.
pub(crate) struct Player {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) backend: Arc<dyn ExecutionBackend>,
}

impl Player {
    /// A program that says its `version` when it is asked for it, and else runs `script` in the shell. The backend
    /// has these settings beside the executable; the variable `TOKEN` holds a token for it.
    pub(crate) fn new(kind: &dyn BackendKind, version: &str, settings: Value, script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(kind.name());
        let version = format!("if [ \"$1\" = --version ]; then echo '{version}'; exit; fi");
        write_script(&program, &format!("{version}\n{script}"));
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("TOKEN".to_owned(), "a-token".to_owned()),
        ]);
        let context = BuildContext::in_home(folder.path().join("nexus"))
            .with_base_directory(folder.path())
            .with_environment(environment);
        let Value::Object(mut settings) = settings else { panic!("settings are an object") };
        settings.insert("executable".to_owned(), json!(program));
        let backend = kind.build(kind.name().into(), &settings, &context).unwrap();
        Self { folder, backend }
    }

    /// Runs a turn with this request.
    pub(crate) async fn play(&self, request: TurnRequest) -> Ran {
        Ran::of(&*self.backend, request).await
    }
}

impl Ran {
    /// What of the recording was not known.
    pub(crate) fn unrecognized(&self) -> Vec<&Unrecognized> {
        let unknown = self.events.iter().filter_map(|event| match event {
            TurnEvent::Unrecognized(unknown) => Some(unknown),
            _ => None,
        });
        unknown.collect()
    }
}
