//! State of the files of a trigger at one scan.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use globset::GlobMatcher;
use ring::digest;

use super::super::{firing::hashed, schedule::FileSchedule};

/// Maximum number of files whose state is stored.
const MAX_FILES: usize = 10_000;
/// Maximum number of folder entries that one scan reads.
const MAX_ENTRIES: usize = 100_000;
/// Maximum depth of folders that are scanned.
const MAX_DEPTH: usize = 32;
/// Largest file whose content is part of its state, in bytes.
const MAX_HASHED_BYTES: u64 = 64 << 20;

/// Properties that differ between two states of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct FileStamp {
    /// Nanoseconds since 1970.
    modified: u128,
    pub(super) len: u64,
    /// File number, which changes when another file takes the name. 0 if the system has no file numbers.
    number: u64,
    /// The hash of a single file's content.
    content: Option<String>,
}

/// Result of one scan of a trigger's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct FileScan {
    /// Files by their paths below the folder; a single file by its name.
    pub(super) files: BTreeMap<String, FileStamp>,
    /// The device and number of the watched folder. None if it does not exist.
    pub(super) folder: Option<(u64, u64)>,
    /// True if a file changed while it was read.
    pub(super) is_changing: bool,
}

impl FileScan {
    /// Scans the files of a trigger. A missing file or folder is a state like any other. It may block.
    ///
    /// # Errors
    ///
    /// The files cannot be read, or are too many.
    pub(in super::super) fn of(schedule: &FileSchedule) -> io::Result<Self> {
        let folder = match fs::metadata(watched_folder(schedule)) {
            Ok(folder) if folder.is_dir() => identity(&folder),
            Ok(_) => return Ok(Self::default()),
            Err(error) if is_missing(&error) => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut scan = Self { folder: Some(folder), ..Self::default() };
        if schedule.folder {
            let glob = schedule.pattern.as_deref().map(|pattern| schedule.glob(pattern));
            let glob = glob.transpose().map_err(|error| io::Error::other(error.to_string()))?;
            scan.look_into(schedule, glob.as_ref())?;
        } else {
            scan.look_at(&schedule.path)?;
        }
        Ok(scan)
    }

    /// Returns a hash that identifies this state.
    pub(in super::super) fn fingerprint(&self) -> String {
        let mut text = String::new();
        for (path, FileStamp { modified, len, number, content }) in &self.files {
            let content = content.as_deref().unwrap_or_default();
            // The length before the path marks where the path ends.
            text.push_str(&format!("{}:{path}:{modified}:{len}:{number}:{content}\n", path.len()));
        }
        hashed(text.as_bytes())[..32].to_owned()
    }

    fn look_at(&mut self, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let before = match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => return Ok(()),
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut stamp = FileStamp::of(&before);
        if before.len() <= MAX_HASHED_BYTES {
            match content(path) {
                Ok(content) => stamp.content = content,
                Err(error) if is_missing(&error) => self.is_changing = true,
                Err(error) => return Err(error),
            }
        }
        let after = fs::metadata(path).map(|metadata| FileStamp::of(&metadata));
        self.is_changing |= !after.is_ok_and(|after| FileStamp { content: None, ..stamp.clone() } == after);
        self.files.insert(name, stamp);
        Ok(())
    }

    fn look_into(&mut self, schedule: &FileSchedule, glob: Option<&GlobMatcher>) -> io::Result<()> {
        let mut folders = vec![(PathBuf::new(), 0)];
        let mut entries = 0;
        while let Some((below, depth)) = folders.pop() {
            let listed = match fs::read_dir(schedule.path.join(&below)) {
                Ok(listed) => listed,
                // The file was deleted meanwhile.
                Err(error) if is_missing(&error) => continue,
                Err(error) => return Err(error),
            };
            for entry in listed {
                let entry = entry?;
                entries += 1;
                if entries > MAX_ENTRIES {
                    return Err(too_many(format_args!("more than {MAX_ENTRIES} entries")));
                }
                let path = below.join(entry.file_name());
                let metadata = match entry.metadata() {
                    Ok(metadata) => metadata,
                    Err(error) if is_missing(&error) => continue,
                    Err(error) => return Err(error),
                };
                if metadata.is_dir() && schedule.recursive {
                    if depth == MAX_DEPTH {
                        return Err(too_many(format_args!("folders more than {MAX_DEPTH} levels deep")));
                    }
                    folders.push((path, depth + 1));
                } else if metadata.is_file() && glob.is_none_or(|glob| glob.is_match(&path)) {
                    if self.files.len() == MAX_FILES {
                        return Err(too_many(format_args!("more than {MAX_FILES} matching files")));
                    }
                    self.files.insert(path.to_string_lossy().into_owned(), FileStamp::of(&metadata));
                }
            }
        }
        Ok(())
    }
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            modified: modified.unwrap_or_default().as_nanos(),
            len: metadata.len(),
            number: identity(metadata).1,
            content: None,
        }
    }
}

