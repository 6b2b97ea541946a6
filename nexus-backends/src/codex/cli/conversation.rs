//! Stored conversations: the program's own record of a conversation, copied out of the run's home and back.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Component, Path, PathBuf},
};

use nexus_core::{BackendId, ResumeHandle};
use serde::{Deserialize, Serialize};

use crate::cli::KeptConversation;

/// Name of the folder of records, in the program's home and below `$NEXUS_HOME`.
const SESSIONS: &str = "sessions";
/// Maximum length of a record's path below that folder, in bytes. Source: codex 0.169.0 writes
/// `2026/11/21/rollout-TIME-UUID.jsonl`.
const MAX_PATH_BYTES: usize = 200;

/// Identity of a conversation: the content of a [`ResumeHandle`] of this backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptSession {
    /// Id of the conversation in the program.
    pub(super) thread: String,
    /// Path of the record below `sessions`. The program finds the record only at the same path.
    rollout: PathBuf,
}

impl KeptSession {
    /// Returns the conversation whose record is at `path`, below the `sessions` of any home.
    pub(super) fn new(thread: &str, path: Option<&Path>) -> Option<Self> {
        let path = path?;
        let root = path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == SESSIONS))?;
        let rollout = path.strip_prefix(root).ok()?.to_owned();
        Some(Self { thread: thread.to_owned(), rollout })
    }

    /// Parses a handle; `None` if it names no conversation of this backend. A handle may come from any source, so a
    /// path that leads out of the folder is rejected.
    pub(super) fn from_handle(handle: &ResumeHandle) -> Option<Self> {
        let session: Self = serde_json::from_value(handle.state().clone()).ok()?;
        let is_name = |thread: &str| {
            (1..=64).contains(&thread.len())
                && thread.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        };
        let is_plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        let is_path = |path: &str| path.len() <= MAX_PATH_BYTES && path.bytes().all(is_plain);
        let is_inside = session.rollout.to_str().is_some_and(is_path)
            && session.rollout.components().all(|part| matches!(part, Component::Normal(_)));
        (is_name(&session.thread) && is_inside && session.rollout.file_name().is_some()).then_some(session)
    }

    /// Converts the conversation to a resume handle.
    pub(super) fn into_handle(self, backend: BackendId) -> ResumeHandle {
        ResumeHandle::new(backend, serde_json::json!({ "thread": self.thread, "rollout": self.rollout }))
    }

    /// Returns the stored files of the conversation. All handles of one conversation name the same file.
    pub(super) fn kept(&self, store: &ConversationStore) -> KeptConversation {
        let name = format!("codex-{}", self.rollout.display());
        KeptConversation::new(&name).with_file(&store.folder, store.folder.join(&self.rollout))
    }

    /// Copies the stored record into a home.
    ///
    /// # Errors
    ///
    /// `NotFound` if the record no longer exists.
    pub(super) fn restore(&self, store: &ConversationStore, sessions: &Path) -> io::Result<()> {
        copy(&store.folder.join(&self.rollout), &sessions.join(&self.rollout))
    }
}

/// Folder of stored conversations.
#[derive(Clone, Debug)]
pub(super) struct ConversationStore {
    folder: PathBuf,
}

impl ConversationStore {
    /// Creates a store in `$NEXUS_HOME/sessions/codex`.
    pub(super) fn new(nexus_home: &Path) -> Self {
        Self { folder: nexus_home.join(SESSIONS).join("codex") }
    }

    /// Stores the record at `path`, which is below `sessions`. Replaces an older record atomically.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub(super) fn keep(&self, sessions: &Path, path: &Path) -> io::Result<()> {
        let relative = path.strip_prefix(sessions).map_err(io::Error::other)?;
        copy(path, &self.folder.join(relative))
    }
}

/// Copies a file to an owner-only file that appears only when it is complete.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = fs::File::open(from)?;
    if !source.metadata()?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let folder = to.parent().ok_or(io::ErrorKind::InvalidInput)?;
    nexus_files::make_private_folder(folder)?;
    let unfinished = to.with_extension(format!("{}.new", std::process::id()));
    let mut target =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    let copied = io::copy(&mut source, &mut target).and_then(|_| fs::rename(&unfinished, to));
    if copied.is_err() {
        // Return the error of the copy, even if the removal fails.
        let _ = fs::remove_file(&unfinished);
    }
    copied
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const THREAD: &str = "01a1fc22-9e71-71b2-bb65-d6d7841df3bd";

    fn handle(thread: &str, rollout: &str) -> ResumeHandle {
        ResumeHandle::new("codex-cli".into(), json!({ "thread": thread, "rollout": rollout }))
    }

    #[test]
    fn a_handle_survives_the_way_there_and_back() {
        let path = Path::new("/h/codex/sessions/2026/11/21/rollout-x.jsonl");
        let session = KeptSession::new(THREAD, Some(path)).unwrap();
        let read = KeptSession::from_handle(&session.clone().into_handle("codex-cli".into()));
        assert_eq!(read, Some(session));
    }

    #[test]
    fn a_handle_leads_nowhere_else() {
        for rollout in ["../../etc/passwd", "/etc/passwd", "a/../../b", ""] {
            assert_eq!(KeptSession::from_handle(&handle(THREAD, rollout)), None, "{rollout}");
        }
        assert_eq!(KeptSession::from_handle(&handle("../x", "a.jsonl")), None);
        assert!(KeptSession::from_handle(&handle(THREAD, "2026/a.jsonl")).is_some());
    }

    #[test]
    fn a_record_is_kept_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let (home, nexus_home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sessions = home.path().join("sessions");
        let path = sessions.join("2026/r.jsonl");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "one\n").unwrap();
        let store = ConversationStore::new(nexus_home.path());
        store.keep(&sessions, &path).unwrap();
        let kept = nexus_home.path().join("sessions/codex/2026/r.jsonl");
        assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);

        let session = KeptSession::new(THREAD, Some(&path)).unwrap();
        let other = home.path().join("other/sessions");
        session.restore(&store, &other).unwrap();
        assert_eq!(fs::read_to_string(other.join("2026/r.jsonl")).unwrap(), "one\n");
        fs::remove_file(kept).unwrap();
        assert_eq!(session.restore(&store, &other).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
