//! The index of a home: the fields of each piece of work that lists show, without reading its files.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};

use crate::{FileStamp, Journal, JournalKind, JournalRead, read_bounded, replace, rfc3339};

/// Name of the index file in a home.
const NAME: &str = "index.json";
/// Version of the index's format.
const VERSION: u32 = 1;
/// Largest index that is read, in bytes. An entry has about 700.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum number of entries that are read again without writing the index: this number, or one in `FEW_OF` of all entries if that is more.
const FEW: usize = 4;
const FEW_OF: usize = 20;

/// Index of the work in a home, for lists, in the file `index.json`.
///
/// The index is a view of the state files, which stay authoritative. Each entry has the sizes and times of its files.
/// [`refresh`](Self::refresh) compares them and reads the state again if they differ, so a list never shows an old state. A missing or
/// damaged index, or an index of a later version, is built again. If the index cannot be written, each list reads the state.
///
/// It also completes the [`Journal`]: a change that the index finds and the journal lacks gets an entry there.
#[derive(Debug)]
pub struct HomeIndex {
    home: PathBuf,
    journal: Arc<Journal>,
}

/// List entry of one piece of work.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexEntry<T> {
    /// Kind of work.
    pub kind: JournalKind,
    /// Name of the work, unique within its kind.
    pub id: String,
    /// Title of the work, such as the goal of a task.
    pub title: String,
    /// Status of the work in one word. Empty if it has none.
    pub status: String,
    /// Cost of the agents' turns, as far as it is known.
    pub cost_usd: Option<f64>,
    /// Time of the work's creation, if it is known.
    #[serde(with = "rfc3339::as_micros::option")]
    pub created_at: Option<SystemTime>,
    /// Time of the work's last change.
    #[serde(with = "rfc3339::as_micros")]
    pub updated_at: SystemTime,
    /// Further columns of the service for this kind. `None` if another service indexed the work, which knows
    /// only its kind.
    pub details: Option<T>,
}

/// Files of one piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkFiles {
    /// Name of the work in the folder of its kind.
    pub name: String,
    /// Files that the entry depends on. A missing file is also a state.
    pub files: Vec<PathBuf>,
}

/// Result of [`HomeIndex::refresh`].
#[derive(Clone, Debug, PartialEq)]
pub struct IndexedWork<T, E> {
    /// Entries of the wanted kind with details, in the order of the files.
    pub entries: Vec<IndexEntry<T>>,
    /// Errors of work whose state could not be read.
    pub unreadable: Vec<E>,
}

