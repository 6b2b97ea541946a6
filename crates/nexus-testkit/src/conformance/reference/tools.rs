//! Tools that really run: a shell, and files.

use std::{collections::BTreeMap, path::Path};

use nexus_core::ToolResult;

use super::access::Sandbox;
use crate::{conformance::shell, sim::ToolCall};

/// Runs a tool of the harness. Dropping the future kills what it started.
pub(super) async fn run(
    call: &ToolCall,
    sandbox: &Sandbox,
    environment: &BTreeMap<String, String>,
) -> ToolResult {
    answer(call, sandbox, environment).await.map_or_else(ToolResult::error, ToolResult::text)
}

/// Runs a tool. Returns its text, or the reason why it failed.
async fn answer(
    call: &ToolCall,
    sandbox: &Sandbox,
    environment: &BTreeMap<String, String>,
) -> Result<String, String> {
    match call {
        ToolCall::Shell { command } => shell::run(command, &sandbox.directory, environment).await,
        ToolCall::WriteFile { path, text } => {
            let path = sandbox.resolve(Path::new(path));
            tokio::fs::write(&path, text).await.map_err(|error| error.to_string())?;
            Ok(format!("wrote {} bytes", text.len()))
        }
        ToolCall::ReadFile { path } => {
            let path = sandbox.resolve(Path::new(path));
            tokio::fs::read_to_string(&path).await.map_err(|error| error.to_string())
        }
        _ => Err("there is no such tool".into()),
    }
}
