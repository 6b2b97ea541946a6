//! A person's uncommitted files, found and recorded through a separate index. The person's index, repository and files are
//! only read.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    Git, TreeError, TreeId, TreeLimits, TreeReading,
    check::with_filter,
    handle,
    project::Repository,
    repo::{self, GITLINK, GitEntry, Repo, Scratch},
    text,
};

/// The checkout of a person, with a separate index that is a copy of the person's if possible.
#[derive(Debug)]
pub(super) struct Checkout<'a> {
    repo: &'a Repo,
    folder: PathBuf,
    settings: Vec<String>,
    /// Further files of ignore rules, in addition to the `.gitignore` files of the checkout.
    excludes: Vec<PathBuf>,
    scratch: Scratch,
    /// True if the index is a copy of the person's. Otherwise it has the committed files, without time stamps.
    is_copy: bool,
}

/// Uncommitted files.
#[derive(Debug, Default)]
pub(super) struct Uncommitted {
    /// Paths that can be recorded.
    pub(super) paths: BTreeSet<Vec<u8>>,
    /// Paths that cannot be recorded: files under a filter, and repositories in the checkout.
    pub(super) left_out: BTreeSet<Vec<u8>>,
}

impl<'a> Checkout<'a> {
    /// Opens the checkout. `head` is a commit or tree.
    pub(super) fn open(
        repo: &'a Repo,
        person: &Repository,
        folder: &Path,
        head: &str,
        excludes: &[PathBuf],
    ) -> Result<Self, TreeError> {
        let git: &Git = repo.git();
        let mut excludes = excludes.to_vec();
        excludes.push(person.common_dir().join("info/exclude"));
        excludes.retain(|file| file.is_file());
        let scratch = repo.scratch()?;
        let settings = person.conversions(git)?;
        let folder = folder.to_owned();
        let mut checkout = Self { repo, folder, settings, excludes, scratch, is_copy: true };
        match copy_index(&person.git_dir().join("index"), &checkout.index()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => checkout.is_copy = false,
            Err(error) => {
                return Err(TreeError::from_io(&person.git_dir().join("index"), "cannot be read", error));
            }
        }
        // The copied index needs another file, as a split index does, or git cannot read it.
        if checkout.is_copy {
            let (ended, _) = checkout.command("ls-files").arg("-z").outcome(b"")?;
            checkout.is_copy = ended.refusal()?.is_none();
        }
        if !checkout.is_copy {
            match fs::remove_file(checkout.index()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(TreeError::from_io(&checkout.index(), "cannot be removed", error));
                }
                _ => {}
            }
            checkout.command("read-tree").arg(head).run(b"")?;
        }
        Ok(checkout)
    }

    pub(super) fn index(&self) -> PathBuf {
        self.scratch.join("index")
    }

    pub(super) fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// Returns a command on the checkout that uses the tree's repository and the separate index.
    pub(super) fn command(&self, name: &str) -> super::git::GitCommand<'_> {
        let mut command = self.repo.command_with(name, &self.settings);
        command = command.index(&self.index());
        command.work_tree(&self.folder)
    }

    /// Refreshes the index from the files. Differences are not a failure.
    pub(super) fn refresh(&self, option: &str) -> Result<(), TreeError> {
        let (ended, _) =
            self.command("update-index").args(["-q", "--ignore-submodules", option]).outcome(b"")?;
        ended.refusal().map(drop)
    }

    /// Removes submodules from the index, so that git does not check them.
    fn forget_submodules(&self) -> Result<Vec<Vec<u8>>, TreeError> {
        let staged = self.command("ls-files").args(["-z", "--stage"]).run(b"")?;
        let prefix = format!("{GITLINK:o} ");
        let submodules: Vec<Vec<u8>> = repo::records(&staged)
            .filter(|record| record.starts_with(prefix.as_bytes()))
            .filter_map(|record| repo::split_once(record, b'\t'))
            .map(|(_, path)| path.to_vec())
            .collect();
        if !submodules.is_empty() {
            let input = repo::joined(submodules.iter().map(Vec::as_slice));
            self.command("update-index").args(["-z", "--force-remove", "--stdin"]).run(&input)?;
        }
        Ok(submodules)
    }

    /// Returns the uncommitted files.
    pub(super) fn uncommitted(&self, head: &str) -> Result<Uncommitted, TreeError> {
        let submodules = self.forget_submodules()?;
        // Read the content of files whose time stamps are too new to be trusted.
        self.refresh("--really-refresh")?;
        let head_entries = self.repo.entries(head)?;
        let mut paths = BTreeSet::new();
        let staged = self.command("diff-index").args(["-z", "--name-only", "--cached", "--no-renames", head]);
        paths.extend(repo::records(&staged.run(b"")?).map(<[u8]>::to_vec));
        let changed = self.command("diff-files").args(["-z", "--name-only", "--no-renames"]);
        paths.extend(repo::records(&changed.run(b"")?).map(<[u8]>::to_vec));
        let mut others =
            self.command("ls-files").args(["-z", "--others", "--exclude-per-directory=.gitignore"]);
        for file in &self.excludes {
            others = others.path_option("--exclude-from=", file);
        }
        paths.extend(repo::records(&others.run(b"")?).map(<[u8]>::to_vec));
        let is_submodule = |path: &[u8]| {
            let path = path.strip_suffix(b"/").unwrap_or(path);
            submodules.iter().any(|submodule| submodule == path)
                || head_entries.get(path).is_some_and(|entry| entry.mode == GITLINK)
        };
        paths.retain(|path| !is_submodule(path));
        // A repository in the checkout has a trailing slash in this list.
        let mut left_out: BTreeSet<Vec<u8>> =
            paths.iter().filter(|path| path.ends_with(b"/")).cloned().collect();
        let attributes = self.command("check-attr").args(["-z", "--stdin", "filter"]);
        let input = repo::joined(paths.iter().filter(|path| !path.ends_with(b"/")).map(Vec::as_slice));
        left_out.extend(with_filter(&attributes.run(&input)?));
        paths.retain(|path| !left_out.contains(path));
        Ok(Uncommitted { paths, left_out })
    }

    /// Returns the sizes of the files that would be recorded.
    pub(super) fn sizes(
        &self,
        uncommitted: &Uncommitted,
        limits: &TreeLimits,
    ) -> Result<TreeReading, TreeError> {
        let root = handle::open_folder(&self.folder)
            .map_err(|error| TreeError::from_io(&self.folder, "cannot be opened", error))?;
        let mut reading = TreeReading::default();
        for path in &uncommitted.paths {
            let found =
                handle::open_parent(&root, path).and_then(|(parent, name)| handle::stat(&parent, name));
            // A missing file needs no space, and git reports an unreadable file.
            let Ok(found) = found else { continue };
            if handle::kind(&found) == rustix::fs::FileType::RegularFile {
                reading.add(path, u64::try_from(found.st_size).unwrap_or(0), limits)?;
            }
        }
        Ok(reading)
    }

    /// Records the committed and the uncommitted files as a tree. Line ends are converted as for a commit.
    pub(super) fn tree(&self, head: &str, uncommitted: &Uncommitted) -> Result<TreeId, TreeError> {
        let head_entries = self.repo.entries(head)?;
        // Files that are left out get their committed state, so that staged changes of them are dropped.
        let mut put_back = Vec::new();
        let left_out = uncommitted.left_out.iter().map(Vec::as_slice).filter(|path| !path.ends_with(b"/"));
        let submodules = head_entries.iter().filter(|(_, entry)| entry.mode == GITLINK);
        for path in left_out.chain(submodules.map(|(path, _)| path.as_slice())) {
            match head_entries.get(path) {
                Some(GitEntry { mode, id }) => put_back.extend(format!("{mode:o} {id}\t").into_bytes()),
                None => put_back.extend(format!("0 {}\t", "0".repeat(head.len())).into_bytes()),
            }
            put_back.extend_from_slice(path);
            put_back.push(0);
        }
        let input = repo::joined(uncommitted.paths.iter().map(Vec::as_slice));
        self.command("update-index").args(["-z", "--add", "--remove", "--replace", "--stdin"]).run(&input)?;
        self.command("update-index").args(["-z", "--index-info"]).run(&put_back)?;
        text::id(&self.command("write-tree").line(b"")?)
    }
}

/// Copies an index with its time. Git needs the time to find entries whose time stamps cannot be trusted, because their
/// files were written in the same moment. Source: racy-git in git's technical documentation.
pub(super) fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    let time = fs::metadata(from)?.modified()?;
    fs::copy(from, to)?;
    fs::File::options().write(true).open(to)?.set_modified(time)
}
