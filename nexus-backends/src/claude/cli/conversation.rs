//! Folder of a conversation, content of its handle, and counts before this turn.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nexus_core::{BackendId, ResumeHandle, Usage};
use nexus_files::make_private_folder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::wire::{ModelUsage, ResultLine};
use crate::cli::KeptConversation;

/// Folder of stored conversations, below `$NEXUS_HOME`, one folder each.
const SESSIONS: &str = "sessions/claude-cli";
/// The note in such a folder.
const NOTE: &str = "kept.json";

/// Content of this backend's [`ResumeHandle`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RetainedSession {
    /// The CLI's own name for the conversation.
    pub(super) session: String,
    /// Working directory of the turn. Claude 2.1.197 finds a conversation only from there.
    pub(super) directory: PathBuf,
    /// Folder of the conversation, below the common one. With the user's own login, the CLI stores the
    /// conversation with the user's own, and the folder holds a note of it.
    pub(super) folder: String,
    /// Counts of the CLI at the end of the turn.
    #[serde(default)]
    usage: Usage,
    /// Cost at that time, in dollars.
    #[serde(default)]
    cost: f64,
}

impl RetainedSession {
    /// Reads the state of a handle. It may come from anywhere: what is in it is checked.
    pub(super) fn read(state: &Value) -> Option<Self> {
        let kept: Self = serde_json::from_value(state.clone()).ok()?;
        let is_plain = |name: &str| {
            (1..=64).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let fits = is_plain(&kept.session) && is_plain(&kept.folder);
        (fits && kept.directory.is_absolute()).then_some(kept)
    }

    /// Stored files of it, for [`Cli::kept`](crate::cli::Cli::kept). The CLI continues under the same id, so
    /// all handles of a conversation name the same files. `None` if the folder belongs to another conversation.
    pub(super) fn place(&self, nexus_home: &Path) -> Option<KeptConversation> {
        let folder = KeptFolder::of(nexus_home, &self.folder);
        let kept = KeptConversation::new(&format!("claude-{}", self.folder));
        let kept = match folder.note() {
            // No turn in it came to its end; the CLI's own folder is not looked through for it.
            None => kept,
            Some(note) if note.session != self.session || note.directory != self.directory => return None,
            Some(note) => note.with_users(kept),
        };
        // Last, as the note is in it: what is interrupted can be done again.
        Some(kept.with_folder(nexus_home.join(SESSIONS), folder.path))
    }
}

/// The folder of a kept conversation: `config` and `work` of the CLI, as far as they are ours, and the note.
#[derive(Debug)]
pub(super) struct KeptFolder {
    name: String,
    path: PathBuf,
}

impl KeptFolder {
    /// The folder of this name, which may not be there.
    pub(super) fn of(nexus_home: &Path, name: &str) -> Self {
        Self { name: name.to_owned(), path: nexus_home.join(SESSIONS).join(name) }
    }

    /// Makes it.
    pub(super) fn make(&self) -> io::Result<()> {
        make_private_folder(&self.config())
    }

    /// `CLAUDE_CONFIG_DIR`, where it is ours.
    pub(super) fn config(&self) -> PathBuf {
        self.path.join("config")
    }

    /// Working directory of turns that name no folder.
    pub(super) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Makes [`KeptFolder::work`].
    pub(super) fn make_work(&self) -> io::Result<PathBuf> {
        make_private_folder(&self.work())?;
        Ok(self.work())
    }

    fn note(&self) -> Option<Note> {
        serde_json::from_slice(&fs::read(self.path.join(NOTE)).ok()?).ok()
    }

    fn write_note(&self, note: &Note) -> io::Result<()> {
        nexus_files::replace(&self.path.join(NOTE), &serde_json::to_vec(note)?)
    }
}

/// The conversation to which a folder belongs. Handles may be forged: of the user's own conversations, only
/// those that a turn of ours created are deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    session: String,
    directory: PathBuf,
    /// The user's own folder of the CLI, if it holds the conversation.
    users: Option<PathBuf>,
}

