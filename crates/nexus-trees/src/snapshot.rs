//! Records a folder as a git tree.

use std::{collections::BTreeSet, fs::File, os::fd::OwnedFd, os::unix::fs::PermissionsExt as _, path::Path};

use super::{
    Refusal, Tree, TreeError, TreeErrorKind, TreeId, TreeLimits, TreeOptions, TreeReading,
    blobs::BlobWriter,
    handle,
    ignore::{self, IgnoreRules},
    refusal::{RefusedPath, to_path},
    repo::{EXECUTABLE, FILE, GITLINK, GitEntries, GitEntry, LINK, Repo},
    scan::{self, ScannedKind, ScannedPath},
};

impl Tree {
    /// Records a folder as a tree: every file and link that is in the base or that the base's rules do not
    /// ignore, with exactly its present bytes. A `.gitignore` or `.gitattributes` in the folder has no
    /// influence. Changes nothing in the folder. Reads every file each time, so that no time stamp hides a
    /// change.
    ///
    /// Ignored folders may contain anything. Submodules are recorded as in the base.
    ///
    /// # Errors
    ///
    /// [`Refused`](TreeErrorKind::Refused) for a `.git`, for pipes, sockets and devices, and for files in a
    /// submodule; [`Changed`](TreeErrorKind::Changed) if a file changes meanwhile;
    /// [`TooLarge`](TreeErrorKind::TooLarge); [`PermissionDenied`](TreeErrorKind::PermissionDenied) for an
    /// unreadable file; errors of git.
    pub fn snapshot(&self, folder: impl AsRef<Path>) -> Result<TreeId, TreeError> {
        let base = self.repo.entries(self.base().commit.as_str())?;
        let root = open(folder.as_ref())?;
        let taken = Taken::find(&self.repo, &self.rules(), &base, &root, &self.limits)?;
        if !taken.refused.is_empty() {
            return Err(TreeError::with_paths(
                TreeErrorKind::Refused,
                format!("{:?} cannot be committed as a tree", folder.as_ref()),
                taken.refused,
            ));
        }
        let mut entries = content(&self.repo, &root, &taken.found, &self.limits)?;
        entries.extend(base.into_iter().filter(|(_, entry)| entry.mode == GITLINK));
        self.repo.write_tree(&entries)
    }
}

/// Records a plain folder by its own ignore rules, which it writes to `rules`. Leaves out files that a tree rejects.
pub(super) fn of_plain_folder(
    repo: &Repo,
    rules: &IgnoreRules,
    folder: &Path,
    options: &TreeOptions,
) -> Result<TreeId, TreeError> {
    let limits = options.limits();
    let root = open(folder)?;
    for found in scan::scan(&root, limits)? {
        if found.kind == ScannedKind::File && ignore::is_rules(&found.path) {
            let mut file = open_file(&root, &found.path)?;
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut file, &mut bytes)
                .map_err(|error| TreeError::from_io(&to_path(&found.path), "cannot be read", error))?;
            rules.add(&found.path, &bytes)?;
        }
    }
    let taken = Taken::find(repo, rules, &GitEntries::new(), &root, limits)?;
    options.announce(folder, &sizes(&taken.found, limits)?)?;
    repo.write_tree(&content(repo, &root, &taken.found, limits)?)
}

/// Files of a folder that are recorded.
struct Taken {
    found: Vec<ScannedPath>,
    refused: Vec<RefusedPath>,
}

impl Taken {
    fn find(
        repo: &Repo,
        rules: &IgnoreRules,
        base: &GitEntries,
        root: &OwnedFd,
        limits: &TreeLimits,
    ) -> Result<Self, TreeError> {
        let mut found = scan::scan(root, limits)?;
        let asked: BTreeSet<Vec<u8>> =
            found.iter().filter(|found| !base.contains_key(&found.path)).map(asked_as).collect();
        let ignored = rules.ignored(repo, &asked)?;
        found.retain(|found| base.contains_key(&found.path) || !ignored.contains(&asked_as(found)));
        let mut refused = Vec::new();
        found.retain(|found| {
            let refusal = match found.kind {
                ScannedKind::DotGit if submodule_of(base, &found.path).is_some() => return false,
                ScannedKind::DotGit => Refusal::DotGit,
                ScannedKind::Special => Refusal::Special,
                _ if submodule_of(base, &found.path).is_some() => Refusal::Submodule,
                _ => return true,
            };
            refused.push(RefusedPath::new(&found.path, refusal));
            false
        });
        Ok(Self { found, refused })
    }
}

/// Returns the path for the query to git. Git gives no answer for a `.git`, so the query names a neighbour of it.
pub(super) fn asked_as(found: &ScannedPath) -> Vec<u8> {
    if found.kind != ScannedKind::DotGit {
        return found.path.clone();
    }
    let folder = found.path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    [&found.path[..folder], b"neighbour-of-a-repository"].concat()
}

/// Returns the submodule that contains a path or is the path.
fn submodule_of<'a>(base: &GitEntries, path: &'a [u8]) -> Option<&'a [u8]> {
    let ends = (1..=path.len()).filter(|end| path.get(*end).is_none_or(|byte| *byte == b'/'));
    ends.map(|end| &path[..end]).find(|path| base.get(*path).is_some_and(|entry| entry.mode == GITLINK))
}

/// Returns the sizes of the files that will be recorded.
fn sizes(found: &[ScannedPath], limits: &TreeLimits) -> Result<TreeReading, TreeError> {
    let mut reading = TreeReading::default();
    for ScannedPath { path, bytes, .. } in found.iter().filter(|found| found.kind == ScannedKind::File) {
        reading.add(path, *bytes, limits)?;
    }
    Ok(reading)
}

/// Writes the content of files and links into the repository. Checks their sizes first.
fn content(
    repo: &Repo,
    root: &OwnedFd,
    found: &[ScannedPath],
    limits: &TreeLimits,
) -> Result<GitEntries, TreeError> {
    sizes(found, limits)?;
    let mut writer = BlobWriter::start(repo)?;
    let mut modes = Vec::with_capacity(found.len());
    let mut reading = TreeReading::default();
    for ScannedPath { path, kind, .. } in found {
        let mode = if *kind == ScannedKind::Link {
            let target = handle::open_parent(root, path)
                .and_then(|(folder, name)| handle::read_link(&folder, name))
                .map_err(|error| TreeError::from_io(&to_path(path), "cannot be read", error))?;
            writer.bytes(&target)?;
            LINK
        } else {
            let file = open_file(root, path)?;
            let about = file
                .metadata()
                .map_err(|error| TreeError::from_io(&to_path(path), "cannot be read", error))?;
            // Check the size again: the file may have grown since it was listed.
            reading.add(path, about.len(), limits)?;
            writer.file(path, &file)?;
            if about.permissions().mode() & 0o100 == 0 { FILE } else { EXECUTABLE }
        };
        modes.push(mode);
    }
    let ids = writer.finish()?;
    let entries = found.iter().zip(modes.into_iter().zip(ids));
    Ok(entries.map(|(found, (mode, id))| (found.path.clone(), GitEntry { mode, id })).collect())
}

fn open_file(root: &OwnedFd, path: &[u8]) -> Result<File, TreeError> {
    handle::open_parent(root, path)
        .and_then(|(folder, name)| handle::open_file_at(&folder, name))
        .map_err(|error| TreeError::from_io(&to_path(path), "cannot be read", error))
}

fn open(folder: &Path) -> Result<OwnedFd, TreeError> {
    handle::open_folder(folder).map_err(|error| TreeError::from_io(folder, "cannot be opened", error))
}
