//! Snapshots around the turns in a person's own folder: they show what a turn changed, and undo it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nexus_files::{FileLock, rfc3339};
use serde::{Deserialize, Serialize};

use super::{
    Git, PATIENCE, Patch, TreeError, TreeErrorKind, TreeLimits,
    folder_restore::{check_folders, put},
    folder_snapshot::{CheckedOutFolder, FolderSnapshot, bounded},
    refusal::to_path,
    repo::{Difference, GitEntries, Repo, beginnings},
    stored_history::{IN_USE, LOCK, MAX_TURN_BYTES, StoredHistory, TURNS, remove_rest},
    text::PathText,
};

/// Number of turns that a folder's history retains.
const RETAINED: usize = 50;
/// Number of turns above [`RETAINED`] at which the oldest are deleted: deleting them one by one would cost more.
const SURPLUS: usize = 10;
/// Size of a folder's history above which the older half of its turns is deleted, in KiB. Source: our own choice.
const MAX_KIB: u64 = 2 << 20;
/// Age of the last turn at which the history of another folder is deleted.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Snapshots of a person's folder in a git checkout, taken before and after each turn that may write there.
///
/// The snapshots are in a repository of their own, with every byte of the files. The person's repository, index, refs and files are only
/// read. A snapshot covers the files of the folder that git tracks or does not ignore. It leaves out ignored files, files above the limits
/// ([`TreeLimits::file_bytes`]), submodules, other repositories in the folder, and pipes. A path that is left out is never changed.
///
/// Every call blocks, and any number of processes may use one history.
#[derive(Debug)]
pub struct FolderHistory {
    folder: CheckedOutFolder,
    store: PathBuf,
    repo: Repo,
    limits: TreeLimits,
    /// Folders that no snapshot covers.
    excluded: Vec<PathBuf>,
}

/// A turn with a snapshot.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderTurn {
    /// Number of the turn in its folder, from 1.
    pub number: u64,
    /// Time of the first snapshot.
    pub began: SystemTime,
    /// The caller's words for the turn.
    pub label: String,
    /// True if the state after the turn is recorded, so that later changes are known from those of the turn.
    pub has_end: bool,
    /// True if the turn is undone.
    pub is_undone: bool,
}

/// Files that an undo or a redo restored.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredFiles {
    /// The turn.
    pub turn: FolderTurn,
    /// The restored paths, below the folder.
    pub paths: Vec<PathBuf>,
    /// Changed paths that no snapshot covers. They are as they were before the call.
    pub left_out: Vec<PathBuf>,
}

/// Treatment of files that another program changed after the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaterChanges {
    /// Restore nothing, and name the files.
    #[default]
    Refuse,
    /// Overwrite them. A redo of the turn restores them.
    Overwrite,
}

/// Stored description of a turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredTurn {
    number: u64,
    #[serde(with = "rfc3339::as_millis")]
    began: SystemTime,
    label: String,
    /// The folder, for a person who looks into the store.
    folder: PathText,
    before: FolderSnapshot,
    after: Option<FolderSnapshot>,
    undone: Option<UndoneState>,
}

/// State of the folder when its turn was undone.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct UndoneState {
    /// Position in the order of all undone turns.
    order: u64,
    state: FolderSnapshot,
    /// False until every file is restored. The next undo continues.
    #[serde(default = "yes")]
    is_complete: bool,
}

fn yes() -> bool {
    true
}

impl StoredTurn {
    fn is_undone(&self) -> bool {
        self.undone.as_ref().is_some_and(|undone| undone.is_complete)
    }

    fn shown(&self) -> FolderTurn {
        FolderTurn {
            number: self.number,
            began: self.began,
            label: self.label.clone(),
            has_end: self.after.is_some(),
            is_undone: self.is_undone(),
        }
    }
}

