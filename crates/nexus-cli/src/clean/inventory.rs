//! Everything in a home, with its size.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nexus::ConversationName;
use nexus_broker::Sessions;
use nexus_files::{FolderSize, rfc3339};
use nexus_trees::StoredHistory;
use nexus_work::WorkspaceState as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::HomeItemKind, command_error::CommandError, conversation, debate, task::unconfigured, undo::STORES,
};

/// Beginning of the names of conversations that editors have.
const EDITOR: &str = "acp-";
/// Longest title, in characters.
const TITLE_CHARACTERS: usize = 200;

/// An item in the home.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct HomeItem {
    /// Its kind.
    pub(super) kind: HomeItemKind,
    /// The name that other commands take, or the path below the home.
    pub(super) name: String,
    /// Status of a task or debate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<String>,
    /// Goal of a task, question of a debate, or folder of snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    /// Time of its last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changed_at: Option<String>,
    /// Size on the disk, in bytes. What conversations share is in the item `conversations` of the kind `state`.
    pub(super) bytes: u64,
    /// False if a part could not be read, so that the size is larger.
    pub(super) is_size_complete: bool,
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) details: ItemDetails,
}

/// Data that the removal of an item needs in addition to its name.
#[derive(Clone, Debug)]
pub(super) enum ItemSubject {
    /// With the time of its last change, in milliseconds since 1970.
    Conversation(ConversationName, u64),
    History(StoredHistory),
}

/// Fields of an item by which this command selects and removes it.
#[derive(Clone, Debug)]
pub(super) struct ItemDetails {
    pub(super) changed: Option<SystemTime>,
    pub(super) path: PathBuf,
    /// Reason why this item stays in every selection.
    pub(super) obstacle: Option<String>,
    pub(super) has_unlanded_work: bool,
    pub(super) subject: Option<ItemSubject>,
}

impl HomeItem {
    fn new(kind: HomeItemKind, name: String, path: PathBuf, size: FolderSize) -> Self {
        let (bytes, is_size_complete) = (size.bytes, size.is_complete);
        let details =
            ItemDetails { changed: None, path, obstacle: None, has_unlanded_work: false, subject: None };
        Self { kind, name, status: None, title: None, changed_at: None, bytes, is_size_complete, details }
    }

    fn changed(mut self, time: SystemTime) -> Self {
        self.changed_at = Some(rfc3339::seconds(time));
        self.details.changed = Some(time);
        self
    }

    fn titled(mut self, title: &str) -> Self {
        self.title = Some(nexus_files::shortened(title.lines().next().unwrap_or_default(), TITLE_CHARACTERS));
        self
    }
}

/// Everything in a home.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// The items, by kind, the largest first.
    pub(super) items: Vec<HomeItem>,
    /// Errors of what could not be read.
    pub(super) unreadable: Vec<String>,
}

/// Lists the home. Reads files, so it blocks.
pub(super) fn inventory(home: &Path) -> Result<Inventory, CommandError> {
    let mut found = Inventory::default();
    tasks(&mut found)?;
    debates(&mut found)?;
    conversations(home, &mut found)?;
    let Inventory { mut items, unreadable } = found;
    items.extend(snapshots(home)?);
    let demo = home.join("demo");
    if let Some(found) = measured(&demo)? {
        let item = HomeItem::new(HomeItemKind::Demo, "demo".to_owned(), demo.clone(), found);
        items.push(match fs::metadata(&demo).and_then(|found| found.modified()) {
            Ok(time) => item.changed(time),
            Err(_) => item,
        });
    }
    let known: BTreeSet<PathBuf> = items.iter().map(|item| item.details.path.clone()).collect();
    items.extend(state(home, &known)?);
    items.sort_by_key(|item| (item.kind, std::cmp::Reverse(item.bytes)));
    Ok(Inventory { items, unreadable })
}

fn tasks(found: &mut Inventory) -> Result<(), CommandError> {
    let listed = unconfigured()?.store().list()?;
    let items = listed.entries.into_iter().filter_map(|(task, snapshot)| {
        let path = task.folder().to_owned();
        // Without a size, the task was removed meanwhile or its folder cannot be read.
        let size = measured(&path).ok()??;
        let word = snapshot.state.status.word();
        let mut item = HomeItem::new(HomeItemKind::Task, task.id().to_string(), path, size)
            .titled(&snapshot.data.goal)
            .changed(snapshot.updated_at);
        item.status = Some(word.to_string());
        if !snapshot.state.is_final() {
            item.details.obstacle =
                Some(format!("it is {}; `nexus task cancel {}` ends it", word.spoken(), task.id()));
        }
        // An unreadable log may lack the landing, so the task stays.
        item.details.has_unlanded_work = task.has_unlanded_work().unwrap_or(true);
        Some(item)
    });
    found.items.extend(items);
    found.unreadable.extend(listed.unreadable.iter().map(ToString::to_string));
    Ok(())
}

