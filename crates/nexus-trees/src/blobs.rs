//! Writes contents into the repository by `git fast-import`: one process for all files. Every byte goes through a file
//! handle of this process.

use std::{
    fs::{self, File},
    io::Read as _,
};

use super::{
    TreeError, TreeErrorKind,
    process::{GitProcess, reason},
    refusal::to_path,
    repo::{Repo, Scratch},
    text::unexpected,
};

/// Number of bytes that are collected before a write. Source: pipe(7), the capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// Writes contents into the repository.
#[derive(Debug)]
pub(super) struct BlobWriter {
    /// `None` once the process has ended.
    running: Option<GitProcess>,
    pending: Vec<u8>,
    scratch: Scratch,
    count: usize,
}

impl BlobWriter {
    pub(super) fn start(repo: &Repo) -> Result<Self, TreeError> {
        let scratch = repo.scratch()?;
        let command = repo.command("fast-import").args(["--quiet", "--done"]);
        let running = command.path_option("--export-marks=", &scratch.join("marks")).start()?;
        Ok(Self { running: Some(running), pending: Vec::with_capacity(CHUNK), scratch, count: 0 })
    }

    /// Adds bytes. Returns the position of their id in the result of [`finish`](Self::finish).
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<usize, TreeError> {
        let at = self.header(bytes.len() as u64)?;
        self.put(bytes)?;
        self.put(b"\n")?;
        Ok(at)
    }

    /// Adds the content of a file. The file must not change meanwhile. `path` is for messages.
    pub(super) fn file(&mut self, path: &[u8], file: &File) -> Result<usize, TreeError> {
        let unreadable = |error| TreeError::from_io(&to_path(path), "cannot be read", error);
        let before = file.metadata().map_err(unreadable)?;
        let at = self.header(before.len())?;
        let mut chunk = [0; 64 << 10];
        let mut left = before.len();
        let mut source = file;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            let read = source.read(&mut chunk[..most]).map_err(unreadable)?;
            if read == 0 {
                return Err(changed(path));
            }
            self.put(&chunk[..read])?;
            left -= read as u64;
        }
        self.put(b"\n")?;
        let after = file.metadata().map_err(unreadable)?;
        let times = |found: &fs::Metadata| {
            use std::os::unix::fs::MetadataExt as _;
            (found.len(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
        };
        if times(&before) == times(&after) { Ok(at) } else { Err(changed(path)) }
    }

    /// Ends the process, and returns the ids of all contents, in order.
    pub(super) fn finish(mut self) -> Result<Vec<String>, TreeError> {
        self.put(b"done\n")?;
        self.flush()?;
        if let Some(running) = self.running.take() {
            running.finish()?.success()?;
        }
        let path = self.scratch.join("marks");
        let marks =
            fs::read_to_string(&path).map_err(|error| TreeError::from_io(&path, "cannot be read", error))?;
        let mut ids = vec![String::new(); self.count];
        for line in marks.lines() {
            let mark = line.strip_prefix(':').and_then(|line| line.split_once(' '));
            let slot = mark.and_then(|(mark, id)| Some((mark.parse::<usize>().ok()?, id)));
            let slot = slot.and_then(|(mark, id)| Some((ids.get_mut(mark.checked_sub(1)?)?, id)));
            let (slot, id) = slot.ok_or_else(|| unexpected("an odd list of marks"))?;
            id.clone_into(slot);
        }
        if ids.iter().any(String::is_empty) {
            return Err(unexpected("too few marks"));
        }
        Ok(ids)
    }

    fn header(&mut self, length: u64) -> Result<usize, TreeError> {
        self.count += 1;
        self.put(format!("blob\nmark :{}\ndata {length}\n", self.count).as_bytes())?;
        Ok(self.count - 1)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TreeError> {
        if self.pending.len() + bytes.len() > CHUNK {
            self.flush()?;
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the collected bytes. Git closes its end of the pipe early only when it ends, so then its exit has the reason.
    fn flush(&mut self) -> Result<(), TreeError> {
        let ended = || unexpected("nothing: it has ended");
        let mut running = self.running.take().ok_or_else(ended)?;
        if !running.write(&self.pending)? {
            return Err(reason(running, ended()));
        }
        self.pending.clear();
        self.running = Some(running);
        Ok(())
    }
}

fn changed(path: &[u8]) -> TreeError {
    let message = format!(
        "{:?} changed while it was read: end what is running in the folder, and try again",
        to_path(path)
    );
    TreeError::new(TreeErrorKind::Changed, message)
}