impl FolderHistory {
    /// Opens the history of a folder. `store` is the folder of this history alone, which the first turn creates.
    ///
    /// # Errors
    ///
    /// [`NotAProject`](TreeErrorKind::NotAProject) if the folder is not in the checkout of a git repository.
    pub fn open(git: &Git, store: impl AsRef<Path>, folder: impl AsRef<Path>) -> Result<Self, TreeError> {
        let (folder, store) = (CheckedOutFolder::find(folder.as_ref())?, store.as_ref().to_owned());
        let repo = Repo::at(&bounded(git), &store);
        let limits = TreeLimits {
            files: 50_000,
            file_bytes: 32 << 20,
            total_bytes: 512 << 20,
            ..TreeLimits::default()
        };
        Ok(Self { folder, store, repo, limits, excluded: Vec::new() })
    }

    /// Sets the limits of a snapshot: files, size of one file, size of all. Larger files are left out.
    #[must_use]
    pub fn with_limits(mut self, limits: TreeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Excludes a folder and everything below it from the snapshots, even if git tracks it. A history of the folder itself, or of a
    /// folder inside it, records nothing.
    #[must_use]
    pub fn without(mut self, folder: impl AsRef<Path>) -> Self {
        self.excluded.push(folder.as_ref().to_owned());
        self
    }

    /// Prevents the deletion of the history while the lock exists, for the time of a turn. `None` if it is being deleted.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn retain(&self) -> Result<Option<FileLock>, TreeError> {
        let unusable = |error| TreeError::from_io(&self.store, "cannot be locked", error);
        nexus_files::make_private_folder(&self.store).map_err(unusable)?;
        FileLock::try_lock_shared(&self.store.join(IN_USE)).map_err(unusable)
    }

    /// Records the folder before a turn, and returns the turn's number. Deletes the oldest turns above the bound.
    ///
    /// # Errors
    ///
    /// [`TooLarge`](TreeErrorKind::TooLarge); [`Changed`](TreeErrorKind::Changed) if a file changes meanwhile;
    /// [`NotAProject`](TreeErrorKind::NotAProject) if the folder is excluded; those of git and of the operating system.
    pub fn begin(&self, label: &str) -> Result<u64, TreeError> {
        // Checked before the first file is written.
        self.folder.excluded_below(&self.excluded)?;
        nexus_files::make_private_folder(&self.store.join(TURNS))
            .map_err(|error| TreeError::from_io(&self.store, "cannot be made", error))?;
        let _lock = self.lock()?;
        // A repository without HEAD is the rest of an interrupted creation.
        if !self.repo.path().join("HEAD").is_file() {
            self.make_repository()?;
        }
        let number = self.numbers()?.last().copied().unwrap_or_default() + 1;
        // Record before the turn is written, so that every stored turn has a snapshot.
        let before = self.folder.record(&self.repo, [], &self.excluded, &self.limits)?;
        self.write(&StoredTurn {
            number,
            began: SystemTime::now(),
            label: label.to_owned(),
            folder: self.folder.path().to_owned().into(),
            before,
            after: None,
            undone: None,
        })?;
        self.prune()?;
        Ok(number)
    }

    /// Records the folder after a turn.
    ///
    /// # Errors
    ///
    /// As [`FolderHistory::begin`]; [`NotFound`](TreeErrorKind::NotFound) if the turn has no snapshot any more.
    pub fn end(&self, number: u64) -> Result<(), TreeError> {
        let _lock = self.lock()?;
        let mut turn = self.read(number)?;
        turn.after = Some(self.now(&turn)?);
        self.write(&turn)
    }

    /// Returns the turns with a snapshot, the oldest first.
    ///
    /// # Errors
    ///
    /// Those of the operating system; [`Malformed`](TreeErrorKind::Malformed).
    pub fn turns(&self) -> Result<Vec<FolderTurn>, TreeError> {
        Ok(self.stored()?.iter().map(StoredTurn::shown).collect())
    }

