//! The repository of a tree, in its workspace.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    CommitId, Git, Refusal, TreeError, TreeErrorKind, TreeId,
    git::GitCommand,
    objects::{IdleReader, ObjectReader},
    refs,
    refusal::RefusedPath,
    text,
};

/// Mode of a submodule: a commit as an entry of a tree.
pub(super) const GITLINK: u32 = 0o160_000;
/// Mode of a symbolic link.
pub(super) const LINK: u32 = 0o120_000;
/// Mode of an executable file, and mode of an ordinary file.
pub(super) const EXECUTABLE: u32 = 0o100_755;
pub(super) const FILE: u32 = 0o100_644;

/// Maximum size of a commit, in bytes.
const MAX_COMMIT: u64 = 1 << 30;

/// Entries of a tree, by path.
pub(super) type GitEntries = BTreeMap<Vec<u8>, GitEntry>;

/// Entry at a path of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GitEntry {
    pub(super) mode: u32,
    pub(super) id: String,
}

/// Difference at a path between two trees.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub(super) path: Vec<u8>,
    pub(super) old: Option<GitEntry>,
    pub(super) new: Option<GitEntry>,
}

/// The repository of a tree.
#[derive(Clone, Debug)]
pub(super) struct Repo {
    git: Git,
    /// Path of the repository.
    git_dir: PathBuf,
    /// Folder for temporary folders of single operations.
    scratch: PathBuf,
    idle: Arc<IdleReader>,
}

impl Repo {
    /// Opens the repository in the folder of a tree.
    pub(super) fn at(git: &Git, folder: &Path) -> Self {
        let (git_dir, scratch) = (folder.join("repository"), folder.join("scratch"));
        Self { git: git.clone(), git_dir, scratch, idle: Arc::default() }
    }

    /// Sets the git program, time limit and cancel token.
    pub(super) fn with_git(mut self, git: &Git) -> Self {
        // The idle process belongs to the earlier program.
        if !git.is_program_of(&self.git) {
            self.idle = Arc::default();
        }
        self.git = git.clone();
        self
    }

    /// Creates a repository that uses the objects of another one, if `objects` names it.
    pub(super) fn make(
        git: &Git,
        folder: &Path,
        object_format: &str,
        objects: Option<&Path>,
    ) -> Result<Self, TreeError> {
        let repo = Self::at(git, folder);
        for folder in [&repo.git_dir, &repo.scratch] {
            nexus_files::create_private_folder(folder)
                .map_err(|error| TreeError::from_io(folder, "cannot be made", error))?;
        }
        let format = format!("--object-format={object_format}");
        repo.command("init").args(["--bare", "--quiet", "--template=", &format]).run(b"")?;
        if let Some(objects) = objects {
            let mut line = quoted(objects.as_os_str().as_bytes());
            line.push(b'\n');
            repo.write("objects/info/alternates", &line)?;
        }
        Ok(repo)
    }

    pub(super) fn git(&self) -> &Git {
        &self.git
    }

    pub(super) fn path(&self) -> &Path {
        &self.git_dir
    }

