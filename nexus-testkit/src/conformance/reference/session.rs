//! What was said so far, and conversations that outlive a turn.

use std::path::{Path, PathBuf};

use nexus_core::{BackendId, ResumeHandle, ToolContent};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::conformance::subject::ModelCall;

/// What was said so far in one conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct History {
    pub(super) user_texts: Vec<String>,
    pub(super) assistant_texts: Vec<String>,
    pub(super) tool_results: Vec<String>,
    pub(super) images: usize,
}

impl History {
    /// What a tool answered, as the model reads it.
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

    /// As the next request to the model carries it.
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

/// Keeps `history` in `home` for a later turn.
pub(super) fn keep(home: &Path, backend: &BackendId, history: &History) -> std::io::Result<ResumeHandle> {
    let folder = home.join("sessions");
    std::fs::create_dir_all(&folder)?;
    let file = tempfile::Builder::new().prefix("session-").suffix(".json").tempfile_in(&folder)?;
    serde_json::to_writer(&file, history)?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(ResumeHandle::new(backend.clone(), json!({ "session": name })))
}

/// What was said in the conversation of `handle`, if it is still there.
pub(super) fn take_up(home: &Path, handle: &ResumeHandle) -> Option<History> {
    let name = handle.state().get("session")?.as_str()?;
    let name = PathBuf::from(name);
    let path = home.join("sessions").join(name.file_name()?);
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}