    /// Returns the changes of a turn: up to its end if that is recorded, else up to now. Without a number: the changes since the
    /// last turn began.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TreeErrorKind::NotFound) if there is no such turn; those of [`FolderHistory::begin`].
    pub fn diff(&self, number: Option<u64>) -> Result<(FolderTurn, Patch), TreeError> {
        let last = self.numbers()?.last().copied().ok_or_else(|| self.no_turn())?;
        let _lock = self.lock()?;
        let turn = self.read(number.unwrap_or(last))?;
        let after = match turn.after.clone().filter(|_| number.is_some()) {
            Some(after) => after,
            None => self.now(&turn)?,
        };
        let (changes, _) = self.changes(&turn.before, &after)?;
        // Apply only the changes of paths that both snapshots cover.
        let mut entries = self.repo.entries(turn.before.tree.as_str())?;
        for change in changes {
            match change.new {
                Some(entry) => entries.insert(change.path, entry),
                None => entries.remove(&change.path),
            };
        }
        // Build a tree of these changes alone, so that git can print the patch between two trees.
        let later = self.repo.write_tree(&entries)?;
        let patch = self.repo.patch(turn.before.tree.as_str(), later.as_str(), self.limits.patch_bytes)?;
        Ok((turn.shown(), patch))
    }

    /// Restores the files that the last turn changed to their state before the turn. Turns that changed nothing, and undone turns, do
    /// not count. Files that the turn did not change stay as they are.
    ///
    /// # Errors
    ///
    /// [`Changed`](TreeErrorKind::Changed) if files were changed after the turn, or if the end of the turn is not recorded;
    /// [`NotFound`](TreeErrorKind::NotFound) if no turn can be undone; those of [`FolderHistory::begin`].
    pub fn undo(&self, later: LaterChanges) -> Result<RestoredFiles, TreeError> {
        // Without a turn there may be no folder for the lock.
        if self.numbers()?.is_empty() {
            return Err(self.no_turn());
        }
        let _lock = self.lock()?;
        let turns = self.stored()?;
        let mut found = None;
        for turn in turns.iter().rev().filter(|turn| !turn.is_undone()) {
            let turn = turn.clone();
            // If an undo was interrupted, its first recorded state is the end of the turn.
            let first = turn.undone.as_ref().map(|undone| undone.state.clone());
            // Without a recorded end, everything up to now counts as part of the turn.
            let after = turn.after.clone().or(first).map_or_else(|| self.now(&turn), Ok)?;
            let (changes, left_out) = self.changes(&turn.before, &after)?;
            if !changes.is_empty() || !left_out.is_empty() {
                found = Some((turn, changes, left_out));
                break;
            }
        }
        let nothing = || match turns.is_empty() {
            true => self.no_turn(),
            false => {
                TreeError::new(TreeErrorKind::NotFound, "no turn changed a file, or all of them are undone")
            }
        };
        let (mut turn, changes, mut left_out) = found.ok_or_else(nothing)?;
        let now = self.now(&turn)?;
        let changes = without(changes, &now, &mut left_out);
        let present = self.repo.entries(now.tree.as_str())?;
        if later == LaterChanges::Refuse {
            if turn.after.is_none() && !changes.is_empty() {
                let message = format!(
                    "the end of turn {} is not recorded, so these files may have your own changes: {}",
                    turn.number,
                    names(changes.iter().map(|change| &change.path))
                );
                return Err(TreeError::new(TreeErrorKind::Changed, message));
            }
            unchanged_since(&changes, &present, "after turn", turn.number)?;
        }
        let wanted: Vec<_> = changes
            .into_iter()
            // Skip files that have the wanted content already, for example from an interrupted undo.
            .filter(|change| present.get(&change.path) != change.old.as_ref())
            .map(|change| (change.path, change.old))
            .collect();
        check_folders(&self.folder, &wanted)?;
        let state = match turn.undone.take() {
            None => now,
            // A path that is still to be restored may have changed since.
            Some(first) => self.with_paths(first.state, &now, wanted.iter().map(|(path, _)| path))?,
        };
        // Written first, so that an interrupted restore can be continued or redone.
        let order = turns.iter().filter_map(|turn| turn.undone.as_ref()).map(|undone| undone.order).max();
        let mut undone = UndoneState { order: order.unwrap_or_default() + 1, state, is_complete: false };
        turn.undone = Some(undone.clone());
        self.write(&turn)?;
        put(&self.repo, &self.folder, &turn.before, &wanted, self.limits.file_bytes)?;
        undone.is_complete = true;
        turn.undone = Some(undone);
        self.write(&turn)?;
        Ok(RestoredFiles { turn: turn.shown(), paths: paths(wanted.iter().map(|(path, _)| path)), left_out })
    }

