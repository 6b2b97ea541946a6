//! The file of a name: the position of its conversation's end, and the vendor's handle for the next turn.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use nexus_core::ResumeHandle;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    conversation_error::{ConversationError, ConversationErrorKind},
    name::ConversationName,
    turn_file::{self, ConversationPoint, VERSION},
};

/// Maximum size of a stored handle, in bytes of JSON. A longer one is treated as lost.
const MAX_HANDLE_BYTES: usize = 32 << 20;
/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Content of a name's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NamedPlace {
    version: u64,
    pub(crate) name: ConversationName,
    pub(crate) updated_at_ms: u64,
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    pub(crate) place: Option<ConversationPoint>,
    /// The vendor's handle, if the vendor's conversation equals this one.
    pub(crate) resume: Option<ResumeHandle>,
    /// Fields that this version does not know. They are written back unchanged.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl NamedPlace {
    pub(crate) fn new(name: ConversationName) -> Self {
        Self {
            version: VERSION,
            name,
            updated_at_ms: 0,
            turns: 0,
            messages: 0,
            place: None,
            resume: None,
            unknown: Map::new(),
        }
    }

    /// Reads the file at `path`. `None` if it does not exist.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, ConversationError> {
        let bytes = nexus_files::read_bounded(path, MAX_BYTES).map_err(ConversationError::at(path))?;
        bytes.map(|bytes| turn_file::parse(path, &bytes)).transpose()
    }

    /// Reads the file of `name`. `None` if it does not exist.
    pub(crate) fn of(path: &Path, name: &ConversationName) -> Result<Option<Self>, ConversationError> {
        let Some(found) = Self::read(path)? else { return Ok(None) };
        if found.name.stem() != name.stem() {
            return Err(ConversationError::damaged(
                path,
                format_args!("it is that of {:?}", found.name.as_str()),
            ));
        }
        if found.name != *name {
            let message = format!("{name} differs from the conversation {} only in case", found.name);
            return Err(ConversationError::new(ConversationErrorKind::NameTaken, message, "use that name"));
        }
        Ok(Some(found))
    }

    /// Replaces the file at `path` in one step, and flushes it to the disk.
    pub(crate) fn write(&mut self, path: &Path) -> Result<(), ConversationError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.updated_at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let encode = |this: &Self| {
            serde_json::to_vec(this).map_err(|error| ConversationError::unusable(path, &error.into()))
        };
        let mut bytes = encode(self)?;
        // Drop a handle that can be serialized but not parsed again, such as a deeply nested one.
        if self.resume.is_some()
            && (bytes.len() > MAX_HANDLE_BYTES || serde_json::from_slice::<Self>(&bytes).is_err())
        {
            self.resume = None;
            bytes = encode(self)?;
        }
        nexus_files::replace(path, &bytes).map_err(ConversationError::at(path))
    }
}
