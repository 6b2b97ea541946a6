//! Prevents the tools of an agent from writing files that no commit can contain.

use std::{fs, path::Path, sync::Arc};

use async_trait::async_trait;
use nexus_core::{
    CancelToken, ParticipantScope, PathAccess, ToolCall, ToolDefinition, ToolResult, ToolRouter,
    scope::folded_name,
};
use nexus_trees::{Refusal, Tree, TreeLimits};
use serde_json::Value;

use super::blocking::on_tree;

/// Tools that change files.
const WRITING: [&str; 3] = ["write_file", "edit_file", "delete_file"];

/// Wraps the tools of another router. Tools that change files reject paths that no commit can contain: inside a submodule of the base,
/// under a filter, or with names that some file systems do not support. The check after the turn rejects them as well; here the agent
/// gets the reason while it can still react.
#[derive(Debug)]
pub(super) struct WriteGuard {
    pub(super) tools: Arc<dyn ToolRouter>,
    pub(super) scope: ParticipantScope,
    pub(super) tree: Tree,
    pub(super) cancel: CancelToken,
}

impl WriteGuard {
    /// Returns the reason why the file at `path` cannot be written.
    async fn refusal(&self, path: &str) -> Option<String> {
        // The tool itself rejects paths outside of the scope.
        let place = self.scope.check_path(path, PathAccess::Write).ok()?;
        let root = self.scope.root().unwrap_or(Path::new("/")).to_owned();
        let inner = place.strip_prefix(&root).ok()?.to_owned();
        let refused = on_tree(&self.tree, &self.cancel, {
            let inner = inner.clone();
            move |tree| Ok((tree.refusal_of(&inner)?, twin_of(&root, &inner)))
        });
        let why = match refused.await {
            Ok((Some(refusal), _)) => match refusal {
                Refusal::Submodule => {
                    "is in a submodule, which is empty here and out of scope: nothing was changed; do not \
                    write to it"
                        .to_owned()
                }
                Refusal::Filtered => "is stored with a filter such as LFS, so only a pointer could be \
                                      written: nothing was changed; do not write to it"
                    .to_owned(),
                Refusal::TooDeep => format!(
                    "is deeper than {} folders, and cannot be committed: nothing was changed; choose a path \
                    with fewer folders",
                    TreeLimits::default().depth
                ),
                _ => "has a control character in its name, and cannot be committed: nothing was changed; \
                    choose another name"
                    .to_owned(),
            },
            Ok((None, Some(twin))) => format!(
                "differs from {twin:?} only in a way that some file systems ignore, such as case, and both \
                 cannot be committed: nothing was changed; use that name, or choose another name"
            ),
            // Allow the write if the test fails: the check after the turn repeats it.
            Ok((None, None)) | Err(_) => return None,
        };
        Some(format!("{inner:?} {why}"))
    }
}

/// Finds the first name of `inner` that does not exist yet. Returns an existing name in the same folder that some file systems take for
/// the same. Everything below that name is new.
fn twin_of(root: &Path, inner: &Path) -> Option<String> {
    let mut folder = root.to_owned();
    for name in inner {
        let here = folder.join(name);
        if here.symlink_metadata().is_ok() {
            folder = here;
            continue;
        }
        let key = folded_name(&name.to_string_lossy());
        let others = fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.file_name());
        let mut names = others.map(|name| name.to_string_lossy().into_owned());
        return names.find(|other| folded_name(other) == key);
    }
    None
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
