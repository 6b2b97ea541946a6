//! The stored probes of a task.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_files::FileLock;

use super::{copies::own_folder, error::CheckError, probe_record::ProbeRecord};

/// Largest record to read, in bytes: one of sixteen inputs, each with two outputs of 64 KiB on three sides twice, and every byte written
/// as `\u001b`.
pub(crate) const MOST_PROBE_BYTES: u64 = 160 << 20;
/// Longest wait for another process that stores a probe of the same task.
const LOCK_PATIENCE: Duration = Duration::from_secs(600);

/// The stored probes of a task: a folder with a file `N.json` for the probe with the number N, outside of every tree.
///
/// A record is complete or absent. Numbers begin at 1, and each is used once: a writer holds the operating system's lock on the
/// folder's `.lock`. The lock of a dead process is free. Folder and files are owner-only, since a probe may have printed a secret. Every
/// call blocks.
#[derive(Clone, Debug)]
pub struct ProbeStore {
    folder: PathBuf,
}

impl ProbeStore {
    /// Opens the store in `folder`, which is created when the first probe is stored.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the numbers of all stored probes, in order.
    ///
    /// # Errors
    ///
    /// [`CheckError::File`].
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

    /// Reads the probe with a number.
    ///
    /// # Errors
    ///
    /// [`NoSuchProbe`](CheckError::NoSuchProbe); [`Malformed`](CheckError::Malformed) for a file that is not a record of that
    /// number; [`File`](CheckError::File).
    pub fn read(&self, number: u32) -> Result<ProbeRecord, CheckError> {
        let path = self.path(number);
        let malformed = |reason: String| CheckError::Malformed { path: path.clone(), reason };
        let read =
            nexus_files::read_bounded(&path, MOST_PROBE_BYTES).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => malformed(error.to_string()),
                _ => CheckError::from_io(&path, error),
            })?;
        let bytes = read.ok_or(CheckError::NoSuchProbe { number })?;
        let record: ProbeRecord =
            serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
        // A record that was copied to another name would pass for the evidence of another probe.
        if record.number != number {
            return Err(malformed(format!("its content has the number {}", record.number)));
        }
        record.check().map_err(malformed)?;
        Ok(record)
    }

    /// Stores a probe under a new number, and returns the record with it.
    pub(super) fn store(&self, mut record: ProbeRecord) -> Result<ProbeRecord, CheckError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| CheckError::from_io(path, error)
        };
        own_folder(&self.folder).map_err(failed(&self.folder))?;
        let path = self.folder.join(".lock");
        let lock = FileLock::lock(&path, LOCK_PATIENCE).map_err(failed(&path))?;
        let _lock = lock.ok_or_else(|| {
            let source =
                io::Error::other("another process has been storing a probe for minutes: check if it hangs");
            CheckError::from_io(path, source)
        })?;
        // The lock excludes other writers, so every temporary file here is that of a dead process.
        nexus_files::remove_unfinished(&self.folder);
        let last = self.numbers()?.last().copied().unwrap_or_default();
        let Some(number) = last.checked_add(1) else {
            let source = io::Error::other("no number is free: move the file with the highest number away");
            return Err(CheckError::from_io(&self.folder, source));
        };
        record.number = number;
        let path = self.path(number);
        let bytes = serde_json::to_vec(&record).map_err(|error| CheckError::from_io(&path, error.into()))?;
        nexus_files::replace(&path, &bytes).map_err(failed(&path))?;
        Ok(record)
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number}.json"))
    }
}

/// Parses the number in the name of a record. Accepts only its canonical form.
fn number_of(name: &str) -> Option<u32> {
    let text = name.strip_suffix(".json")?;
    let number: u32 = text.parse().ok()?;
    (number > 0 && number.to_string() == text).then_some(number)
}
