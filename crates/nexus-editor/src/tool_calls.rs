//! Display of a tool call, by names that the tools of all vendors share.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol_schema::v1::ToolKind;
use nexus_core::{ApprovalAction, Effects};
use serde_json::Value;

use crate::client_text::title;

/// Maximum number of paths of a call that are used. Source: our own bound.
const MAX_PATHS: usize = 16;

/// Names of arguments that contain a path.
const PATH_KEYS: [&str; 9] = [
    "path",
    "file_path",
    "filePath",
    "filename",
    "file",
    "notebook_path",
    "target_file",
    "absolute_path",
    "relative_path",
];
/// Names of arguments that describe a call best.
const TELLING_KEYS: [&str; 7] = ["command", "cmd", "pattern", "query", "url", "description", "prompt"];

/// Parts of a name that identify the kind of a tool; the first match counts.
const KINDS: [(ToolKind, &[&str]); 8] = [
    (ToolKind::Think, &["todo", "think", "plan"]),
    (ToolKind::Fetch, &["fetch", "http", "web", "browse", "download"]),
    (ToolKind::Delete, &["delete", "remove", "unlink"]),
    (ToolKind::Move, &["rename", "move"]),
    (ToolKind::Edit, &["edit", "write", "patch", "replace", "create_file", "file_change", "insert"]),
    (ToolKind::Execute, &["bash", "shell", "exec", "command", "terminal", "run"]),
    (ToolKind::Search, &["grep", "search", "find", "glob", "list"]),
    (ToolKind::Read, &["read", "view", "open"]),
];

/// Returns the kind of a tool, by its name, else by its effects.
pub(crate) fn kind(name: &str, effects: Option<Effects>) -> ToolKind {
    let name = name.to_ascii_lowercase();
    let by_name = KINDS.iter().find(|(_, parts)| parts.iter().any(|part| name.contains(part)));
    match (by_name, effects) {
        (Some((kind, _)), _) => *kind,
        (None, Some(Effects::Read)) => ToolKind::Read,
        (None, _) => ToolKind::Other,
    }
}

/// Returns the kind of a call that waits for an approval.
pub(crate) fn kind_of_action(name: &str, action: ApprovalAction) -> ToolKind {
    match (action, kind(name, None)) {
        (ApprovalAction::Read, by_name @ ToolKind::Search) => by_name,
        (ApprovalAction::Read, _) => ToolKind::Read,
        (ApprovalAction::Write, by_name @ (ToolKind::Delete | ToolKind::Move)) => by_name,
        (ApprovalAction::Write, _) => ToolKind::Edit,
        (ApprovalAction::Execute, _) => ToolKind::Execute,
        (ApprovalAction::Fetch, _) => ToolKind::Fetch,
        (_, by_name) => by_name,
    }
}

/// Returns a line that describes a call: `Bash: ls -la`.
pub(crate) fn call_title(name: &str, arguments: Option<&Value>) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    };
    let telling = arguments.and_then(|arguments| {
        // Commands first, then paths, because the title has room for one text.
        let mut keys = TELLING_KEYS.iter().take(2).chain(&PATH_KEYS).chain(TELLING_KEYS.iter().skip(2));
        keys.find_map(|key| text(arguments.get(key)?)).filter(|text| !text.trim().is_empty())
    });
    let changed = arguments.and_then(|arguments| changes(arguments).into_iter().next());
    match telling.or(changed) {
        Some(text) => title(&format!("{name}: {}", title(&text))),
        None => title(name),
    }
}

/// Returns the absolute paths of the files that a call names.
pub(crate) fn paths(cwd: &Path, arguments: &Value) -> Vec<PathBuf> {
    let keyed = PATH_KEYS.iter().filter_map(|key| arguments.get(key)?.as_str().map(str::to_owned));
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in keyed.chain(changes(arguments)).filter(|path| !path.is_empty()).take(MAX_PATHS) {
        let path = plain(&cwd.join(path));
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// Returns the paths in `changes`: a list of objects with a `path`, or an object with paths as keys.
fn changes(arguments: &Value) -> Vec<String> {
    match arguments.get("changes") {
        Some(Value::Array(changes)) => {
            changes.iter().filter_map(|change| change.get("path")?.as_str().map(str::to_owned)).collect()
        }
        Some(Value::Object(changes)) => changes.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

/// Returns a path without `.`, and without each `..` that can be resolved by its text.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_shown_by_what_it_does() {
        for (name, expected) in [
            ("Bash", ToolKind::Execute),
            ("mcp__nexus__write_file", ToolKind::Edit),
            ("TodoWrite", ToolKind::Think),
            ("WebFetch", ToolKind::Fetch),
            ("Glob", ToolKind::Search),
            ("file_change", ToolKind::Edit),
            ("Read", ToolKind::Read),
            ("ask", ToolKind::Other),
        ] {
            assert_eq!(kind(name, None), expected, "{name}");
        }
        assert_eq!(kind("ask", Some(Effects::Read)), ToolKind::Read);
        assert_eq!(call_title("Bash", Some(&json!({ "command": "ls\u{1b}[2J\nrm" }))), r"Bash: ls\u{1b}[2J…");
        assert_eq!(call_title("shell", Some(&json!({ "command": ["sh", "-c"] }))), "shell: sh -c");
        assert_eq!(call_title("Ask", Some(&json!([1]))), "Ask");
    }

    #[test]
    fn paths_are_found_wherever_vendors_put_them() {
        let found = |arguments: Value| paths(Path::new("/w"), &arguments);
        assert_eq!(
            found(json!({ "file_path": "a/../b", "path": "/x" })),
            [Path::new("/x"), Path::new("/w/b")]
        );
        assert_eq!(found(json!({ "changes": [{ "path": "/w/c", "kind": "add" }] })), [Path::new("/w/c")]);
        assert_eq!(found(json!({ "changes": { "d": {} } })), [Path::new("/w/d")]);
        assert_eq!(found(json!("text")), [] as [&Path; 0]);
    }
}
