//! Makes a folder equal to a commit.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::{
    Tree, TreeError, TreeErrorKind, Treeish, handle,
    refusal::to_path,
    repo::{self, EXECUTABLE, GITLINK, GitEntries, LINK},
};

/// Name of the folder for everything that has to be removed. Its folders are never deep.
const TRASH: &[u8] = b".nexus-tree-trash";
const FOLDER_MODE: u32 = 0o755;

impl Tree {
    /// Writes the files of a commit or tree to a folder, which is created or empty. The folder gets no `.git`;
    /// submodules are empty folders, and files under a filter are the pointers that the project stores.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](TreeErrorKind::AlreadyExists) if the folder is not empty;
    /// [`NotFound`](TreeErrorKind::NotFound) if the commit does not exist;
    /// [`MissingObject`](TreeErrorKind::MissingObject) if the project is a partial clone without a needed
    /// object; [`Refused`](TreeErrorKind::Refused) for a commit that contains a `.git`;
    /// [`NoSpace`](TreeErrorKind::NoSpace) and similar ones.
    pub fn check_out<'a>(
        &self,
        commit: impl Into<Treeish<'a>>,
        folder: impl AsRef<Path>,
    ) -> Result<(), TreeError> {
        let folder = folder.as_ref();
        fs::create_dir_all(folder).map_err(|error| TreeError::from_io(folder, "cannot be made", error))?;
        let mut entries =
            fs::read_dir(folder).map_err(|error| TreeError::from_io(folder, "cannot be read", error))?;
        if entries.next().is_some() {
            let message = format!("{folder:?} is not empty: choose another folder, or restore this one");
            return Err(TreeError::new(TreeErrorKind::AlreadyExists, message));
        }
        self.restore(commit, folder, &[])
    }

    /// Makes a folder equal to a commit or tree: contents, links, modes and folders. Removes everything else,
    /// including ignored files, except the paths of `keep` (relative to the folder, like those of `target`).
    /// Correct files retain their time stamps. Follows no link, and replaces files instead of writing to them,
    /// so that an outside file with a hard link here does not change.
    ///
    /// No other program may write to the folder meanwhile. After an interruption, call it again.
    ///
    /// # Errors
    ///
    /// Errors of [`Tree::check_out`].
    pub fn restore<'a>(
        &self,
        commit: impl Into<Treeish<'a>>,
        folder: impl AsRef<Path>,
        keep: &[&Path],
    ) -> Result<(), TreeError> {
        let folder = folder.as_ref();
        let entries = self.repo.entries(commit.into().0)?;
        // A `.git` would turn the folder into a repository, with the hooks and settings of its author.
        super::names::refuse_dot_git(entries.keys())?;
        fs::create_dir_all(folder).map_err(|error| TreeError::from_io(folder, "cannot be made", error))?;
        let root = handle::open_folder(folder)
            .map_err(|error| TreeError::from_io(folder, "cannot be opened", error))?;
        let failed = |path: PathBuf| {
            move |error| {
                TreeError::from_io(
                    &folder.join(path),
                    "cannot be restored to its \
                earlier content",
                    error,
                )
            }
        };
        let wanted = WantedFolder::new(&entries, keep);
        // Remove first: a file may stand where a folder is wanted, and the other way round.
        let trash = Trash::make(&root).map_err(failed(PathBuf::new()))?;
        remove_unwanted(&root, &mut Vec::new(), &wanted, &trash)
            .map_err(|(path, error)| failed(to_path(&path))(error))?;
        for path in &wanted.folders {
            make_folder(&root, path).map_err(failed(to_path(path)))?;
        }
        let files = entries.iter().filter(|(path, entry)| entry.mode != GITLINK && !wanted.keeps(path));
        let (files, ids): (Vec<_>, Vec<&str>) = files.map(|file| (file, file.1.id.as_str())).unzip();
        self.repo.reader()?.blobs(&ids, self.limits.file_bytes, |at, content| {
            let (path, entry) = files[at];
            let (parent, name) = handle::open_parent(&root, path).map_err(failed(to_path(path)))?;
            let done = if entry.mode == LINK {
                put_link(&parent, name, &content)
            } else {
                let mode = if entry.mode == EXECUTABLE { 0o755 } else { 0o644 };
                put_file(&parent, name, &content, mode)
            };
            done.map_err(failed(to_path(path)))
        })?;
        trash.empty(&root).map_err(failed(PathBuf::new()))
    }
}