    /// Writes a file of the repository for which git has no command.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), TreeError> {
        let path = self.git_dir.join(name);
        let folder = path.parent().unwrap_or(&self.git_dir);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, bytes))
            .map_err(|error| TreeError::from_io(&path, "cannot be written", error))
    }

    pub(super) fn command(&self, name: &str) -> GitCommand<'_> {
        self.git.command(&self.git_dir, name)
    }

    /// Returns a command with additional settings.
    pub(super) fn command_with(&self, name: &str, settings: &[String]) -> GitCommand<'_> {
        self.git.command_with(&self.git_dir, name, settings)
    }

    /// Creates a folder that is removed when it is dropped.
    pub(super) fn scratch(&self) -> Result<Scratch, TreeError> {
        let path = self.scratch.join(nexus_files::random_name());
        nexus_files::make_private_folder(&path)
            .map_err(|error| TreeError::from_io(&path, "cannot be made", error))?;
        Ok(Scratch(path))
    }

    /// Writes a tree of these entries. Fails for names that git rejects: `.git` in all of its forms, and links that git
    /// takes for `.gitmodules`.
    pub(super) fn write_tree(&self, entries: &GitEntries) -> Result<TreeId, TreeError> {
        let scratch = self.scratch()?;
        let index = scratch.join("index");
        let mut input = Vec::new();
        // `git mktree` writes only one level, so use a temporary index.
        for (path, entry) in entries {
            input.extend_from_slice(format!("{:o} {}\t", entry.mode, entry.id).as_bytes());
            input.extend_from_slice(path);
            input.push(0);
        }
        self.command("update-index").args(["-z", "--index-info"]).index(&index).run(&input)?;
        let tree: TreeId = text::id(&self.command("write-tree").index(&index).line(b"")?)?;
        // Git leaves out paths that it rejects, and reports success. So compare the result.
        let taken = self.entries(tree.as_str())?;
        let left_out = entries.keys().filter(|path| !taken.contains_key(*path));
        let refused: Vec<_> = left_out.map(|path| RefusedPath::new(path, Refusal::NotForGit)).collect();
        if refused.is_empty() {
            return Ok(tree);
        }
        Err(TreeError::with_paths(TreeErrorKind::Refused, "git does not create such a tree", refused))
    }

    /// Returns the tree of a commit.
    pub(super) fn tree_of(&self, commit: &CommitId) -> Result<TreeId, TreeError> {
        match self.reader()?.object(commit.as_str(), MAX_COMMIT)? {
            Some(object) if object.kind == "commit" => text::tree_in(&object.bytes),
            _ => Err(self.no_object("commit", commit.as_str())),
        }
    }

    pub(super) fn no_object(&self, kind: &str, id: &str) -> TreeError {
        let message = format!("{:?} has no {kind} {id}", self.git_dir);
        TreeError::new(TreeErrorKind::NotFound, message)
    }

    /// Returns the indexes of the missing objects.
    pub(super) fn missing(&self, ids: &[&str]) -> Result<Vec<usize>, TreeError> {
        let mut input = ids.join("\n");
        input.push('\n');
        let output = self.command("cat-file").arg("--batch-check=%(objecttype)").run(input.as_bytes())?;
        let lines = output.split(|byte| *byte == b'\n').enumerate();
        Ok(lines.filter(|(_, line)| line.ends_with(b" missing")).map(|(at, _)| at).collect())
    }

    /// Returns the size of each object, in bytes. All of them must exist.
    pub(super) fn sizes(&self, ids: &[&str]) -> Result<Vec<u64>, TreeError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut input = ids.join("\n");
        input.push('\n');
        let output = self.command("cat-file").arg("--batch-check=%(objectsize)").run(input.as_bytes())?;
        let sizes: Vec<u64> =
            String::from_utf8_lossy(&output).lines().filter_map(|line| line.parse().ok()).collect();
        if sizes.len() == ids.len() { Ok(sizes) } else { Err(text::unexpected("no size of an object")) }
    }

    /// Starts reading objects.
    pub(super) fn reader(&self) -> Result<ObjectReader, TreeError> {
        self.idle.reader(&self.git, &self.git_dir)
    }

    /// Returns the target of a ref of the tree's own repository.
    pub(super) fn read_ref(&self, name: &str) -> Result<Option<CommitId>, TreeError> {
        match refs::loose(&self.git_dir, name) {
            Some(commit) => Ok(Some(commit)),
            None => refs::read(self.command("rev-parse"), name),
        }
    }
}

/// A temporary folder that is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl std::ops::Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If the removal fails, the folder is removed when it is stale.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Splits records that end with a NUL.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

/// Joins paths in the form in which git reads them from its input.
pub(super) fn joined<'a>(paths: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut input = Vec::new();
    for path in paths {
        input.extend_from_slice(path);
        input.push(0);
    }
    input
}

pub(super) fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// Returns the folders above a path, topmost first.
pub(super) fn beginnings(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = (0..path.len()).filter(|at| path[*at] == b'/');
    ends.map(|end| &path[..end])
}

pub(super) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Quotes a path for `objects/info/alternates`. Source: gitrepository-layout(5), and `parse_alt_odb_entry` in git.
fn quoted(path: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => quoted.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => quoted.push(*byte),
            _ => quoted.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    quoted.push(b'"');
    quoted
}
