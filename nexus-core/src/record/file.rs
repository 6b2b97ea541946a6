//! Writes records of turns while they run.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

use super::{
    RecordedRequest,
    bounded::Bounded,
    line::{BEGAN, Began, Cut, ENDED, EVENT, Ended, FORGOTTEN, Line, VERSION},
};
use crate::{
    backend::TurnHost,
    error::TurnError,
    redact::Redactor,
    turn::{EventEnvelope, EventSink, TurnRequest, TurnResult},
};

/// Number of bytes that are checked to recognise a record file.
const LOOKED_AT_BYTES: u64 = 64 << 10;

/// A record file, open for appending. Clones share it. Concurrent turns and several processes may write to one file.
///
/// ```
/// use nexus_core::{NullSink, RecordFile, RecordLog, TurnHost, TurnRequest};
/// # use nexus_core::{ErrorKind, TurnError};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("turns.jsonl");
/// let file = RecordFile::open(&path)?;
/// let (request, host) = (TurnRequest::new("Name a moon of Saturn."), TurnHost::new());
/// let mut recording = file.begin("executor", &request, &host)?;
/// let mut events = NullSink;
/// let mut sink = recording.beside(&mut events);
/// // let outcome = backend.run_turn(request, host, &mut sink).await;
/// # let _ = &mut sink;
/// # let outcome = Err(TurnError::new(ErrorKind::Overloaded, "alpha".into()));
/// recording.end(&outcome)?;
///
/// let log = RecordLog::read(&path)?;
/// assert_eq!(log.turns[0].request.prompt_text(), "Name a moon of Saturn.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecordFile(Arc<LockedFile>);

/// Path of the record, and its file behind a lock.
#[derive(Debug)]
struct LockedFile {
    path: PathBuf,
    file: Mutex<File>,
}

/// Error of writing a record. Everything that was written before is still in the file.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be used.
    #[error("{path}: {reason}", path = path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason, with advice.
        reason: String,
    },
    /// Lines could not be written.
    #[error("{path}: {lines} {s} of the record cannot be written; the earlier lines are stored", path = path.display(), s = if *lines == 1 { "line" } else { "lines" })]
    Unwritten {
        /// The file.
        path: PathBuf,
        /// Number of lines.
        lines: u64,
        /// Error of the first such line.
        #[source]
        source: Arc<io::Error>,
    },
    /// The resume handle is larger than a record allows. The rest of the turn is written.
    #[error("{path}: the resume handle has {bytes} bytes, too many for a record, and is left out", path = path.display())]
    HandleTooLarge {
        /// The file.
        path: PathBuf,
        /// Size of the handle.
        bytes: u64,
    },
}

