//! A toolbox for the files of a scope: list, read, search, write, edit, delete. Needs the feature `files`.
//!
//! The tools have no access rules of their own: [`ScopedFiles`] and the [`Session`](crate::Session) before it enforce the scope.
//! The tools limit the size of an answer, state what was left out and how to continue, and answer a mistake with advice. They
//! change a file only if it still has the content that the model has read.

mod answer;
mod arguments;
mod edit;
mod job;
mod list;
mod read;
mod search;
mod write;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use job::BlockingWork;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{
    scope::{ScopedFiles, WalkOptions},
    tool::{MAX_ANSWER_BYTES, Tool, Toolbox},
    turn::Effects,
};

/// Smallest allowed bound on an answer: its beginning, its end and a line must fit. Source: our own bound.
const LEAST_ANSWER_BYTES: usize = 4_000;

/// Time limit of a call that walks folders. Source: our own bound.
const TIME: Duration = Duration::from_secs(10);

/// Tools for the files of a scope: `list_files`, `read_file`, `search_files`, `write_file`, `edit_file` and `delete_file`.
///
/// Offer them in a [`Session`](crate::Session) of the same scope, which decides on each call and records it. Without a session
/// the tools still enforce the scope. Calls run on Tokio's blocking threads. Dropping a call that has begun to change something
/// waits for its end, so that nothing changes after the turn.
///
/// ```
/// use std::sync::Arc;
/// use nexus_core::{Brief, FileTools, ParticipantScope, Session, TurnHost};
/// # use nexus_core::{ToolCall, ToolContent};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path().canonicalize()?;
/// # std::fs::create_dir(root.join("src"))?;
/// # std::fs::write(root.join("src/lib.rs"), "mod tests;\n")?;
/// let brief = Brief::new(&root)
///     .tool("*".parse()?)
///     .reading(".")
///     .writing("src")
///     .do_not_touch("**/.env".parse()?);
/// let scope = ParticipantScope::assemble(&brief, None, None)?;
/// let tools = FileTools::new(scope.files()).toolbox();
/// let session = Session::mint("coder", scope, Arc::new(tools));
/// # let call = ToolCall::new("1", "search_files", serde_json::json!({ "pattern": "mod" }));
/// # let found = session.call(session.token(), call).await;
/// # assert!(matches!(&found.content[0], ToolContent::Text { text } if text.starts_with("src/lib.rs:1: mod tests;")));
/// let host = TurnHost::new().with_session(session);
/// # let _ = host;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FileTools(Arc<ToolContext>);

/// Context that the tools share.
#[derive(Clone, Debug)]
struct ToolContext {
    files: ScopedFiles,
    answer_bytes: usize,
    /// Names of folders that are listed but neither entered nor searched.
    left_out: Vec<String>,
}

impl FileTools {
    /// Creates tools for these files. An answer has at most 10,000 bytes, and folders named `.git` are not entered.
    pub fn new(files: ScopedFiles) -> Self {
        Self(Arc::new(ToolContext {
            files,
            answer_bytes: MAX_ANSWER_BYTES,
            left_out: vec![".git".to_owned()],
        }))
    }

    /// Sets the size of a tool's answer, in bytes; at least 4,000. Some vendors' programs cut answers longer
    /// than 10,000.
    #[must_use]
    pub fn with_answer_bytes(mut self, most: usize) -> Self {
        Arc::make_mut(&mut self.0).answer_bytes = most.max(LEAST_ANSWER_BYTES);
        self
    }

    /// Sets folders that are listed but not entered, by their names at any depth, such as `target` or
    /// `node_modules`, in place of only `.git`. This is not an access rule: the content of such a folder is
    /// shown when a call names its path.
    #[must_use]
    pub fn leaving_out<N: Into<String>>(mut self, folders: impl IntoIterator<Item = N>) -> Self {
        Arc::make_mut(&mut self.0).left_out = folders.into_iter().map(Into::into).collect();
        self
    }

    /// Returns `list_files`, `read_file` and `search_files`.
    pub fn reading(&self) -> [Tool; 3] {
        let tools = [
            self.tool("list_files", list::DESCRIPTION, false, list::list_files),
            self.tool("read_file", read::DESCRIPTION, false, read::read_file),
            self.tool("search_files", search::DESCRIPTION, false, search::search_files),
        ];
        tools.map(|tool| tool.reading("/path").read_only())
    }

    /// Returns `write_file`, `edit_file` and `delete_file`.
    pub fn writing(&self) -> [Tool; 3] {
        let tools = [
            self.tool("write_file", write::WRITE_DESCRIPTION, true, write::write_file),
            self.tool("edit_file", edit::DESCRIPTION, true, edit::edit_file),
            self.tool("delete_file", write::DELETE_DESCRIPTION, true, write::delete_file),
        ];
        tools.map(|tool| tool.writing("/path").with_effects(Effects::Wrote))
    }

    /// Returns all six tools. A session offers only the tools that its scope allows.
    pub fn toolbox(&self) -> Toolbox {
        self.reading().into_iter().chain(self.writing()).fold(Toolbox::new(), Toolbox::with)
    }

    fn tool<A>(
        &self,
        name: &str,
        description: &str,
        changes: bool,
        work: fn(&ToolContext, &A) -> Result<String, String>,
    ) -> Tool
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
    {
        let shared = Arc::clone(&self.0);
        Tool::new(name, description, move |arguments: A| {
            let shared = Arc::clone(&shared);
            BlockingWork::start(changes, move || work(&shared, &arguments)).answer()
        })
    }
}

impl ToolContext {
    /// Returns a path for display. A session passes the real path to the tool.
    fn path(&self, given: &str) -> String {
        self.files.relative(Path::new(given))
    }

    /// Returns the paths to search: the given path, or all readable ones.
    fn places(&self, given: Option<&str>) -> Vec<String> {
        given.map_or_else(|| self.files.readable(), |given| vec![self.path(given)])
    }

    /// Returns the limits of a walk that must end at `until`.
    fn walk_options(&self, until: Instant) -> WalkOptions {
        let time = until.saturating_duration_since(Instant::now());
        WalkOptions { not_entered: self.left_out.clone(), time, ..WalkOptions::default() }
    }
}