    /// Restores the files of the turn that was undone last to their state before the undo.
    ///
    /// # Errors
    ///
    /// [`Changed`](TreeErrorKind::Changed) if files were changed after the undo; [`NotFound`](TreeErrorKind::NotFound) if no turn is
    /// undone; those of [`FolderHistory::begin`].
    pub fn redo(&self) -> Result<RestoredFiles, TreeError> {
        let nothing = || TreeError::new(TreeErrorKind::NotFound, "no turn of this folder is undone");
        // Without a turn there may be no folder for the lock.
        if self.numbers()?.is_empty() {
            return Err(nothing());
        }
        let _lock = self.lock()?;
        let order = |turn: &StoredTurn| turn.undone.as_ref().map(|undone| undone.order);
        let undone = self.stored()?.into_iter().filter(|turn| turn.undone.is_some());
        let mut turn = undone.max_by_key(order).ok_or_else(nothing)?;
        let Some(undone) = turn.undone.take() else { return Err(nothing()) };
        let now = self.now(&turn)?;
        let after = turn.after.as_ref().unwrap_or(&undone.state);
        let (changes, mut left_out) = self.changes(&turn.before, after)?;
        let changes = without(without(changes, &undone.state, &mut left_out), &now, &mut left_out);
        let (present, then) =
            (self.repo.entries(now.tree.as_str())?, self.repo.entries(undone.state.tree.as_str())?);
        let changes: Vec<Difference> = changes
            .into_iter()
            .map(|change| Difference { new: change.old, old: then.get(&change.path).cloned(), ..change })
            .collect();
        unchanged_since(&changes, &present, "after the undo of turn", turn.number)?;
        // Changes of other files between the turn and its undo are not part of the turn.
        let after = match &turn.after {
            None => undone.state.clone(),
            Some(after) => {
                self.with_paths(after.clone(), &undone.state, changes.iter().map(|change| &change.path))?
            }
        };
        let wanted: Vec<_> = changes
            .into_iter()
            .filter(|change| present.get(&change.path) != change.old.as_ref())
            .map(|change| (change.path, change.old))
            .collect();
        check_folders(&self.folder, &wanted)?;
        // Restore before the record changes: an interrupted redo can be repeated.
        put(&self.repo, &self.folder, &undone.state, &wanted, self.limits.file_bytes)?;
        turn.after = Some(after);
        self.write(&turn)?;
        Ok(RestoredFiles { turn: turn.shown(), paths: paths(wanted.iter().map(|(path, _)| path)), left_out })
    }

    /// Deletes the histories below a folder whose last turn is older than 30 days.
    pub fn sweep(stores: impl AsRef<Path>) {
        let stores = stores.as_ref();
        remove_rest(stores);
        for stored in StoredHistory::all(stores).unwrap_or_default() {
            if stored.used.elapsed().is_ok_and(|age| age > UNUSED) {
                // Ignore an error: the next sweep deletes the rest.
                let _ = stored.remove();
            }
        }
    }

    /// Records the present state, also of the paths that a turn's snapshots cover.
    fn now(&self, turn: &StoredTurn) -> Result<FolderSnapshot, TreeError> {
        let mut also = BTreeSet::new();
        let states =
            [Some(&turn.before), turn.after.as_ref(), turn.undone.as_ref().map(|undone| &undone.state)];
        for state in states.into_iter().flatten() {
            also.extend(self.repo.entries(state.tree.as_str())?.into_keys());
        }
        self.folder.record(&self.repo, also, &self.excluded, &self.limits)
    }