impl RecordFile {
    /// Opens the file at `path` for appending, or creates it. Changes its mode to 0600, owner-only.
    ///
    /// # Errors
    ///
    /// [`RecordError::Unusable`]: an error of the file system, or an existing file is not a record file. Such a file is not changed.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, RecordError> {
        let path = path.into();
        let unusable = |reason: String| RecordError::Unusable { path: path.clone(), reason };
        // Reject other kinds of files: a pipe or a device would block the call or lose the data.
        match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => {
                return Err(unusable("this is a folder; name a file for the record".into()));
            }
            Ok(found) if !found.is_file() => {
                return Err(unusable("this is not a regular file; name another file for the record".into()));
            }
            _ => {}
        }
        // Create with 0600 at once. A later change of the mode would leave a moment in which others can open it.
        let mut file = open_private(&path).map_err(|error| unusable(error.to_string()))?;
        match is_record(&mut file) {
            Ok(true) => {}
            Ok(false) => {
                return Err(unusable(
                    "the file exists and is not a record of turns; it was not changed; name another file"
                        .into(),
                ));
            }
            Err(error) => return Err(unusable(error.to_string())),
        }
        // Change the mode only now: a file that is not a record stays unchanged.
        make_private(&file)
            .map_err(|error| unusable(format!("its mode cannot be set to owner-only: {error}")))?;
        Ok(Self(Arc::new(LockedFile { path, file: Mutex::new(file) })))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Begins the record of a turn with the display name `name`. The data is on the disk when the call returns, so call it before the
    /// turn causes any cost. This and later calls write in the calling thread.
    ///
    /// # Errors
    ///
    /// [`RecordError::Unwritten`].
    pub fn begin(
        &self,
        name: impl Into<String>,
        request: &TurnRequest,
        host: &TurnHost,
    ) -> Result<TurnRecording, RecordError> {
        let recording = TurnRecording {
            file: self.clone(),
            turn: new_id(),
            redactor: host.session().redactor().clone(),
            began: Instant::now(),
            lost_lines: 0,
            first_error: None,
        };
        let mut bounded = Bounded::new(&recording.redactor, "request");
        let mut request = RecordedRequest::new(request, host);
        bounded.request(&mut request);
        // A time before 1970 cannot be serialised.
        let time = SystemTime::now().max(UNIX_EPOCH);
        let began = Began { version: VERSION, name: name.into(), time, request };
        self.write(&recording.turn, BEGAN, &began, bounded.cuts)
            .and_then(|()| self.sync())
            .map_err(|error| self.unwritten(1, Arc::new(error)))?;
        Ok(recording)
    }

    /// Records that the conversation of a turn was deleted. [`TurnRecord::resume`](super::TurnRecord::resume) then returns no handle.
    ///
    /// # Errors
    ///
    /// [`RecordError::Unwritten`].
    pub fn forgotten(&self, turn: &str) -> Result<(), RecordError> {
        self.write(turn, FORGOTTEN, &(), Vec::new())
            .and_then(|()| self.sync())
            .map_err(|error| self.unwritten(1, Arc::new(error)))
    }

    fn unwritten(&self, lines: u64, source: Arc<io::Error>) -> RecordError {
        RecordError::Unwritten { path: self.0.path.clone(), lines, source }
    }

    /// Appends a line in one write. If an earlier writer left an incomplete line, ends that line first.
    fn write(&self, turn: &str, kind: &str, data: &impl Serialize, cuts: Vec<Cut>) -> io::Result<()> {
        // Serialize before taking the lock, so that a large turn does not delay other writers.
        let data = serde_json::to_value(data)?;
        let line = Line { turn: turn.to_owned(), kind: kind.to_owned(), data, cuts };
        let bytes = serde_json::to_vec(&line)?;
        nexus_files::append_line(&self.0.file.lock().unwrap_or_else(PoisonError::into_inner), &bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.file.lock().unwrap_or_else(PoisonError::into_inner).sync_data()
    }
}

/// Records one turn. It is an [`EventSink`] that is always ready.
///
/// A line that cannot be written is counted, and the turn continues; [`TurnRecording::end`] returns the count.
/// A recording that is dropped without an end shows the turn as interrupted.
#[derive(Debug)]
pub struct TurnRecording {
    file: RecordFile,
    turn: String,
    redactor: Redactor,
    began: Instant,
    lost_lines: u64,
    first_error: Option<Arc<io::Error>>,
}

impl TurnRecording {
    /// Returns the id of the turn in the file.
    pub fn id(&self) -> &str {
        &self.turn
    }

    /// Records an event, unless it is only for display.
    pub fn event(&mut self, envelope: &EventEnvelope) {
        if envelope.event.is_display_only() {
            return;
        }
        // Clone, because the cuts of the record must not change the event that the caller sees.
        let mut envelope = envelope.clone();
        let mut bounded = Bounded::new(&self.redactor, format!("event {}", envelope.sequence));
        bounded.event(&mut envelope.event);
        let cuts = bounded.cuts;
        self.write(EVENT, &envelope, cuts);
    }

    /// Returns a sink that records events and forwards them to `sink`.
    pub fn beside<'a>(&'a mut self, sink: &'a mut dyn EventSink) -> RecordedSink<'a> {
        RecordedSink { recording: self, sink }
    }