/// Content that a folder must have.
struct WantedFolder<'a> {
    entries: &'a GitEntries,
    /// Every folder above an entry, and the empty folders of submodules.
    folders: BTreeSet<Vec<u8>>,
    keep: BTreeSet<Vec<u8>>,
}

impl<'a> WantedFolder<'a> {
    fn new(entries: &'a GitEntries, keep: &[&Path]) -> Self {
        use std::os::unix::ffi::OsStrExt as _;
        let mut folders = BTreeSet::new();
        for (path, entry) in entries {
            folders.extend(repo::beginnings(path).map(<[u8]>::to_vec));
            if entry.mode == GITLINK {
                folders.insert(path.clone());
            }
        }
        let plain = |path: &&Path| path.components().collect::<PathBuf>().as_os_str().as_bytes().to_vec();
        Self { entries, folders, keep: keep.iter().map(plain).collect() }
    }

    /// Returns true if a path is retained, or is in a retained folder.
    fn keeps(&self, path: &[u8]) -> bool {
        self.keep.contains(path) || repo::beginnings(path).any(|above| self.keep.contains(above))
    }

    /// Returns true if a retained path is below a path.
    fn leads_to_kept(&self, path: &[u8]) -> bool {
        let below = [path, b"/"].concat();
        self.keep.range(below.clone()..).next().is_some_and(|kept| kept.starts_with(&below))
    }
}

/// Moves everything unwanted to the trash, and keeps every wanted folder accessible.
fn remove_unwanted(
    folder: &OwnedFd,
    path: &mut Vec<u8>,
    wanted: &WantedFolder<'_>,
    trash: &Trash,
) -> Result<(), (Vec<u8>, io::Error)> {
    for name in handle::names(folder).map_err(|error| (path.clone(), error))? {
        let length = path.len();
        if length == 0 && name == TRASH {
            continue;
        }
        if length > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        let failed = |error| (path.clone(), error);
        if !wanted.keeps(path) {
            let kind = handle::kind(&handle::stat(folder, &name).map_err(failed)?);
            let is_folder = kind == FileType::Directory;
            if is_folder && (wanted.folders.contains(path) || wanted.leads_to_kept(path)) {
                let below = handle::open_folder_at(folder, &name, true).map_err(failed)?;
                remove_unwanted(&below, path, wanted, trash)?;
            } else {
                // Leave an entry of the right kind, because `put_file` compares its content.
                let stays = match wanted.entries.get(path).map(|entry| entry.mode) {
                    Some(LINK) => kind == FileType::Symlink,
                    Some(GITLINK) | None => false,
                    Some(_) => kind == FileType::RegularFile,
                };
                if !stays {
                    trash.take(folder, &name, is_folder).map_err(failed)?;
                }
            }
        }
        path.truncate(length);
    }
    Ok(())
}

fn make_folder(root: &OwnedFd, path: &[u8]) -> io::Result<()> {
    let (parent, name) = handle::open_parent(root, path)?;
    match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(FOLDER_MODE)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let folder = fs::File::from(handle::open_folder_at(&parent, name, true)?);
    if folder.metadata()?.mode() & 0o7777 != FOLDER_MODE {
        folder.set_permissions(fs::Permissions::from_mode(FOLDER_MODE))?;
    }
    Ok(())
}

fn put_link(parent: &OwnedFd, name: &[u8], target: &[u8]) -> io::Result<()> {
    if handle::read_link(parent, name).is_ok_and(|found| found == target) {
        return Ok(());
    }
    let pending = pending_name();
    rustix::fs::symlinkat(target, parent, &*pending)?;
    Ok(rustix::fs::renameat(parent, &*pending, parent, name)?)
}