    /// Returns the differences between two snapshots, and the paths that one of them leaves out.
    fn changes(
        &self,
        before: &FolderSnapshot,
        after: &FolderSnapshot,
    ) -> Result<(Vec<Difference>, Vec<PathBuf>), TreeError> {
        let mut left_out = Vec::new();
        let changes = self.repo.differences(before.tree.as_str(), after.tree.as_str())?;
        let changes = without(without(changes, before, &mut left_out), after, &mut left_out);
        Ok((changes, left_out))
    }

    /// Returns a snapshot in which some paths are as in `source`.
    fn with_paths<'p>(
        &self,
        snapshot: FolderSnapshot,
        source: &FolderSnapshot,
        paths: impl Iterator<Item = &'p Vec<u8>>,
    ) -> Result<FolderSnapshot, TreeError> {
        let mut entries = self.repo.entries(snapshot.tree.as_str())?;
        let from = self.repo.entries(source.tree.as_str())?;
        let mut snapshot = snapshot;
        for path in paths {
            snapshot.copy_mode(source, path);
            match from.get(path) {
                Some(entry) => {
                    // A tree has no file and folder of one name.
                    for above in beginnings(path) {
                        entries.remove(above);
                    }
                    let below = [path.as_slice(), b"/"].concat();
                    let inside = entries.range(below.clone()..).map(|(path, _)| path.clone());
                    for inside in inside.take_while(|path| path.starts_with(&below)).collect::<Vec<_>>() {
                        entries.remove(&inside);
                    }
                    entries.insert(path.clone(), entry.clone())
                }
                None => entries.remove(path),
            };
        }
        snapshot.tree = self.repo.write_tree(&entries)?;
        Ok(snapshot)
    }

    fn make_repository(&self) -> Result<(), TreeError> {
        // An interrupted creation left parts of it.
        for part in [self.repo.path(), &self.store.join("scratch")] {
            match fs::remove_dir_all(part) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(TreeError::from_io(part, "cannot be removed", error));
                }
                _ => {}
            }
        }
        Repo::make(self.repo.git(), &self.store, "sha1", None).map(drop)
    }

    fn lock(&self) -> Result<FileLock, TreeError> {
        let path = self.store.join(LOCK);
        let locked = FileLock::lock(&path, PATIENCE);
        locked.map_err(|error| TreeError::from_io(&path, "cannot be locked", error))?.ok_or_else(|| {
            let message =
                format!("another process has used {path:?} for {} s: try again", PATIENCE.as_secs());
            TreeError::new(TreeErrorKind::InUse, message)
        })
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.store.join(TURNS).join(format!("{number:08}.json"))
    }

    /// Returns the numbers of the stored turns, in order.
    fn numbers(&self) -> Result<Vec<u64>, TreeError> {
        let folder = self.store.join(TURNS);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| TreeError::from_io(&folder, "cannot be read", error))?,
        };
        let number = |name: std::ffi::OsString| name.to_str()?.strip_suffix(".json")?.parse().ok();
        let mut numbers: Vec<u64> = entries.flatten().filter_map(|entry| number(entry.file_name())).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn stored(&self) -> Result<Vec<StoredTurn>, TreeError> {
        self.numbers()?.into_iter().map(|number| self.read(number)).collect()
    }

    fn read(&self, number: u64) -> Result<StoredTurn, TreeError> {
        let path = self.path_of(number);
        let bytes = nexus_files::read_bounded(&path, MAX_TURN_BYTES)
            .map_err(|error| TreeError::from_io(&path, "cannot be read", error))?;
        let Some(bytes) = bytes else {
            let message = format!("turn {number} of {:?} has no snapshot", self.folder.path());
            return Err(TreeError::new(TreeErrorKind::NotFound, message));
        };
        serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("{path:?} was changed by another program: {error}; remove it");
            TreeError::new(TreeErrorKind::Malformed, message)
        })
    }

    fn write(&self, turn: &StoredTurn) -> Result<(), TreeError> {
        let path = self.path_of(turn.number);
        let bytes = serde_json::to_vec(turn)
            .map_err(|error| TreeError::new(TreeErrorKind::Malformed, error.to_string()))?;
        nexus_files::replace(&path, &bytes)
            .map_err(|error| TreeError::from_io(&path, "cannot be written", error))
    }

    /// Deletes the oldest turns if there are too many of them, or if they need too much space.
    fn prune(&self) -> Result<(), TreeError> {
        let numbers = self.numbers()?;
        let surplus = match numbers.len() {
            count if count >= RETAINED + SURPLUS => count - RETAINED,
            count if count > 1 && self.kib()? > MAX_KIB => count / 2,
            _ => return Ok(()),
        };
        for number in &numbers[..surplus] {
            let path = self.path_of(*number);
            fs::remove_file(&path).map_err(|error| TreeError::from_io(&path, "cannot be removed", error))?;
        }
        self.collect_garbage()
    }

    /// Returns the size of the objects, in KiB.
    fn kib(&self) -> Result<u64, TreeError> {
        let counted = self.repo.command("count-objects").arg("-v").run(b"")?;
        let counted = String::from_utf8_lossy(&counted);
        let sizes = counted.lines().filter_map(|line| line.split_once(": "));
        let sizes = sizes.filter(|(name, _)| matches!(*name, "size" | "size-pack"));
        Ok(sizes.filter_map(|(_, size)| size.parse::<u64>().ok()).sum())
    }

    /// Removes the objects that no stored turn needs.
    fn collect_garbage(&self) -> Result<(), TreeError> {
        // Delete all refs and create those of the stored turns again, so that nothing depends on an interrupted call.
        let mut refs = String::new();
        for line in
            String::from_utf8_lossy(&self.repo.command("for-each-ref").arg("--format=%(refname)").run(b"")?)
                .lines()
        {
            refs.push_str(&format!("delete {line}\n"));
        }
        self.repo.command("update-ref").arg("--stdin").run(refs.as_bytes())?;
        let mut refs = String::new();
        for turn in self.stored()? {
            let states = [Some(turn.before), turn.after, turn.undone.map(|undone| undone.state)];
            for (at, state) in states.into_iter().enumerate() {
                if let Some(state) = state {
                    refs.push_str(&format!("create refs/turns/{}/{at} {}\n", turn.number, state.tree));
                }
            }
        }
        self.repo.command("update-ref").arg("--stdin").run(refs.as_bytes())?;
        // Without deltas this takes a moment, and the history is short.
        self.repo.command("repack").args(["-a", "-d", "-q", "--window=0", "--depth=0"]).run(b"")?;
        self.repo.command("prune").arg("--expire=now").run(b"").map(drop)
    }

    fn no_turn(&self) -> TreeError {
        let message = format!("no turn has a snapshot of {:?}", self.folder.path());
        TreeError::new(TreeErrorKind::NotFound, message)
    }
}

