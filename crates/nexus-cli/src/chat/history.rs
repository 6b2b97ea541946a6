//! Lines that a person typed in earlier chats: owner-only, bounded, and without text that looks like a secret.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_core::redact::Redactor;
use nexus_files::{FileLock, make_private_folder, read_bounded, replace};

/// Number of lines that are retained.
pub(super) const RETAINED: usize = 1000;
/// Longest line that is stored, in bytes. A longer one was probably pasted.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = (RETAINED * MAX_LINE_BYTES * 2) as u64;

/// Stand-in for a line break in the file.
const LINE_BREAK: &str = "<\\n>";

/// The file of the history.
#[derive(Debug)]
pub(super) struct ChatHistory {
    path: PathBuf,
}

impl ChatHistory {
    pub(super) fn in_home(home: &Path) -> Self {
        Self { path: home.join("chat-history") }
    }

    /// Returns the stored lines, the oldest first. An unreadable file has none.
    pub(super) fn lines(&self) -> Vec<String> {
        let bytes = read_bounded(&self.path, MAX_BYTES).ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&bytes).lines().map(|line| line.replace(LINE_BREAK, "\n")).collect()
    }

    /// Stores a line, unless it begins with a space, looks like it contains a secret, or repeats the last one.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    pub(super) fn add(&self, line: &str) -> io::Result<()> {
        let is_private = line.starts_with(char::is_whitespace) || has_secret(line);
        if line.trim().is_empty() || line.len() > MAX_LINE_BYTES || is_private {
            return Ok(());
        }
        make_private_folder(self.path.parent().unwrap_or(Path::new(".")))?;
        // Two chats may store a line at once.
        let _lock = FileLock::lock(&self.path.with_extension("lock"), Duration::from_secs(1))?;
        let mut lines = self.lines();
        if lines.last().is_some_and(|last| last == line) {
            return Ok(());
        }
        lines.push(line.to_owned());
        let first = lines.len().saturating_sub(RETAINED);
        let text: String = lines[first..].iter().map(|line| line.replace('\n', LINE_BREAK) + "\n").collect();
        replace(&self.path, text.as_bytes())
    }
}

/// Returns true if a line contains a token, or names a password with its value.
fn has_secret(line: &str) -> bool {
    let named = ["password", "passwd", "secret", "token", "api_key", "apikey", "api-key"];
    let lower = line.to_lowercase();
    let is_assigned = |name: &str| {
        let mut after = lower.match_indices(name).map(|(at, name)| &lower[at + name.len()..]);
        after.any(|after| after.trim_start_matches(['"', '\'', ' ']).starts_with(['=', ':']))
    };
    Redactor::default().redact_text(line) != line || named.into_iter().any(is_assigned)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn lines_are_stored_but_secrets_and_private_ones_are_not() {
        let home = tempfile::tempdir().unwrap();
        let history = ChatHistory::in_home(home.path());
        let long = "x".repeat(MAX_LINE_BYTES + 1);
        for line in [
            "first",
            "first",
            " private",
            "two\nlines",
            "use sk-abcdefghijklmnop1234",
            "the password: swordfish",
            "TOKEN=abc",
            "the token is refreshed",
            "",
            &long,
        ] {
            history.add(line).unwrap();
        }
        assert_eq!(history.lines(), ["first", "two\nlines", "the token is refreshed"]);
        let mode = fs::metadata(home.path().join("chat-history")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let many: String = (0..RETAINED + 5).map(|index| format!("line {index}\n")).collect();
        replace(&home.path().join("chat-history"), many.as_bytes()).unwrap();
        history.add("newest").unwrap();
        let lines = history.lines();
        assert_eq!(
            (lines.len(), lines.first().unwrap().as_str(), lines.last().unwrap().as_str()),
            (RETAINED, "line 6", "newest")
        );
    }
}
