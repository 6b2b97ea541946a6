//! Keeps the tools of an agent from writing what no commit would take.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use nexus_core::{
    CancelToken, ParticipantScope, PathAccess, ToolCall, ToolDefinition, ToolResult, ToolRouter,
};
use nexus_workspace::tree::{Refusal, Tree};
use serde_json::Value;

use super::blocking::on_tree;

/// The tools that change files.
const WRITING: [&str; 3] = ["write_file", "edit_file", "delete_file"];

/// The tools of another router, of which those that change files refuse what is in a submodule of the base or under a filter. The
/// check after the turn refuses it, too: here the agent is told in time.
#[derive(Debug)]
pub(super) struct WriteGuard {
    pub(super) tools: Arc<dyn ToolRouter>,
    pub(super) scope: ParticipantScope,
    pub(super) tree: Tree,
    pub(super) cancel: CancelToken,
}

impl WriteGuard {
    /// Why the file at `path` cannot be written.
    async fn refusal(&self, path: &str) -> Option<String> {
        let base = self.tree.base();
        if base.submodules.is_empty() && !base.has_filters {
            return None;
        }
        // What is out of scope is refused by the tool.
        let place = self.scope.check_path(path, PathAccess::Write).ok()?;
        let inner = place.strip_prefix(self.scope.root().unwrap_or(Path::new("/"))).ok()?.to_owned();
        let refused = on_tree(&self.tree, &self.cancel, {
            let inner = inner.clone();
            move |tree| tree.refusal_of(&inner)
        });
        match refused.await {
            Ok(Some(Refusal::Submodule)) => Some(format!(
                "{inner:?} is in a submodule, which is empty here and out of scope: nothing was changed; leave it as it is"
            )),
            Ok(Some(_)) => Some(format!(
                "the project keeps {inner:?} under a filter such as LFS, so that only a pointer could be here: nothing was changed; \
                 leave it as it is"
            )),
            // The check after the turn looks again.
            Ok(None) | Err(_) => None,
        }
    }
}

#[async_trait]
impl ToolRouter for WriteGuard {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.definitions()
    }

    fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        self.tools.check_arguments(tool, arguments)
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        if WRITING.contains(&call.name.as_str())
            && let Some(path) = call.arguments.get("path").and_then(Value::as_str)
            && let Some(reason) = self.refusal(path).await
        {
            return ToolResult::error(reason);
        }
        self.tools.call(call).await
    }
}
