//! Append-only logs of JSON values, one value per line.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    marker::PhantomData,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    append::append_line,
    open::open_regular,
    whole::{replace, sync_folder},
};

/// Size of the part at the end of a log that is first searched for the last value, in bytes.
const TAIL_BYTES: u64 = 8 << 10;

/// An append-only log: a private file with a JSON value on each line.
///
/// A process that is killed while it appends leaves a *torn* line: a part of a value, or a value without a line end. A torn line stays in
/// the file, the next value begins on a new line, and readers get both.
///
/// A process must lock a [`FileLock`](crate::FileLock) while it appends, because a failed append restores the old size of the file.
#[derive(Clone, Debug)]
pub struct JsonLinesLog<T> {
    path: PathBuf,
    max_line_bytes: u64,
    values: PhantomData<fn() -> T>,
}

/// The content of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonLines<T> {
    /// Values, each with the number of its line, from 1.
    pub values: Vec<(u64, T)>,
    /// Lines without a value.
    pub torn: Vec<TornLine>,
}

/// A line without a value, left by a writer that was killed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornLine {
    /// Number of the line, from 1.
    pub line: u64,
    /// Offset of the line's first byte in the file.
    pub offset: u64,
    /// Content of the line, without the line end.
    pub bytes: Vec<u8>,
    /// Error of the JSON parser.
    pub reason: String,
    /// True for a last line without a line end. A writer may still be writing it.
    pub is_tail: bool,
}

