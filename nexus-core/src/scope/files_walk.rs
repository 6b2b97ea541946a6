//! Walks the readable files folder by folder, in a fixed order.

use std::{
    collections::BinaryHeap,
    time::{Duration, Instant},
};

use super::{
    PathAccess,
    file_opener::{EntryKind, FolderEntry, Listed},
    files::{FileError, ScopedFiles},
};

/// Maximum number of unreadable folders that are listed with their reasons. Source: our own bound.
const MAX_UNREADABLE: usize = 20;

/// Limits of a walk.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkOptions {
    /// Maximum number of entries, folders included. 20,000 by default.
    pub entries: usize,
    /// Depth in folders; 1 means the entries of the folder itself. 64 by default.
    pub depth: usize,
    /// Time limit; 10 seconds by default. It is checked between entries, so a system call that hangs is not interrupted.
    pub time: Duration,
    /// Names of folders that are listed but not entered. Case counts.
    pub not_entered: Vec<String>,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self { entries: 20_000, depth: 64, time: Duration::from_secs(10), not_entered: Vec::new() }
    }
}

/// Entries of a folder, and of the folders below it.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct Walk {
    /// Entries, sorted by name within a folder. The content of a folder follows right after it.
    pub entries: Vec<WalkEntry>,
    /// Skipped entries.
    pub passed_over: PassedOver,
    /// Limit that ended the walk early. `entries` is then only the first part.
    pub stopped: Option<Bound>,
}

/// One entry of a walk.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Path: relative to the scope's root if the entry is below it, else absolute.
    pub path: String,
    /// Kind of the entry.
    pub kind: EntryKind,
}

/// Entries that a walk, or a search, skipped.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct PassedOver {
    /// Unreadable folders with the reasons; the first 20.
    pub unreadable: Vec<FileError>,
    /// Number of unreadable folders.
    pub unreadable_folders: usize,
    /// Number of folders below the depth limit, or excluded by name.
    pub not_entered: usize,
    /// Number of names that are not Unicode and therefore have no path.
    pub not_unicode: usize,
}

/// A limit that ended a walk or a search.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Number of entries.
    Entries,
    /// Time.
    Time,
    /// Number of matches.
    Matches,
    /// Number of bytes read.
    Bytes,
}

impl ScopedFiles {
    /// Returns the entries below a folder, or the file itself. Lists symbolic links without following them.
    /// Does not list entries outside of the scope, or protected by their names.
    ///
    /// # Errors
    ///
    /// Errors of [`ScopedFiles::list`] for `path` itself. An unreadable folder below it is skipped and reported.
    pub fn walk(&self, path: &str, options: &WalkOptions) -> Result<Walk, FileError> {
        let mut walker = Walker::new(self, path, options)?;
        let entries = walker.by_ref().collect();
        Ok(Walk { entries, passed_over: walker.passed_over, stopped: walker.stopped })
    }
}

/// State of a running walk.
pub(super) struct Walker<'w> {
    files: &'w ScopedFiles,
    options: &'w WalkOptions,
    until: Instant,
    /// Remaining entries, the next one last.
    ahead: Vec<Ahead>,
    seen: usize,
    /// True if later entries were dropped because enough earlier ones exist.
    is_cut: bool,
    pub(super) passed_over: PassedOver,
    pub(super) stopped: Option<Bound>,
}

struct Ahead {
    entry: WalkEntry,
    depth: usize,
    is_entered: bool,
}

impl<'w> Walker<'w> {
    pub(super) fn new(
        files: &'w ScopedFiles,
        path: &str,
        options: &'w WalkOptions,
    ) -> Result<Self, FileError> {
        let mut walker = Self {
            files,
            options,
            until: Instant::now() + options.time,
            ahead: Vec::new(),
            seen: 0,
            is_cut: false,
            passed_over: PassedOver::default(),
            stopped: None,
        };
        let place = files.place_of(path, PathAccess::Read)?;
        if files.is_folder(&place)? {
            walker.enter(&place, 0)?;
        } else {
            let entry = WalkEntry { path: place, kind: EntryKind::File };
            walker.ahead.push(Ahead { entry, depth: 0, is_entered: false });
        }
        Ok(walker)
    }

    /// Inserts the entries of a folder before the remaining ones. If the limit allows fewer, retains the first by name.
    fn enter(&mut self, folder: &str, depth: usize) -> Result<(), FileError> {
        let (most, until) = (self.options.entries.saturating_sub(self.seen), self.until);
        let (first, is_cut, unnamed) = self.files.run(folder, PathAccess::Read, |files, real| {
            // A max-heap: its top is the greatest name, which is dropped first.
            let (mut first, mut is_cut, mut unnamed) = (BinaryHeap::new(), false, 0);
            files.list(real, &mut |listed| {
                match listed {
                    Listed::Unnamed => unnamed += 1,
                    Listed::Entry(entry) => first.push(entry),
                }
                if first.len() > most {
                    first.pop();
                    is_cut = true;
                }
                Instant::now() < until
            })?;
            Ok((first, is_cut, unnamed))
        })?;
        self.is_cut |= is_cut;
        self.passed_over.not_unicode += unnamed;
        let inside = match folder {
            "." => String::new(),
            "/" => "/".to_owned(),
            folder => format!("{folder}/"),
        };
        // Insert in reverse order, because `ahead` is a stack.
        for FolderEntry { name, kind } in first.into_sorted_vec().into_iter().rev() {
            let is_entered = kind == EntryKind::Folder && !self.options.not_entered.contains(&name);
            let entry = WalkEntry { path: format!("{inside}{name}"), kind };
            self.ahead.push(Ahead { entry, depth: depth + 1, is_entered });
        }
        // At most `most` further entries are returned. The front of the stack comes last, so dropping it
        // bounds the memory.
        let too_many = self.ahead.len().saturating_sub(most);
        self.is_cut |= too_many > 0;
        self.ahead.drain(..too_many);
        Ok(())
    }

    /// Returns true if the time limit has passed.
    #[cfg(feature = "files")]
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

impl Iterator for Walker<'_> {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        if self.stopped.is_some() {
            return None;
        }
        // Check the time first: a folder that was listed only in part must not pass for complete.
        if Instant::now() >= self.until {
            self.stopped = Some(Bound::Time);
            return None;
        }
        let Some(Ahead { entry, depth, is_entered }) = self.ahead.pop() else {
            self.stopped = self.is_cut.then_some(Bound::Entries);
            return None;
        };
        self.seen += 1;
        if is_entered && depth < self.options.depth {
            if let Err(error) = self.enter(&entry.path, depth) {
                self.passed_over.unreadable_folders += 1;
                if self.passed_over.unreadable.len() < MAX_UNREADABLE {
                    self.passed_over.unreadable.push(error);
                }
            }
        } else if entry.kind == EntryKind::Folder {
            self.passed_over.not_entered += 1;
        }
        Some(entry)
    }
}
