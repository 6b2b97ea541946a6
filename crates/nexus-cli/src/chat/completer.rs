//! Completion of a chat's line: commands, their names, and paths after `@`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::{mention::expanded, slash::COMMANDS};
use crate::printable::printable;

/// Maximum number of paths that are offered. Source: our own choice: more do not fit a screen.
const MOST_PATHS: usize = 200;

/// Names that a chat completes.
#[derive(Debug)]
pub(super) struct ChatCompleter {
    pub(super) folder: PathBuf,
    pub(super) types: Vec<String>,
    pub(super) conversations: Vec<String>,
}

impl Completer for ChatCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        // Complete only the text before the cursor.
        let line = line.get(..position).unwrap_or(line);
        let (start, words) = self.words(line);
        let suggest = |value: String| {
            let append_whitespace = !value.ends_with('/');
            Suggestion { value, span: Span::new(start, position), append_whitespace, ..Suggestion::default() }
        };
        CompletionResult::fresh(words.into_iter().map(suggest).collect::<Vec<_>>())
    }
}

impl ChatCompleter {
    /// Returns the words for the end of a line, and the position at which they begin.
    fn words(&self, line: &str) -> (usize, Vec<String>) {
        let beginning = |with: &str, names: &mut dyn Iterator<Item = String>| -> Vec<String> {
            names.filter(|name| name.starts_with(with)).collect()
        };
        if let Some((command, typed)) = line.split_once(' ') {
            let start = line.len() - typed.len();
            match command {
                "/type" => return (start, beginning(typed, &mut self.types.iter().cloned())),
                "/resume" => return (start, beginning(typed, &mut self.conversations.iter().cloned())),
                "/access" => {
                    let levels = nexus::ToolAccess::ALL.into_iter().map(|level| level.as_str().to_owned());
                    return (start, beginning(typed, &mut levels.into_iter()));
                }
                _ => {}
            }
        } else if line.starts_with('/') {
            return (0, beginning(line, &mut COMMANDS.iter().map(|(name, ..)| (*name).to_owned())));
        }
        // An `@` within a word, as in an e-mail address, names no file.
        let is_start = |at: usize| line[..at].chars().next_back().is_none_or(char::is_whitespace);
        match line.rmatch_indices('@').map(|(at, _)| at).find(|at| is_start(*at)) {
            Some(at) => (at, self.paths(&line[at + 1..])),
            None => (line.len(), Vec::new()),
        }
    }

    /// Returns the paths that begin with a typed text, each with its `@`. Folders end with a slash.
    fn paths(&self, typed: &str) -> Vec<String> {
        let typed = typed.trim_start_matches('"');
        let (above, name) = typed.rfind('/').map_or(("", typed), |at| typed.split_at(at + 1));
        let Ok(entries) = fs::read_dir(self.folder.join(expanded(above)).join(Path::new(""))) else {
            return Vec::new();
        };
        let mut found: Vec<String> = entries
            .flatten()
            .filter_map(|entry| {
                let file = entry.file_name().into_string().ok()?;
                // A hidden file is offered only to a person who typed its dot.
                let is_offered = file.starts_with(name) && (name.starts_with('.') || !file.starts_with('.'));
                // A terminal must not obey the name of a file.
                if !is_offered || printable(&file) != file || file.contains('"') {
                    return None;
                }
                let slash = if entry.path().is_dir() { "/" } else { "" };
                let path = format!("{above}{file}{slash}");
                Some(if path.contains(char::is_whitespace) {
                    format!("@\"{path}\"")
                } else {
                    format!("@{path}")
                })
            })
            .collect();
        found.sort_unstable();
        found.truncate(MOST_PATHS);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_commands_and_names_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        for name in ["src/main.rs", "src/a b.rs", "src/.hidden", "src/bad\u{1b}name", "notes.md"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let completer = ChatCompleter {
            folder: folder.path().to_owned(),
            types: vec!["executor".into(), "reviewer".into()],
            conversations: vec!["chat-1".into()],
        };
        for (line, start, offered) in [
            ("Look at @", 8, &["@notes.md", "@src/"][..]),
            ("@src/", 0, &["@\"src/a b.rs\"", "@src/deep/", "@src/main.rs"]),
            ("@src/.", 0, &["@src/.hidden"]),
            ("mail me@src/", 12, &[]),
            ("@gone/", 0, &[]),
            ("/ty", 0, &["/type"]),
            ("/type rev", 6, &["reviewer"]),
            ("/resume ", 8, &["chat-1"]),
            ("/access work", 8, &["workspace-write"]),
            ("hello", 5, &[]),
        ] {
            let (at, words) = completer.words(line);
            assert_eq!(
                (at, words.iter().map(String::as_str).collect::<Vec<_>>()),
                (start, offered.to_vec()),
                "{line:?}"
            );
        }
    }
}
