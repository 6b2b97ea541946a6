//! The file of a name: the log of its conversation, or in version 1 the position of its end and the vendor's handle.

use std::path::Path;

use nexus_core::{BackendId, ResumeHandle};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    conversation_error::{ConversationError, ConversationErrorKind},
    log_line::{ListedHandle, LogId},
    name::ConversationName,
    now_ms::now_ms,
    turn_file::{self, ConversationPoint, VERSION, VERSION_ONE, Versioned},
};

/// Maximum size of the file, in bytes. In version 1 it contains the whole conversation of a native backend.
const MAX_BYTES: u64 = 64 << 20;

/// Content of a name's file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NameFile {
    /// Version 1: each turn has a file of its own.
    VersionOne(Box<NamedPlace>),
    /// The turns are in a log.
    Log(NamedLog),
}

/// Content of version 1.
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
    pub(crate) unknown: Map<String, Value>,
}

/// Content of version 2. It is written once, because the log has everything that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NamedLog {
    version: u64,
    pub(crate) name: ConversationName,
    pub(crate) log: LogId,
    /// Fields that this version does not know. They are written back unchanged.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// Version 1 as far as lists show it. The handle's state is not parsed.
#[derive(Debug, Deserialize)]
pub(crate) struct ListedPlace {
    pub(crate) updated_at_ms: u64,
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    resume: Option<ListedHandle>,
}

/// A name's file as far as lists show it.
pub(crate) enum ListedName {
    VersionOne(ConversationName, ListedPlace),
    Log(NamedLog),
}

impl ListedPlace {
    pub(crate) fn backend(self) -> Option<BackendId> {
        self.resume.map(|handle| handle.backend)
    }
}

impl ListedName {
    /// Reads the file at `path`. `None` if it does not exist.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, ConversationError> {
        #[derive(Deserialize)]
        struct Named {
            name: ConversationName,
        }
        let Some(bytes) = bytes(path)? else { return Ok(None) };
        let Versioned { version } = turn_file::parse(path, &bytes)?;
        Ok(Some(match version {
            VERSION_ONE => {
                let Named { name } = turn_file::parse(path, &bytes)?;
                Self::VersionOne(name, turn_file::parse(path, &bytes)?)
            }
            _ => Self::Log(turn_file::parse(path, &bytes)?),
        }))
    }
}

impl NameFile {
    /// Reads the file at `path`. `None` if it does not exist.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, ConversationError> {
        let Some(bytes) = bytes(path)? else { return Ok(None) };
        let Versioned { version } = turn_file::parse(path, &bytes)?;
        Ok(Some(match version {
            VERSION_ONE => Self::VersionOne(turn_file::parse(path, &bytes)?),
            _ => Self::Log(turn_file::parse(path, &bytes)?),
        }))
    }

    /// Reads the file of `name`. `None` if it does not exist.
    pub(crate) fn of(path: &Path, name: &ConversationName) -> Result<Option<Self>, ConversationError> {
        let Some(file) = Self::read(path)? else { return Ok(None) };
        let found = file.name();
        let is_of_name = match &file {
            Self::VersionOne(_) => true,
            // The id of a log begins with the name, because two names must not share a log.
            Self::Log(named) => named.log.stem() == name.stem(),
        };
        if found.stem() != name.stem() || !is_of_name {
            return Err(ConversationError::damaged(path, format_args!("it is that of {:?}", found.as_str())));
        }
        if found != name {
            let message = format!("{name} differs from the conversation {found} only in case");
            return Err(ConversationError::new(ConversationErrorKind::NameTaken, message, "use that name"));
        }
        Ok(Some(file))
    }

    pub(crate) fn name(&self) -> &ConversationName {
        match self {
            Self::VersionOne(named) => &named.name,
            Self::Log(named) => &named.name,
        }
    }
}

impl NamedPlace {
    /// Creates the file of a fork, which has no handle.
    pub(crate) fn fork(
        name: ConversationName,
        turns: u64,
        messages: u64,
        place: Option<ConversationPoint>,
    ) -> Self {
        let (version, updated_at_ms, unknown) = (VERSION_ONE, now_ms(), Map::new());
        Self { version, name, updated_at_ms, turns, messages, place, resume: None, unknown }
    }

    /// Replaces the file at `path` in one step, and flushes it to the disk.
    pub(crate) fn write(&self, path: &Path) -> Result<(), ConversationError> {
        write(path, self)
    }
}

impl NamedLog {
    /// Creates the file of a name. `unknown` are fields of its version 1.
    pub(crate) fn new(name: ConversationName, log: LogId, unknown: Map<String, Value>) -> Self {
        Self { version: VERSION, name, log, unknown }
    }

    /// Replaces the file at `path` in one step, and flushes it to the disk.
    pub(crate) fn write(&self, path: &Path) -> Result<(), ConversationError> {
        write(path, self)
    }
}

fn bytes(path: &Path) -> Result<Option<Vec<u8>>, ConversationError> {
    nexus_files::read_bounded(path, MAX_BYTES).map_err(ConversationError::at(path))
}

fn write(path: &Path, content: &impl Serialize) -> Result<(), ConversationError> {
    let bytes =
        serde_json::to_vec(content).map_err(|error| ConversationError::unusable(path, &error.into()))?;
    nexus_files::replace(path, &bytes).map_err(ConversationError::at(path))
}
