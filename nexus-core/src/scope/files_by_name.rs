//! Files opened by name, for want of handles, and for a scope without paths. What was opened is checked again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use super::{
    PathAccess,
    fence::Fence,
    files::{EntryKind, FolderEntry, Trouble, WriteMode},
    path_walk::{Kind, walk},
};

pub(super) fn open(fence: Option<&Fence>, real: &Path) -> Result<File, Trouble> {
    let file = File::open(real)?;
    judge(fence, real, &file, PathAccess::Read)?;
    Ok(file)
}

pub(super) fn open_for_writing(fence: Option<&Fence>, real: &Path, mode: WriteMode) -> Result<File, Trouble> {
    create_parents(fence, real)?;
    let mut options = OpenOptions::new();
    match mode {
        WriteMode::New => options.write(true).create_new(true),
        WriteMode::Append => options.append(true).create(true),
        WriteMode::Keep | WriteMode::Empty => options.write(true).create(true).truncate(false),
    };
    let file = options.open(real)?;
    judge(fence, real, &file, PathAccess::Write)?;
    if mode == WriteMode::Empty {
        file.set_len(0)?;
    }
    Ok(file)
}

pub(super) fn replace(fence: Option<&Fence>, real: &Path, content: &[u8]) -> Result<(), Trouble> {
    create_parents(fence, real)?;
    let part = real.with_file_name(part_name());
    let written = write_part(&part, real, content).and_then(|()| fs::rename(&part, real));
    if written.is_err() {
        // Whatever is left of it is of no use.
        let _ = fs::remove_file(&part);
    }
    Ok(written?)
}

fn write_part(part: &Path, real: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(part)?;
    match fs::symlink_metadata(real) {
        Ok(old) if old.is_file() => file.set_permissions(old.permissions())?,
        Ok(_) | Err(_) => {}
    }
    file.write_all(content)?;
    file.sync_data()
}

/// A name that nobody else has.
pub(super) fn part_name() -> String {
    let mut bytes = [0; 8];
    // Without randomness the name may be taken; it is only ever made anew.
    let _ = getrandom::fill(&mut bytes);
    format!(".{:016x}.part", u64::from_ne_bytes(bytes))
}

pub(super) fn list(fence: Option<&Fence>, real: &Path) -> Result<Vec<FolderEntry>, Trouble> {
    let mut found = Vec::new();
    for entry in fs::read_dir(real)? {
        let entry = entry?;
        if fence.is_some_and(|fence| fence.rules.rule_against(&entry.path()).is_some()) {
            continue;
        }
        let kind = match entry.file_type()? {
            kind if kind.is_file() => EntryKind::File,
            kind if kind.is_dir() => EntryKind::Folder,
            kind if kind.is_symlink() => EntryKind::Link,
            _ => EntryKind::Other,
        };
        found.extend(entry.file_name().into_string().ok().map(|name| FolderEntry::new(name, kind)));
    }
    unchanged(fence, real, PathAccess::Read)?;
    Ok(found)
}

pub(super) fn create_folder(fence: Option<&Fence>, real: &Path) -> Result<(), Trouble> {
    fs::create_dir_all(real)?;
    unchanged(fence, real, PathAccess::Write)
}

pub(super) fn remove_file(_: Option<&Fence>, real: &Path) -> Result<(), Trouble> {
    Ok(fs::remove_file(real)?)
}

fn create_parents(fence: Option<&Fence>, real: &Path) -> Result<(), Trouble> {
    match real.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => {
            fs::create_dir_all(parent)?;
            unchanged(fence, real, PathAccess::Write)
        }
        None => Ok(()),
    }
}

fn judge(fence: Option<&Fence>, real: &Path, file: &File, access: PathAccess) -> Result<(), Trouble> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    if let Some(fence) = fence {
        fence.judge_kind(Kind::of(&metadata), access).map_err(Trouble::Denied)?;
    }
    unchanged(fence, real, access)
}

/// Whether the path still leads where it led.
fn unchanged(fence: Option<&Fence>, real: &Path, access: PathAccess) -> Result<(), Trouble> {
    let Some(fence) = fence else { return Ok(()) };
    let changed = || Trouble::Denied("it was changed while it was opened".to_owned());
    let walked = walk(real, real).map_err(|_| changed())?;
    if walked.path != real {
        return Err(changed());
    }
    fence.judge_opened(real, walked.identities.last().copied(), access).map_err(Trouble::Denied)
}