/// Returns the folder to watch for the files of a trigger. For a single file it is the parent folder, as
/// another file may take its name.
pub(super) fn watched_folder(schedule: &FileSchedule) -> &Path {
    if schedule.folder { &schedule.path } else { schedule.path.parent().unwrap_or(&schedule.path) }
}

fn too_many(what: std::fmt::Arguments<'_>) -> io::Error {
    io::Error::other(format!("the folder has {what}: narrow `pattern`, or name a folder below it"))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// Returns the hash of a file's content. None if the path no longer names a regular file, or if the file is larger than is
/// read.
fn content(path: &Path) -> io::Result<Option<String>> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // If a pipe has taken the file's place, opening it without NONBLOCK would wait for a writer.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut left = file.take(MAX_HASHED_BYTES + 1);
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = left.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
    }
    Ok((left.limit() > 0).then(|| nexus_files::hex(hash.finish())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_told_from_others_and_is_the_same_for_two_that_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let single = FileSchedule::file(&path);
        let mut many = FileSchedule::folder(folder.path());
        many.pattern = Some("**/*.csv".to_owned());
        many.recursive = true;
        let states = || [&single, &many].map(|schedule| FileScan::of(schedule).unwrap().fingerprint());
        let missing = states();
        fs::write(&path, "one").unwrap();
        let written = states();
        assert_eq!(written, states());
        fs::write(folder.path().join("b.txt"), "other").unwrap();
        assert_eq!(written, states(), "files that do not fit");
        let beside = folder.path().join("beside");
        fs::write(&beside, "one").unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::File::options().write(true).open(&beside).unwrap().set_modified(time).unwrap();
        fs::rename(&beside, &path).unwrap();
        let replaced = states();
        fs::create_dir(folder.path().join("deeper")).unwrap();
        fs::write(folder.path().join("deeper/c.csv"), "").unwrap();
        let deeper = states();
        assert_eq!(replaced[0], deeper[0]);
        assert_ne!(replaced[1], deeper[1]);
        for index in 0..2 {
            assert_ne!(missing[index], written[index]);
            assert_ne!(written[index], replaced[index]);
        }
        fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(states(), missing);
    }

    #[test]
    fn the_same_size_at_the_same_time_is_told_by_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "one").unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let schedule = FileSchedule::file(&path);
        let one = FileScan::of(&schedule).unwrap();
        fs::write(&path, "two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_ne!(one.fingerprint(), FileScan::of(&schedule).unwrap().fingerprint());
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_links_are_no_files_and_nothing_waits_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(content(&pipe).unwrap(), None);
        std::os::unix::fs::symlink("/", folder.path().join("root")).unwrap();
        let mut schedule = FileSchedule::folder(folder.path());
        schedule.recursive = true;
        assert!(FileScan::of(&schedule).unwrap().files.is_empty());
        assert!(FileScan::of(&FileSchedule::file(&pipe)).unwrap().files.is_empty());
    }

    #[test]
    fn folders_that_are_too_deep_are_told_of() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("d/".repeat(40))).unwrap();
        let mut schedule = FileSchedule::folder(folder.path());
        schedule.recursive = true;
        assert!(FileScan::of(&schedule).unwrap_err().to_string().contains("32 levels deep"));
    }
}
