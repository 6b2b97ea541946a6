//! Opens files by name, on systems without folder handles and for a scope without paths. Checks each opened
//! file again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use super::{
    PathAccess,
    file_opener::{EntryKind, FolderEntry, Listed, OpenFailure, Opener, Over, WriteMode},
    path_policy::PathPolicy,
    path_walk::{PathKind, walk},
};

/// Opens files by name. Without a policy it checks nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByName<'f>(pub(super) Option<&'f PathPolicy>);

impl Opener for ByName<'_> {
    fn open(&self, real: &Path) -> Result<File, OpenFailure> {
        let file = File::open(real)?;
        self.judge(real, &file, PathAccess::Read)?;
        Ok(file)
    }

    fn open_for_writing(&self, real: &Path, mode: WriteMode) -> Result<File, OpenFailure> {
        self.create_parents(real)?;
        let mut options = OpenOptions::new();
        match mode {
            WriteMode::New => options.write(true).create_new(true),
            WriteMode::Append => options.append(true).create(true),
            WriteMode::Keep | WriteMode::Empty => options.write(true).create(true).truncate(false),
        };
        let file = options.open(real)?;
        self.judge(real, &file, PathAccess::Write)?;
        // Truncate only after the check, because another program may have swapped the file.
        if mode == WriteMode::Empty {
            file.set_len(0)?;
        }
        Ok(file)
    }

    fn replace(&self, real: &Path, content: &[u8], over: Over<'_>) -> Result<(), OpenFailure> {
        match over {
            Over::Matching(is_expected) if !is_expected(self.open(real)?)? => return Err(OpenFailure::Stale),
            Over::Matching(_) => {}
            Over::Nothing if fs::symlink_metadata(real).is_ok() => {
                return Err(io::Error::from(io::ErrorKind::AlreadyExists).into());
            }
            _ => self.create_parents(real)?,
        }
        let part = real.with_file_name(part_name());
        if self.0.is_some_and(|policy| !policy.may_make(&part)) {
            let mode = if matches!(over, Over::Nothing) { WriteMode::New } else { WriteMode::Empty };
            let mut file = self.open_for_writing(real, mode)?;
            file.write_all(content)?;
            return Ok(file.sync_data()?);
        }
        let written = write_part(&part, real, content).and_then(|()| match over {
            // Creating a hard link fails if the name exists, so it never replaces a file.
            Over::Nothing => fs::hard_link(&part, real).and_then(|()| fs::remove_file(&part)),
            Over::Anything | Over::Matching(_) => fs::rename(&part, real),
        });
        if written.is_err() {
            // Remove the incomplete file, which is useless.
            let _ = fs::remove_file(&part);
        }
        Ok(written?)
    }

    fn list(&self, real: &Path, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), OpenFailure> {
        for entry in fs::read_dir(real)? {
            let entry = entry?;
            if self.0.is_some_and(|policy| policy.rules.rule_against(&entry.path()).is_some()) {
                continue;
            }
            let kind = match entry.file_type()? {
                kind if kind.is_file() => EntryKind::File,
                kind if kind.is_dir() => EntryKind::Folder,
                kind if kind.is_symlink() => EntryKind::Link,
                _ => EntryKind::Other,
            };
            let name = entry.file_name().into_string();
            let named = |name| Listed::Entry(FolderEntry::new(name, kind));
            if !each(name.map_or(Listed::Unnamed, named)) {
                break;
            }
        }
        // Check after the last read, because the folder may have been swapped while it was listed.
        self.judge_place(real, PathAccess::Read)
    }

    fn create_folder(&self, real: &Path) -> Result<(), OpenFailure> {
        self.create_folders(real)?;
        self.judge_place(real, PathAccess::Write)
    }

    fn remove_file(&self, real: &Path) -> Result<(), OpenFailure> {
        Ok(fs::remove_file(real)?)
    }

    fn remove_folder(&self, real: &Path) -> Result<(), OpenFailure> {
        self.judge_place(real, PathAccess::Write)?;
        Ok(fs::remove_dir_all(real)?)
    }

    #[cfg(unix)]
    fn set_executable(&self, real: &Path, is_executable: bool) -> Result<(), OpenFailure> {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = executable_mode(fs::metadata(real)?.permissions().mode(), is_executable);
        Ok(fs::set_permissions(real, fs::Permissions::from_mode(mode))?)
    }

    #[cfg(not(unix))]
    fn set_executable(&self, _: &Path, _: bool) -> Result<(), OpenFailure> {
        Err(io::Error::from(io::ErrorKind::Unsupported).into())
    }
}

impl ByName<'_> {
    fn create_parents(&self, real: &Path) -> Result<(), OpenFailure> {
        match real.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => {
                self.create_folders(parent)?;
                self.judge_place(real, PathAccess::Write)
            }
            None => Ok(()),
        }
    }

    /// Creates a folder and the missing folders above it, but none that is out of scope.
    fn create_folders(&self, real: &Path) -> Result<(), OpenFailure> {
        if let Some(policy) = self.0 {
            let missing = |folder: &&Path| !folder.exists() && !policy.may_make(folder);
            if let Some(folder) = real.ancestors().find(missing) {
                return Err(OpenFailure::Denied(policy.not_made(folder)));
            }
        }
        Ok(fs::create_dir_all(real)?)
    }

    fn judge(&self, real: &Path, file: &File, access: PathAccess) -> Result<(), OpenFailure> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        if let Some(policy) = self.0 {
            policy.judge_kind(PathKind::of(&metadata), access).map_err(OpenFailure::Denied)?;
        }
        self.judge_place(real, access)
    }

    /// Checks that the path still leads to the same file.
    fn judge_place(&self, real: &Path, access: PathAccess) -> Result<(), OpenFailure> {
        let Some(policy) = self.0 else { return Ok(()) };
        let walked = walk(real).map_err(|_| OpenFailure::Changed)?;
        if walked.path != real {
            return Err(OpenFailure::Changed);
        }
        policy.judge_opened(real, walked.identity(), access).map_err(OpenFailure::Denied)
    }
}

fn write_part(part: &Path, real: &Path, content: &[u8]) -> io::Result<()> {
    let old = fs::symlink_metadata(real).ok().filter(fs::Metadata::is_file);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if old.is_some() {
        keep_private(&mut options);
    }
    let mut file = options.open(part)?;
    file.write_all(content)?;
    if let Some(old) = old {
        file.set_permissions(old.permissions())?;
    }
    file.sync_data()
}

/// Makes a new file owner-only, until it is complete and has the permissions of the replaced file.
#[cfg(unix)]
fn keep_private(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn keep_private(_: &mut OpenOptions) {}

/// Returns `mode` with execute permission for all readers, or for none. Removes the set-user-id and
/// set-group-id bits in both cases.
#[cfg(unix)]
pub(super) fn executable_mode(mode: u32, is_executable: bool) -> u32 {
    let mode = mode & 0o777;
    if is_executable { mode | ((mode & 0o444) >> 2) } else { mode & !0o111 }
}

/// Returns a unique name.
pub(super) fn part_name() -> String {
    let mut bytes = [0; 8];
    // Without randomness the name may exist already, and then creating the file fails.
    let _ = getrandom::fill(&mut bytes);
    format!(".{:016x}.part", u64::from_ne_bytes(bytes))
}
