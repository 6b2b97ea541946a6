//! Opens files from handles of folders, so that no name is resolved twice and no symbolic link is followed.

use std::{
    ffi::OsStr,
    fs::{File, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use super::{
    PathAccess,
    file_id::FileId,
    file_opener::{EntryKind, FolderEntry, Listed, OpenFailure, Opener, Over, WriteMode},
    files_by_name::{executable_mode, part_name},
    files_folder::{folder_of, make_folder, open_folder, parts_of, place_of},
    files_part::{NEW_FILE, Whole},
    files_remove::remove_all,
    files_replace::one_at_a_time,
    path_policy::PathPolicy,
    path_walk::PathKind,
};

/// Flags for a file that another program may have replaced: do not follow a link, and do not wait for a pipe.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens files from handles of folders.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByHandle<'f>(pub(super) &'f PathPolicy);

impl From<Errno> for OpenFailure {
    fn from(error: Errno) -> Self {
        match error {
            // The check of the path found no link, so the link was created later.
            Errno::LOOP => Self::Changed,
            error => Self::Io(error.into()),
        }
    }
}

impl Opener for ByHandle<'_> {
    fn open(&self, real: &Path) -> Result<File, OpenFailure> {
        let (folder, name) = folder_of(real)?;
        let file = File::from(rustix::fs::openat(&folder, name, OFlags::RDONLY | FILE, Mode::empty())?);
        self.judge(real, &file, PathAccess::Read)?;
        Ok(file)
    }

    fn open_for_writing(&self, real: &Path, mode: WriteMode) -> Result<File, OpenFailure> {
        let (folder, name) = self.made_folder_of(real)?;
        let append = if mode == WriteMode::Append { OFlags::APPEND } else { OFlags::empty() };
        let flags = OFlags::WRONLY | FILE | append;
        let made = rustix::fs::openat(&folder, name, flags | OFlags::CREATE | OFlags::EXCL, NEW_FILE);
        let opened = match made {
            Err(Errno::EXIST) if mode != WriteMode::New => {
                rustix::fs::openat(&folder, name, flags, Mode::empty())
            }
            made => made,
        };
        let file = match opened {
            // `NOENT`: the file existed at the check. `NXIO`: it is now a pipe without a reader.
            Err(Errno::NOENT | Errno::NXIO) => return Err(OpenFailure::Changed),
            opened => File::from(opened?),
        };
        self.judge(real, &file, PathAccess::Write)?;
        // Truncate only after the check: `O_TRUNC` would already have emptied a protected file.
        if mode == WriteMode::Empty {
            file.set_len(0)?;
        }
        Ok(file)
    }

    fn replace(&self, real: &Path, content: &[u8], over: Over<'_>) -> Result<(), OpenFailure> {
        let (folder, name) = match over {
            // A missing folder contains no file that could match, so do not create it.
            Over::Matching(_) => folder_of(real)?,
            _ => self.made_folder_of(real)?,
        };
        // Lock before the content is compared, because another replacement may be about to revert it.
        let _turn = matches!(over, Over::Matching(_)).then(|| one_at_a_time(&folder)).transpose()?;
        let permissions = self.judge_replaced(real, &folder, name)?;
        match over {
            Over::Nothing if permissions.is_some() => {
                return Err(io::Error::from(io::ErrorKind::AlreadyExists).into());
            }
            Over::Matching(is_expected) if !is_expected(self.open(real)?)? => return Err(OpenFailure::Stale),
            _ => {}
        }
        let beside = part_name();
        if !self.0.may_make(&real.with_file_name(&beside)) {
            return self.rewrite(real, content, over);
        }
        Whole { content, permissions }.put(&folder, OsStr::new(&beside), name, over)
    }

    fn list(&self, real: &Path, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), OpenFailure> {
        let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(open_folder(real)?, ".", readable, Mode::empty())?;
        let here = self.judge_folder(real, &folder, None, PathAccess::Read)?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                if !each(Listed::Unnamed) {
                    break;
                }
                continue;
            };
            if matches!(name, "." | "..") || self.0.rules.rule_against(&here.join(name)).is_some() {
                continue;
            }
            // Some file systems report no kind in directory entries.
            let kind = match entry.file_type() {
                FileType::Unknown => rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |status| FileType::from_raw_mode(status.st_mode)),
                kind => kind,
            };
            let kind = match kind {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Folder,
                FileType::Symlink => EntryKind::Link,
                _ => EntryKind::Other,
            };
            if !each(Listed::Entry(FolderEntry::new(name.to_owned(), kind))) {
                break;
            }
        }
        // Verify that the folder was not moved while it was read.
        self.judge_folder(real, &folder, None, PathAccess::Read).map(|_| ())
    }

    fn create_folder(&self, real: &Path) -> Result<(), OpenFailure> {
        let folder = make_folder(self.0, real)?;
        self.judge_folder(real, &folder, None, PathAccess::Write).map(|_| ())
    }

    fn remove_file(&self, real: &Path) -> Result<(), OpenFailure> {
        let (folder, name) = folder_of(real)?;
        self.judge_folder(real, &folder, Some(name), PathAccess::Write)?;
        self.judge_replaced(real, &folder, name)?;
        Ok(rustix::fs::unlinkat(&folder, name, AtFlags::empty())?)
    }

    fn remove_folder(&self, real: &Path) -> Result<(), OpenFailure> {
        let (folder, name) = folder_of(real)?;
        self.judge_folder(real, &folder, Some(name), PathAccess::Write)?;
        remove_all(self.0, &folder, name, real)
    }

    fn set_executable(&self, real: &Path, is_executable: bool) -> Result<(), OpenFailure> {
        let (folder, name) = folder_of(real)?;
        // Changing the mode needs an open file, and the file may be unreadable for its owner.
        let open = |flags| rustix::fs::openat(&folder, name, flags | FILE, Mode::empty());
        let file = match open(OFlags::RDONLY) {
            Err(Errno::ACCESS) => open(OFlags::WRONLY),
            opened => opened,
        };
        let file = File::from(file?);
        self.judge(real, &file, PathAccess::Write)?;
        let mode = executable_mode(file.metadata()?.permissions().mode(), is_executable);
        Ok(file.set_permissions(Permissions::from_mode(mode))?)
    }
}

