//! The conversation: its name, its record on disk, its sandbox, and its configuration.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::super::{notes::Given, servers::config::read_toml};
use crate::{model_call::ModelCall, sim::ToolCall};

/// The part of `config.toml` that changes what the program does.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) has_tools: bool,
    pub(super) stream_retries: u32,
    /// The whole file.
    pub(super) whole: Value,
    writable_roots: Vec<PathBuf>,
}

impl Config {
    /// Reads the file in `CODEX_HOME`.
    pub(super) fn read(given: &Given) -> Self {
        let whole = read_toml(&home(given).join("config.toml"));
        let roots = whole["sandbox_workspace_write"]["writable_roots"].as_array();
        let writable_roots =
            roots.into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from).collect();
        let provider = whole["model_provider"].as_str().unwrap_or_default();
        let retries = whole["model_providers"][provider]["stream_max_retries"].as_u64();
        Self {
            has_tools: whole["features"]["shell_tool"] != false,
            stream_retries: retries.and_then(|most| u32::try_from(most).ok()).unwrap_or(5),
            writable_roots,
            whole,
        }
    }
}

/// One conversation.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) sandbox: String,
    path: PathBuf,
    directory: PathBuf,
}

impl Session {
    /// Creates a conversation from the `params` of `thread/start`.
    pub(super) fn start(params: &Value, given: &Given) -> Self {
        let id = fresh_id(1);
        let path = sessions(given).join(format!("rollout-2026-01-01T00-00-00-{id}.jsonl"));
        let session = Self { path, ..Self::opened(id, params, given) };
        session.note("session_meta", &json!({ "id": session.id, "cli_version": "0.169.0" }));
        session
    }

    /// Opens a stored thread, with its history.
    pub(super) fn resume(params: &Value, given: &Given) -> Option<(Self, ModelCall)> {
        let id = params["threadId"].as_str()?;
        // The files are in folders of the day, which the id does not contain.
        let path = find(&home(given).join("sessions"), &format!("-{id}.jsonl"))?;
        let mut history = ModelCall::default();
        for line in fs::read_to_string(&path).ok()?.lines() {
            let line: Value = serde_json::from_str(line).ok()?;
            let (role, text) = (&line["payload"]["role"], &line["payload"]["content"][0]["text"]);
            let Some(text) = text.as_str().map(str::to_owned) else { continue };
            match role.as_str() {
                Some("user") => history.user_texts.push(text),
                Some("assistant") => history.assistant_texts.push(text),
                _ => {}
            }
        }
        Some((Self { path, ..Self::opened(id.to_owned(), params, given) }, history))
    }

    fn opened(id: String, params: &Value, given: &Given) -> Self {
        let sandbox = match params["sandbox"].as_str() {
            Some("workspace-write") => "workspaceWrite",
            Some("danger-full-access") => "dangerFullAccess",
            _ => "readOnly",
        };
        let directory = params["cwd"].as_str().map_or_else(|| given.directory.clone(), PathBuf::from);
        Self { id, sandbox: sandbox.to_owned(), path: PathBuf::new(), directory }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line to the record.
    pub(super) fn note(&self, kind: &str, payload: &Value) {
        let line = json!({ "timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "payload": payload });
        let folder = self.path.parent().map_or(Ok(()), fs::create_dir_all);
        let file = folder.and_then(|()| OpenOptions::new().create(true).append(true).open(&self.path));
        if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
            eprintln!("the conversation cannot be recorded: {error}");
        }
    }

    /// Adds a message to the record.
    pub(super) fn note_message(&self, role: &str, text: &str) {
        let content = json!([{ "type": "output_text", "text": text }]);
        self.note("response_item", &json!({ "type": "message", "role": role, "content": content }));
    }

    /// Returns the reason for denying a call, in the program's words.
    pub(super) fn objection(&self, call: &ToolCall, config: &Config) -> Option<String> {
        let name = super::tool_name(call);
        let is_known =
            matches!(call, ToolCall::Shell { .. } | ToolCall::WriteFile { .. } | ToolCall::ReadFile { .. });
        if !config.has_tools || !is_known {
            return Some(format!("unsupported call: {name}"));
        }
        let roots: &[PathBuf] = match self.sandbox.as_str() {
            "dangerFullAccess" => return None,
            "workspaceWrite" => &config.writable_roots,
            _ => &[],
        };
        // Codex lets commands read anywhere, so only the targets of redirections are checked.
        let is_read_only = self.sandbox == "readOnly";
        let holds = |path: &Path| {
            let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
            let inside = path.is_relative() || path.starts_with(&self.directory);
            !is_read_only && !climbs && (inside || roots.iter().any(|root| path.starts_with(root)))
        };
        match call {
            ToolCall::WriteFile { path, .. } if !holds(Path::new(path)) => Some(
                "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
                    .into(),
            ),
            ToolCall::Shell { command } if !written(command).all(holds) => {
                let output = "Process exited with code 1\nOutput:\n/bin/bash: Read-only file system";
                Some(output.to_owned())
            }
            _ => None,
        }
    }
}

/// The files that a command's redirections lead to.
fn written(command: &str) -> impl Iterator<Item = &Path> {
    let targets = command.split('>').skip(1).map(str::trim_start);
    let is_end = |letter: char| letter.is_whitespace() || ";|&)".contains(letter);
    targets.filter(|rest| !rest.is_empty() && !rest.starts_with('&')).filter_map(move |rest| {
        let quoted = rest.strip_prefix('\'').and_then(|rest| rest.split('\'').next());
        Some(Path::new(quoted.or_else(|| rest.split(is_end).next())?))
    })
}

fn home(given: &Given) -> PathBuf {
    PathBuf::from(given.variable("CODEX_HOME").unwrap_or("."))
}

fn sessions(given: &Given) -> PathBuf {
    home(given).join("sessions/2026/01/01")
}

fn find(folder: &Path, suffix: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let found = match path.is_dir() {
            true => find(&path, suffix),
            false => path.to_string_lossy().ends_with(suffix).then_some(path),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Returns a name in the form of a UUID; `part` distinguishes names of the same moment.
pub(super) fn fresh_id(part: u32) -> String {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (nanos, pid) = (time.as_nanos() & 0xffff_ffff_ffff, std::process::id());
    // Backends accept only ids in the form of a UUID. The process and the time keep them apart.
    format!("{pid:08x}-{:04x}-7000-8000-{nanos:012x}", part & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_is_seen() {
        let targets = |command| written(command).map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(targets("echo x > '/a b/c'; echo y >>d 2>&1"), ["/a b/c", "d"]);
        assert_eq!(targets("echo x"), Vec::<String>::new());
    }
}