    /// Records the end of the turn. The data is on the disk when the call returns.
    ///
    /// # Errors
    ///
    /// [`RecordError::Unwritten`], also if an earlier line could not be written; [`RecordError::HandleTooLarge`].
    pub fn end(mut self, outcome: &Result<TurnResult, TurnError>) -> Result<(), RecordError> {
        let (mut result, mut error) = match outcome {
            Ok(result) => (Some(result.clone()), None),
            Err(error) => (None, Some(error.report())),
        };
        let mut bounded = Bounded::new(&self.redactor, "outcome");
        result.iter_mut().for_each(|result| bounded.result(result));
        error.iter_mut().for_each(|error| bounded.error(error));
        let cuts = bounded.cuts;
        // Only a resume handle that was left out has this place.
        let no_handle = cuts.iter().find(|cut| cut.place == "outcome: resume").map(|cut| cut.bytes);
        let ended = Ended { took: self.began.elapsed(), lost_lines: self.lost_lines, result, error };
        self.write(ENDED, &ended, cuts);
        // Sync even after a failed write, because earlier lines may not be on the disk yet.
        if let Err(error) = self.file.sync() {
            self.lost(error);
        }
        match (self.first_error, no_handle) {
            // A lost line is the greater loss, and one error can report only one of both.
            (Some(error), _) => Err(self.file.unwritten(self.lost_lines, error)),
            (None, Some(bytes)) => {
                Err(RecordError::HandleTooLarge { path: self.file.path().to_owned(), bytes })
            }
            (None, None) => Ok(()),
        }
    }

    fn write(&mut self, kind: &str, data: &impl Serialize, cuts: Vec<Cut>) {
        if let Err(error) = self.file.write(&self.turn, kind, data, cuts) {
            self.lost(error);
        }
    }

    fn lost(&mut self, error: io::Error) {
        self.lost_lines += 1;
        self.first_error.get_or_insert(Arc::new(error));
    }
}

impl EventSink for TurnRecording {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, event: EventEnvelope) {
        self.event(&event);
    }
}

/// Records the events of a turn and forwards them: see [`TurnRecording::beside`].
pub struct RecordedSink<'a> {
    recording: &'a mut TurnRecording,
    sink: &'a mut dyn EventSink,
}

impl EventSink for RecordedSink<'_> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_ready(context)
    }

    fn accept(&mut self, event: EventEnvelope) {
        // Record first, so that a sink that panics loses no event.
        self.recording.event(&event);
        self.sink.accept(event);
    }
}

impl std::fmt::Debug for RecordedSink<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedSink").field("recording", &self.recording).finish_non_exhaustive()
    }
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(unix)]
fn make_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let mut permissions = file.metadata()?.permissions();
    // Only the owner of a file may set its mode, so do not set it without need.
    if permissions.mode() & 0o777 == 0o600 {
        return Ok(());
    }
    permissions.set_mode(0o600);
    file.set_permissions(permissions)
}

#[cfg(not(unix))]
fn make_private(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Returns true if a file is empty or has a record. A truncated first line counts as a record too.
fn is_record(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut beginning = Vec::new();
    file.take(LOOKED_AT_BYTES).read_to_end(&mut beginning)?;
    if beginning.trim_ascii().is_empty() {
        // Blank bytes that fill the checked part may precede other content, so such a file is rejected.
        return Ok((beginning.len() as u64) < LOOKED_AT_BYTES);
    }
    // `Line` serializes `turn` first, so every line of a record begins like this.
    Ok(beginning.trim_ascii_start().starts_with(b"{\"turn\":\""))
}

/// Returns a random id for a turn, of 64 bits. It is not a secret.
fn new_id() -> String {
    let mut bytes = [0; 8];
    if getrandom::fill(&mut bytes).is_err() {
        // If the system has no randomness, use the time, so that ids still differ.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        bytes = (since.as_nanos() as u64).to_be_bytes();
    }
    nexus_files::hex(bytes)
}
