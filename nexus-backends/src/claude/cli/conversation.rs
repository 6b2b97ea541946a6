//! Folder of a conversation, content of its handle, and its token counts before this turn.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nexus_core::{BackendId, ResumeHandle, Usage};
use nexus_files::make_private_folder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::wire::{ModelUsage, ResultLine};
use crate::cli::{KeptConversation, stats::difference};

/// Folder of stored conversations, below `$NEXUS_HOME`. Each conversation has a subfolder.
const SESSIONS: &str = "sessions/claude-cli";
/// File name of the note in such a subfolder.
const NOTE: &str = "kept.json";

/// Content of this backend's [`ResumeHandle`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RetainedSession {
    /// Session id that the CLI assigned to the conversation.
    pub(super) session: String,
    /// Working directory of the turn. Claude 2.1.197 finds a conversation only from there.
    pub(super) directory: PathBuf,
    /// Name of the conversation's subfolder. With the user's own login, the CLI stores the conversation in the user's
    /// folder, and this subfolder contains only a note about it.
    pub(super) folder: String,
    /// Token counts of the CLI at the end of the turn.
    #[serde(default)]
    usage: Usage,
    /// Cost of the conversation at the end of the turn, in dollars.
    #[serde(default)]
    cost: f64,
}

impl RetainedSession {
    /// Parses and validates the state of a handle, which may come from any source.
    pub(super) fn read(state: &Value) -> Option<Self> {
        let kept: Self = serde_json::from_value(state.clone()).ok()?;
        // Both names become parts of paths, so a forged handle must not lead out of its folder.
        let is_plain = |name: &str| {
            (1..=64).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let fits = is_plain(&kept.session) && is_plain(&kept.folder);
        (fits && kept.directory.is_absolute()).then_some(kept)
    }

    /// Returns the stored files of the conversation, for [`Cli::kept`](crate::cli::Cli::kept). The CLI resumes under
    /// the same id, so all handles of a conversation name the same files. `None` if the folder belongs to another
    /// conversation.
    pub(super) fn place(&self, nexus_home: &Path) -> Option<KeptConversation> {
        let folder = KeptFolder::of(nexus_home, &self.folder);
        let kept = KeptConversation::new(&format!("claude-{}", self.folder));
        let kept = match folder.note() {
            // Without a note no turn of this conversation has ended. Then do not search the CLI's own folder for it.
            None => kept,
            Some(note) if note.session != self.session || note.directory != self.directory => return None,
            Some(note) => note.with_users(kept),
        };
        // Delete this folder last, because it contains the note: an interrupted deletion can then be repeated.
        Some(kept.with_folder(nexus_home.join(SESSIONS), folder.path))
    }
}

/// Subfolder of a stored conversation: the note, the working directory and, with a credential in the configuration, the
/// CLI's own folder.
#[derive(Debug)]
pub(super) struct KeptFolder {
    name: String,
    path: PathBuf,
}

impl KeptFolder {
    /// Returns the subfolder with this name, which need not exist.
    pub(super) fn of(nexus_home: &Path, name: &str) -> Self {
        Self { name: name.to_owned(), path: nexus_home.join(SESSIONS).join(name) }
    }

    /// Creates the subfolder.
    pub(super) fn make(&self) -> io::Result<()> {
        make_private_folder(&self.config())
    }

    /// Returns the value of `CLAUDE_CONFIG_DIR` for turns that do not use the user's own folder.
    pub(super) fn config(&self) -> PathBuf {
        self.path.join("config")
    }

    /// Returns the working directory of turns that name no folder.
    pub(super) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Creates [`KeptFolder::work`].
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

/// Note that states to which conversation a subfolder belongs. Handles may be forged, so only a conversation with a
/// note is deleted from the user's folder: a turn of Nexus created it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    session: String,
    directory: PathBuf,
    /// The user's own folder of the CLI, if it contains the conversation.
    users: Option<PathBuf>,
}

impl Note {
    /// Adds the files of the conversation in the user's own folder. `.claude.json` still names it as the last
    /// conversation of its working directory, without its text.
    ///
    /// Source: observed with claude 2.1.197 and 2.1.329, except `file-history`, which no headless run created.
    fn with_users(&self, mut kept: KeptConversation) -> KeptConversation {
        let Some(users) = &self.users else { return kept };
        let projects = users.join("projects");
        // The CLI has a folder for each working directory, and derives its name in its own way. So look in all of them.
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

/// Conversation of one process.
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
    /// The user's own folder of the CLI, if it contains the conversation.
    users: Option<PathBuf>,
}

impl ConversationState {
    /// Creates the state of a conversation that is deleted after the turn.
    pub(super) fn forgotten(backend: BackendId) -> Self {
        Self { backend, place: None, before: None, id: None, usage: Usage::new(), cost: 0.0 }
    }

    /// Creates the state of a stored conversation, which continues `before` if it is given.
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

    /// Returns true if the conversation is stored beyond the turn.
    pub(super) fn is_kept(&self) -> bool {
        self.place.is_some()
    }

    /// Returns true if the turn continues an earlier conversation.
    pub(super) fn resumes(&self) -> bool {
        self.before.is_some()
    }

    /// Records the session id that the CLI reports.
    pub(super) fn is_at(&mut self, id: String) {
        self.id = Some(id);
    }

    /// Returns the handle with which a later turn resumes the conversation.
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

    /// Writes the note into the conversation's subfolder. A later deletion finds the conversation through the note.
    pub(super) fn write_note(&self) -> io::Result<()> {
        let (Some(place), Some(session)) = (&self.place, &self.id) else { return Ok(()) };
        let (directory, users) = (place.directory.clone(), place.users.clone());
        let note = Note { session: session.clone(), directory, users };
        if place.folder.note().as_ref() == Some(&note) { Ok(()) } else { place.folder.write_note(&note) }
    }

    /// Returns usage and cost in dollars of this turn, from its `result` line; `None` if the line has no counts.
    ///
    /// Later versions count over the whole conversation, earlier ones only over the process. `own` is a lower bound of
    /// the usage of this process's messages, and distinguishes the two. Source: observed with claude 2.1.329 and
    /// 2.1.197.
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
            let rest = difference(&total, &before.usage);
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
    // The CLI also reports 0 if the API does not count thinking separately, so treat 0 as unknown.
    let thinking = usage.thinking_tokens.filter(|tokens| *tokens > 0);
    let mut counted = Usage::new();
    counted.input_tokens = usage.input_tokens;
    counted.cache_read_tokens = usage.cache_read_input_tokens;
    counted.cache_write_tokens = usage.cache_creation_input_tokens;
    counted.output_tokens = usage.output_tokens.map(|tokens| tokens.saturating_sub(thinking.unwrap_or(0)));
    counted.reasoning_tokens = thinking;
    counted
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