impl ByHandle<'_> {
    /// Writes a whole file in place, where no other file may be created in the folder.
    fn rewrite(&self, real: &Path, content: &[u8], over: Over<'_>) -> Result<(), OpenFailure> {
        let mode = if matches!(over, Over::Nothing) { WriteMode::New } else { WriteMode::Empty };
        let mut file = self.open_for_writing(real, mode)?;
        file.write_all(content)?;
        Ok(file.sync_data()?)
    }

    /// Checks an opened file: its kind, its number of names, and its real path.
    fn judge(&self, real: &Path, file: &File, access: PathAccess) -> Result<(), OpenFailure> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        let kind = PathKind::of(&metadata);
        // Without a name, the file was removed or replaced after it was opened, so the path must be checked
        // again.
        if kind == (PathKind::File { names: 0 }) {
            return Err(OpenFailure::Changed);
        }
        self.0.judge_kind(kind, access).map_err(OpenFailure::Denied)?;
        let here = place_of(file, real)?;
        self.0.judge_opened(&here, FileId::of(&metadata), access).map_err(OpenFailure::Denied)?;
        // The flag only prevented waiting while the file was opened. The caller expects ordinary reads and
        // writes.
        let flags = rustix::fs::fcntl_getfl(file)?;
        Ok(rustix::fs::fcntl_setfl(file, flags - OFlags::NONBLOCK)?)
    }

    /// Checks the real path of an opened folder, or of a name in it. Returns the folder's path.
    fn judge_folder(
        &self,
        real: &Path,
        folder: &OwnedFd,
        name: Option<&OsStr>,
        access: PathAccess,
    ) -> Result<PathBuf, OpenFailure> {
        let expected = if name.is_some() { real.parent().unwrap_or(real) } else { real };
        let here = place_of(folder, expected)?;
        let place = name.map_or_else(|| here.clone(), |name| here.join(name));
        self.0.judge_opened(&place, None, access).map_err(OpenFailure::Denied)?;
        Ok(here)
    }

    /// Checks the file whose name is about to be replaced. Returns its permissions.
    fn judge_replaced(
        &self,
        real: &Path,
        folder: &OwnedFd,
        name: &OsStr,
    ) -> Result<Option<Mode>, OpenFailure> {
        let old = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(old) => old,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match FileType::from_raw_mode(old.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
            // The check of the path accepts only files and missing names, so this one was replaced later.
            _ => return Err(OpenFailure::Changed),
        }
        let identity = FileId { device: old.st_dev as _, number: old.st_ino as _ };
        self.0.judge_opened(real, Some(identity), PathAccess::Write).map_err(OpenFailure::Denied)?;
        Ok(Some(Mode::from_raw_mode(old.st_mode & 0o777)))
    }

    /// Returns a handle of the folder that contains `real`, and the name in it. Creates the folder if it does
    /// not exist.
    fn made_folder_of<'p>(&self, real: &'p Path) -> Result<(OwnedFd, &'p OsStr), OpenFailure> {
        let (parent, name) = parts_of(real)?;
        let folder = make_folder(self.0, parent)?;
        self.judge_folder(real, &folder, Some(name), PathAccess::Write)?;
        Ok((folder, name))
    }
}
