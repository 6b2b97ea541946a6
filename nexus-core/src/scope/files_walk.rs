//! Goes through what a participant may read, folder by folder, in an order that does not change.

use std::{
    collections::BinaryHeap,
    time::{Duration, Instant},
};

use super::{
    PathAccess,
    file_opener::{EntryKind, FolderEntry, Listed},
    files::{FileError, ScopedFiles},
};

/// Most unreadable folders that are listed with their reasons. Source: our own bound.
const MAX_UNREADABLE: usize = 20;

/// Limits of a walk.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkOptions {
    /// Most entries, folders included. 20,000 by default.
    pub entries: usize,
    /// Depth in folders; 1 means the entries of the folder itself. 64 by default.
    pub depth: usize,
    /// Time limit; 10 seconds by default. It is checked between entries: a system call that hangs is waited
    /// for.
    pub time: Duration,
    /// Names of folders that are not entered, as they are written: they are among the entries, and what is in them is not.
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
    /// The entries: those of a folder by name, and what is in a folder right behind it.
    pub entries: Vec<WalkEntry>,
    /// Skipped entries.
    pub passed_over: PassedOver,
    /// Why it ends before all was seen. What is there, is the beginning of all.
    pub stopped: Option<Bound>,
}

/// One entry of a walk.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Its path: relative to the scope's root if it is below it, else absolute.
    pub path: String,
    /// Its kind.
    pub kind: EntryKind,
}

/// Entries that a walk, or a search, skipped.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct PassedOver {
    /// Folders that could not be read, and why; the first 20.
    pub unreadable: Vec<FileError>,
    /// Number of unreadable folders.
    pub unreadable_folders: usize,
    /// Number of folders below the depth limit, or excluded by name.
    pub not_entered: usize,
    /// Number of names that are not Unicode. They have no path.
    pub not_unicode: usize,
}

/// A bound that was reached.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The most entries.
    Entries,
    /// The time is over.
    Time,
    /// The most matches.
    Matches,
    /// The most bytes to read.
    Bytes,
}

impl ScopedFiles {
    /// Returns the entries below a folder, or the file itself. Lists symbolic links without following them.
    /// Does not list entries outside of the scope, or protected by their names.
    ///
    /// # Errors
    ///
    /// Those of [`ScopedFiles::list`] for `path` itself. An unreadable folder below it is skipped and reported.
    pub fn walk(&self, path: &str, options: &WalkOptions) -> Result<Walk, FileError> {
        let mut walker = Walker::new(self, path, options)?;
        let entries = walker.by_ref().collect();
        Ok(Walk { entries, passed_over: walker.passed_over, stopped: walker.stopped })
    }
}

/// A walk under way.
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

    /// Puts what is in a folder before all that is to come. Of more than are still let through, the first by name are kept.
    fn enter(&mut self, folder: &str, depth: usize) -> Result<(), FileError> {
        let (most, until) = (self.options.entries.saturating_sub(self.seen), self.until);
        let (first, is_cut, unnamed) = self.files.run(folder, PathAccess::Read, |files, real| {
            // The greatest name is on top.
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
        for FolderEntry { name, kind } in first.into_sorted_vec().into_iter().rev() {
            let is_entered = kind == EntryKind::Folder && !self.options.not_entered.contains(&name);
            let entry = WalkEntry { path: format!("{inside}{name}"), kind };
            self.ahead.push(Ahead { entry, depth: depth + 1, is_entered });
        }
        let too_many = self.ahead.len().saturating_sub(most);
        self.is_cut |= too_many > 0;
        self.ahead.drain(..too_many);
        Ok(())
    }

    /// Returns true if the time is over.
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
        // The clock first: a folder that was left in the middle has entries that would pass for all.
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
