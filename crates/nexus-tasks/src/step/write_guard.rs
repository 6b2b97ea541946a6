//! Keeps the tools of an agent from writing what no commit would take.

use std::{fs, path::Path, sync::Arc};

use async_trait::async_trait;
use nexus_core::{
    CancelToken, ParticipantScope, PathAccess, ToolCall, ToolDefinition, ToolResult, ToolRouter,
    scope::folded_name,
};
use nexus_trees::{Refusal, Tree, TreeLimits};
use serde_json::Value;

use super::blocking::on_tree;

/// The tools that change files.
const WRITING: [&str; 3] = ["write_file", "edit_file", "delete_file"];

/// The tools of another router, of which those that change files refuse what no commit would take: what is in a submodule of the
/// base or under a filter, and names that some file system does not take. The check after the turn refuses it, too: here the agent
/// is told in time.
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
        // What is out of scope is refused by the tool.
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
                    "is in a submodule, which is empty here and out of scope: nothing was changed; leave it as it is".to_owned()
                }
                Refusal::Filtered => "is kept by the project under a filter such as LFS, so that only a pointer could be here: \
                                      nothing was changed; leave it as it is"
                    .to_owned(),
                Refusal::TooDeep => format!(
                    "lies in more than {} folders, and no commit takes it: nothing was changed; choose a place higher up",
                    TreeLimits::default().depth
                ),
                _ => "has a control character in its name, and no commit takes it: nothing was changed; choose another name"
                    .to_owned(),
            },
            Ok((None, Some(twin))) => format!(
                "differs from {twin:?} in what some file systems do not tell apart, such as case, and no commit takes both: nothing \
                 was changed; use that name, or choose another one"
            ),
            // The check after the turn looks again.
            Ok((None, None)) | Err(_) => return None,
        };
        Some(format!("{inner:?} {why}"))
    }
}

/// The name on the disk that some file system takes for the first name of `inner` that is not there itself. Below that name
/// everything is new.
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
