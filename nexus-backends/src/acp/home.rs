//! Folders of an agent's files, and stored conversations. A known agent has a private home, which is stored as the
//! conversation.

use std::path::{Path, PathBuf};

use nexus_core::{BackendId, ConversationMode, ErrorKind, ResumeHandle, harness::Failure};
use nexus_files::make_private_folder;
use nexus_process::private_home::PrivateHome;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::refusal::unwritable;
use crate::cli::{Attempt, KeptConversation, TurnPlan};

/// Folder of the stored homes, below `$NEXUS_HOME`.
const KEPT: &str = "sessions/acp";
/// File with the [`ConversationRecord`].
const RECORD: &str = "session.json";

/// Folders and conversation of one process.
#[derive(Debug)]
pub(super) struct ProcessFolders {
    /// Home of the process.
    pub(super) home: PathBuf,
    /// Removes the home when the process has ended, unless the conversation is stored.
    pub(super) private: Option<PrivateHome>,
    pub(super) working_directory: PathBuf,
    /// Folder of the stored conversation.
    pub(super) session: Option<StoredSession>,
    /// The agent's own id of the conversation to resume.
    pub(super) resume: Option<String>,
}

/// Stored conversation.
#[derive(Clone, Debug)]
pub(super) struct StoredSession {
    folder: String,
    record: PathBuf,
    directory: PathBuf,
    agent: String,
}

/// Content of a resume handle.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct SessionHandle {
    /// Name of the agent to which the conversation belongs.
    agent: String,
    /// Name of the conversation's folder, below the folder of stored homes.
    folder: String,
}

/// Record beside the home of a stored conversation.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ConversationRecord {
    /// The agent's own id of the session.
    session: String,
    /// Working directory of the session.
    directory: PathBuf,
}

impl SessionHandle {
    fn read(state: &Value, agent: &str) -> Option<Self> {
        let state = Self::deserialize(state).ok()?;
        // The folder name becomes part of a path, so allow only plain names.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_name = |text: &str| !text.is_empty() && text.len() <= 100 && text.bytes().all(is_plain);
        let fits = is_name(&state.folder);
        (fits && state.agent == agent).then_some(state)
    }
}

impl StoredSession {
    #[cfg(test)]
    pub(super) fn in_folder(folder: &Path) -> Self {
        let (agent, name) = ("agent".to_owned(), "folder".to_owned());
        Self { folder: name, record: folder.join(RECORD), directory: folder.to_owned(), agent }
    }

    /// Stores the agent's id of the session, and returns the handle to resume it.
    ///
    /// # Errors
    ///
    /// Errors of [`unwritable`], if the id cannot be written.
    pub(super) fn handle(&self, backend: &BackendId, session: &str) -> Result<ResumeHandle, Failure> {
        let record = ConversationRecord { session: session.to_owned(), directory: self.directory.clone() };
        serde_json::to_vec(&record)
            .map_err(std::io::Error::from)
            .and_then(|bytes| std::fs::write(&self.record, bytes))
            .map_err(|error| unwritable(self.record.display(), error))?;
        let state = SessionHandle { agent: self.agent.clone(), folder: self.folder.clone() };
        Ok(ResumeHandle::new(backend.clone(), serde_json::to_value(state).unwrap_or_default()))
    }
}

/// Prepares the folders of one process of `agent`.
///
/// # Errors
///
/// [`ErrorKind::ConversationLost`] if the stored conversation does not exist, [`ErrorKind::InvalidRequest`] for a
/// request that cannot run here.
pub(super) fn settle(plan: &TurnPlan, attempt: &Attempt, agent: &str) -> Result<ProcessFolders, Failure> {
    if plan.request.conversation == ConversationMode::Ephemeral {
        let home = plan.home()?;
        return Ok(ProcessFolders {
            home: home.path().to_owned(),
            private: Some(home),
            working_directory: plan.working_directory.clone(),
            session: None,
            resume: None,
        });
    }
    if let (ConversationMode::Resume { handle, .. }, Attempt::First) = (&plan.request.conversation, attempt) {
        return take_up(plan, handle, agent);
    }
    let folder = plan.run.run().as_str().to_owned();
    let root = plan.nexus_home.join(KEPT).join(&folder);
    make_private_folder(&root).map_err(|error| unwritable(root.display(), error))?;
    let directory = match plan.is_private_directory {
        false => plan.working_directory.clone(),
        true => {
            // A resumed conversation needs its directory again, but the run removes its own private one.
            let work = root.join("work");
            make_private_folder(&work).map_err(|error| unwritable(work.display(), error))?;
            work
        }
    };
    let home = root.join("home");
    make_private_folder(&home).map_err(|error| unwritable(home.display(), error))?;
    let record = root.join(RECORD);
    let session = StoredSession { folder, record, directory: directory.clone(), agent: agent.to_owned() };
    Ok(ProcessFolders {
        home,
        private: None,
        working_directory: directory,
        session: Some(session),
        resume: None,
    })
}

/// Prepares the continuation of a conversation that an earlier turn stored.
fn take_up(plan: &TurnPlan, handle: &ResumeHandle, agent: &str) -> Result<ProcessFolders, Failure> {
    let Some(state) = SessionHandle::read(handle.state(), agent) else {
        let reason = "the handle to resume belongs to another agent";
        return Err(Failure::new(ErrorKind::InvalidRequest, reason));
    };
    let root = plan.nexus_home.join(KEPT).join(&state.folder);
    let lost = |reason: String| Failure::new(ErrorKind::ConversationLost, reason);
    let record = root.join(RECORD);
    let bytes = std::fs::read(&record).map_err(|error| lost(format!("{}: {error}", record.display())))?;
    let ConversationRecord { session, directory } = serde_json::from_slice(&bytes)
        .map_err(|error| lost(format!("{} has unexpected content: {error}", record.display())))?;
    let is_private = directory == root.join("work");
    if plan.is_private_directory != is_private || !is_private && plan.working_directory != directory {
        let reason = match is_private {
            true => "the conversation has no working directory: resume it without one".to_owned(),
            false => format!("the conversation belongs to {}: resume it there", directory.display()),
        };
        return Err(Failure::new(ErrorKind::InvalidRequest, reason));
    }
    let home = root.join("home");
    if !home.is_dir() || !directory.is_dir() {
        return Err(lost("the stored conversation no longer exists".to_owned()));
    }
    let folder = state.folder;
    let kept = StoredSession { folder, record, directory: directory.clone(), agent: agent.to_owned() };
    Ok(ProcessFolders {
        home,
        private: None,
        working_directory: directory,
        session: Some(kept),
        resume: Some(session),
    })
}

/// Returns the stored files of the conversation that a handle names.
pub(super) fn kept(nexus_home: &Path, handle: &ResumeHandle, agent: &str) -> Option<KeptConversation> {
    let state = SessionHandle::read(handle.state(), agent)?;
    let root = nexus_home.join(KEPT);
    let folder = root.join(&state.folder);
    Some(KeptConversation::new(&format!("acp-{}", state.folder)).with_folder(root, folder))
}
