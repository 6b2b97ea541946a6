//! The conversation, its file, and the sandbox around its tools.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

use super::super::{notes::Given, servers::Servers};
use crate::{model_call::ModelCall, sim::ToolCall};

/// One conversation.
#[derive(Debug, Default)]
pub(super) struct Session {
    id: String,
    sandbox: Sandbox,
}

/// Rules for permitted calls.
#[derive(Debug, Default)]
pub(super) struct Sandbox {
    tools: Option<Vec<String>>,
    allowed: Vec<String>,
    is_lifted: bool,
    roots: Vec<PathBuf>,
}

impl Session {
    /// Opens the conversation that the arguments name, and its history. The history is `None` if the conversation does not exist.
    pub(super) fn begin(given: &Given) -> (Self, Option<ModelCall>) {
        let list = |flag: &str| {
            given
                .value_of(flag)
                .map(|list| list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
        };
        let allowed: Vec<String> = list("--allowedTools").unwrap_or_default();
        let mut roots = vec![given.directory.clone()];
        let extra = given.arguments.iter().filter_map(|word| word.strip_prefix("--add-dir="));
        roots.extend(extra.map(PathBuf::from));
        // An allowed shell reaches everything, so the checks of paths mean nothing then.
        let is_lifted = allowed.iter().any(|name| name == "Bash");
        let sandbox = Sandbox { tools: list("--tools"), allowed, is_lifted, roots };
        match given.value_of("--resume") {
            Some(id) => {
                let history = read(&file(given, id));
                (Self { id: id.to_owned(), sandbox }, history)
            }
            None => (Self { id: fresh_id(), sandbox }, Some(ModelCall::default())),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Stores the history, unless the arguments disable it.
    pub(super) fn keep(&self, history: &ModelCall, given: &Given) {
        if given.has("--no-session-persistence") {
            return;
        }
        let path = file(given, &self.id);
        let said = json!({ "user": history.user_texts, "assistant": history.assistant_texts });
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        if let Err(error) = written.and_then(|()| fs::write(&path, format!("{said}\n"))) {
            eprintln!("the conversation cannot be kept: {error}");
        }
    }
}

impl Sandbox {
    /// Returns the reason for denying the call, in the vendor's words.
    pub(super) fn objection(&self, call: &ToolCall, servers: &Servers) -> Option<String> {
        let name = super::tool_name(call);
        if self.is_missing(call, servers) {
            return Some(format!("<tool_use_error>Error: No such tool available: {name}</tool_use_error>"));
        }
        if let Some(tool) = super::servers::tool(call, servers) {
            let server = format!("mcp__{}", tool.server);
            // The option accepts a whole server, with or without the star, and a single tool.
            let names = [format!("{server}__*"), server, name.clone()];
            let is_allowed = self.allowed.iter().any(|allowed| names.contains(allowed));
            return (!is_allowed).then(|| {
                format!("Claude requested permissions to use {name}, but you haven't granted it yet.")
            });
        }
        if self.is_lifted {
            return None;
        }
        match call {
            ToolCall::WriteFile { path, .. } if !self.holds(Path::new(path)) => Some(format!(
                "Claude requested permissions to write to {path}, but you haven't granted it yet."
            )),
            ToolCall::ReadFile { path } if !self.holds(Path::new(path)) => Some(format!(
                "Claude requested permissions to read from {path}, but you haven't granted it yet."
            )),
            ToolCall::Shell { command } if !self.holds_all(command) => {
                Some("This command requires approval".to_owned())
            }
            _ => None,
        }
    }

    /// Returns true if the harness does not offer the tool.
    pub(super) fn is_missing(&self, call: &ToolCall, servers: &Servers) -> bool {
        let name = super::tool_name(call);
        if name.starts_with("mcp__") {
            return super::servers::tool(call, servers).is_none();
        }
        self.tools.as_ref().is_some_and(|tools| name != "StructuredOutput" && !tools.contains(&name))
    }

    fn holds(&self, path: &Path) -> bool {
        // Reject `..` without a look at the disk: the path may not exist yet.
        let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
        !climbs && (path.is_relative() || self.roots.iter().any(|root| path.starts_with(root)))
    }

    /// Returns true if every path in the command is inside the roots.
    fn holds_all(&self, command: &str) -> bool {
        // A rough reading of the command suffices: tests use plain paths, and a wrong guess only denies more.
        let words = command.split(|letter: char| letter.is_whitespace() || "'\"<>;|&()=".contains(letter));
        words.filter(|word| word.contains('/')).all(|word| self.holds(Path::new(word)))
    }
}

/// Returns the file of the conversation `id`.
fn file(given: &Given, id: &str) -> PathBuf {
    let folder = match (given.variable("CLAUDE_CONFIG_DIR"), given.variable("HOME")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, home) => Path::new(home.unwrap_or("/")).join(".claude"),
    };
    // The real program names the folder of a project's conversations by its path, with dashes.
    let slug: String = given
        .directory
        .to_string_lossy()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    folder.join("projects").join(slug).join(format!("{id}.jsonl"))
}

fn read(path: &Path) -> Option<ModelCall> {
    let said: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let texts = |key: &str| -> Vec<String> {
        said[key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|text| text.as_str().map(str::to_owned))
            .collect()
    };
    let mut history = ModelCall::default();
    (history.user_texts, history.assistant_texts) = (texts("user"), texts("assistant"));
    Some(history)
}

/// A name in the form of a UUID.
fn fresh_id() -> String {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (nanos, pid) = (time.as_nanos() & 0xffff_ffff_ffff, std::process::id());
    format!("{pid:08x}-0000-4000-8000-{nanos:012x}")
}