impl Note {
    /// Adds the files of the conversation that the CLI stores in the user's own folder. `.claude.json`
    /// continues to name it as the last conversation of its working directory, without its text.
    ///
    /// Source: observed with claude 2.1.197 and 2.1.329, but for `file-history`, which no headless run left.
    fn with_users(&self, mut kept: KeptConversation) -> KeptConversation {
        let Some(users) = &self.users else { return kept };
        let projects = users.join("projects");
        // Each working directory has a folder, by a name of the CLI's making.
        for project in fs::read_dir(&projects).into_iter().flatten().flatten() {
            let file = project.path().join(format!("{}.jsonl", self.session));
            let folder = project.path().join(&self.session);
            kept = kept.with_file(&projects, file).with_folder(&projects, folder);
        }
        ["session-env", "file-history"].into_iter().fold(kept, |kept, name| {
            let folder = users.join(name);
            let path = folder.join(&self.session);
            kept.with_folder(folder, path)
        })
    }
}

/// The conversation of one process.
#[derive(Debug)]
pub(super) struct ConversationState {
    backend: BackendId,
    place: Option<ConversationFolder>,
    before: Option<RetainedSession>,
    id: Option<String>,
    usage: Usage,
    cost: f64,
}

#[derive(Debug)]
struct ConversationFolder {
    directory: PathBuf,
    folder: KeptFolder,
    /// The user's own folder of the CLI, if that is where the conversation is.
    users: Option<PathBuf>,
}

impl ConversationState {
    /// A conversation that is deleted after the turn.
    pub(super) fn forgotten(backend: BackendId) -> Self {
        Self { backend, place: None, before: None, id: None, usage: Usage::new(), cost: 0.0 }
    }

    /// A stored conversation, which continues `before` if it is given.
    pub(super) fn kept(
        backend: BackendId,
        directory: &Path,
        folder: KeptFolder,
        users: Option<PathBuf>,
        before: Option<RetainedSession>,
    ) -> Self {
        let place = Some(ConversationFolder { directory: directory.to_owned(), folder, users });
        Self { place, before, ..Self::forgotten(backend) }
    }

    /// Returns true if it outlives the turn.
    pub(super) fn is_kept(&self) -> bool {
        self.place.is_some()
    }

    /// Returns true if it continues an earlier conversation.
    pub(super) fn resumes(&self) -> bool {
        self.before.is_some()
    }

    /// The CLI names it.
    pub(super) fn is_at(&mut self, id: String) {
        self.id = Some(id);
    }

    /// Handle with which a later turn resumes it.
    pub(super) fn handle(&self) -> Option<ResumeHandle> {
        let place = self.place.as_ref()?;
        let kept = RetainedSession {
            session: self.id.clone()?,
            directory: place.directory.clone(),
            folder: place.folder.name.clone(),
            usage: self.usage,
            cost: self.cost,
        };
        Some(ResumeHandle::new(self.backend.clone(), serde_json::to_value(kept).ok()?))
    }

    /// Writes down which conversation it was, in the folder of its own: by that it is found when it is forgotten.
    pub(super) fn write_note(&self) -> io::Result<()> {
        let (Some(place), Some(session)) = (&self.place, &self.id) else { return Ok(()) };
        let (directory, users) = (place.directory.clone(), place.users.clone());
        let note = Note { session: session.clone(), directory, users };
        if place.folder.note().as_ref() == Some(&note) { Ok(()) } else { place.folder.write_note(&note) }
    }

    /// Usage and cost in dollars of this turn, from its `result` line; `None` if the line has no counts.
    ///
    /// A later version counts over the whole conversation, an earlier one over the process alone. `own` is a
    /// lower bound of the usage of this process's messages, and distinguishes the two. Source: observed with
    /// claude 2.1.329 and 2.1.197.
    pub(super) fn account(&mut self, line: &ResultLine, own: &Usage) -> Option<(Usage, Option<f64>)> {
        let cost = line.total_cost_usd.filter(|cost| cost.is_finite());
        if line.model_usage.is_empty() {
            return None;
        }
        let total = line.model_usage.values().map(counted).fold(Usage::new(), |sum, one| sum.plus(&one));
        total.total_tokens()?;
        self.usage = total;
        self.cost = cost.unwrap_or_default();
        if let Some(before) = &self.before {
            let rest = minus(&total, &before.usage);
            let has_room = |rest: Option<u64>, own: Option<u64>| rest.unwrap_or(0) >= own.unwrap_or(0);
            let counts_everything = before.usage.total_tokens().is_some()
                && has_room(rest.all_output_tokens(), own.all_output_tokens())
                && has_room(rest.total_tokens(), own.total_tokens());
            if counts_everything {
                return Some((rest, cost.map(|cost| (cost - before.cost).max(0.0))));
            }
        }
        Some((total, cost))
    }
}

