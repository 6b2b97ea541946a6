//! Reads objects by a `git cat-file --batch` that stays alive between operations.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    Git, TreeError, TreeErrorKind,
    process::{GitProcess, reason},
    text::unexpected,
};

/// Maximum size of the requests without an answer, in bytes. It is the smallest capacity of a pipe: git can then accept
/// requests while its answers wait. Source: pipe(7).
const MOST_ASKED: usize = 4 << 10;
/// Number of bytes per read.
const CHUNK: usize = 64 << 10;
/// Maximum length of the line before an object, in bytes: a name, a kind and a size.
const MAX_HEADER: usize = 256;

/// Idle git process that reads the objects of a repository. Clones of a tree share it; it ends with the last clone.
#[derive(Debug, Default)]
pub(super) struct IdleReader(Mutex<Option<GitObjectReader>>);

/// An object as git prints it.
#[derive(Debug)]
pub(super) struct Object {
    /// `commit`, `tree`, `blob` or `tag`.
    pub(super) kind: String,
    pub(super) bytes: Vec<u8>,
}

/// Reads objects. After the last answer its git becomes idle and serves the next reader.
#[derive(Debug)]
pub(super) struct ObjectReader {
    idle: Arc<IdleReader>,
    /// `None` after a failure.
    reading: Option<GitObjectReader>,
}

/// Git process that reads objects, and the part of its output that is not read yet.
#[derive(Debug)]
struct GitObjectReader {
    running: GitProcess,
    /// Device and inode of the repository's folder.
    repository: Option<(u64, u64)>,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

impl IdleReader {
    /// Starts to read objects. Uses the idle git process if it reads the same repository.
    pub(super) fn reader(self: &Arc<Self>, git: &Git, git_dir: &Path) -> Result<ObjectReader, TreeError> {
        let repository = fs::metadata(git_dir).ok().map(|found| (found.dev(), found.ino()));
        let bounds = git.bounds();
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A recreated repository has the same path, but its idle process would read deleted files.
        let kept = kept.filter(|kept| kept.repository == repository);
        let kept = kept.and_then(|mut kept| kept.running.go_on(bounds).then_some(kept));
        let reading = match kept {
            Some(kept) => kept,
            None => {
                let running = git.command(git_dir, "cat-file").arg("--batch").start()?;
                GitObjectReader { running, repository, buffer: vec![0; CHUNK], begin: 0, end: 0 }
            }
        };
        Ok(ObjectReader { idle: Arc::clone(self), reading: Some(reading) })
    }
}

impl ObjectReader {
    /// Reads objects in order, each of at most `max_bytes`, and passes each on with its index in `ids`: `None`
    /// for a missing object.
    pub(super) fn read<I: AsRef<str>>(
        &mut self,
        ids: &[I],
        max_bytes: u64,
        mut take: impl FnMut(usize, Option<Object>) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        // Take the process out: after an error its output is at an unknown position, so it must not become idle.
        let Some(mut reading) = self.reading.take() else { return Err(unexpected("nothing any more")) };
        let (mut asked, mut unanswered) = (0, 0);
        let mut question = String::new();
        for answered in 0..ids.len() {
            // Refill at half, so that git has work while the answers are read.
            if unanswered <= MOST_ASKED / 2 {
                question.clear();
                while let Some(id) = ids.get(asked).map(AsRef::as_ref)
                    && (question.is_empty() || unanswered + question.len() + id.len() < MOST_ASKED)
                {
                    question.push_str(id);
                    question.push('\n');
                    asked += 1;
                }
                unanswered += question.len();
                if !reading.running.write(question.as_bytes())? {
                    return Err(reason(reading.running, unexpected("no object")));
                }
            }
            let id = ids[answered].as_ref();
            let Some(header) = reading.line()? else {
                return Err(reason(reading.running, unexpected("no object")));
            };
            let words: Vec<&str> = header.split(' ').collect();
            // A wrong answer would be taken for this object, and shift all later answers.
            if words.first() != Some(&id) {
                return Err(unexpected(&format!("{header:?} in answer to the request for {id}")));
            }
            let object = match words[..] {
                [_, "missing"] => None,
                [_, kind, size] => {
                    let size: u64 = size.parse().map_err(|_| unexpected("an odd size"))?;
                    if size > max_bytes {
                        let message = format!("the object {id} has {size} bytes, more than {max_bytes}");
                        return Err(TreeError::new(TreeErrorKind::TooLarge, message));
                    }
                    let Some(bytes) = reading.object(size)? else {
                        return Err(reason(reading.running, unexpected("half an object")));
                    };
                    Some(Object { kind: kind.to_owned(), bytes })
                }
                _ => return Err(unexpected("no object")),
            };
            unanswered -= id.len() + 1;
            take(answered, object)?;
        }
        self.reading = Some(reading);
        Ok(())
    }

    /// Reads one object.
    pub(super) fn object(&mut self, id: &str, max_bytes: u64) -> Result<Option<Object>, TreeError> {
        let mut found = None;
        self.read(&[id], max_bytes, |_, object| {
            found = object;
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads the contents of files in order. Passes each to the function with its index in `ids`.
    pub(super) fn blobs<I: AsRef<str>>(
        &mut self,
        ids: &[I],
        max_bytes: u64,
        mut take: impl FnMut(usize, Vec<u8>) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        self.read(ids, max_bytes, |at, object| match object {
            Some(object) if object.kind == "blob" => take(at, object.bytes),
            Some(_) => Err(unexpected("no content of a file")),
            None => Err(missing(ids[at].as_ref())),
        })
    }
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        let Some(reading) = self.reading.take() else { return };
        // If several readers end at once, only one process stays idle.
        let before = self.idle.0.lock().unwrap_or_else(PoisonError::into_inner).replace(reading);
        drop(before);
    }
}

impl GitObjectReader {
    /// Reads a line, without its line end. `None` if git wrote no complete line.
    fn line(&mut self) -> Result<Option<String>, TreeError> {
        let mut seen = 0;
        loop {
            let rest = &self.buffer[self.begin..self.end];
            if let Some(length) = rest[seen..].iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&rest[..seen + length]).into_owned();
                self.begin += seen + length + 1;
                return Ok(Some(line));
            }
            seen = rest.len();
            if seen > MAX_HEADER {
                return Err(unexpected("an odd line before an object"));
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads the bytes of an object and the line end after them. `None` if git wrote fewer.
    fn object(&mut self, size: u64) -> Result<Option<Vec<u8>>, TreeError> {
        let size = usize::try_from(size).map_err(|_| unexpected("an odd size"))?;
        let mut bytes = Vec::new();
        loop {
            let ready = (size - bytes.len()).min(self.end - self.begin);
            bytes.extend_from_slice(&self.buffer[self.begin..self.begin + ready]);
            self.begin += ready;
            if bytes.len() == size && self.begin < self.end {
                let is_whole = self.buffer[self.begin] == b'\n';
                self.begin += 1;
                return Ok(is_whole.then_some(bytes));
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads more output into the buffer. Returns 0 at the end.
    fn fill(&mut self) -> Result<usize, TreeError> {
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let read = self.running.read(&mut self.buffer[self.end..])?;
        self.end += read;
        Ok(read)
    }
}

/// Returns the error for a missing object of the project.
pub(super) fn missing(id: &str) -> TreeError {
    let message =
        format!("the object {id} is missing: the project is a partial clone, or was cleaned up; fetch it");
    TreeError::new(TreeErrorKind::MissingObject, message)
}