/// The index file. Each folder's entries stay raw until they are listed, so that a list parses only its own entries.
#[derive(Debug, Default, Serialize, Deserialize)]
struct IndexFile {
    version: u32,
    folders: BTreeMap<String, Box<RawValue>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct IndexedFolder {
    /// Number of the last journal entry when the folder was indexed.
    seq: u64,
    work: BTreeMap<String, StoredEntry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredEntry {
    /// States of the files when they were read. `None` if the files were too new for a reliable comparison.
    stamps: Option<Vec<Option<FileStamp>>>,
    entry: IndexEntry<Box<RawValue>>,
}

impl<T> IndexEntry<T> {
    /// Creates an entry without status, cost, creation time and details.
    pub fn new(
        kind: JournalKind,
        id: impl Into<String>,
        title: impl Into<String>,
        updated_at: SystemTime,
    ) -> Self {
        let (id, title) = (id.into(), title.into());
        let status = String::new();
        Self { kind, id, title, status, cost_usd: None, created_at: None, updated_at, details: None }
    }
}

impl HomeIndex {
    /// Opens the index of the home at `home`, whose journal is `journal`. Reads and creates nothing yet.
    pub fn in_home(home: &Path, journal: Arc<Journal>) -> Self {
        Self { home: home.to_owned(), journal }
    }

    /// Returns the entries of one kind of work in the folder `folder` of the home. `found` is all work in that folder, of any kind. `read`
    /// reads the state of one piece of work, and returns `None` if the work no longer exists. Only work that is not in the index or whose
    /// files changed is read.
    ///
    /// Writes the index if much was read; a failure to write is ignored. A home without work stays unchanged.
    pub fn refresh<T: Serialize + DeserializeOwned, E>(
        &self,
        folder: &str,
        kind: &JournalKind,
        found: &[WorkFiles],
        read: impl Fn(&WorkFiles) -> Result<Option<IndexEntry<T>>, E>,
    ) -> IndexedWork<T, E> {
        let mut index = self.load();
        let known = index.folders.remove(folder);
        let known = known.and_then(|known| serde_json::from_str::<IndexedFolder>(known.get()).ok());
        let is_new = known.is_none();
        let known = known.unwrap_or_default();
        // Get the number before reading the state, so that a change in between has a later number.
        let seq = self.journal.last_seq().unwrap_or_default();
        let mut now = IndexedFolder { seq, work: BTreeMap::new() };
        let mut list = IndexedWork { entries: Vec::new(), unreadable: Vec::new() };
        let (mut read_again, mut is_completed) = (0, false);
        for files in found {
            let stamps = stamps(&files.files);
            let before = known.work.get(&files.name);
            let unchanged = before.filter(|before| stamps.is_some() && before.stamps == stamps);
            if let Some(before) = unchanged
                && (before.entry.kind != *kind || typed::<T>(&before.entry, &mut list.entries))
            {
                now.work.insert(files.name.clone(), before.clone());
                continue;
            }
            read_again += 1;
            is_completed |= unchanged.is_some();
            match read(files) {
                Ok(None) => {}
                Err(error) => list.unreadable.push(error),
                Ok(Some(entry)) => {
                    let stored = untyped(&entry);
                    if entry.kind == *kind {
                        list.entries.push(entry);
                    }
                    now.work.insert(files.name.clone(), StoredEntry { stamps, entry: stored });
                }
            }
        }
        if is_new && now.work.is_empty() {
            return list;
        }
        let lost = if is_new { BTreeSet::new() } else { self.lost(&known, &now) };
        let is_gone = known.work.keys().any(|name| !now.work.contains_key(name));
        if is_new || is_gone || is_completed || !lost.is_empty() || read_again > FEW.max(found.len() / FEW_OF)
        {
            if self.store(&mut index, folder, &now).is_err() {
                return list;
            }
            // Ignore an error: the next change by a service reports that the journal cannot be written.
            let record = |kind, id: &str| self.journal.append(kind, id, "scanned").ok();
            for (kind, id) in lost {
                record(kind, &id);
            }
            // Without an index the gaps of the journal are unknown, so tell its readers to scan the state.
            if is_new
                && let Some(first) = record(JournalKind::Home, "")
                && seq == 0
            {
                now.seq = first;
                let _ = self.store(&mut index, folder, &now);
            }
        }
        list
    }

    /// Returns the work that changed since it was indexed and has no journal entry since then.
    fn lost(&self, known: &IndexedFolder, now: &IndexedFolder) -> BTreeSet<(JournalKind, String)> {
        let state = |stored: &StoredEntry| (stored.entry.updated_at, stored.entry.kind.clone());
        let changed = |(name, stored): &(&String, &StoredEntry)| {
            known.work.get(*name).map(state) != now.work.get(*name).map(state) && !stored.entry.id.is_empty()
        };
        let all = known.work.iter().chain(&now.work);
        let changed: BTreeSet<_> = all
            .filter(changed)
            .map(|(_, stored)| (stored.entry.kind.clone(), stored.entry.id.clone()))
            .collect();
        if changed.is_empty() {
            return changed;
        }
        match self.journal.read_after(known.seq) {
            Ok(JournalRead::Entries(entries)) => {
                let recorded: HashSet<_> = entries.into_iter().map(|entry| (entry.kind, entry.id)).collect();
                changed.into_iter().filter(|change| !recorded.contains(change)).collect()
            }
            // The journal's readers have to scan the state themselves in this case.
            Ok(JournalRead::Rescan { .. }) | Err(_) => BTreeSet::new(),
        }
    }

    fn load(&self) -> IndexFile {
        let bytes = read_bounded(&self.home.join(NAME), MAX_BYTES).ok().flatten().unwrap_or_default();
        let index: IndexFile = serde_json::from_slice(&bytes).unwrap_or_default();
        if index.version == VERSION { index } else { IndexFile::default() }
    }

    /// Writes the index with the new entries of a folder.
    fn store(&self, index: &mut IndexFile, folder: &str, entries: &IndexedFolder) -> io::Result<()> {
        // Do not create a home that was removed.
        if !self.home.is_dir() {
            return Err(io::ErrorKind::NotFound.into());
        }
        index.version = VERSION;
        index.folders.insert(folder.to_owned(), to_raw_value(entries)?);
        let bytes = serde_json::to_vec(index)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        replace(&self.home.join(NAME), &bytes)
    }
}

/// Adds a stored entry to `entries`, if this version can read its details. Returns true if it could.
fn typed<T: DeserializeOwned>(stored: &IndexEntry<Box<RawValue>>, entries: &mut Vec<IndexEntry<T>>) -> bool {
    let details = stored.details.as_ref().and_then(|details| serde_json::from_str(details.get()).ok());
    let Some(details) = details else { return false };
    entries.push(IndexEntry {
        kind: stored.kind.clone(),
        id: stored.id.clone(),
        title: stored.title.clone(),
        status: stored.status.clone(),
        cost_usd: stored.cost_usd,
        created_at: stored.created_at,
        updated_at: stored.updated_at,
        details: Some(details),
    });
    true
}

fn untyped<T: Serialize>(entry: &IndexEntry<T>) -> IndexEntry<Box<RawValue>> {
    IndexEntry {
        kind: entry.kind.clone(),
        id: entry.id.clone(),
        title: entry.title.clone(),
        status: entry.status.clone(),
        cost_usd: entry.cost_usd,
        created_at: entry.created_at.map(rfc3339::cut_to_micros),
        updated_at: rfc3339::cut_to_micros(entry.updated_at),
        details: entry.details.as_ref().and_then(|details| to_raw_value(details).ok()),
    }
}

/// Returns the states of files. Returns `None` if one of them changed a moment ago, or its state is unknown.
fn stamps(files: &[PathBuf]) -> Option<Vec<Option<FileStamp>>> {
    let now = SystemTime::now();
    files.iter().map(|path| stamp(path, now)).collect()
}

fn stamp(path: &Path, now: SystemTime) -> Option<Option<FileStamp>> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(None),
        found => found.ok()?,
    };
    FileStamp::of(&found).filter(|stamp| stamp.is_settled(now)).map(Some)
}