fn debates(found: &mut Inventory) -> Result<(), CommandError> {
    let listed = debate::unconfigured()?.store().list()?;
    let items = listed.entries.into_iter().filter_map(|(debate, snapshot)| {
        let path = debate.folder().to_owned();
        let size = measured(&path).ok()??;
        let mut item = HomeItem::new(HomeItemKind::Debate, debate.id().to_string(), path, size)
            .titled(&snapshot.data.question)
            .changed(snapshot.updated_at);
        let word = snapshot.state.word();
        item.status = Some(word.to_string());
        if !snapshot.state.is_final() {
            item.details.obstacle =
                Some(format!("it is {word}; `nexus debate cancel {}` ends it", debate.id()));
        }
        Some(item)
    });
    found.items.extend(items);
    found.unreadable.extend(listed.unreadable.iter().map(ToString::to_string));
    Ok(())
}

fn conversations(home: &Path, into: &mut Inventory) -> Result<(), CommandError> {
    let store = conversation::store();
    let sessions = Sessions::new(store.clone()).list().map_err(|error| CommandError::of_named(&error))?;
    let of_agents: Vec<(ConversationName, String)> =
        sessions.sessions.iter().map(|(key, _)| (key.conversation(), key.to_string())).collect();
    let listed = store.list()?;
    into.unreadable.extend(listed.unreadable.iter().map(ToString::to_string));
    let mut sum = 0_u64;
    for found in listed.conversations {
        // It was deleted since the list was read, or its name file is damaged.
        let Ok(size) = store.size(&found.name) else { continue };
        let session = of_agents.iter().find(|(name, _)| *name == found.name);
        let (kind, name) = match session {
            Some((_, key)) => (HomeItemKind::Session, key.clone()),
            None if found.name.as_str().starts_with(EDITOR) => {
                (HomeItemKind::Session, found.name.to_string())
            }
            None => (HomeItemKind::Conversation, found.name.to_string()),
        };
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(found.updated_at_ms));
        let path = home.join("conversations").join(found.name.to_string());
        let mut item = HomeItem::new(kind, name, path, size);
        sum = sum.saturating_add(size.bytes);
        item.details.subject = Some(ItemSubject::Conversation(found.name, found.updated_at_ms));
        into.items.push(changed.into_iter().fold(item, HomeItem::changed));
    }
    // Messages that forks share, files of earlier versions, and what the next sweep removes.
    let folder = home.join("conversations");
    if let Some(mut rest) = measured(&folder)? {
        rest.bytes = rest.bytes.saturating_sub(sum);
        into.items.push(HomeItem::new(HomeItemKind::State, "conversations".to_owned(), folder, rest));
    }
    Ok(())
}

fn snapshots(home: &Path) -> Result<Vec<HomeItem>, CommandError> {
    let stores = home.join(STORES);
    let found = StoredHistory::all(&stores).map_err(|error| at(&stores, &error))?;
    let mut items = Vec::new();
    for history in found {
        let Some(size) = measured(&history.store)? else { continue };
        let name = history.store.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut item =
            HomeItem::new(HomeItemKind::Undo, name, history.store.clone(), size).changed(history.used);
        item.title = history.folder.as_ref().map(|folder| folder.display().to_string());
        item.details.subject = Some(ItemSubject::History(history));
        items.push(item);
    }
    Ok(items)
}

/// Returns one item for each entry of the home that no other item covers, and for each unknown one beside the tasks.
fn state(home: &Path, known: &BTreeSet<PathBuf>) -> Result<Vec<HomeItem>, CommandError> {
    let mut items = Vec::new();
    let mut add = |path: PathBuf| {
        let below = path.strip_prefix(home).unwrap_or(&path).display().to_string();
        if let Some(size) = measured(&path)? {
            items.push(HomeItem::new(HomeItemKind::State, below, path, size));
        }
        Ok::<_, CommandError>(())
    };
    for path in entries(home)? {
        match path.file_name().and_then(|name| name.to_str()) {
            // Each task, debate and history has an item of its own.
            Some("tasks" | STORES) => {
                for below in entries(&path)?.into_iter().filter(|below| !known.contains(below)) {
                    add(below)?;
                }
            }
            Some("conversations" | "demo") => {}
            _ => add(path)?,
        }
    }
    Ok(items)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(at(folder, &error)),
        Ok(found) => Ok(found.flatten().map(|entry| entry.path()).collect()),
    }
}

/// Measures a file or folder. `None` if it does not exist.
fn measured(path: &Path) -> Result<Option<FolderSize>, CommandError> {
    match FolderSize::of(path) {
        Ok(size) => Ok(Some(size)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path, &error)),
    }
}

fn at(path: &Path, error: &io::Error) -> CommandError {
    CommandError::failed(format_args!("{}: {error}", path.display()))
}