/// Removes the changes of paths that a snapshot leaves out.
fn without(changes: Vec<Difference>, by: &FolderSnapshot, left_out: &mut Vec<PathBuf>) -> Vec<Difference> {
    let (out, covered): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| by.leaves_out(&change.path));
    left_out.extend(paths(out.iter().map(|change| &change.path)));
    covered
}

/// Fails if a file is neither as the turn left it nor as it should become.
fn unchanged_since(
    changes: &[Difference],
    present: &GitEntries,
    when: &str,
    turn: u64,
) -> Result<(), TreeError> {
    let is_changed = |change: &&Difference| {
        let present = present.get(&change.path);
        present != change.new.as_ref() && present != change.old.as_ref()
    };
    let mut changed = changes.iter().filter(is_changed).map(|change| &change.path).peekable();
    if changed.peek().is_none() {
        return Ok(());
    }
    let message = format!("these files were changed {when} {turn}: {}", names(changed));
    Err(TreeError::new(TreeErrorKind::Changed, message))
}

fn paths<'p>(paths: impl IntoIterator<Item = &'p Vec<u8>>) -> Vec<PathBuf> {
    paths.into_iter().map(|path| to_path(path)).collect()
}

/// Names the first paths for a message.
fn names<'p>(paths: impl Iterator<Item = &'p Vec<u8>>) -> String {
    const SHOWN: usize = 10;
    let mut names: Vec<String> = paths.map(|path| format!("{:?}", to_path(path))).collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}
