//! Diffs for the editor: what a call changed in a file, or would change. If the change is uncertain, no diff is sent.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use agent_client_protocol_schema::v1::{Diff, ToolCallContent};
use nexus_core::{
    ParticipantScope,
    redact::Redactor,
    scope::{Brief, FileError, ScopedFiles},
};
use serde_json::Value;

/// Maximum size of a text for a diff, in bytes. Source: our own bound.
const MAX_BYTES: u64 = 256 << 10;

/// Access to the files below a folder. Does not follow a link that leads out of it.
#[derive(Debug)]
pub(crate) struct Files {
    files: Option<ScopedFiles>,
    redactor: Redactor,
}

/// Content of a file, if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeenContent {
    Absent,
    Text(String),
    /// The file is elsewhere, too large, not a text, or unreadable.
    Unknown,
}

impl Files {
    pub(crate) fn below(folder: &Path, redactor: Redactor) -> Self {
        let scope = ParticipantScope::assemble(&Brief::new(folder).reading("."), None, None);
        Self { files: scope.ok().map(|scope| scope.files()), redactor }
    }

    /// Returns the present content of a file.
    pub(crate) fn look(&self, path: &Path) -> SeenContent {
        let (Some(files), Some(path)) = (&self.files, path.to_str()) else { return SeenContent::Unknown };
        let file = match files.open(path) {
            Ok(file) => file,
            Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return SeenContent::Absent;
            }
            Err(_) => return SeenContent::Unknown,
        };
        let mut bytes = Vec::new();
        // One byte more than the limit shows that the file is too long.
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        match String::from_utf8(bytes) {
            Ok(text) if read.is_ok() && text.len() as u64 <= MAX_BYTES && !text.contains('\0') => {
                SeenContent::Text(text)
            }
            _ => SeenContent::Unknown,
        }
    }

    /// Returns the change of a file since `before`.
    pub(crate) fn changed(&self, path: &Path, before: &SeenContent) -> Option<ToolCallContent> {
        match self.look(path) {
            SeenContent::Text(after) => self.diff(path, before, after),
            SeenContent::Absent | SeenContent::Unknown => None,
        }
    }

    /// Returns the change that a call proposes, if its arguments show it: a whole text, or replacements in texts.
    pub(crate) fn proposed(&self, paths: &[PathBuf], arguments: &Value) -> Option<ToolCallContent> {
        let [path] = paths else { return None };
        let before = self.look(path);
        // Vendors name the arguments of their tools differently.
        let whole = ["content", "contents", "file_text"];
        let text = |keys: &[&str], value: &Value| {
            keys.iter().find_map(|key| value.get(key)?.as_str().map(str::to_owned))
        };
        if let Some(after) = text(&whole, arguments) {
            return self.diff(path, &before, after);
        }
        let SeenContent::Text(mut after) = before.clone() else { return None };
        let edits = arguments.get("edits").and_then(Value::as_array);
        for edit in edits.map_or(std::slice::from_ref(arguments), Vec::as_slice) {
            let old = text(&["old_string", "old_str", "old_text", "oldText"], edit)?;
            let new = text(&["new_string", "new_str", "new_text", "newText"], edit)?;
            let is_everywhere = edit.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
            let places = if old.is_empty() { 0 } else { after.matches(&old).count() };
            // The result of such an edit is unknown, so show no diff.
            if places == 0 || places > 1 && !is_everywhere {
                return None;
            }
            after = after.replace(&old, &new);
        }
        self.diff(path, &before, after)
    }

    fn diff(&self, path: &Path, before: &SeenContent, after: String) -> Option<ToolCallContent> {
        let before = match before {
            SeenContent::Absent => None,
            SeenContent::Text(before) => Some(before.clone()),
            SeenContent::Unknown => return None,
        };
        // Replacing the secret would show a wrong change, so show none.
        let holds_secret = |text: &str| self.redactor.without_secrets(text).is_some();
        let is_none = before.as_ref() == Some(&after)
            || after.len() as u64 > MAX_BYTES
            || holds_secret(&after)
            || before.as_deref().is_some_and(holds_secret);
        (!is_none).then(|| Diff::new(path, after).old_text(before).into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn shown(content: Option<ToolCallContent>) -> Option<(Option<String>, String)> {
        match content {
            Some(ToolCallContent::Diff(diff)) => Some((diff.old_text, diff.new_text)),
            _ => None,
        }
    }

    #[test]
    fn a_diff_is_of_what_was_and_what_is() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::below(folder.path(), Redactor::default());
        let path = folder.path().join("a.txt");
        let before = files.look(&path);
        assert_eq!(before, SeenContent::Absent);
        fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(shown(files.changed(&path, &before)), Some((None, "one\ntwo\n".into())));
        let before = files.look(&path);
        assert_eq!(files.changed(&path, &before), None);
        let edit = json!({ "old_string": "two", "new_string": "2" });
        let paths = [path.clone()];
        assert_eq!(
            shown(files.proposed(&paths, &edit)),
            Some((Some("one\ntwo\n".into()), "one\n2\n".into()))
        );
        let unclear = json!({ "old_string": "o", "new_string": "0" });
        assert_eq!(files.proposed(&paths, &unclear), None);
        let many = json!({ "edits": [{ "old_string": "o", "new_string": "0", "replace_all": true }] });
        assert_eq!(shown(files.proposed(&paths, &many)).unwrap().1, "0ne\ntw0\n");
        fs::remove_file(&path).unwrap();
        assert_eq!(files.changed(&path, &before), None);
    }

    #[test]
    fn nothing_is_shown_that_a_link_leads_to_or_that_is_no_text() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = Files::below(folder.path(), Redactor::default());
        fs::write(other.path().join("private"), "private").unwrap();
        std::os::unix::fs::symlink(other.path().join("private"), folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink(other.path(), folder.path().join("folder")).unwrap();
        fs::write(folder.path().join("bytes"), b"\xff\0").unwrap();
        fs::write(folder.path().join("large"), "x".repeat(300 << 10)).unwrap();
        for name in ["link", "folder/private", "bytes", "large", "..", "."] {
            assert_eq!(files.look(&folder.path().join(name)), SeenContent::Unknown, "{name}");
        }
        assert_eq!(files.look(&other.path().join("private")), SeenContent::Unknown);
        let whole = json!({ "content": "x" });
        assert_eq!(files.proposed(&[folder.path().join("link")], &whole), None);
    }
}
