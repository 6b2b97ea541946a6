//! Stored data about a session, in addition to its conversation.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nexus_conversations::ConversationName;
use nexus_core::ToolAccess;
use serde::{Deserialize, Serialize};

/// Maximum size of a record, in bytes. Source: our own bound; a path has at most 4 KiB.
const MAX_BYTES: u64 = 64 << 10;

/// Stored data about a session, in addition to its conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    pub(crate) cwd: PathBuf,
    /// Type of the configuration.
    pub(crate) mode: String,
    pub(crate) access: ToolAccess,
    pub(crate) title: String,
}

/// The records of a home: the file `acp/NAME.json` belongs to the conversation NAME.
#[derive(Clone, Debug)]
pub(crate) struct SessionRecords {
    folder: PathBuf,
}

impl SessionRecords {
    pub(crate) fn in_home(home: &Path) -> Self {
        Self { folder: home.join("acp") }
    }

    /// Reads the record of a session; `None` if it does not exist. Logs an unreadable record.
    pub(crate) fn read(&self, name: &ConversationName) -> Option<SessionRecord> {
        let path = self.path(name);
        let record = nexus_files::read_bounded(&path, MAX_BYTES).and_then(|bytes| {
            let record = bytes.map(|bytes| serde_json::from_slice(&bytes));
            record.transpose().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        });
        record.unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "the record of a session cannot be read");
            None
        })
    }

    /// Returns true if a session has a record, even an unreadable one.
    pub(crate) fn has(&self, name: &ConversationName) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    pub(crate) fn write(&self, name: &ConversationName, record: &SessionRecord) -> io::Result<()> {
        nexus_files::replace(&self.path(name), &serde_json::to_vec(record)?)
    }

    /// Removes a record, if it exists.
    pub(crate) fn remove(&self, name: &ConversationName) {
        if let Err(error) = fs::remove_file(self.path(name))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%name, %error, "the record of a session cannot be removed");
        }
    }

    /// Returns the names of all sessions with a record.
    pub(crate) fn names(&self) -> Vec<ConversationName> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let stem = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok();
        entries.filter_map(stem).collect()
    }

    /// Returns the path of a record. Names that differ only in case have one path, because they are one conversation.
    fn path(&self, name: &ConversationName) -> PathBuf {
        self.folder.join(format!("{}.json", name.as_str().to_ascii_lowercase()))
    }
}
