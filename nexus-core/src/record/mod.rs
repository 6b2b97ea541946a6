//! Records of turns in a file: request, events, answer, backend and cost.
//!
//! | to | see |
//! | --- | --- |
//! | record turns as they run | [`RecordFile`], [`TurnRecording`] |
//! | read records | [`RecordLog::read`], [`TurnRecord`] |
//!
//! # The file
//!
//! A line is one JSON document: the turn that it belongs to, its type, its data, and its cuts. A turn has a
//! line for its beginning, a line for each recorded event, and a line for its end. A killed program thus leaves
//! everything up to the line that it was writing. A turn without an end was interrupted or still runs. Lines of
//! several turns may alternate, as for the seats of a panel, and several processes may append to one file. The
//! file has mode 0600.
//!
//! **Left out**: text deltas, because messages are recorded when they end; pictures, except for their size; the
//! handle of the earlier turn. **Never recorded**: credentials, values of environment variables, and
//! secrets that the session's [redactor](crate::Session::redactor) knows. Prompts are recorded as they are, and
//! so is the resume handle, which contains the conversation itself on a native backend.
//!
//! **Bounds**: a text has at most [`MAX_TEXT_BYTES`], the texts of a line together [`MAX_LINE_BYTES`]; longer
//! texts are cut, and [`Cut`] has the position and the size. A JSON value that is too large or nested too
//! deeply becomes the beginning of its text, as a JSON string.

mod bounded;
mod file;
mod line;
mod log;
mod request;
mod turn_record;

pub use file::{RecordError, RecordFile, RecordedSink, TurnRecording};
pub use line::Cut;
pub use log::{LineFault, RecordLog, UnreadLine};
pub use request::{RecordedBlock, RecordedRequest};
pub use turn_record::{RecordedOutcome, TurnRecord};

/// Longest text in a record, in UTF-8 bytes.
pub const MAX_TEXT_BYTES: usize = 256 << 10;
/// Largest total of the texts in one line, in UTF-8 bytes, without the resume handle.
pub const MAX_LINE_BYTES: usize = 4 << 20;
/// Longest resume handle in a record, in bytes of JSON.
pub const MAX_HANDLE_BYTES: usize = 32 << 20;