fn put_file(parent: &OwnedFd, name: &[u8], content: &[u8], mode: u32) -> io::Result<()> {
    if is_right(parent, name, content, mode) {
        return Ok(());
    }
    // A new file is written directly. If that is interrupted, the file is wrong, and the next call replaces it.
    match write_new(parent, name, content, mode) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let pending = pending_name();
            write_new(parent, &pending, content, mode)?;
            Ok(rustix::fs::renameat(parent, &*pending, parent, name)?)
        }
        written => written,
    }
}

fn write_new(parent: &OwnedFd, name: &[u8], content: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Create the file as owner-only: others get access only with the final mode.
    let mut file = fs::File::from(rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(content)?;
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Returns true if a file has the given content and mode, and no second hard link.
fn is_right(parent: &OwnedFd, name: &[u8], content: &[u8], mode: u32) -> bool {
    let Ok(mut file) = handle::open_file_at(parent, name) else { return false };
    let is_alike = file.metadata().is_ok_and(|found| {
        // Compare the metadata first, which avoids reading most of the wrong files.
        found.nlink() == 1 && found.mode() & 0o7777 == mode && found.len() == content.len() as u64
    });
    if !is_alike {
        return false;
    }
    let mut chunk = [0; 64 << 10];
    let mut rest = content;
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return rest.is_empty(),
            Ok(read) => match rest.strip_prefix(&chunk[..read]) {
                Some(after) => rest = after,
                None => return false,
            },
            Err(_) => return false,
        }
    }
}

/// Returns the temporary name of a file. A leftover file is in no commit, so the next call removes it.
pub(super) fn pending_name() -> Vec<u8> {
    format!(".nexus-tree-{}", nexus_files::random_name()).into_bytes()
}

/// Folder for everything that has to be removed. Nested folders are flattened here one level at a time, so that no path is
/// too deep.
struct Trash {
    folder: OwnedFd,
}

impl Trash {
    fn make(root: &OwnedFd) -> io::Result<Self> {
        let found = handle::stat(root, TRASH).map(|stat| handle::kind(&stat));
        if found.is_ok_and(|kind| kind != FileType::Directory) {
            rustix::fs::unlinkat(root, TRASH, AtFlags::empty())?;
        }
        match rustix::fs::mkdirat(root, TRASH, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { folder: handle::open_folder_at(root, TRASH, true)? })
    }

    fn take(&self, from: &OwnedFd, name: &[u8], is_folder: bool) -> io::Result<()> {
        if !is_folder {
            return Ok(rustix::fs::unlinkat(from, name, AtFlags::empty())?);
        }
        // Moving a folder needs write permission in it.
        let folder = fs::File::from(handle::open_folder_at(from, name, true)?);
        folder.set_permissions(fs::Permissions::from_mode(0o700))?;
        let new = nexus_files::random_name();
        Ok(rustix::fs::renameat(from, name, &self.folder, new.as_str())?)
    }

    /// Removes everything in the trash, and the trash itself.
    fn empty(self, root: &OwnedFd) -> io::Result<()> {
        loop {
            let names = handle::names(&self.folder)?;
            if names.is_empty() {
                return Ok(rustix::fs::unlinkat(root, TRASH, AtFlags::REMOVEDIR)?);
            }
            for name in names {
                if handle::kind(&handle::stat(&self.folder, &name)?) != FileType::Directory {
                    rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty())?;
                    continue;
                }
                let folder = handle::open_folder_at(&self.folder, &name, true)?;
                for below in handle::names(&folder)? {
                    let is_folder = handle::kind(&handle::stat(&folder, &below)?) == FileType::Directory;
                    self.take(&folder, &below, is_folder)?;
                }
                rustix::fs::unlinkat(&self.folder, &name, AtFlags::REMOVEDIR)?;
            }
        }
    }
}