impl<T: Serialize + DeserializeOwned> JsonLinesLog<T> {
    /// Opens the log at `path`. Its lines have fewer than `max_line_bytes` bytes. Reads and creates nothing yet.
    pub fn at(path: impl Into<PathBuf>, max_line_bytes: u64) -> Self {
        Self { path: path.into(), max_line_bytes, values: PhantomData }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a value, and creates the file if it is missing. Its folder must exist. The value is on the disk when the call returns.
    /// Returns the size of the file in bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the line would be too long, or its JSON cannot be parsed again, such as deeply
    /// nested data. [`InvalidData`](io::ErrorKind::InvalidData) if the path is not a regular file. Otherwise the error of the file system. The
    /// log is then unchanged.
    pub fn append(&self, value: &T) -> io::Result<u64> {
        let line = self.line(value)?;
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        let (file, is_new) = match open_regular(&self.path, &options) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (open_regular(&self.path, options.create(true))?, true)
            }
            opened => (opened?, false),
        };
        whole_or_nothing(&file, || append_line(&file, &line).and_then(|()| file.sync_data()))?;
        if is_new {
            sync_folder(self.path.parent().unwrap_or(Path::new(".")))?;
        }
        Ok(file.metadata()?.len())
    }

    /// Appends lines that the caller serialized, in one write, after the first `end` bytes of an existing file. First removes the bytes
    /// after `end`, which an interrupted writer left. The lines are on the disk when the call returns. Returns the size of the file in
    /// bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidData`](io::ErrorKind::InvalidData) if the file has fewer than `end` bytes, or the path is not a regular file. Otherwise the
    /// error of the file system. The first `end` bytes are then unchanged, and no new line follows them.
    pub fn append_lines_at(&self, end: u64, lines: &[u8]) -> io::Result<u64> {
        let file = open_regular(&self.path, OpenOptions::new().read(true).append(true))?;
        let length = file.metadata()?.len();
        if length < end {
            let reason = format!("it has {length} bytes, but {end} were written");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        if length > end {
            file.set_len(end)?;
        }
        whole_or_nothing(&file, || (&file).write_all(lines).and_then(|()| file.sync_data()))?;
        Ok(end + lines.len() as u64)
    }

    /// Appends a value to the file, which the caller has locked. The value may be lost if the power fails.
    #[cfg(feature = "journal")]
    pub(crate) fn append_unflushed(&self, file: &File, value: &T) -> io::Result<()> {
        let line = self.line(value)?;
        whole_or_nothing(file, || append_line(file, &line))
    }

    fn line(&self, value: &T) -> io::Result<Vec<u8>> {
        let refused = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let line = serde_json::to_vec(value).map_err(|error| refused(error.to_string()))?;
        serde_json::from_slice::<T>(&line).map_err(|error| {
            refused(format!("its JSON cannot be parsed into the same type again: {error}"))
        })?;
        if line.len() as u64 + 1 >= self.max_line_bytes {
            let (bytes, most) = (line.len(), self.max_line_bytes);
            return Err(refused(format!("it has {bytes} bytes, but a line must have less than {most}")));
        }
        Ok(line)
    }

    /// Reads the whole log into memory. A missing file is an empty log.
    ///
    /// # Errors
    ///
    /// [`InvalidData`](io::ErrorKind::InvalidData) if the path is not a regular file, or a line is too long. Otherwise the error of
    /// the file system.
    pub fn read(&self) -> io::Result<JsonLines<T>> {
        let mut log = JsonLines { values: Vec::new(), torn: Vec::new() };
        let mut reader = match open_regular(&self.path, OpenOptions::new().read(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(log),
            opened => BufReader::new(opened?),
        };
        let (mut line, mut offset) = (0, 0);
        loop {
            let mut bytes = Vec::new();
            let length = reader.by_ref().take(self.max_line_bytes).read_until(b'\n', &mut bytes)?;
            if length == 0 {
                return Ok(log);
            }
            line += 1;
            let has_end = bytes.pop_if(|last| *last == b'\n').is_some();
            if !has_end && length as u64 == self.max_line_bytes {
                let most = self.max_line_bytes;
                let reason = format!("line {line} has {most} bytes or more, the limit for a line");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            match serde_json::from_slice::<T>(&bytes) {
                Ok(value) => log.values.push((line, value)),
                Err(_) if bytes.iter().all(u8::is_ascii_whitespace) => {}
                Err(error) => {
                    let reason = error.to_string();
                    log.torn.push(TornLine { line, offset, bytes, reason, is_tail: !has_end });
                }
            }
            if !has_end {
                // Stop here: a writer may be completing this line now, so the following bytes would belong to it.
                return Ok(log);
            }
            offset += length as u64;
        }
    }

    /// Returns the last value. A missing file has none. Reads only the end of the file, unless that contains no value.
    ///
    /// # Errors
    ///
    /// Errors of [`read`](Self::read), except for long lines.
    pub fn last(&self) -> io::Result<Option<T>> {
        Ok(self.read_back_to(|_| true)?.pop())
    }

    /// Returns the last values, the oldest first, back to the newest value that `is_enough` accepts. Returns all values if it accepts
    /// none. A missing file has no values. Reads no more of the file than necessary.
    ///
    /// # Errors
    ///
    /// Errors of [`read`](Self::read), except for long lines.
    pub fn read_back_to(&self, is_enough: impl Fn(&T) -> bool) -> io::Result<Vec<T>> {
        let mut file = match open_regular(&self.path, OpenOptions::new().read(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let (mut end, mut size) = (file.metadata()?.len(), TAIL_BYTES);
        let mut values = Vec::new();
        // End of a line whose beginning is in the part before.
        let mut remainder = Vec::new();
        loop {
            let start = end.saturating_sub(size);
            let mut bytes = read_at(&mut file, start, end - start)?;
            bytes.append(&mut remainder);
            // The first line lacks its beginning, unless the part starts at the beginning of the file.
            let first_line_end = match start {
                0 => None,
                _ => Some(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len())),
            };
            let whole = bytes.get(first_line_end.map_or(0, |end| end + 1)..).unwrap_or_default();
            let mut is_reached = start == 0;
            for line in whole.rsplit(|byte| *byte == b'\n') {
                let Ok(value) = serde_json::from_slice::<T>(line) else { continue };
                let is_last = is_enough(&value);
                values.push(value);
                if is_last {
                    is_reached = true;
                    break;
                }
            }
            if is_reached {
                values.reverse();
                return Ok(values);
            }
            bytes.truncate(first_line_end.unwrap_or_default());
            remainder = bytes;
            (end, size) = (start, size.saturating_mul(2));
        }
    }

    /// Removes a torn last line, for logs in which a person would mistake it for damage. The caller must own the lock that excludes other
    /// writers.
    ///
    /// # Errors
    ///
    /// Errors of [`read`](Self::read).
    pub fn remove_torn_tail(&self) -> io::Result<()> {
        let Some(tail) = self.read()?.torn.pop().filter(|line| line.is_tail) else { return Ok(()) };
        let file = open_regular(&self.path, OpenOptions::new().write(true))?;
        file.set_len(tail.offset)?;
        file.sync_data()
    }

    /// Removes the older half of the log if it has more than `max_bytes` bytes. The caller must own the lock that excludes other writers.
    /// The file's mode does not change.
    ///
    /// # Errors
    ///
    /// The error of the file system. The log is then unchanged.
    pub fn drop_older_half_above(&self, max_bytes: u64) -> io::Result<()> {
        let mut file = open_regular(&self.path, OpenOptions::new().read(true))?;
        let length = file.metadata()?.len();
        if length <= max_bytes {
            return Ok(());
        }
        let newer = read_at(&mut file, length / 2, length)?;
        let start = newer.iter().position(|byte| *byte == b'\n').map_or(newer.len(), |at| at + 1);
        let permissions = file.metadata()?.permissions();
        replace(&self.path, newer.get(start..).unwrap_or_default())?;
        fs::set_permissions(&self.path, permissions)
    }
}

/// Runs `append`. If it fails, removes the part that was written, so that the value is not in the file.
fn whole_or_nothing(file: &File, append: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let before = file.metadata()?.len();
    append().inspect_err(|_| {
        // Return the error of `append`, even if this fails too.
        let _ = file.set_len(before).and_then(|()| file.sync_data());
    })
}

fn read_at(file: &mut File, start: u64, max_bytes: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}
