//! The stored probes of a task.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use super::{copies::own_folder, error::CheckError, probe_record::ProbeRecord};

/// The largest record that is read, in bytes. One of sixteen inputs, each with two outputs of 64 KiB on each of three sides twice,
/// whose every byte is written as `\u001b`.
const MOST_BYTES: u64 = 160 << 20;
/// Ends the name of a file that is not in place yet.
const PENDING: &str = ".new";

/// The stored probes of a task: a folder with a file `N.json` for the probe with the number N, outside of every tree.
///
/// A record is there as a whole or not at all. Numbers begin at 1, and none is given twice: whoever stores holds the operating
/// system's lock on the folder's `.lock`, which it takes back from a process that dies. Folder and files are their owner's
/// alone, as a probe may have printed a secret. Every call blocks.
#[derive(Clone, Debug)]
pub struct ProbeStore {
    folder: PathBuf,
}

impl ProbeStore {
    /// Those in `folder`, which is made when the first is stored.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The numbers of all, in order.
    ///
    /// # Errors
    ///
    /// [`CheckError::Io`].
    pub fn numbers(&self) -> Result<Vec<u32>, CheckError> {
        let failed = |error| CheckError::from_io(&self.folder, error);
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            numbers.extend(name.to_str().and_then(number_of));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The probe with a number.
    ///
    /// # Errors
    ///
    /// [`NoSuchProbe`](CheckError::NoSuchProbe); [`Malformed`](CheckError::Malformed) for a file that is not a record of that
    /// number; [`Io`](CheckError::Io).
    pub fn read(&self, number: u32) -> Result<ProbeRecord, CheckError> {
        let path = self.path(number);
        let malformed = |reason: String| CheckError::Malformed { path: path.clone(), reason };
        let found = match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(CheckError::NoSuchProbe { number });
            }
            found => found.map_err(|error| CheckError::from_io(&path, error))?,
        };
        if !found.is_file() {
            return Err(malformed("it is no regular file".to_owned()));
        }
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(|error| CheckError::from_io(&path, error))?;
        file.take(MOST_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| CheckError::from_io(&path, error))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(malformed(format!("it has more than {MOST_BYTES} bytes")));
        }
        let record: ProbeRecord =
            serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
        if record.number != number {
            return Err(malformed(format!("it says that its number is {}", record.number)));
        }
        record.check().map_err(malformed)?;
        Ok(record)
    }

    /// Stores a probe under a number that no other has, and gives the record with it.
    pub(super) fn store(&self, mut record: ProbeRecord) -> Result<ProbeRecord, CheckError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| CheckError::from_io(path, error)
        };
        own_folder(&self.folder).map_err(failed(&self.folder))?;
        let place = self.folder.join(".lock");
        let mut options = OpenOptions::new();
        let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&place);
        let lock = lock.map_err(failed(&place))?;
        lock.lock().map_err(failed(&place))?;
        self.remove_pending()?;
        let last = self.numbers()?.last().copied().unwrap_or_default();
        let Some(number) = last.checked_add(1) else {
            let source = io::Error::other("there are no numbers left: move the file with the highest away");
            return Err(CheckError::Io { path: self.folder.clone(), source });
        };
        record.number = number;
        let (path, pending) = (self.path(number), self.folder.join(format!(".{number}{PENDING}")));
        let written = write_new(&pending, &record).and_then(|()| fs::rename(&pending, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&pending);
            return Err(CheckError::from_io(path, error));
        }
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        match folder {
            // Some file systems do not flush folders.
            Err(error)
                if !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                Err(CheckError::from_io(&self.folder, error))
            }
            _ => Ok(record),
        }
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number}.json"))
    }

    /// Removes what a process left that was killed. Whoever calls holds the lock.
    fn remove_pending(&self) -> Result<(), CheckError> {
        let entries = fs::read_dir(&self.folder).map_err(|error| CheckError::from_io(&self.folder, error))?;
        let is_pending = |name: &str| name.starts_with('.') && name.ends_with(PENDING);
        for entry in entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_pending)) {
            fs::remove_file(entry.path()).map_err(|error| CheckError::from_io(entry.path(), error))?;
        }
        Ok(())
    }
}

/// The number in the name of a record, in the one way in which it is written.
fn number_of(name: &str) -> Option<u32> {
    let text = name.strip_suffix(".json")?;
    let number: u32 = text.parse().ok()?;
    (number > 0 && number.to_string() == text).then_some(number)
}

fn write_new(path: &Path, record: &ProbeRecord) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut writer = io::BufWriter::new(&mut file);
    serde_json::to_writer(&mut writer, record)?;
    writer.flush()?;
    drop(writer);
    file.sync_all()
}
