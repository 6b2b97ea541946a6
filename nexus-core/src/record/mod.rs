//! What turns were, in a file: asked, done, answered, by whom, at what cost.
//!
//! | to | see |
//! | --- | --- |
//! | write turns down as they run | [`RecordFile`], [`TurnRecording`] |
//! | read them back | [`RecordLog::read`], [`TurnRecord`] |
//!
//! # The file
//!
//! A line is one JSON document: the turn that it belongs to, its type, its data, and what was cut. A turn is a line when it begins,
//! one for each event that counts, and one when it ends. So a program that is killed leaves everything up to the line that it was
//! writing, and a turn without an end is one that was interrupted. Lines of several turns may stand between one another, as
//! those of a panel's seats do, and several processes may append to one file. The file has mode 0600.
//!
//! **Left out**: text deltas, as messages are written when they end; pictures, but for their size; the handle that a turn went on
//! from. **Never in it**: credentials, values of environment variables, and secrets that the session's
//! [redactor](crate::Session::redactor) knows. Prompts are in it as they are, and so is the handle to go on with, which on a
//! native backend holds the conversation itself.
//!
//! **Bounds**: a text has at most [`MAX_TEXT_BYTES`], the texts of a line together [`MAX_LINE_BYTES`]; what is beyond is cut, and
//! [`Cut`] says where and how much. A JSON value that is too large or nested too deeply becomes the beginning of its text, as a JSON
//! string.

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

/// Longest text in a record, in bytes of UTF-8.
pub const MAX_TEXT_BYTES: usize = 256 << 10;
/// What the texts of one line have together at most, in bytes of UTF-8. The handle to go on with is not counted.
pub const MAX_LINE_BYTES: usize = 4 << 20;
/// Longest handle that is written, in bytes of JSON.
pub const MAX_HANDLE_BYTES: usize = 32 << 20;
