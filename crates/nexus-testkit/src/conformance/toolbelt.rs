//! Tools of the model in a case: a shell and files, so that one case serves every backend.
//!
//! If the backend brings a harness, its own tools are used, at the access level that the case names. If it
//! brings none, the suite offers the same tools as the caller's, at [`ToolAccess::ScopedOnly`].

use std::sync::Arc;

use nexus_core::{
    Effects, ToolAccess, ToolCall as CallerCall, ToolContent, ToolDefinition, ToolResult, TurnHost,
    TurnRequest,
};
use serde_json::{Value, json};

use super::{
    case_tools::CaseTools,
    finding::Finding,
    shell,
    subject::TOKEN_VARIABLE,
    trial::{Observed, Staged, Trial},
    watch::SinkPace,
};
use crate::sim::ToolCall;

/// Names of the tools that the suite offers.
const SHELL: &str = "shell";
const WRITE_FILE: &str = "write_file";

/// Tools of the model in a case.
#[derive(Debug)]
pub(super) struct Toolbelt<'t> {
    trial: &'t Trial<'t>,
    level: ToolAccess,
    own: Option<Arc<CaseTools>>,
}

impl Trial<'_> {
    /// Tools to work with: those of the harness at `level`, or the suite's.
    pub(super) fn toolbelt(&self, level: ToolAccess) -> Toolbelt<'_> {
        if self.brings_tools() {
            return Toolbelt { trial: self, level, own: None };
        }
        Toolbelt { trial: self, level: ToolAccess::ScopedOnly, own: Some(Arc::new(own_tools(self))) }
    }
}

impl Toolbelt<'_> {
    /// Builds the model's call that runs `command`.
    pub(super) fn shell(&self, command: impl Into<String>) -> ToolCall {
        let command = command.into();
        self.call(SHELL, json!({ "command": command }), ToolCall::shell(command))
    }

    /// Builds the model's call that creates the file `path` with `text`.
    pub(super) fn write_file(&self, path: impl Into<String>, text: impl Into<String>) -> ToolCall {
        let (path, text) = (path.into(), text.into());
        self.call(WRITE_FILE, json!({ "path": path, "text": text }), ToolCall::write_file(path, text))
    }

    /// A request to work in the trial's workspace.
    pub(super) fn work(&self, staged: &Staged<'_>, prompt: &str) -> TurnRequest {
        staged.work(prompt, self.level)
    }

    /// A host that brings the suite's tools, if these are used.
    pub(super) fn host(&self) -> TurnHost {
        self.own.as_ref().map_or_else(TurnHost::new, CaseTools::host)
    }

    /// Runs a turn that works in the trial's workspace.
    pub(super) async fn run(&self, staged: &Staged<'_>, prompt: &str) -> Result<Observed, Finding> {
        self.run_request(staged, self.work(staged, prompt)).await
    }

    /// Runs a turn with these tools.
    pub(super) async fn run_request(
        &self,
        staged: &Staged<'_>,
        request: TurnRequest,
    ) -> Result<Observed, Finding> {
        staged.run_with(request, self.host(), SinkPace::Ready).await
    }

    fn call(&self, name: &str, arguments: Value, harness: ToolCall) -> ToolCall {
        match &self.own {
            Some(_) => self.trial.subject().caller_tool(name, arguments),
            None => harness,
        }
    }
}

/// A shell and a file writer, in the workspace and the environment of `trial`, without its credential.
fn own_tools(trial: &Trial<'_>) -> CaseTools {
    let schema = |names: &[&str]| {
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
        json!({ "type": "object", "properties": properties, "required": names })
    };
    let shell_tool = ToolDefinition::new(SHELL, "Runs a command line.", schema(&["command"]));
    let file_tool = ToolDefinition::new(WRITE_FILE, "Creates a file.", schema(&["path", "text"]));
    let directory = trial.workspace();
    let mut environment = trial.environment();
    environment.remove(TOKEN_VARIABLE);
    let (place, environment) = (directory.clone(), Arc::new(environment));
    CaseTools::one(shell_tool.with_effects(Effects::Wrote), move |call| {
        let (directory, environment) = (place.clone(), Arc::clone(&environment));
        async move {
            let command = text_at(&call, "command");
            as_result(shell::run(&command, &directory, &environment).await)
        }
    })
    .and(file_tool.with_effects(Effects::Wrote), move |call| {
        let path = directory.join(text_at(&call, "path"));
        async move {
            let text = text_at(&call, "text");
            let written = tokio::fs::write(&path, &text).await;
            as_result(written.map(|()| "written".to_owned()).map_err(|error| error.to_string()))
        }
    })
}

fn text_at(call: &CallerCall, name: &str) -> String {
    call.arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn as_result(outcome: Result<String, String>) -> ToolResult {
    match outcome {
        Ok(text) => ToolResult::ok(vec![ToolContent::text(text)]),
        Err(text) => ToolResult::error(text),
    }
}
