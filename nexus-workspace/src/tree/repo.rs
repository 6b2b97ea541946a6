//! The repository of a tree, in its workspace.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read as _, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{ChildStdin, ChildStdout},
};

use super::{
    CommitId, Git, Refusal, TreeError, TreeErrorKind, TreeId,
    git::GitCommand,
    process::{Running, reason},
    refusal::RefusedPath,
    text::{self, unexpected},
};
use crate::{WorkspaceId, file};

/// A commit within the repository of a project: a submodule.
pub(super) const GITLINK: u32 = 0o160_000;
/// A symbolic link.
pub(super) const LINK: u32 = 0o120_000;
/// A file that may be executed, and one that may not.
pub(super) const EXECUTABLE: u32 = 0o100_755;
pub(super) const FILE: u32 = 0o100_644;

/// A path and what is there.
pub(super) type Entries = BTreeMap<Vec<u8>, Entry>;

/// What is at a path of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: u32,
    pub(super) id: String,
}

/// What differs at a path between two trees.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub(super) path: Vec<u8>,
    pub(super) old: Option<Entry>,
    pub(super) new: Option<Entry>,
}

/// The repository of a tree.
#[derive(Clone, Debug)]
pub(super) struct Repo {
    git: Git,
    /// The repository itself.
    git_dir: PathBuf,
    /// A folder for what lives as long as one operation.
    scratch: PathBuf,
}

impl Repo {
    /// That in the folder of a tree.
    pub(super) fn at(git: &Git, folder: &Path) -> Self {
        Self { git: git.clone(), git_dir: folder.join("repository"), scratch: folder.join("scratch") }
    }