fn counted(usage: &ModelUsage) -> Usage {
    // Nought is also what it says where the API does not count thinking apart.
    let thinking = usage.thinking_tokens.filter(|tokens| *tokens > 0);
    let mut counted = Usage::new();
    counted.input_tokens = usage.input_tokens;
    counted.cache_read_tokens = usage.cache_read_input_tokens;
    counted.cache_write_tokens = usage.cache_creation_input_tokens;
    counted.output_tokens = usage.output_tokens.map(|tokens| tokens.saturating_sub(thinking.unwrap_or(0)));
    counted.reasoning_tokens = thinking;
    counted
}

fn minus(total: &Usage, before: &Usage) -> Usage {
    let rest = |total: Option<u64>, before: Option<u64>| {
        total.map(|total| total.saturating_sub(before.unwrap_or(0)))
    };
    let mut usage = Usage::new();
    usage.input_tokens = rest(total.input_tokens, before.input_tokens);
    usage.cache_read_tokens = rest(total.cache_read_tokens, before.cache_read_tokens);
    usage.cache_write_tokens = rest(total.cache_write_tokens, before.cache_write_tokens);
    usage.output_tokens = rest(total.output_tokens, before.output_tokens);
    usage.reasoning_tokens = rest(total.reasoning_tokens, before.reasoning_tokens);
    usage
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(input: u64, output: u64, cost: f64) -> ResultLine {
        let usage = json!({ "m": { "inputTokens": input, "outputTokens": output } });
        serde_json::from_value(json!({ "modelUsage": usage, "total_cost_usd": cost })).unwrap()
    }

    fn own(input: u64, output: u64) -> Usage {
        let mut usage = Usage::new();
        (usage.input_tokens, usage.output_tokens) = (Some(input), Some(output));
        usage
    }

    fn kept(before: Option<RetainedSession>) -> ConversationState {
        let folder = KeptFolder::of(Path::new("/nexus"), "run");
        ConversationState::kept("claude-cli".into(), Path::new("/work"), folder, None, before)
    }

    /// The second turn of a conversation whose first used 25 and 17 tokens.
    fn second() -> ConversationState {
        let mut first = kept(None);
        first.is_at("a-b".into());
        first.account(&result(25, 17, 0.5), &own(25, 17)).unwrap();
        let before = RetainedSession::read(first.handle().unwrap().state()).unwrap();
        kept(Some(before))
    }

    #[test]
    fn a_count_over_the_conversation_becomes_one_over_the_turn() {
        let (usage, cost) = second().account(&result(55, 37, 1.25), &own(30, 20)).unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, cost), (Some(30), Some(20), Some(0.75)));
    }

    #[test]
    fn a_count_over_the_process_stays_as_it_is() {
        let (usage, cost) = second().account(&result(30, 20, 0.75), &own(30, 20)).unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, cost), (Some(30), Some(20), Some(0.75)));
    }

    #[test]
    fn a_handle_that_leads_elsewhere_is_no_handle() {
        let state = |session: &str, folder: &str, directory: &str| json!({ "session": session, "folder": folder, "directory": directory });
        assert!(RetainedSession::read(&state("a-1", "b-2", "/work")).is_some());
        assert_eq!(RetainedSession::read(&state("a-1", "../b", "/work")), None);
        assert_eq!(RetainedSession::read(&state("--continue=x", "b", "/work")), None);
        assert_eq!(RetainedSession::read(&state("a-1", "b", "work")), None);
        assert_eq!(RetainedSession::read(&json!("x")), None);
    }
}
