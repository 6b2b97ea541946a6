//! A vendor's program, and its run against the simulator.

use std::{collections::BTreeMap, path::Path, path::PathBuf, sync::Arc};

use nexus_core::{
    Availability, BackendKind, BuildContext, ErrorKind, EventEnvelope, ExecutionBackend, ToolAccess,
    ToolCall as Call, ToolDefinition, ToolResult, ToolRouter, TurnHost, TurnRequest,
};
use serde_json::{Map, Value, json};

use crate::{
    conformance::{DelegatedSubject, Departure, TOKEN_VARIABLE},
    sim::{Dialect, Scenario, Sim},
};

/// Length of a tool description beyond every observed limit, in characters.
const LONG_DESCRIPTION: usize = 20_000;

/// Facts about a program that are known before it is run.
struct Known {
    vendor: &'static str,
    kind: &'static str,
    dialect: Dialect,
    model: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

const KNOWN: [Known; 3] = [
    Known {
        vendor: "claude",
        kind: "claude-cli",
        dialect: Dialect::Anthropic,
        model: "claude-sonnet-5",
        settings: &[("billing", "plan")],
    },
    Known {
        vendor: "codex",
        kind: "codex-cli",
        dialect: Dialect::Responses,
        model: "gpt-5.5",
        settings: &[],
    },
    Known { vendor: "grok", kind: "grok-cli", dialect: Dialect::Xai, model: "grok-4.6", settings: &[] },
];

/// A program that a backend of this build runs.
pub struct Program {
    known: &'static Known,
    kind: Arc<dyn BackendKind>,
    path: PathBuf,
    version: String,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// Identifies the vendor: the backend kind that accepts the program.
    pub(super) async fn find(path: &Path) -> Result<Self, String> {
        let registry = nexus_backends::registry();
        let mut reasons = Vec::new();
        for known in &KNOWN {
            let kind = registry
                .kind(known.kind)
                .cloned()
                .ok_or_else(|| format!("this build has no {}", known.kind))?;
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            let backend = build(known, &*kind, path, folder.path(), "http://127.0.0.1:1")?;
            match backend.probe().await {
                Availability::Ready { version: Some(version), .. } => {
                    return Ok(Self { known, kind, path: path.to_owned(), version });
                }
                Availability::Unusable { reason } => reasons.push(reason),
                other => reasons.push(format!("{other:?}")),
            }
        }
        Err(reasons.join("\n"))
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The folder of its vendor.
    pub fn vendor(&self) -> &'static str {
        self.known.vendor
    }

    /// Returns the program as a subject of the suite.
    pub(super) fn subject(&self) -> DelegatedSubject {
        let Known { dialect, model, settings, .. } = self.known;
        let name = format!("{} {}", self.known.kind, self.version);
        let subject = DelegatedSubject::real(name, Arc::clone(&self.kind), &self.path, *dialect)
            .with_model(*model)
            .departing(Departure {
                case: "no_answer_is_no_success",
                kinds: vec![ErrorKind::Incomplete, ErrorKind::VendorFailure],
                because: "a program may take the model's silence for a failure of its server",
            });
        // By default a backend rejects a version that is known to fail. Such a version could never be judged again.
        let subject = subject.with_setting("versions", json!("any"));
        settings.iter().fold(subject, |subject, (key, value)| subject.with_setting(key, json!(value)))
    }

    /// Length of the part of a long tool description that reaches the model. `None` if all of it does, or none of it is sent.
    pub(super) async fn description_units(&self) -> Result<Option<usize>, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let sim =
            Sim::start(self.known.dialect, Scenario::text("Noted.")).map_err(|error| error.to_string())?;
        let backend = build(self.known, &*self.kind, &self.path, folder.path(), &sim.base_url())?;
        let mut request = TurnRequest::new("Take note.").with_tool_access(ToolAccess::ScopedOnly);
        request.model = Some(self.known.model.into());
        let host = TurnHost::new().with_tools(Arc::new(Described));
        let mut nobody = |_event: EventEnvelope| {};
        backend
            .run_turn(request, host, &mut nobody)
            .await
            .map_err(|error| format!("a turn with a tool: {error}"))?;
        let longest = |body: &[u8]| body.split(|byte| *byte != b'~').map(<[u8]>::len).max().unwrap_or(0);
        let most = sim.main_calls().iter().map(|call| longest(&call.body)).max().unwrap_or(0);
        Ok(Some(most).filter(|most| (1..LONG_DESCRIPTION).contains(most)))
    }
}

/// A tool with an overlong description.
#[derive(Debug)]
struct Described;

#[async_trait::async_trait]
impl ToolRouter for Described {
    fn definitions(&self) -> Vec<ToolDefinition> {
        vec![ToolDefinition::new("note", "~".repeat(LONG_DESCRIPTION), json!({ "type": "object" }))]
    }

    fn check_arguments(&self, _tool: &str, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, _call: Call) -> ToolResult {
        ToolResult::text("noted")
    }
}

fn build(
    known: &Known,
    kind: &dyn BackendKind,
    path: &Path,
    home: &Path,
    base_url: &str,
) -> Result<Arc<dyn ExecutionBackend>, String> {
    let mut settings = Map::from_iter([
        ("executable".to_owned(), json!(path)),
        ("base_url".to_owned(), json!(base_url)),
        ("credential".to_owned(), json!({ "env": TOKEN_VARIABLE })),
    ]);
    settings.extend(known.settings.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
    let environment = BTreeMap::from([
        (TOKEN_VARIABLE.to_owned(), "a-token".to_owned()),
        ("HOME".to_owned(), home.to_string_lossy().into_owned()),
        ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
    ]);
    let context =
        BuildContext::in_home(home.join("nexus")).with_base_directory(home).with_environment(environment);
    kind.build(known.kind.into(), &settings, &context).map_err(|error| error.to_string())
}