    /// Makes it, with the objects of another repository at hand.
    pub(super) fn make(
        git: &Git,
        folder: &Path,
        object_format: &str,
        objects: Option<&Path>,
    ) -> Result<Self, TreeError> {
        let repo = Self::at(git, folder);
        for folder in [&repo.git_dir, &repo.scratch] {
            file::folder_builder()
                .create(folder)
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

    /// Writes a file of the repository that no command of git's writes.
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

    /// A command with more settings.
    pub(super) fn command_with(&self, name: &str, settings: &[String]) -> GitCommand<'_> {
        self.git.command_with(&self.git_dir, name, settings)
    }

    /// A folder that is gone when it is dropped.
    pub(super) fn scratch(&self) -> Result<Scratch, TreeError> {
        let path = self.scratch.join(WorkspaceId::random().as_str());
        file::folder_builder()
            .recursive(true)
            .create(&path)
            .map_err(|error| TreeError::from_io(&path, "cannot be made", error))?;
        Ok(Scratch(path))
    }

    /// All files and links of a commit or tree. Submodules are entries of their own.
    pub(super) fn entries(&self, tree: &str) -> Result<Entries, TreeError> {
        let output = self.command("ls-tree").args(["-r", "-z", "--full-tree", tree]).run(b"")?;
        let mut entries = Entries::new();
        for record in records(&output) {
            let (meta, path) =
                split_once(record, b'\t').ok_or_else(|| unexpected("an odd list of a tree"))?;
            let meta = std::str::from_utf8(meta).map_err(|_| unexpected("an odd list of a tree"))?;
            let mut words = meta.split(' ');
            let (Some(mode), Some(_), Some(id)) = (words.next(), words.next(), words.next()) else {
                return Err(unexpected("an odd list of a tree"));
            };
            entries.insert(path.to_vec(), Entry { mode: octal(mode)?, id: id.to_owned() });
        }
        Ok(entries)
    }

    /// What differs between two commits or trees. It goes by ids alone, so no attribute hides anything.
    pub(super) fn differences(&self, from: &str, to: &str) -> Result<Vec<Difference>, TreeError> {
        let options =
            ["-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none", from, to];
        let output = self.command("diff-tree").args(options).run(b"")?;
        let mut records = records(&output);
        let mut differences = Vec::new();
        while let Some(meta) = records.next() {
            let odd = || unexpected("an odd list of differences");
            let path = records.next().ok_or_else(odd)?.to_vec();
            let meta = std::str::from_utf8(meta).map_err(|_| odd())?;
            let words: Vec<&str> = meta.trim_start_matches(':').split(' ').collect();
            let [old_mode, new_mode, old, new, _] = words[..] else { return Err(odd()) };
            let entry = |mode, id: &str| -> Result<Option<Entry>, TreeError> {
                let mode = octal(mode)?;
                Ok((mode != 0).then(|| Entry { mode, id: id.to_owned() }))
            };
            differences.push(Difference { path, old: entry(old_mode, old)?, new: entry(new_mode, new)? });
        }
        Ok(differences)
    }

    /// Makes a tree of entries. Names that git refuses are refused here: `.git` in all of its forms, and
    /// links that it takes for `.gitmodules`.
    pub(super) fn write_tree(&self, entries: &Entries) -> Result<TreeId, TreeError> {
        let scratch = self.scratch()?;
        let index = scratch.join("index");
        let mut input = Vec::new();
        for (path, entry) in entries {
            input.extend_from_slice(format!("{:o} {}\t", entry.mode, entry.id).as_bytes());
            input.extend_from_slice(path);
            input.push(0);
        }
        self.command("update-index").args(["-z", "--index-info"]).index(&index).run(&input)?;
        let tree: TreeId = text::id(&self.command("write-tree").index(&index).line(b"")?)?;
        // What git does not take it leaves out, and reports success.
        let taken = self.entries(tree.as_str())?;
        let left_out = entries.keys().filter(|path| !taken.contains_key(*path));
        let refused: Vec<_> = left_out.map(|path| RefusedPath::new(path, Refusal::NotForGit)).collect();
        if refused.is_empty() {
            return Ok(tree);
        }
        Err(TreeError::with_paths(TreeErrorKind::Refused, "git makes no such tree", refused))
    }

    /// The tree of a commit.
    pub(super) fn tree_of(&self, commit: &CommitId) -> Result<TreeId, TreeError> {
        let name = format!("{commit}^{{tree}}");
        let (ended, output) = self.command("rev-parse").args(["--verify", "-q", &name]).outcome(b"")?;
        match ended.refusal()? {
            None => text::id(&text::line(output)?),
            Some(_) => Err(self.no_object("commit", commit.as_str())),
        }
    }

    pub(super) fn no_object(&self, kind: &str, id: &str) -> TreeError {
        let message = format!("{:?} has no {kind} {id}", self.git_dir);
        TreeError::new(TreeErrorKind::NotFound, message)
    }

    /// The kind of each object: "commit", "tree", "blob", or `None` for one that is missing.
    pub(super) fn kinds(&self, ids: &[&str]) -> Result<Vec<Option<String>>, TreeError> {
        let mut input = ids.join("\n");
        input.push('\n');
        let output = self.command("cat-file").arg("--batch-check=%(objecttype)").run(input.as_bytes())?;
        let text = String::from_utf8_lossy(&output);
        Ok(text
            .lines()
            .map(|line| Some(line.to_owned()).filter(|line| !line.ends_with(" missing")))
            .collect())
    }

    /// Starts reading objects.
    pub(super) fn reader(&self) -> Result<ObjectReader, TreeError> {
        let mut running = self.command("cat-file").arg("--batch").start()?;
        let (Some(input), Some(output)) = (running.input(), running.output()) else {
            return Err(unexpected("nothing: it has no pipes"));
        };
        Ok(ObjectReader { running: Some(running), input, output: BufReader::new(output) })
    }

    /// The repository's own ref for one thing.
    pub(super) fn read_ref(&self, name: &str) -> Result<Option<CommitId>, TreeError> {
        super::project::read_ref(self.command("rev-parse"), name)
    }
}

/// Reads objects, one after the other.
#[derive(Debug)]
pub(super) struct ObjectReader {
    /// Gone once it has ended.
    running: Option<Running>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl ObjectReader {
    /// The content of a blob.
    pub(super) fn blob(&mut self, id: &str, max_bytes: u64) -> Result<Vec<u8>, TreeError> {
        let failed = |error| TreeError::from_io(Path::new("git cat-file"), "cannot be talked to", error);
        let asked = self.input.write_all(format!("{id}\n").as_bytes());
        asked.map_err(|error| reason(self.running.take(), failed(error)))?;
        let mut header = String::new();
        self.output.read_line(&mut header).map_err(failed)?;
        let words: Vec<&str> = header.split_whitespace().collect();
        let size: u64 = match words[..] {
            [_, "blob", size] => size.parse().map_err(|_| unexpected("an odd size"))?,
            [_, "missing"] => {
                let message = format!(
                    "the object {id} is missing: the project is a partial clone, or was cleaned up; fetch it"
                );
                return Err(TreeError::new(TreeErrorKind::MissingObject, message));
            }
            [] => return Err(reason(self.running.take(), unexpected("no object"))),
            _ => return Err(unexpected("no object")),
        };
        if size > max_bytes {
            let message = format!("the object {id} has {size} bytes, more than {max_bytes}");
            return Err(TreeError::new(TreeErrorKind::TooLarge, message));
        }
        let mut bytes = Vec::new();
        self.output.by_ref().take(size + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.pop() != Some(b'\n') || bytes.len() as u64 != size {
            return Err(reason(self.running.take(), unexpected("half an object")));
        }
        Ok(bytes)
    }

    /// Ends it.
    pub(super) fn close(self) -> Result<(), TreeError> {
        drop((self.input, self.output));
        self.running.map_or(Ok(()), |running| running.finish()?.success())
    }
}

/// A folder that is gone when it is dropped.
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
        // What cannot be removed now is removed when it is stale.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What ends with a NUL each.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

/// Paths as git reads them from its input.
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

/// The folders above a path, the topmost first.
pub(super) fn beginnings(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = (0..path.len()).filter(|at| path[*at] == b'/');
    ends.map(|end| &path[..end])
}

pub(super) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

fn octal(text: &str) -> Result<u32, TreeError> {
    u32::from_str_radix(text, 8).map_err(|_| unexpected("an odd mode"))
}

/// A path as `objects/info/alternates` has it. Source: gitrepository-layout(5), and `parse_alt_odb_entry` in git.
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
