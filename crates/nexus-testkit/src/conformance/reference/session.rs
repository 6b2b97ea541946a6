//! The history of a conversation, and conversations that outlive a turn.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::Path,
    sync::Arc,
};

use nexus_core::{BackendId, ForgetError, Forgotten, ResumeHandle, ToolContent};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::model_call::ModelCall;

/// The folder of the conversations, and what the names of their files begin and end with.
const SESSIONS: &str = "sessions";
const PREFIX: &str = "session-";
const SUFFIX: &str = ".json";

/// History of one conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct History {
    pub(super) user_texts: Vec<String>,
    pub(super) assistant_texts: Vec<String>,
    pub(super) tool_results: Vec<String>,
    pub(super) images: usize,
}

impl History {
    /// Adds a tool result, as the model reads it.
    pub(super) fn take_result(&mut self, content: &[ToolContent]) {
        let texts = content.iter().filter_map(|piece| match piece {
            ToolContent::Text { text } => Some(text.clone()),
            ToolContent::Json { value } => Some(value.to_string()),
            _ => None,
        });
        self.tool_results.push(texts.collect::<Vec<_>>().join("\n"));
        let is_image = |piece: &&ToolContent| matches!(piece, ToolContent::Image { .. });
        self.images += content.iter().filter(is_image).count();
    }

    /// Converts the history to the next request to the model.
    pub(super) fn as_call(&self) -> ModelCall {
        ModelCall {
            user_texts: self.user_texts.clone(),
            assistant_texts: self.assistant_texts.clone(),
            tool_results: self.tool_results.clone(),
            images: self.images,
            ..ModelCall::default()
        }
    }
}

/// A conversation that outlives its turns: a file, locked as long as a turn works in it.
#[derive(Debug)]
pub(super) struct Session {
    name: String,
    in_use: File,
}

/// Stores `history` in `home` for a later turn: in the file of `session` if the turn resumed it, else in a new file.
pub(super) fn keep(
    home: &Path,
    backend: &BackendId,
    history: &History,
    session: Option<&Session>,
) -> io::Result<ResumeHandle> {
    let folder = home.join(SESSIONS);
    fs::create_dir_all(&folder)?;
    let name = match session {
        Some(session) => {
            serde_json::to_writer(File::create(folder.join(&session.name))?, history)?;
            session.name.clone()
        }
        None => {
            let file = tempfile::Builder::new().prefix(PREFIX).suffix(SUFFIX).tempfile_in(&folder)?;
            serde_json::to_writer(&file, history)?;
            let (_, path) = file.keep().map_err(|error| error.error)?;
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        }
    };
    Ok(ResumeHandle::new(backend.clone(), json!({ "session": name })))
}

impl Drop for Session {
    fn drop(&mut self) {
        // Unlock explicitly: a process that was just forked has a copy of the handle, so closing alone would not unlock.
        let _ = self.in_use.unlock();
    }
}

/// Reads the history of the conversation of `handle`. `None` if it no longer exists.
pub(super) fn take_up(home: &Path, handle: &ResumeHandle) -> Option<(History, Session)> {
    let name = name_in(handle)?;
    let file = File::open(home.join(SESSIONS).join(name)).ok()?;
    file.lock_shared().ok()?;
    let history = serde_json::from_reader(&file).ok()?;
    Some((history, Session { name: name.to_owned(), in_use: file }))
}

/// Deletes the conversation of `handle`, which this backend made, unless a turn works in it.
pub(super) fn forget(home: &Path, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
    let backend = || handle.backend().clone();
    let name = name_in(handle).ok_or_else(|| ForgetError::InvalidHandle { backend: backend() })?;
    let path = home.join(SESSIONS).join(name);
    let failed =
        |error| ForgetError::Failed { backend: backend(), place: path.clone(), source: Arc::new(error) };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Forgotten::WasGone),
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ForgetError::InUse { backend: backend() }),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let bytes = file.metadata().map_err(failed)?.len();
    fs::remove_file(&path).map_err(failed)?;
    Ok(Forgotten::Deleted { files: 1, bytes })
}

/// Returns the file name in a handle. `None` if the handle is not ours: it may come from anywhere.
fn name_in(handle: &ResumeHandle) -> Option<&str> {
    let name = handle.state().get("session")?.as_str()?;
    let random = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let is_plain =
        (1..=32).contains(&random.len()) && random.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_plain.then_some(name)
}
